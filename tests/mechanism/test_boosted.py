import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.budget.epsilon import Epsilon
from dpi.domain import Categories
from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi.noise.laplace import SATURATION
from dpi.release.interval import interval
from strategies import few

EPSILON = Epsilon.at_most("0.05")
NOTHING = Epsilon(0)


def domain(bins):
    """A domain of so many bins."""
    return Categories([str(i) for i in range(bins)], other=None)


def zipf(bins, exponent=1.1):
    """Zipf's law, the largest bin first."""
    weights = np.arange(1, bins + 1.0) ** -exponent
    return weights / weights.sum()


def histogram(counts):
    """Whole users as grains."""
    return Histogram(np.asarray(counts, dtype=np.int64) * GRAINS, GRAINS)


def divergence(p, q):
    """Kullback-Leibler divergence KL(p‖q)."""
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / q[seen])).sum())


def run(mechanism, counts, epsilon=EPSILON, seed=0):
    """Estimates of a stream of counts, and the last state."""
    source = UnsafeSeededSource(seed)
    state = mechanism.initial(domain(len(counts[0])))
    estimates = []
    for slot, count in enumerate(counts):
        measurement = mechanism.measure(state, histogram(count), epsilon, slot, source)
        state, estimate = mechanism.update(state, measurement)
        estimates.append(estimate)
    return estimates, state


def check(estimate, bins):
    """An estimate is a PDF with usable moments, and its intervals hold it."""
    assert estimate.pdf.shape == estimate.variance.shape == estimate.skew.shape == (bins,)
    assert estimate.pdf.sum() == pytest.approx(1, abs=1e-9)
    assert (estimate.pdf > 0).all()
    assert np.isfinite(estimate.variance).all()
    assert (estimate.variance >= 0).all()
    assert (estimate.variance <= 0.25).all()
    assert (estimate.skew >= 0).all()
    assert (estimate.skew <= 1 + 1e-12).all()
    lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
    assert ((lower >= 0) & (lower <= estimate.pdf) & (estimate.pdf <= upper) & (upper <= 1)).all()


def same(one, other):
    """Whether two estimates agree bit for bit."""
    return all(
        np.array_equal(*(np.array(getattr(each, f.name), dtype=float) for each in (one, other)), equal_nan=True)
        for f in dataclasses.fields(one)
    )


# The measurement and its guarantee.


@pytest.mark.parametrize("epsilon", ["1024", "1", "0.05", "1e-6"])
def test_the_measurement_is_laplace_at_grains_over_epsilon(epsilon):
    """The measurement adds exact discrete Laplace noise of scale G/ε grains to every bin, once, and nothing else."""
    amount = Epsilon.at_most(epsilon)
    mechanism, counts = Boosted(), np.arange(50)
    measurement = mechanism.measure(mechanism.initial(domain(50)), histogram(counts), amount, 3, UnsafeSeededSource(1))
    expected = add_laplace(counts * GRAINS, Fraction(GRAINS) / amount.fraction, UnsafeSeededSource(1))
    assert measurement.values.tolist() == expected.tolist()
    assert (measurement.slot, measurement.epsilon) == (3, amount)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), min_size=1, max_size=4),
    st.fractions(Fraction(1, 100), 8, max_denominator=100),
    st.randoms(use_true_random=False),
)
def test_the_loss_is_epsilon_times_the_grains_moved(bins, epsilon, random):
    """The exact log likelihoods of every output under neighbouring histograms differ by at most ε·grains/2^24."""
    amount = Epsilon.at_most(epsilon)
    q = -1 / float(amount.scale)  # log of the ratio of neighbouring probabilities of the discrete Laplace law
    moved = sum(removed for _, removed in bins)
    for _ in range(20):
        output = [random.randint(-60, 100) for _ in bins]
        loss = sum(q * (abs(y - g) - abs(y - (g - r))) for y, (g, r) in zip(output, bins, strict=True))
        assert abs(loss) <= float(amount) * moved / GRAINS * (1 + 1e-12)


