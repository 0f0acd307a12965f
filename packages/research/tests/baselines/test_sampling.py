import math
from fractions import Fraction

import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.sampling import ERRORS_KEPT, Fast, RescueDP, feedback, next_interval
from transcript import play, transcript_loss


def fast(source, bins=1, slots=40):
    """FAST with ε = 1."""
    return Fast(epsilon=1, bins=bins, slots=slots, unsafe_source=source)


def rescue(source, bins=3, window=6):
    """RescueDP with ε = 1; grouping is easy."""
    return RescueDP(epsilon=1, bins=bins, window=window, alone=500, near=500, alike=-2, unsafe_source=source)


# FAST.


@pytest.mark.parametrize("seed", range(5))
def test_fast_keeps_epsilon_for_a_whole_series(seed):
    """A user with a record in every slot of one bin loses at most ε, exactly M samples' worth where all are taken."""
    pure, _ = transcript_loss(fast, [8] * 40, [7] * 40, seed)
    assert pure <= 1
    assert pure == Fraction(play(fast, [8] * 40, seed).laplace.__len__(), math.ceil(0.15 * 40))


def test_a_user_who_moves_between_bins_can_lose_more():
    """Whoever is always in a bin that is sampled loses more than ε; the stated loss allows for it."""
    mechanism = Fast(epsilon=1000, bins=2, slots=200, unsafe_source=UnsafeSeededSource(1))
    met = 0
    for t in range(200):  # one bin is calm and sampled rarely, the other jumps and is sampled at once
        before = mechanism.sampled.copy()
        mechanism.update([5000, 5000 * (t % 2)])
        met += bool((mechanism.sampled > before).any())
    assert 30 < met <= 60
    assert 1000 * met / 30 <= mechanism.user_epsilon(200) == 2000


def test_fast_samples_a_declared_number_of_times():
    """15 % of the slots, rounded up, or what is declared; the first five slots always, as long as samples last."""
    mechanism = Fast(epsilon=1, slots=100, unsafe_source=UnsafeSeededSource(1))
    taken = []
    for _ in range(100):
        mechanism.update(50)
        taken.append(int(mechanism.sampled[0]))
    assert taken[:5] == [1, 2, 3, 4, 5]
    assert taken[-1] <= mechanism.most_samples == 15
    assert Fast(epsilon=1, slots=100, samples=7).scale == 7


def test_the_filter_settles_at_the_published_gain():
    """With Q = 10^5 and R = 10^6 the weight of a sample tends to 0.270156."""
    mechanism = Fast(
        epsilon=1, slots=200, samples=200, process=10**5, measurement=10**6, unsafe_source=UnsafeSeededSource(2)
    )
    mechanism._next[:] = 0
    for _ in range(60):
        mechanism._next[:] = 0  # sampled in every slot
        mechanism.update(1000)
    assert mechanism.gain[0] == pytest.approx(0.270156, abs=1e-6)


