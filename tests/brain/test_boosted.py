import dataclasses
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from dpi.brain import _laplace_gauss
from dpi.brain._interval import interval
from dpi.brain.base import Measurement
from dpi.brain.boosted import Boosted
from dpi.budget.epsilon import Epsilon
from dpi.compression import Histogram
from dpi.domain import Categories
from dpi.errors import OptionError, StateError
from dpi.integers import GRAINS
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi.noise.laplace import SATURATION

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


def run(brain, counts, epsilon=EPSILON, seed=0):
    """Estimates of a stream of counts, and the last state."""
    source = UnsafeSeededSource(seed)
    state = brain.initial(domain(len(counts[0])))
    estimates = []
    for slot, count in enumerate(counts):
        measurement = brain.measure(state, histogram(count), epsilon, slot, source)
        state, estimate = brain.update(state, measurement)
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
        np.array_equal(getattr(one, f.name), getattr(other, f.name), equal_nan=True) for f in dataclasses.fields(one)
    )


# The measurement and its guarantee.


@pytest.mark.parametrize("epsilon", ["1024", "1", "0.05", "1e-6"])
def test_the_measurement_is_laplace_at_grains_over_epsilon(epsilon):
    """The measurement adds exact discrete Laplace noise of scale G/ε grains to every bin, once, and nothing else."""
    amount = Epsilon.at_most(epsilon)
    brain, counts = Boosted(), np.arange(50)
    measurement = brain.measure(brain.initial(domain(50)), histogram(counts), amount, 3, UnsafeSeededSource(1))
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
    """A histogram that one user moves by two units would lose 2ε: the brain does not measure it."""
    brain = Boosted()
    wrong = Histogram(np.zeros(2, dtype=np.int64), 2 * GRAINS)
    with pytest.raises(OptionError, match="at most one unit"):
        brain.measure(brain.initial(domain(2)), wrong, EPSILON, 0, UnsafeSeededSource(1))


def test_without_budget_the_histogram_is_not_looked_at():
    """With ε = 0 two histograms give the same empty measurement, no random bits are drawn, and an estimate follows."""
    brain = Boosted()
    _, state = run(brain, [np.arange(20)] * 3)
    one, other = (brain.measure(state, histogram(c), NOTHING, 3, None) for c in (np.arange(20), np.zeros(20)))
    assert one.values.size == other.values.size == 0
    after, estimate = brain.update(state, one)
    check(estimate, 20)
    assert math.isfinite(estimate.total)
    again, _ = brain.update(state, other)
    assert brain.to_bytes(after) == brain.to_bytes(again)


def test_before_the_first_measurement_nothing_is_known():
    """A stream that begins without budget releases a uniform PDF and no total."""
    brain = Boosted(season=3)
    state = brain.initial(domain(7))
    for slot in range(5):
        state, estimate = brain.update(state, Measurement(slot, NOTHING, np.empty(0, dtype=np.int64)))
        check(estimate, 7)
        assert math.isnan(estimate.total)
        np.testing.assert_allclose(estimate.pdf, 1 / 7)


# Purity and storage.


@pytest.mark.parametrize("season", [None, 3])
def test_updates_are_pure(season):
    """The same state and measurement give the same bytes, and neither is changed; the state cannot be written to."""
    brain = Boosted(season=season)
    _, state = run(brain, [np.arange(30)] * 5)
    before = brain.to_bytes(state)
    values = add_laplace(np.arange(30) * GRAINS, EPSILON.scale, UnsafeSeededSource(5))
    measurement = Measurement(5, EPSILON, values.copy())
    one, first = brain.update(state, measurement)
    other, second = brain.update(state, measurement)
    assert brain.to_bytes(one) == brain.to_bytes(other)
    assert same(first, second)
    assert brain.to_bytes(state) == before
    assert (measurement.values == values).all()
    with pytest.raises(ValueError, match="read-only"):
        one.trackers.mean[0, 0] = 1