def test_a_histogram_of_another_sensitivity_is_refused():
    """A histogram that one user moves by two units would lose 2ε: the mechanism does not measure it."""
    mechanism = Boosted()
    wrong = Histogram(np.zeros(2, dtype=np.int64), 2 * GRAINS)
    with pytest.raises(OptionError, match="at most one unit"):
        mechanism.measure(mechanism.initial(domain(2)), wrong, EPSILON, 0, UnsafeSeededSource(1))


def test_without_budget_the_histogram_is_not_looked_at():
    """With ε = 0 two histograms give the same empty measurement, no random bits are drawn, and an estimate follows."""
    mechanism = Boosted()
    _, state = run(mechanism, [np.arange(20)] * 3)
    one, other = (mechanism.measure(state, histogram(c), NOTHING, 3, None) for c in (np.arange(20), np.zeros(20)))
    assert one.values.size == other.values.size == 0
    after, estimate = mechanism.update(state, one)
    check(estimate, 20)
    assert math.isfinite(estimate.total)
    again, _ = mechanism.update(state, other)
    assert mechanism.to_bytes(after) == mechanism.to_bytes(again)


def test_before_the_first_measurement_nothing_is_known():
    """A stream that begins without budget releases a uniform PDF and no total."""
    mechanism = Boosted(season=3)
    state = mechanism.initial(domain(7))
    for slot in range(5):
        state, estimate = mechanism.update(state, Measurement(slot, NOTHING, np.empty(0, dtype=np.int64)))
        check(estimate, 7)
        assert math.isnan(estimate.total)
        np.testing.assert_allclose(estimate.pdf, 1 / 7)


# Purity and storage.


def test_a_state_cannot_be_written_to():
    """Its arrays are read-only, so that nobody changes it by the way (that updates do not is one of the checks)."""
    _, state = run(Boosted(), [np.arange(30)] * 2)
    with pytest.raises(ValueError, match="read-only"):
        state.laws.mean[0, 0] = 1


@pytest.mark.parametrize(("season", "bins"), [(None, 40), (4, 40), (None, 20_000)])
def test_a_resumed_stream_is_the_uninterrupted_one(season, bins):
    """After a round trip through bytes all further estimates are the same, bit for bit, at every number of blocks."""
    mechanism = Boosted(season=season)
    rng = np.random.default_rng(2)
    _, state = run(mechanism, [rng.multinomial(500, zipf(bins)) for _ in range(6)])
    resumed = mechanism.from_bytes(domain(bins), mechanism.to_bytes(state))
    for slot in range(6, 12):
        values = add_laplace(rng.multinomial(500, zipf(bins)) * GRAINS, EPSILON.scale, UnsafeSeededSource(slot))
        measurement = Measurement(slot, EPSILON, values)
        state, one = mechanism.update(state, measurement)
        resumed, other = mechanism.update(resumed, measurement)
        assert same(one, other)
    assert mechanism.to_bytes(state) == mechanism.to_bytes(resumed)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_state_that_goes_through_bytes_after_every_slot_is_the_same(seed):
    """Also with few users and bins, where the uniform expert has a say: numpy scalars must not survive in a state."""
    mechanism, rng = Boosted(), np.random.default_rng(seed)
    state = stored = mechanism.initial(domain(4))
    for slot in range(8):
        values = add_laplace(rng.integers(0, 8, 4) * GRAINS, EPSILON.scale, UnsafeSeededSource(seed + slot))
        measurement = Measurement(slot, EPSILON, values)
        state, _ = mechanism.update(state, measurement)
        stored, _ = mechanism.update(mechanism.from_bytes(domain(4), mechanism.to_bytes(stored)), measurement)
        assert mechanism.to_bytes(state) == mechanism.to_bytes(stored)


