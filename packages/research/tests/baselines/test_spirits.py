import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.counters import Hybrid
from dpi_research.baselines.spirits import LAST_LEVEL, CgmSpirit, Design, DongSpirit
from statistics_ import assert_variance
from strategies import few
from transcript import play, transcript_loss

REPLICATES = few(6_000, 20_000)

PERIOD = 6


def cgm(source, bins=1):
    """ε = 1, values in 0 … 100 with steps of at most 4."""
    return CgmSpirit(epsilon=1, bins=bins, largest=100, step=4, period=PERIOD, unsafe_source=source)


def test_reconstructions_say_so():
    """Their sources begin with "in the spirit of", and their names end in Spirit."""
    for mechanism in (CgmSpirit, DongSpirit):
        assert mechanism.facts.source.startswith("in the spirit of")
        assert mechanism.__name__.endswith("Spirit")


# Correlated Gaussian noise.


@given(st.lists(st.integers(0, 120), min_size=PERIOD, max_size=PERIOD), st.data())
def test_no_two_series_of_a_period_cost_more_than_rho(one, data):
    """Whatever two streams a bin holds, even outside the class, the exact ρ of a period is at most the stated one."""
    other = data.draw(st.lists(st.integers(0, 120), min_size=PERIOD, max_size=PERIOD))
    _, rho = transcript_loss(cgm, one, other)
    assert rho <= cgm(None).rho


def test_the_bound_is_nearly_reached():
    """The worst pair for the first slot and for every later one: apart by all, and drifting against each other."""
    top = [100, 100, 100, 100, 100, 100]
    _, rho = transcript_loss(cgm, top, [0] * PERIOD)
    assert rho > cgm(None).rho / 3


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.lists(st.integers(0, 1), min_size=20, max_size=20))
def test_a_user_loses_at_most_what_is_stated(counts, own):
    """A user with up to a record a slot: the exact ρ over periods is at most `loss`."""
    more = [a + b for a, b in zip(counts, own, strict=False)]
    _, rho = transcript_loss(cgm, more, counts)
    assert rho <= cgm(None).loss(len(counts)).rho


def test_a_user_who_moves_between_bins_loses_at_most_what_is_stated():
    """The limit on steps keeps a trace of a record in a bin that was left; the factor K covers it."""
    make = lambda source: cgm(source, bins=3)  # noqa: E731
    others = [np.array([50, 40, 30])] * 12
    user = [np.eye(3, dtype=int)[t % 3] for t in range(12)]
    _, rho = transcript_loss(make, [a + b for a, b in zip(others, user, strict=True)], others)
    assert rho <= make(None).loss(12).rho


