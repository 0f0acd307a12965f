from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.pegasus import (
    Pegasus,
    SlidingWindow,
    _deviation,
    jumps,
    low_signal,
    smooth,
)
from exact_loss import noised
from statistics_ import assert_variance
from strategies import few

REPLICATES = few(6_000, 20_000)


def smoothed_variance(smoother, size, scale):
    """Variance of the last estimate in a group of equal counts; the median's, for odd sizes, by integration."""
    if smoother == "average":
        return 2 * scale**2 / size
    if smoother == "js":
        return 2 * scale**2 * ((2 * size - 1) ** 2 + (size - 1) ** 3) / size**4
    x = np.linspace(0, 60, 600_001)
    tail = np.exp(-x) / 2
    log_density = (size // 2) * (np.log(tail) + np.log1p(-tail)) - x
    density = np.exp(log_density - log_density.max())
    weighted = density * x**2
    return scale**2 * float(np.trapezoid(weighted, x) / np.trapezoid(density, x))


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20), st.data())
def test_one_record_moves_the_deviation_by_less_than_two(counts, data):
    """So the grouper's noise, made for a sensitivity of 2, is enough; rounding to grains included."""
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + (i == place) for i, count in enumerate(counts)]
    assert abs(_deviation(more) - _deviation(counts)) <= 2 * GRAINS


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 3)), min_size=2, max_size=20))
def test_a_user_moves_the_deviation_by_at_most_half_a_record_a_slot(slots):
    """With up to c records in each of n slots it moves by at most n·c/2: the bound behind c·t·ε_g/4."""
    counts, more = [count for count, _ in slots], [count + own for count, own in slots]
    assert abs(_deviation(more) - _deviation(counts)) <= len(counts) * 3 * GRAINS // 2 + 1


@pytest.mark.parametrize("smoother", ["median", "average", "js"])
def test_forced_single_groups_are_the_plain_noisy_histogram(smoother):
    """With a threshold that nothing meets, a release is the perturbed count, of variance 2/ε_p²."""
    mechanism = Pegasus(
        epsilon=1, bins=REPLICATES, smoother=smoother, threshold=-(10**6), unsafe_source=UnsafeSeededSource(2)
    )
    for _ in range(3):
        release = mechanism.update(np.full(REPLICATES, 9))
    np.testing.assert_array_equal(release, mechanism.perturbed)
    assert_variance(release - 9, 2 / 0.8**2)


@pytest.mark.parametrize("smoother", ["median", "average", "js"])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_smoothing_in_a_group_of_equal_counts_has_the_stated_variance(smoother, size):
    """Over 20,000 groups of n slots: 2b²/n, 2b²[(2n-1)²+(n-1)³]/n⁴, and the median's (false alarm < 10^-8)."""
    mechanism = Pegasus(
        epsilon=1, bins=REPLICATES, smoother=smoother, threshold=10**6, unsafe_source=UnsafeSeededSource(size)
    )
    for _ in range(size):
        release = mechanism.update(np.full(REPLICATES, 4))
    assert (mechanism.group_starts == 1).all()
    assert_variance(release - 4, smoothed_variance(smoother, size, 1 / 0.8))


def test_the_medians_variance_is_the_known_one():
    """v(1) = 2, v(3) = 23/36, and .351, .236, .175, .096 for 5, 7, 9, 15."""
    assert smoothed_variance("median", 1, 1.0) == pytest.approx(2, rel=1e-6)
    assert smoothed_variance("median", 3, 1.0) == pytest.approx(23 / 36, rel=1e-6)
    for size, value in ((5, 0.351), (7, 0.236), (9, 0.175), (15, 0.096)):
        assert smoothed_variance("median", size, 1.0) == pytest.approx(value, abs=5e-4)


def test_groups_follow_the_published_automaton():
    """A jump closes the group and stands alone; the slot after it opens a new group with a new threshold."""
    mechanism = Pegasus(epsilon=1000, threshold=5, unsafe_source=UnsafeSeededSource(0))
    starts = []
    for count in (10, 10, 10, 90, 10, 10, 10):
        mechanism.update(count)
        starts.append(int(mechanism.group_starts[0]))
    assert starts == [1, 1, 1, 4, 5, 5, 5]


