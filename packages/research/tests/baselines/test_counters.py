from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.counters import (
    Binary,
    Consistent,
    Hybrid,
    Logarithmic,
    RangeCounter,
    blocks,
    certain_gap,
    lowest_bit,
    top_k,
)
from dpi_research.baselines.plain import NoisyHistogram
from dpi_research.baselines.wrappers import PerBin, Restarted
from exact_loss import exact_loss, stated
from statistics_ import FALSE_ALARM, assert_variance
from strategies import few

REPLICATES = few(6_000, 20_000)
"""Bins that all hold the same counts: independent runs of a counter."""

COUNTERS = {
    "binary": lambda source, bins=1: Binary(epsilon=Fraction(1, 2), slots=64, bins=bins, unsafe_source=source),
    "logarithmic": lambda source, bins=1: Logarithmic(epsilon=Fraction(1, 2), bins=bins, unsafe_source=source),
    "hybrid": lambda source, bins=1: Hybrid(epsilon=Fraction(1, 2), bins=bins, unsafe_source=source),
    "ranges": lambda source, bins=1: RangeCounter(epsilon=Fraction(1, 2), bins=bins, unsafe_source=source),
    "restarted": lambda source, bins=1: Restarted(
        epsilon=Fraction(1, 2), bins=bins, mechanism=Binary(epsilon=1, bins=bins, slots=11), unsafe_source=source
    ),
    "noisy": lambda source, bins=1: NoisyHistogram(epsilon=Fraction(1, 2), bins=bins, unsafe_source=source),
}


def covered(slots):
    """B(t) of the facts: slots covered by all blocks that end by slot t, blocks counted apart."""
    return sum(lowest_bit(s) for s in range(1, slots + 1))


@given(st.integers(1, 3000))
def test_blocks_cover_what_the_formula_says(slots):
    """Every block size is counted right."""
    sizes = [lowest_bit(s) for s in range(1, slots + 1)]
    assert blocks(slots) == {size: sizes.count(size) for size in set(sizes)}


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8, 31, 50])
def test_the_users_loss_is_exact(name, slots):
    """A user with a record in every slot loses what `loss` says: the exact sum of all shifts over their scales."""
    bins = 5 if name == "ranges" else 1
    make = lambda source: COUNTERS[name](source, bins)  # noqa: E731 - a name for the mechanism under test
    other = np.array([7, 0, 2, 1, 4][:bins])
    user = np.eye(1, bins, k=bins // 2, dtype=np.int64)[0]
    loss = exact_loss(make, [other + user] * slots, [other] * slots)
    assert loss == stated(make(UnsafeSeededSource(0)), slots)
    assert float(loss) == pytest.approx(make(UnsafeSeededSource(0)).user_epsilon(slots), rel=1e-15)


@pytest.mark.parametrize("name", COUNTERS)
def test_one_record_loses_epsilon_and_no_more(name):
    """Over all places of one record in 20 slots the largest exact loss is at most ε, and reached where promised."""
    make, stream = COUNTERS[name], [3] * 20
    losses = []
    for slot in range(20):
        moved = list(stream)
        moved[slot] += 1
        losses.append(exact_loss(make, moved, stream))
    assert max(losses) <= Fraction(1, 2)
    # A record of the last slots may not have reached all blocks that will hold it, so the largest is what counts.
    assert max(losses) == {"binary": Fraction(1, 2) * 5 / 7}.get(name, Fraction(1, 2))


@pytest.mark.parametrize("name", ["vector", "per bin"])
def test_records_in_several_bins_cost_as_many_in_one(name):
    """A user with a record in each of two bins loses exactly twice what one record costs, in vectors and in copies."""

    def make(source):
        if name == "vector":
            return Hybrid(epsilon=Fraction(1, 2), bins=3, unsafe_source=source)
        return PerBin(epsilon=Fraction(1, 2), bins=3, mechanism=Hybrid(epsilon=1), unsafe_source=source)

    loss = exact_loss(make, [[1, 5, 4]] * 13, [[0, 5, 3]] * 13)
    assert loss == 2 * stated(make(None), 13)


def test_the_published_scale_is_a_level_short():
    """At T = 2^m slot 1 lies in m + 1 blocks: noise log₂(T)/ε would lose ε·(m + 1)/m, ours loses ε."""
    make = lambda source: Binary(epsilon=1, slots=16, unsafe_source=source)  # noqa: E731
    loss = exact_loss(make, [1] + [0] * 15, [0] * 16)
    assert loss == 1
    assert loss * make(None).scale / 4 == Fraction(5, 4)


def test_user_loss_has_the_closed_forms():
    """binary: cε·B(t)/L; hybrid: cε·[3·2^K/4 - 1/2 + B(τ)/(2K)]."""
    for t in range(1, 300):
        binary = Binary(epsilon=1, slots=300)
        assert binary.user_epsilon(t, 2) == pytest.approx(2 * covered(t) / 9, rel=1e-12)
        k = t.bit_length() - 1
        closed = 0.5 if t == 1 else 0.75 * 2**k - 0.5 + covered(t - 2**k) / (2 * k)
        assert Hybrid(epsilon=1).user_epsilon(t, 3) == pytest.approx(3 * closed, rel=1e-12)


@pytest.mark.parametrize("name", ["binary", "logarithmic", "hybrid", "restarted", "noisy"])
@pytest.mark.parametrize("slots", [1, 6, 8, 23])
def test_releases_are_unbiased_with_the_stated_variance(name, slots):
    """Mean and variance over 20,000 independent bins, each within six standard errors (false alarm below 10^-7)."""
    mechanism = COUNTERS[name](UnsafeSeededSource(slots), REPLICATES)
    for slot in range(1, slots + 1):
        release = mechanism.update(np.full(REPLICATES, slot))
    if name == "noisy":
        truth = slots
    elif name == "logarithmic":
        truth = sum(range(1, (1 << (slots.bit_length() - 1)) + 1))
    else:
        truth = slots * (slots + 1) // 2
    variance = mechanism.variance(slots)
    assert abs(release.mean() - truth) < 6 * np.sqrt(variance / REPLICATES)
    assert_variance(release - truth, variance)


def test_stated_variances_are_the_published_ones():
    """2·pop(t)·L²/ε² and (8/ε²)·[(K + 1) + K²·pop(τ)], for all t up to 200."""
    binary, hybrid = Binary(epsilon=2, slots=200), Hybrid(epsilon=2)
    for t in range(1, 201):
        k = t.bit_length() - 1
        assert binary.variance(t) == pytest.approx(2 * t.bit_count() * 8**2 / 4)
        assert hybrid.variance(t) == pytest.approx(8 / 4 * (k + 1 + k * k * (t - 2**k).bit_count()))


@pytest.mark.parametrize("make", [COUNTERS["binary"], COUNTERS["hybrid"]])
@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_errors_exceed_the_bound_with_probability_at_most_beta(make, beta):
    """The share of 20,000 runs beyond the bound is at most β plus six standard errors (false alarm below 10^-8)."""
    mechanism = make(UnsafeSeededSource(3), REPLICATES)
    for _ in range(27):
        release = mechanism.update(np.zeros(REPLICATES, dtype=int))
    beyond = np.mean(np.abs(release) > mechanism.error_bound(27, beta))
    assert beyond <= beta + 6 * np.sqrt(beta / REPLICATES)


@pytest.mark.parametrize("bins", [1, 2, 5, 8, 11])
def test_ranges_are_the_sums_of_their_nodes(bins):
    """Every range equals the true count where noise is negligible, from at most 2(H - 1) nodes (one for H = 1)."""
    mechanism = RangeCounter(epsilon=1000, bins=bins, unsafe_source=UnsafeSeededSource(1))
    counts = np.arange(1, bins + 1) * 100
    mechanism.update(counts)
    for low in range(bins):
        for high in range(low + 1, bins + 1):
            assert abs(mechanism.range(low, high) - counts[low:high].sum()) < 2
            assert len(mechanism.nodes(low, high)) <= max(1, 2 * (mechanism.levels - 1))
    with pytest.raises(OptionError):
        mechanism.range(0, bins + 1)


def test_a_range_has_the_variance_of_its_nodes():
    """Over many runs the squared error of a range is its variance within six standard errors (false alarm < 10^-8)."""
    errors = []
    for seed in range(few(600, 2000)):
        mechanism = RangeCounter(epsilon=1, bins=8, unsafe_source=UnsafeSeededSource(seed))
        mechanism.update(np.zeros(8, dtype=int))
        errors.append(mechanism.range(1, 7))
    assert_variance(errors, mechanism.range_variance(1, 7, 1))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.integers(0, 10**6))