@pytest.mark.parametrize(("season", "bins"), [(None, 40), (4, 40), (None, 20_000)])
def test_a_resumed_stream_is_the_uninterrupted_one(season, bins):
    """After a round trip through bytes all further estimates are the same, bit for bit, at every number of blocks."""
    brain = Boosted(season=season)
    rng = np.random.default_rng(2)
    _, state = run(brain, [rng.multinomial(500, zipf(bins)) for _ in range(6)])
    resumed = brain.from_bytes(domain(bins), brain.to_bytes(state))
    for slot in range(6, 12):
        values = add_laplace(rng.multinomial(500, zipf(bins)) * GRAINS, EPSILON.scale, UnsafeSeededSource(slot))
        measurement = Measurement(slot, EPSILON, values)
        state, one = brain.update(state, measurement)
        resumed, other = brain.update(resumed, measurement)
        assert same(one, other)
    assert brain.to_bytes(state) == brain.to_bytes(resumed)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_state_that_goes_through_bytes_after_every_slot_is_the_same(seed):
    """Also with few users and bins, where the uniform expert has a say: numpy scalars must not survive in a state."""
    brain, rng = Boosted(), np.random.default_rng(seed)
    state = stored = brain.initial(domain(4))
    for slot in range(8):
        values = add_laplace(rng.integers(0, 8, 4) * GRAINS, EPSILON.scale, UnsafeSeededSource(seed + slot))
        measurement = Measurement(slot, EPSILON, values)
        state, _ = brain.update(state, measurement)
        stored, _ = brain.update(brain.from_bytes(domain(4), brain.to_bytes(stored)), measurement)
        assert brain.to_bytes(state) == brain.to_bytes(stored)