def test_noise_has_the_scales_of_the_proof():
    """Counts get 1/ε_p, a new group's threshold 4/ε_g, every test 8/ε_g; the deviation tested is the clean one."""
    make = lambda source: Pegasus(epsilon=1, threshold=100, unsafe_source=source)  # noqa: E731
    seen = [(grains[0] / GRAINS, scale) for grains, scale in noised(make, [6, 8]) if grains.size]
    perturber, threshold, test = Fraction(5, 4), Fraction(20), Fraction(40)
    assert seen == [(6, perturber), (100, threshold), (8, perturber), (2, test)]


def test_the_perturber_alone_loses_four_fifths():
    """The exact loss of the noisy counts is c·t·ε_p, so the stated bound is at most ε_p + ε_g/4 to ε_p too high."""
    mechanism = Pegasus(epsilon=Fraction(1, 2))
    assert mechanism.loss(50).shifts == {Fraction(2, 5): 50}
    assert mechanism.user_epsilon(50) == pytest.approx(0.85 * 50 * 0.5)
    assert mechanism.user_epsilon(50, 1.34) == pytest.approx(28.475)


def _loss_of_grouping(counts, more, epsilon, runs):
    """Frequencies of every grouping of a short stream, under two inputs."""
    starts = []
    for seed, stream in enumerate((counts, more)):
        mechanism = Pegasus(epsilon=epsilon, bins=runs, share="0.01", unsafe_source=UnsafeSeededSource(seed))
        code = np.zeros(runs, dtype=np.int64)
        for count in stream:
            mechanism.update(np.full(runs, count))
            code = 2 * code + (mechanism.group_starts == mechanism.slot)
        starts.append(np.bincount(code, minlength=1 << len(counts)) / runs)
    return starts


@pytest.mark.parametrize("user", [(1, 0, 1), (0, 0, 1), (1, 1, 1)])
def test_the_grouper_keeps_its_bound(user):
    """No grouping's frequency moves by more than e^(t·ε_g/4) and six standard errors, among all runs (< 10^-6).

    A user with a record in some of three slots; nearly all of ε is the grouper's.
    """
    runs, epsilon, counts = few(10_000, 40_000), 3.0, (2, 3, 2)
    more = [a + b for a, b in zip(counts, user, strict=True)]
    one, other = _loss_of_grouping(counts, more, epsilon, runs)
    bound = len(counts) * 0.99 * epsilon / 4
    for p, q in zip(one, other, strict=True):
        if min(p, q) > 5e-3:
            assert abs(np.log(p / q)) <= bound + 6 * np.sqrt((1 / p + 1 / q) / runs)


def test_windows_weigh_groups_by_their_overlap():
    """A window's sum is Σ overlap·median over the groups, computed here from the mechanism's public outputs."""
    mechanism, window = Pegasus(epsilon=1, threshold=4, unsafe_source=UnsafeSeededSource(8)), SlidingWindow(5)
    noisy, groups = [], []
    for count in (3, 4, 3, 50, 3, 60, 61, 60, 60, 2, 2, 3):
        mechanism.update(count)
        noisy.append(float(mechanism.perturbed[0]))
        groups.append(int(mechanism.group_starts[0]))
        expected = 0.0
        for slot in range(max(0, len(noisy) - 5), len(noisy)):
            same = [x for x, g in zip(noisy, groups, strict=True) if g == groups[slot]]
            expected += float(np.median(same))
        assert window.update(mechanism)[0] == pytest.approx(expected)


def test_events_are_read_off_the_releases():
    """Jumps and low signals are found where they are, and nowhere else."""
    assert jumps(np.array([1.0, 1, 1, 8, 8]), width=2, change=6).tolist() == [False, False, False, True, True]
    assert low_signal(np.array([3.0, 2.0]), level=2.0).tolist() == [False, True]


def test_bad_options_are_refused():
    """A share outside (0, 1), an unknown smoother, no width."""
    with pytest.raises(OptionError, match="share"):
        Pegasus(epsilon=1, share=1)
    with pytest.raises(OptionError, match="smoother"):
        Pegasus(epsilon=1, smoother="mode")
    with pytest.raises(OptionError, match="width"):
        SlidingWindow(0)


def test_smoothers_are_what_they_are_called():
    """The median is a median, also of an even number (a public port has a mean under that name)."""
    assert smooth([1.0, 2.0, 10.0, 3.0], "median") == 2.5
    assert smooth([1.0, 2.0, 10.0, 3.0], "average") == 4.0
    assert smooth([1.0, 2.0, 10.0, 3.0], "js") == 3.75