def test_correlation_pays_where_steps_are_small():
    """The design's mean variance is below that of independent noise, the more the smaller the steps; never above."""
    gains = [
        Design.of(0, 1000, step, 50).mean_variance / Design.best(1000, step, 50).mean_variance
        for step in (1, 10, 100, 1000)
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 20
    assert gains[-1] == pytest.approx(1)


@pytest.mark.parametrize("slots", [1, 3, 6, 8])
def test_releases_have_the_designed_variance(slots):
    """Over 20,000 bins: s₁²·a^(2(i-1)) + s²·(1 - a^(2(i-1)))/(1 - a²), within six standard errors (< 10^-8)."""
    mechanism = cgm(UnsafeSeededSource(slots), bins=REPLICATES)
    for slot in range(slots):
        release = mechanism.update(np.full(REPLICATES, 40 + slot))
    assert_variance(release - 40 - slots + 1, mechanism.variance(slots), kurtosis=3.0)


def test_the_mean_of_the_variances_is_the_designs():
    """The mean over a period is what the design minimised, at this ρ."""
    mechanism = cgm(None)
    mean = np.mean([mechanism.variance(t) for t in range(1, PERIOD + 1)])
    assert mean == pytest.approx(mechanism.design.mean_variance / (2 * float(mechanism.rho)), rel=1e-6)


# A cap that grows.


def records(slots, heavy=0, each=3):
    """Slots of 200 users with a record each, and `heavy` users with `each` records each."""
    users = list(range(200)) + [1000 + i for i in range(heavy) for _ in range(each)]
    return [users] * slots


def observe(mechanism, slots):
    """The releases of a stream with one bin."""
    return [float(mechanism.observe(users, np.zeros(len(users), dtype=int))[0]) for users in slots]


def test_shares_sum_to_at_most_epsilon():
    """Σ e_j over all levels is below ε, and e_j = 6ε/(π²(j + 1)²) but for rounding down."""
    mechanism = DongSpirit(epsilon=2)
    shares = [mechanism.share(j) for j in range(LAST_LEVEL + 1)]
    assert sum(shares) < 2
    assert float(shares[3]) == pytest.approx(2 * 6 / math.pi**2 / 16, rel=1e-6)
    assert mechanism.user_epsilon(10**6, 1000) == float(sum(shares))


def noised_by(mechanism, slots, answers):
    """What gets noise along a transcript in which the test passes in the named slots; ids are seen."""
    from unittest import mock

    from dpi_research.baselines import Baseline

    seen = []

    def fixed(self, grains, scale):
        seen.append((grains.copy(), scale, self is mechanism))
        # The test's own number decides; everything else is 0.
        passes = self is mechanism and scale == 8 / self.share(self.level) and self.slot in answers
        return np.full(grains.size, (1 << 59) if passes else 0, dtype=np.int64)

    with mock.patch.object(Baseline, "_laplace", fixed):
        releases = observe(mechanism, slots)
    return releases, seen


@pytest.mark.parametrize("habit", ["heavy", "light", "late"])
@pytest.mark.parametrize("answers", [(), (3,), (2, 5, 6), (1, 2, 3, 4)])
def test_the_exact_loss_about_a_user_is_at_most_epsilon(habit, answers):
    """Along transcripts with level changes at any time, all records of one user cost at most ε = 1, exactly.

    The test costs e_j/2 a level by the above-threshold argument (noise 4/e_j and 8/e_j, sensitivity 1, one "above");
    the counters' shifts are summed exactly.
    """
    counts = {"heavy": [5] * 12, "light": [1] * 12, "late": [0] * 6 + [3] * 6}[habit]
    base = [[1, 2, 3]] * 12
    with_user = [[1, 2, 3] + [9] * count for count in counts]
    one, two = DongSpirit(epsilon=1), DongSpirit(epsilon=1)
    released, first = noised_by(one, with_user, answers)
    again, second = noised_by(two, base, answers)
    assert released == again
    assert one.level == two.level == len(answers)
    total = Fraction(0)
    for (a, scale, test), (b, same, _) in zip(first, second, strict=True):
        assert scale == same
        if test:
            assert abs(int(a[0] - b[0])) <= GRAINS  # one user moves the number of users above the cap by one
        else:
            total += Fraction(int(np.abs(a - b).sum()), GRAINS) / scale
    total += sum((one.share(j) / 2 for j in range(one.level + 1)), Fraction(0))
    assert total <= 1


def test_the_cap_grows_until_heavy_users_fit():
    """400 users with four records a slot: levels rise, and far more is counted than a cap of one would let pass."""
    mechanism = DongSpirit(epsilon=20, unsafe_source=UnsafeSeededSource(1))
    slots = records(60, heavy=400, each=4)
    releases = observe(mechanism, slots)
    assert mechanism.level >= 4
    assert mechanism.user_epsilon(60, 4) <= 20
    assert 10 * 600 < releases[-1] < 60 * 1800


def test_nobody_above_the_cap_means_level_zero():
    """With other users in every slot the level stays 0, in fifty runs (a false alarm has probability β/t² a slot)."""
    for seed in range(50):
        mechanism = DongSpirit(epsilon=1, failure=1e-6, unsafe_source=UnsafeSeededSource(seed))
        observe(mechanism, [list(range(5 * t, 5 * t + 5)) for t in range(20)])
        assert mechanism.level == 0


def test_without_ids_it_is_a_hybrid_counter():
    """Through `update` no record is dropped: variance is that of the hybrid counter with ε·(6/π²)/2."""
    mechanism = DongSpirit(epsilon=1, bins=REPLICATES, unsafe_source=UnsafeSeededSource(2))
    for _ in range(5):
        release = mechanism.update(np.full(REPLICATES, 2))
    assert mechanism.variance(5) == pytest.approx(Hybrid(epsilon=mechanism.share(0) / 2).variance(5))
    assert_variance(release - 10, mechanism.variance(5))
    assert mechanism.variance(4) is None


def test_records_outside_the_bins_count_for_nothing():
    """They use no cap up; ids and values must match in number."""
    mechanism = DongSpirit(epsilon=1000, bins=2)
    mechanism.observe([1, 1], [7, -1])
    assert round(float(mechanism.observe([1], [1])[1])) == 1
    for bad in (DongSpirit(epsilon=1), Hybrid(epsilon=1)):
        with pytest.raises(OptionError, match="as long as"):
            bad.observe([1, 2], [0])
    with pytest.raises(OptionError, match="failure"):
        DongSpirit(epsilon=1, failure=0)
    assert play(cgm, [1]).gaussian
