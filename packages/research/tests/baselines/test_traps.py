"""Traps of public ports: each check holds here, and fails as soon as the port's mistake is made."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from dpi.exact.integers import GRAINS
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines import pegasus, sampling
from dpi_research.baselines.counters import Binary
from dpi_research.baselines.ldp_ids import users_randomness
from dpi_research.baselines.pegasus import Pegasus
from dpi_research.baselines.sampling import Fast, RescueDP
from dpi_research.baselines.thresh import Thresh
from dpi_research.baselines.topl import HybridReport
from exact_loss import exact_loss
from transcript import transcript_loss


def one_record_costs_epsilon():
    """At T = 16 a record of slot 1 loses at most ε."""
    make = lambda source: Binary(epsilon=1, slots=16, unsafe_source=source)  # noqa: E731
    assert exact_loss(make, [1] + [0] * 15, [0] * 16) <= 1


def published_scale():
    """Noise of scale log₂(T)/ε."""
    start = Binary._start

    def short(self):
        start(self)
        self._tree._noise = lambda grains: self._laplace(grains, Fraction(self.levels - 1) / self.rate)

    return mock.patch.object(Binary, "_start", short)


def a_negative_deviation_joins():
    """Noisy deviation -100 against a noisy threshold of -5: below it, so the slot joins the group."""
    drawn = {8: -100 * GRAINS, 4: -5 * GRAINS}  # scale·ε_g/records, by the proof
    mechanism = Pegasus(epsilon=1, unsafe_source=UnsafeSeededSource(0))

    def fixed(values, scale, source):
        return np.full(values.size, drawn.get(scale * mechanism.grouper_rate / GRAINS, 0))

    with mock.patch("dpi_research.baselines.base.add_laplace", fixed):
        mechanism.update(3)
        mechanism.update(3)
    assert mechanism.group_starts.tolist() == [1]


def absolute_values():
    """|noisy deviation| < |noisy threshold|."""
    draw = Pegasus._laplace
    return mock.patch.object(Pegasus, "_laplace", lambda self, grains, scale: np.abs(draw(self, grains, scale)))


def a_median_is_a_median():
    """Of 1, 2, 10, 3 it is 2.5."""
    assert pegasus.smooth([1.0, 2.0, 10.0, 3.0], "median") == 2.5


def mean_for_median():
    """A mean under the name of a median."""
    return mock.patch.object(pegasus, "median", lambda values: sum(values) / len(values))


def like_slots_are_grouped():
    """Three equal counts at a large ε are one group."""
    mechanism = Pegasus(epsilon=1000, threshold=5, unsafe_source=UnsafeSeededSource(0))
    for _ in range(3):
        mechanism.update(10)
    assert mechanism.group_starts.tolist() == [1]


def single_groups():
    """A flag left on that makes every slot a group."""
    return mock.patch.object(Pegasus, "_group", lambda self, counts: [False] * self.bins)


def reports_are_unbiased():
    """20,000 piecewise reports of 0.4 average 0.4 within six standard errors (false alarm below 10^-8)."""
    report, rng = HybridReport(2.0), np.random.default_rng(1)
    values = [report._piecewise(0.4, rng.random) for _ in range(20_000)]
    assert abs(np.mean(values) - 0.4) < 6 * np.std(values) / math.sqrt(20_000)


def wrong_rescaling():
    """A variable used twice: the report is rescaled with the wrong width."""
    right = HybridReport._piecewise
    return mock.patch.object(HybridReport, "_piecewise", lambda self, v, u: right(self, v, u) * self._root)


def constant_errors_are_seen_as_they_are():
    """The controller's error for equal errors E is E."""
    mechanism = Fast(epsilon=1, slots=10)
    assert mechanism.most_samples == 2
    assert sampling.feedback([0.2] * 5) == pytest.approx(0.2)


def integral_is_a_sum():
    """The integral term without its division."""
    return mock.patch.object(sampling, "feedback", lambda errors: 0.9 * errors[-1] + 0.1 * sum(errors[-5:]))


def data_enter_through_noise():
    """Equal noisy numbers give equal releases, for a calm and a wild stream."""
    rng = np.random.default_rng(2)
    make = lambda source: RescueDP(epsilon=1, bins=3, window=6, unsafe_source=source)  # noqa: E731
    transcript_loss(make, [np.full(3, 20)] * 30, [rng.integers(0, 4000, 3) for _ in range(30)])