def test_consistent_counts_are_possible_and_no_worse(steps, seed):
    """Steps of 0 or 1, and the largest error so far never above that of the rounded releases."""
    noise = np.random.default_rng(seed).laplace(0, 3, len(steps))
    true = np.cumsum(steps)
    consistent, last, worst, raw = Consistent(), 0, 0, 0
    for count, error in zip(true, noise, strict=True):
        released = np.array([count + error])
        now = int(consistent.update(released)[0])
        assert now - last in (0, 1)
        worst = max(worst, abs(now - int(count)))
        raw = max(raw, abs(int(np.rint(released[0])) - int(count)))
        assert worst <= raw
        last = now


def test_consistent_counts_rise_by_at_most_the_most():
    """With larger slots an output rises by up to `most`, and never falls."""
    consistent = Consistent(most=5)
    outputs = [int(consistent.update(np.array([x]))[0]) for x in (100.0, 3.0, 7.4, np.inf)]
    assert outputs == [5, 5, 7, 12]


def test_a_clear_gap_decides_the_top():
    """Bins ahead by more than the certain gap are all found, in 300 runs at β = 10^-9 (false alarm below 10^-6)."""
    counter = Hybrid(epsilon=1, bins=20)
    gap = certain_gap(counter, 5, FALSE_ALARM / 100)
    ahead = int(np.ceil(gap / 5)) + 1
    counts = np.zeros(20, dtype=int)
    counts[[3, 11]] = ahead
    for seed in range(300):
        counter = Hybrid(epsilon=1, bins=20, unsafe_source=UnsafeSeededSource(seed))
        for _ in range(5):
            release = counter.update(counts)
        assert {bin_ for bin_, _ in top_k(release, 2)} == {3, 11}