@given(st.data())
@settings(max_examples=60)
def test_damaged_bytes_are_refused(data):
    """Every flipped bit and every cut of a stored state is noticed."""
    mechanism = Boosted()
    stored = mechanism.to_bytes(mechanism.initial(domain(3)))
    at = data.draw(st.integers(0, len(stored) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(stored)
    damaged[at] ^= 1 << bit
    for broken in (bytes(damaged), stored[:at], stored + b"\0"):
        with pytest.raises(StateError):
            mechanism.from_bytes(domain(3), broken)


def test_a_state_of_other_options_is_refused():
    """A state belongs to its number of bins and its season."""
    stored = Boosted().to_bytes(Boosted().initial(domain(3)))
    for mechanism, bins in ((Boosted(), 4), (Boosted(season=2), 3)):
        with pytest.raises(StateError, match="other options or to another domain"):
            mechanism.from_bytes(domain(bins), stored)


def test_a_measurement_of_another_domain_is_refused():
    """Values for another number of bins do not belong to the state."""
    mechanism = Boosted()
    with pytest.raises(StateError, match="number of bins"):
        mechanism.update(mechanism.initial(domain(3)), Measurement(0, EPSILON, np.zeros(4, dtype=np.int64)))


# Estimates are PDFs, whatever was measured.

grains = st.one_of(
    st.integers(-SATURATION, SATURATION),
    st.sampled_from([-SATURATION, SATURATION, 0, 1, GRAINS, 50_000 * GRAINS]),
    st.integers(-100 * GRAINS, 100 * GRAINS),
)
budgets = st.sampled_from([0, 1, 2**10, 2**20, 2**35, 2**36, 2**40, 2**45, 2**50])


@given(st.data())
@settings(max_examples=few(40, 1000))
def test_every_measurement_gives_a_pdf(data):
    """Estimates are positive, finite and sum to one, for all measurements: saturated, empty, of any budget and size."""
    bins = data.draw(st.sampled_from([1, 2, 3, 20]))
    mechanism = data.draw(st.sampled_from([Boosted(), Boosted(season=2)]))
    state = mechanism.initial(domain(bins))
    measured = False
    for slot in range(data.draw(st.integers(1, 5))):
        epsilon = Epsilon(data.draw(budgets))
        values = data.draw(st.lists(grains, min_size=bins, max_size=bins)) if epsilon.units else []
        measured |= bool(values)
        state, estimate = mechanism.update(state, Measurement(slot, epsilon, np.array(values, dtype=np.int64)))
        check(estimate, bins)
        assert math.isfinite(estimate.total) == math.isfinite(estimate.total_variance) == measured


FOUND = [
    (1, [(1, [0]), (2**20, [0])]),  # one bin, of which the share was rounded above one
]
"""What the test above has failed for: bins, and units of ε with the values of each slot."""


@pytest.mark.parametrize(("bins", "slots"), FOUND)
@pytest.mark.parametrize("season", [None, 2])
def test_what_gave_no_pdf_once_gives_one(bins, slots, season):
    """Measurements that were found by chance stay found."""
    mechanism = Boosted(season=season)
    state = mechanism.initial(domain(bins))
    for slot, (units, values) in enumerate(slots):
        state, estimate = mechanism.update(state, Measurement(slot, Epsilon(units), np.array(values, dtype=np.int64)))
        check(estimate, bins)


@pytest.mark.parametrize("units", [1, 2**20, 2**30])
def test_tiny_budgets_break_nothing(units):
    """At budgets where the noise saturates or dwarfs every count the estimates stay PDFs."""
    estimates, _ = run(Boosted(), [np.arange(100)] * 12, Epsilon(units))
    for estimate in estimates:
        check(estimate, 100)


@pytest.mark.parametrize("bins", [1, 2])
def test_small_domains(bins):
    """One bin has probability one; two bins are told apart.

    False alarm below 10^-6: the true share is twenty deviations of the noise from one half.
    """
    estimates, _ = run(Boosted(), [[800, 200][:bins]] * 30)
    assert estimates[-1].pdf[0] == pytest.approx(1 if bins == 1 else 0.8, abs=0.05)


def test_empty_slots_are_remembered_through():
    """Slots without users leave the PDF as it was; the total says that they were empty.

    False alarm below 10^-6: the PDF is known to a tenth of the bound.
    """
    rng = np.random.default_rng(8)
    p = zipf(200)
    counts = [rng.multinomial(0 if 20 <= t < 25 else 20_000, p) for t in range(30)]
    estimates, _ = run(Boosted(), counts)
    for t in (19, *range(20, 25), 25, 29):
        assert divergence(p, estimates[t].pdf) < 0.15
    assert all(estimates[t].total < 2_500 for t in range(20, 25))
    assert estimates[29].total == pytest.approx(20_000, rel=0.15)


# What it is for.


def test_a_skewed_stream_is_ten_times_better_than_uniform():
    """On a drifting Zipf stream the mean divergence is below a tenth of that of the uniform guess.

    False alarm below 10^-6: the ratio is about 1/100 and means over 60 slots vary by a few per cent.
    """
    rng = np.random.default_rng(4)
    log, rates, counts = np.log(zipf(300)), [], []
    for _ in range(60):
        log = log + 0.01 * rng.standard_normal(300)
        rates.append(np.exp(log) / np.exp(log).sum())
        counts.append(rng.multinomial(30_000, rates[-1]))
    estimates, _ = run(Boosted(), counts)
    ours = np.mean([divergence(p, e.pdf) for p, e in zip(rates, estimates, strict=True)])
    uniform = np.mean([divergence(p, np.full(300, 1 / 300)) for p in rates])
    assert ours < 0.1 * uniform


def test_a_uniform_stream_costs_nothing():
    """Where the uniform guess is right but for sampling noise, the mean divergence stays within 1.1 of its.

    False alarm below 10^-6: the uniform expert leads by dozens of nats after the first slots.
    """
    rng = np.random.default_rng(6)
    counts = [np.maximum(0, np.rint(rng.normal(100, rng.integers(1, 11), 100))).astype(int) for _ in range(80)]
    estimates, _ = run(Boosted(), counts)
    truth = [c / c.sum() for c in counts]
    ours = np.mean([divergence(p, e.pdf) for p, e in zip(truth, estimates, strict=True)])
    assert ours < 1.1 * np.mean([divergence(p, np.full(100, 0.01)) for p in truth])


def test_a_beaten_expert_returns_after_a_jump():
    """Ten slots after everything was reshuffled the estimate is good again.

    False alarm below 10^-6: without forgetting, the divergence would be above 1.
    """
    rng = np.random.default_rng(9)
    one, other = rng.permutation(zipf(300)), rng.permutation(zipf(300))
    counts = [rng.multinomial(30_000, one if t < 30 else other) for t in range(40)]
    estimates, _ = run(Boosted(), counts)
    assert divergence(one, estimates[29].pdf) < 0.1
    assert divergence(other, estimates[39].pdf) < 0.1


def test_a_season_is_used():
    """On a stream with a period the seasonal expert halves the divergence, from the fifth period on.

    False alarm below 10^-6: the ratio is far below one half and means over 12 slots vary by a few per cent.
    """
    rng = np.random.default_rng(10)
    phases = [rng.permutation(zipf(100)) for _ in range(6)]
    counts = [rng.multinomial(20_000, phases[t % 6]) for t in range(36)]
    ours, plain = (
        np.mean([divergence(phases[t % 6], run_[t].pdf) for t in range(24, 36)])
        for run_ in (run(Boosted(season=6), counts)[0], run(Boosted(), counts)[0])
    )
    assert ours < 0.5 * plain


def test_intervals_cover():
    """95 % intervals cover the slot's own PDF in 92 to 99.5 % of small and of large bins.

    False alarm below 10^-6: 40 · 300 intervals, weakly dependent.
    """
    rng = np.random.default_rng(12)
    p = zipf(300)
    counts = [rng.multinomial(30_000, p) for _ in range(60)]
    estimates, _ = run(Boosted(), counts)
    covered = []
    for count, e in zip(counts[20:], estimates[20:], strict=True):
        lower, upper = interval(e.pdf, e.variance, e.skew, e.total, 0.95)
        covered.append((lower <= count / count.sum()) & (count / count.sum() <= upper))
    for bins in (p > 1 / 300, p <= 1 / 300):
        assert 0.92 < np.mean(np.array(covered)[:, bins]) < 0.995