def variance_of_raw_data():
    """The filter's Q from the counts themselves."""
    step = RescueDP._step

    def peeking(self, grains):
        self._process = float(np.var(grains / GRAINS)) + 1
        return step(self, grains)

    return mock.patch.object(RescueDP, "_step", peeking)


def a_group_follows_a_jump():
    """Two grouped regions jump from 11 to 400, and so do their releases."""
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
    for count in (10, 12, 11, 400):
        mechanism._next[:] = 0
        release = mechanism.update([count, count])
    np.testing.assert_allclose(release, 400, atol=5)


def stale_value():
    """A group's filter gets the last release in place of the group's fresh mean."""
    measure = RescueDP._measure

    def stale(self, group, grains):
        before = self._estimate.copy()
        measure(self, group, grains)
        if len(group) > 1:
            self._estimate[group] = before[group]

    return mock.patch.object(RescueDP, "_measure", stale)


def thresh(**options):
    """A setting in which votes can be paid for."""
    given = {"epsilon": 8, "users": 20_000, "epochs": 16, "length": 500} | options
    return Thresh(**given, unsafe_source=UnsafeSeededSource(0))


def small_changes_wait():
    """A change between τ_0 and τ_1 is voted on in epoch 16 of 16 alone."""
    mechanism = thresh()
    change = np.array([3 * mechanism._spread])
    assert [epoch for epoch in range(1, 17) if mechanism.wants(change, epoch)[0]] == [16]


def logarithm_to_the_base_ten():
    """⌊log₁₀ T⌋ levels."""
    start = Thresh._start

    def decimal(self):
        start(self)
        self.deepest = int(math.log10(self.epochs))

    return mock.patch.object(Thresh, "_start", decimal)


def estimates_are_unbiased():
    """A renewal from 20,000 users with means around a half is near a half (six standard errors, below 10^-8)."""
    mechanism = thresh()
    rng = users_randomness(UnsafeSeededSource(4))
    estimate = mechanism.renewal(np.linspace(0, 1, 20_000), np.ones(20_000, dtype=bool), rng)
    power = math.exp(mechanism.estimate_cost)
    assert abs(estimate - 0.5) < 6 * (power + 1) / (power - 1) / 2 / math.sqrt(20_000)


def brackets_of_the_report():
    """(1 + p(e^b - 1))/e^b + 1 in place of (1 + p(e^b - 1))/(e^b + 1): above 1, so every bit is 1."""

    def broken(self, means, reports, rng):
        power = math.exp(self.estimate_cost)
        heads = (1 + means * (power - 1)) / power + 1
        return float(np.mean(((rng.random(means.size) < heads) * (power + 1) - 1) / (power - 1)))

    return mock.patch.object(Thresh, "renewal", broken)


def silence_renews_nothing():
    """A stream of zeros is never renewed, in 16 epochs (false alarm below the declared 10^-7)."""
    mechanism = thresh(length=50, failure=1e-7, epsilon=40)
    for _ in range(16 * 50):
        mechanism.update(0)
    assert mechanism.renewals[0] == 0


def ten_for_one():
    """A share of votes is compared with 1/(e^a + 10)."""

    def loose(self, votes):
        margin = math.sqrt(math.log(10 * self.epochs / self.failure) / (2 * self.users))
        return votes > 1 / (math.exp(self.vote_cost) + 10) + margin

    return mock.patch.object(Thresh, "passes", loose)


@dataclass(frozen=True)
class Trap:
    """A check, and a port's mistake that it finds."""

    check: Callable[[], None]
    mistake: Callable[[], object]


TRAPS = [
    Trap(one_record_costs_epsilon, published_scale),
    Trap(a_negative_deviation_joins, absolute_values),
    Trap(a_median_is_a_median, mean_for_median),
    Trap(like_slots_are_grouped, single_groups),
    Trap(reports_are_unbiased, wrong_rescaling),
    Trap(constant_errors_are_seen_as_they_are, integral_is_a_sum),
    Trap(data_enter_through_noise, variance_of_raw_data),
    Trap(a_group_follows_a_jump, stale_value),
    Trap(small_changes_wait, logarithm_to_the_base_ten),
    Trap(estimates_are_unbiased, brackets_of_the_report),
    Trap(silence_renews_nothing, ten_for_one),
]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.mistake.__name__)
def test_the_check_holds_here_and_finds_the_mistake(trap):
    """As implemented the check passes; with the port's mistake in place it fails."""
    trap.check()
    with trap.mistake(), pytest.raises(AssertionError):
        trap.check()