@given(st.data())
@settings(max_examples=60)
def test_damaged_bytes_are_refused(data):
    """Every flipped bit and every cut of a stored state is noticed."""
    brain = Boosted(drifts=(0.1,))
    stored = brain.to_bytes(brain.initial(domain(3)))
    at = data.draw(st.integers(0, len(stored) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(stored)
    damaged[at] ^= 1 << bit
    for broken in (bytes(damaged), stored[:at], stored + b"\0"):
        with pytest.raises(StateError):
            brain.from_bytes(domain(3), broken)


def test_a_state_of_other_options_is_refused():
    """A state belongs to its number of bins, its trackers and its season."""
    stored = Boosted().to_bytes(Boosted().initial(domain(3)))
    for brain, bins in ((Boosted(), 4), (Boosted(drifts=(0.1,)), 3), (Boosted(season=2), 3)):
        with pytest.raises(StateError, match="other options or to another domain"):
            brain.from_bytes(domain(bins), stored)


def test_a_measurement_of_another_domain_is_refused():
    """Values for another number of bins do not belong to the state."""
    brain = Boosted()
    with pytest.raises(StateError, match="number of bins"):
        brain.update(brain.initial(domain(3)), Measurement(0, EPSILON, np.zeros(4, dtype=np.int64)))


# Estimates are PDFs, whatever was measured.

grains = st.one_of(
    st.integers(-SATURATION, SATURATION),
    st.sampled_from([-SATURATION, SATURATION, 0, 1, GRAINS, 50_000 * GRAINS]),
    st.integers(-100 * GRAINS, 100 * GRAINS),
)
budgets = st.sampled_from([0, 1, 2**10, 2**20, 2**35, 2**36, 2**40, 2**45, 2**50])


@given(st.data())
@settings(max_examples=120)
def test_every_measurement_gives_a_pdf(data):
    """Estimates are positive, finite and sum to one, for all measurements: saturated, empty, of any budget and size."""
    bins = data.draw(st.sampled_from([1, 2, 3, 20]))
    brain = data.draw(st.sampled_from([Boosted(), Boosted(season=2), Boosted(drifts=(0.0,))]))
    state = brain.initial(domain(bins))
    measured = False
    for slot in range(data.draw(st.integers(1, 5))):
        epsilon = Epsilon(data.draw(budgets))
        values = data.draw(st.lists(grains, min_size=bins, max_size=bins)) if epsilon.units else []
        measured |= bool(values)
        state, estimate = brain.update(state, Measurement(slot, epsilon, np.array(values, dtype=np.int64)))
        check(estimate, bins)
        assert math.isfinite(estimate.total) == math.isfinite(estimate.total_variance) == measured


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
    """On a stream with a period the seasonal expert halves the divergence, from the second period on.

    False alarm below 10^-6: the ratio is far below one half and means over 24 slots vary by a few per cent.
    """
    rng = np.random.default_rng(10)
    phases = [rng.permutation(zipf(100)) for _ in range(6)]
    counts = [rng.multinomial(20_000, phases[t % 6]) for t in range(36)]
    ours, plain = (
        np.mean([divergence(phases[t % 6], run_[t].pdf) for t in range(12, 36)])
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


# The mathematics.


def test_erfcx_is_within_its_bound():
    """The fit's relative error is at most 1.3·10⁻⁷ on [0, 10^6], and 5·10⁻⁷ in single precision."""
    x = np.concatenate([np.linspace(0, 30, 20_001), np.geomspace(30, 1e6, 1000)])
    assert np.abs(_laplace_gauss.erfcx(x) / special.erfcx(x) - 1).max() < 1.3e-7
    single = _laplace_gauss.erfcx(x.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single / special.erfcx(x) - 1).max() < 5e-7


@pytest.mark.parametrize("variance", [0.01, 1.0, 400.0, 40_000.0])
@pytest.mark.parametrize("residual", [-500.0, -3.0, 0.1, 20.0, 150.0])
def test_the_density_is_the_convolution(variance, residual):
    """The log density agrees with numerical convolution, its slope and heat with difference quotients of that."""
    noise = 20.0

    def exact(u, v):
        def product(x):
            return math.exp(-abs(u - x) / noise) / (2 * noise) * math.exp(-x * x / (2 * v)) / math.sqrt(2 * math.pi * v)

        reach = 12 * math.sqrt(v) + v / noise
        points = sorted({min(max(x, -reach), reach) for x in (0.0, u, v / noise, -v / noise)})
        edges = [-reach, *points, reach]
        return sum(integrate.quad(product, a, b, epsrel=1e-12, epsabs=0)[0] for a, b in pairwise(edges) if b > a)

    log, slope, heat = (float(x[0]) for x in _laplace_gauss.score(np.array([residual]), np.array([variance]), noise))
    expected = math.log(exact(residual, variance))
    assert log == pytest.approx(expected, abs=5e-7 * (1 + abs(expected)))
    step = 1e-3 * math.sqrt(variance)
    difference = math.log(exact(residual - step, variance)) - math.log(exact(residual + step, variance))
    assert slope == pytest.approx(difference / (2 * step), abs=2e-4 / noise)
    width = 1e-3 * variance
    difference = math.log(exact(residual, variance + width)) - math.log(exact(residual, variance - width))
    assert heat == pytest.approx(difference / (2 * width), abs=2e-3 / noise**2)


@given(st.floats(-1e3, 1e3), st.floats(0, _laplace_gauss.SINGLE))
def test_single_precision_is_enough(residual, variance):
    """Where it is used, single precision moves no log density by 5·10⁻⁷ of itself, nor a slope by 10⁻⁶/b."""
    alone = _laplace_gauss.score(np.array([residual]), np.array([variance]), 1.0)
    beside = np.array([variance, 2 * _laplace_gauss.SINGLE])  # too large for single precision
    exact = _laplace_gauss.score(np.array([residual, 0.0]), beside, 1.0)
    assert (alone.slope.dtype, exact.slope.dtype) == (np.float32, np.float64)
    log = float(exact.log_density[0])
    assert float(alone.log_density[0]) == pytest.approx(log, abs=5e-7 * (1 + abs(log)))
    assert float(alone.slope[0]) == pytest.approx(float(exact.slope[0]), abs=1e-6)


@given(st.floats(-1e15, 1e15), st.floats(0, 1e30), st.floats(1e-3, 1e13))
def test_the_score_is_finite(residual, variance, noise):
    """No residual, variance or noise over- or underflows, and the slope is at most that of the Laplace law."""
    result = _laplace_gauss.score(np.array([residual]), np.array([variance]), noise)
    assert all(np.isfinite(part).all() for part in result)
    assert abs(float(result.slope[0])) <= 1 / noise * (1 + 1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0, 10.0, 1000.0])
def test_the_information_is_fishers(ratio):
    """The fitted information is within three per cent of the integral of slope² over the law."""
    noise = 1.0
    variance = max(ratio, 1e-6)
    u = np.linspace(-1, 1, 400_001) * (40 + 10 * math.sqrt(variance))
    log, slope, _ = _laplace_gauss.score(u, np.full(u.size, variance), noise)
    exact = float((np.exp(log) * slope**2).sum() * (u[1] - u[0]))
    assert float(_laplace_gauss.information(ratio, noise)) == pytest.approx(exact, rel=0.03)


# Intervals.


@given(
    st.lists(st.tuples(st.floats(1e-300, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10),
    st.floats(0, 1e12) | st.just(float("nan")),
    st.floats(0.01, 0.999),
)
def test_intervals_hold_the_estimate(bins, total, level):
    """0 ≤ lower ≤ pdf ≤ upper ≤ 1, and a higher level never makes an interval narrower."""
    pdf, variance, skew = (np.array(column) for column in zip(*bins, strict=True))
    lower, upper = interval(pdf, variance, skew, total, level)
    assert ((lower >= 0) & (lower <= pdf) & (pdf <= upper) & (upper <= 1)).all()
    wider_lower, wider_upper = interval(pdf, variance, skew, total, (1 + level) / 2)
    assert (wider_lower <= lower).all()
    assert (wider_upper >= upper).all()


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan")])
def test_levels_lie_between_zero_and_one(level):
    """A level outside (0, 1) is an error."""
    with pytest.raises(OptionError, match="`level` must lie between 0 and 1"):
        interval(np.ones(1), np.ones(1), np.zeros(1), 1.0, level)