def test_the_integral_term_is_a_mean():
    """Trap of a public port: it sums the last errors. With equal errors E the controller must see E, not 1.4·E."""
    assert feedback([0.2] * ERRORS_KEPT) == pytest.approx(0.2)
    assert feedback([9.0, 0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(0.9 * 0.5 + 0.1 * 0.3)


def test_intervals_follow_the_error():
    """I + θ(1 - e^((Δ-ξ)/ξ)), at least 1; errors at the goal change nothing."""
    assert next_interval(4.0, 0.05) == pytest.approx(4 + 5 * (1 - math.exp(-0.5)))
    assert next_interval(4.0, 0.2) == pytest.approx(max(1, 4 + 5 * (1 - math.e)))
    assert next_interval(2.0, 1e6) == 1.0


def test_fast_follows_a_series_where_noise_is_small():
    """At a large ε a sampled slot is released nearly as it is, and slots between repeat it."""
    mechanism = Fast(epsilon=1000, slots=40, samples=40, unsafe_source=UnsafeSeededSource(3))
    for count in (10, 90, 40, 70, 20):
        assert abs(float(mechanism.update(count)[0]) - count) < 2


# RescueDP.


@pytest.mark.parametrize("seed", range(5))
def test_rescue_sees_data_through_noise_alone(seed):
    """Trap of a public port: its Q is the variance of raw data. Here equal noisy numbers give equal releases ."""
    rng = np.random.default_rng(seed)
    calm, wild = [np.full(3, 20)] * 30, [rng.integers(0, 4000, 3) for _ in range(30)]
    transcript_loss(rescue, calm, wild, seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_window_of_a_user_in_one_region_costs_at_most_epsilon(seed):
    """Along random transcripts the exact loss of a user in w slots of one region is at most ε."""
    others = [np.array([4, 9, 2])] * 40
    for start in range(0, 34, 5):
        user = [np.array([0, int(start <= t < start + 6), 0]) for t in range(40)]
        pure, _ = transcript_loss(rescue, [a + b for a, b in zip(others, user, strict=True)], others, seed)
        assert pure <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_user_who_moves_loses_at_most_what_is_stated(seed):
    """A user in another region in every slot loses at most min(t·ε/5, K·⌈t/w⌉·ε)."""
    others = [np.array([4, 9, 2])] * 30
    user = [np.eye(3, dtype=int)[t % 3] for t in range(30)]
    pure, _ = transcript_loss(rescue, [a + b for a, b in zip(others, user, strict=True)], others, seed)
    assert pure <= Fraction(rescue(None).user_epsilon(30)).limit_denominator(10**6)
    assert rescue(None).user_epsilon(30) == min(30 / 5, 3 * 5)


def test_budgets_follow_the_published_rule():
    """The first sample of a region has min(0.2·ln 2, 0.6)·ε, rounded down; no slot has more than ε/5."""
    mechanism = RescueDP(epsilon=1, bins=2, window=10, unsafe_source=UnsafeSeededSource(1))
    mechanism.update([40, 80])
    assert mechanism.budgets == [Fraction(math.floor(0.2 * math.log(2) * 2**40), 2**40)] * 2
    spent = []
    for _ in range(60):
        mechanism.update([40, 80])
        spent.append(mechanism.budgets[0])
        assert max(mechanism.budgets) <= Fraction(1, 5)
        assert sum(spent[-10:]) <= 1


def test_small_like_regions_are_measured_together():
    """Regions of like small releases form one group; a large one stays alone; regions that move apart do too."""
    mechanism = RescueDP(epsilon=1, bins=4, window=5, unsafe_source=UnsafeSeededSource(1))
    wave = [np.array([4, 5, 200, 6]) + d * np.array([1, 1, 1, -1]) for d in (0.0, 2, 1, 3)]
    mechanism._history.extend(wave)
    groups = sorted(sorted(group) for group in mechanism.groups(np.arange(4)))
    assert [0, 1] in groups
    assert [2] in groups
    assert [3] in groups


def test_a_group_is_filtered_with_its_fresh_value():
    """Trap of a public port: it filters the stale value. When a group's counts jump, the release jumps with them."""
    mechanism = RescueDP(
        epsilon=1000,
        bins=2,
        window=4,
        alone=1e6,
        near=1e6,
        alike=-2,
        process=10**6,
        unsafe_source=UnsafeSeededSource(5),
    )
    for count in (10, 12, 11):
        mechanism._next[:] = 0
        mechanism.update([count, count])
    assert mechanism.groups(np.arange(2)) == [[0, 1]] or mechanism.groups(np.arange(2)) == [[1, 0]]
    mechanism._next[:] = 0
    release = mechanism.update([400, 400])
    np.testing.assert_allclose(release, 400, atol=5)


def test_bad_options_are_refused():
    """A negative process variance, no samples, no window."""
    for make in (
        lambda: Fast(epsilon=1, slots=9, samples=0),
        lambda: Fast(epsilon=1, slots=9, process=-1),
        lambda: RescueDP(epsilon=1, process=-1),
        lambda: RescueDP(epsilon=1, window=0),
    ):
        with pytest.raises(OptionError):
            make()
