"""One slot: count users, update their laws, release the PDF of all who are active.

A pure function of a state and of sums after noise, so it is post-processing and costs no privacy. A slot that was not
measured goes the same way, without sums: the picture is held, and its intervals grow. So are numbers of newcomers, of
users who returned, and of all who ever came: they cost nothing beyond what the slot has paid.

*Reach.* A user is new in the one slot in which they first pay, so all who ever paid are the newcomers of all slots.
What newcomers paid over what each was asked for, all of ε being left, is their number and noise: Laplace noise of scale
one in each of B bins has the variance 2·B together, of which 1/pay² is left, and noises of slots are independent, so
variances add. No law is fitted: the error of one would be alike in all slots, and add up.

*Newcomers.* Their number in a slot is read by a law, which narrows it where bins are many. By how much that differs
from what was measured, on average over the last twenty slots, is the error that the law makes, and widens it.

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpi.errors import StateError
from dpi.exact.integers import Integers
from dpi.mechanism.base import AFTER, Estimate, Floats, People, at_most_one
from dpi.mechanism.class_estimator._activity import CHECKED, ActivityFilter, Sizes, Total
from dpi.mechanism.class_estimator._distributions import DistributionFilter
from dpi.mechanism.class_estimator._engagement import estimate_engagement
from dpi.mechanism.class_estimator._hypotheses import BAND_OF, GROUP_OF, Reading, Residuals
from dpi.mechanism.class_estimator._season import Season, activities, learn_phase, phase_profile
from dpi.mechanism.class_estimator._state import UsersState
from dpi.mechanism.filtering._gaussians import Gaussians

FLOOR = 0.0005
"""Uniform share of every release: nothing is impossible. Source: by definition; less than any error that is known."""
SMOOTHING = 0.1
"""Weight of a new slot in what payments go by: ten slots. Source: a prior."""


@dataclass(frozen=True, eq=False)
class GroupSums:
    """What the users of some classes paid together in each bin, plus Laplace noise of scale one."""

    values: Floats
    classes: Integers
    shares: Floats
    """The share of what is left that each class was asked for."""
    part: float
    """The part of the shares that this histogram got."""

    @property
    def group(self) -> int:
        """Which histogram it is."""
        return int(GROUP_OF[self.classes[0]])


@dataclass(frozen=True, eq=False)
class ExpectedHistogram:
    """A histogram with what its users are expected to pay."""

    sums: GroupSums
    payments: Floats
    """What the users of each law are expected to pay together."""
    squared: float
    residuals: Residuals | None = None

    @property
    def users(self) -> float:
        """Users of equal payments who would say as much."""
        return float(self.payments.sum()) ** 2 / self.squared if self.squared > 0 else 0.0


def close_slot(
    state: UsersState, slot: int, epsilon: float, groups: Sequence[GroupSums]
) -> tuple[UsersState, Estimate]:
    """Return the next state, and the estimate of the slot."""
    if any(one.values.shape != (state.bins,) or int(one.classes[-1]) >= state.classes for one in groups):
        raise StateError("the measurement has another number of classes or bins than the state.")
    if not state.known and not groups:
        return state, know_nothing(state.bins)
    laws, activity = DistributionFilter(state.laws, pace=state.pace), ActivityFilter(state.activity, epsilon)
    elapsed = max(slot - state.slot, 1) if state.known else 1
    phase, profile = enter_phase(state.season, slot, laws)
    phase_activity = activities(state.season, activity.common_variance) if state.season.period else np.ones(1)
    expected = activity.expect(elapsed, float(phase_activity[phase]))
    sizes = activity.count([_total(one, expected, laws, epsilon) for one in groups])
    by_law = _by_law(BAND_OF[: state.classes], sizes.users, max(laws.laws, 1))
    histograms = [_expect_payments(one, sizes, laws, epsilon) for one in groups]
    by_law = np.maximum(by_law, 1e-9)
    if state.known:
        laws.age(elapsed, by_law, _gone(state, sizes) if state.slots == 1 and laws.laws > 1 else None)
    if not state.known:
        laws.begin(groups[0].values, float(histograms[0].payments.sum()), histograms[0].squared)
    else:
        histograms = [_observe(one, laws, by_law) for one in histograms]
    laws.normalise()
    reading = laws.read(by_law)
    if groups:
        laws.population = learn_population(laws, reading, sum(float(one.payments.sum()) for one in histograms))
    estimate = release_laws(laws, reading, by_law, sizes, histograms, profile)
    laws.level = np.maximum(estimate.pdf, 1e-3 / state.bins)
    measured = state.measured.copy()
    for one in groups:
        measured[one.classes] = slot
    first, came = state.first if state.known else slot, _came(groups, epsilon, sizes)
    since = np.where(measured < 0, first, measured)  # who moved up into a class without payments so far paid below it
    away = np.maximum(slot - since, 0.0) * (measured < slot) * sizes.users
    waiting = float(sizes.users[measured < slot].sum())
    estimate = replace(estimate, carried=min(waiting / sizes.total, 1.0), age=float(away.sum()) / max(waiting, 1e-9))
    reach, apart = state.reach + came, state.apart
    if groups:
        apart = CHECKED * apart + np.array([sizes.users[0] - came[0], 1.0])
    people = _people(sizes, reach, apart)
    engagement = estimate_engagement(
        activity.active,
        activity.past,
        (activity.known, slot - first),
        (people.newcomers, float(state.activity.first[0]), sizes.total),
        np.maximum(phase_activity[np.add.outer([slot, first], AFTER) % phase_activity.size], 1e-3),
    )
    estimate = replace(estimate, people=people, engagement=engagement, since=first)
    _move_up(laws, sizes, histograms, activity if state.known else None)
    if profile is not None:
        laws.season(1 / profile.mean)
    season = _learn_season(state.season, phase, histograms, activity, sizes)
    weight = max(1 / max(state.slots, 1), SMOOTHING)
    users_per_bin = sizes.total / state.bins
    share = float(sizes.users[0]) / sizes.total
    after = UsersState(
        slot=slot,
        slots=state.slots + 1,
        epsilon=epsilon,
        laws=laws.sealed(),
        pace=laws.pace,
        activity=activity.sealed(),
        season=season,
        measured=measured,
        users_per_bin=state.users_per_bin + (SMOOTHING if state.known else 1.0) * (users_per_bin - state.users_per_bin),
        newcomers=state.newcomers + (weight * (share - state.newcomers) if state.known else 0.0),
        first=first,
        reach=reach,
        apart=apart,
    )
    return after, estimate


def _came(groups: Sequence[GroupSums], epsilon: float, sizes: Sizes) -> Floats:
    """Newcomers of a slot as they paid, and the variance of that; of an unmeasured slot none, or as many as may be."""
    if not groups:
        return np.array([0.0, sizes.users[0] ** 2 + sizes.doubts[0][1]])
    pay, values = epsilon * groups[0].part * float(groups[0].shares[0]), groups[0].values
    return np.array([values.sum() / pay, 2 * values.size / pay**2])


def _people(sizes: Sizes, reach: Floats, apart: Floats) -> People:
    new, doubt = float(sizes.users[0]), sizes.doubts[0][1]
    return People(
        newcomers=new,
        newcomers_variance=doubt + float(apart[0] / max(apart[1], 1.0)) ** 2,
        returning=max(sizes.total - new, 0.0),
        returning_variance=max(sizes.variance - doubt, 0.0),
        reach=float(reach[0]),
        reach_variance=float(reach[1]),
    )


def _by_law(laws: Integers, values: Floats, known: int) -> Floats:
    """Sum over the classes of each law that is there; the last one takes what belongs to later ones."""
    return np.bincount(np.minimum(laws, known - 1), values, minlength=known).astype(np.float64)


def know_nothing(bins: int) -> Estimate:
    """Return the estimate before the first measurement."""
    even = np.full(bins, 1 / bins)
    return Estimate(even, even * (1 - even), np.ones(bins), float("nan"), float("nan"), carried=1.0)


def enter_phase(season: Season, slot: int, laws: DistributionFilter) -> tuple[int, Gaussians | None]:
    """Take laws to the phase of a slot; return it and its profile."""
    if not season.period:
        return 0, None
    phase = slot % season.period
    profile = phase_profile(season, phase)
    laws.season(profile.mean)
    return phase, profile


def _total(one: GroupSums, expected: Sizes, laws: DistributionFilter, epsilon: float) -> Total:
    """Estimate what a histogram's users pay together, with a variance: by the law that is expected, where that fits."""
    plain, noise = float(one.values.sum()), 2.0 * one.values.size
    each = epsilon * one.part * one.shares * expected.left[one.classes]
    fitted = plain, noise
    if laws.laws:
        pays = np.maximum(expected.users[one.classes], 1e-6) * each
        weights = _by_law(BAND_OF[one.classes], pays, laws.laws)
        fitted = laws.fit(one.values, weights, one.group, float(each.max()))[:2]
    if not (fitted[1] < noise and (fitted[0] - plain) ** 2 < 9 * noise):
        fitted = plain, noise
    return Total(one.classes, one.shares, one.part, *fitted)


def _expect_payments(one: GroupSums, sizes: Sizes, laws: DistributionFilter, epsilon: float) -> ExpectedHistogram:
    each = epsilon * one.part * one.shares * sizes.left[one.classes]
    pays = sizes.users[one.classes] * each
    count = max(laws.laws, 1)
    by_law = _by_law(BAND_OF[one.classes], pays, count)
    return ExpectedHistogram(one, by_law, float(pays @ each))


def _observe(one: ExpectedHistogram, laws: DistributionFilter, by_law: Floats) -> ExpectedHistogram:
    if float(one.payments.sum()) < 1e-3:
        return one
    return replace(one, residuals=laws.observe(one.sums.values, one.payments, one.squared, by_law, one.sums.group))


def learn_population(laws: DistributionFilter, reading: Reading, paid: float) -> Floats:
    """Learn the population of levels from the messages of the best hypothesis."""
    best = int(np.argmax(laws.log_weights.sum(0)))
    reach = min(max(3 / max(paid, 1e-9), 1e-6), 1.0)
    messages = Gaussians(reading.mean[best], reading.noise[best])
    return reading.table.learned(messages, reading.read[best], reach=reach)


def release_laws(
    laws: DistributionFilter,
    reading: Reading,
    by_law: Floats,
    sizes: Sizes,
    histograms: Sequence[ExpectedHistogram],
    profile: Gaussians | None,
) -> Estimate:
    """All who are active: what laws say of each part, and what was seen of those who were measured."""
    bins, total = laws.bins, float(by_law.sum())
    shift = (reading.read.mean - reading.mean) / reading.variance
    levels = laws.mean + reading.towards * shift[..., None]
    counts, variance, uniform = np.zeros(bins), np.zeros(bins), 0.0
    group_of = laws.groups_of_laws()
    for group in np.unique(group_of).tolist():
        sized = np.where(group_of == group, by_law, 0.0)
        users = float(sized.sum())
        weights = laws.weights(group)
        even_part = laws.evenness(group)
        here = [one for one in histograms if one.sums.group == group]
        residuals = here[0].residuals if here else None
        measured = sum([float(sizes.users[one.sums.classes].sum()) for one in here])
        if residuals is not None and residuals.users is not None and residuals.variance is not None:
            each, doubt = residuals.users, residuals.variance
            # Even where all bins are alike, chance makes them unlike: what is known of these users is not made even.
            if laws.even is None:
                even_part *= min(float(doubt.mean()) / max(float(each.mean()), 1e-9), 1.0)
        else:
            each = levels @ sized
            doubt = users * total * reading.read.variance
            doubt = doubt + np.clip(1 - measured / max(users, 1e-9), 0, 1) * np.maximum(each, 0.0)
            if residuals is not None:
                each, doubt = each + residuals.apart, doubt + np.maximum(residuals.apart_variance, 0.0)
        uniform += users / total * even_part
        mean = weights @ each
        counts += mean
        variance += weights @ ((each - mean) ** 2 + doubt)
    counts = np.maximum(counts, 0.0)
    even: Floats | float = max(float(counts.sum()), 1e-9) / bins
    if laws.even is not None and histograms and laws.even.any():
        even = laws.even * (max(float(counts.sum()), 1e-9) / float(laws.even.sum()))
    variance += uniform * (1 - uniform) * (counts - even) ** 2
    counts = (1 - uniform) * counts + uniform * even
    pdf = at_most_one((1 - FLOOR) * counts / counts.sum() + FLOOR / bins)
    variance = variance / total**2
    best = int(np.argmax(laws.log_weights.sum(0)))
    for classes, doubtful in sizes.doubts:
        part = _by_law(BAND_OF[classes], sizes.users[classes], laws.laws)
        if part.sum() > 0:
            variance += doubtful / total**2 * (laws.mean[best] @ (part / part.sum()) - pdf) ** 2
    if profile is not None:
        variance += profile.variance * pdf**2
    return Estimate(
        pdf=pdf,
        variance=np.clip(variance, 0.0, np.maximum(pdf * (1 - pdf), 0.0)),
        skew=np.zeros(bins),
        total=sizes.total,
        total_variance=sizes.variance,
    )


def _gone(state: UsersState, sizes: Sizes) -> float:
    """Return the part of the first slot's users who are not there in the second."""
    return float(np.clip(1 - sizes.users[1] / max(state.activity.usual, 1e-9), 0, 1))


def _move_up(
    laws: DistributionFilter,
    sizes: Sizes,
    histograms: Sequence[ExpectedHistogram],
    activity: ActivityFilter | None,
) -> None:
    """Who paid is in the next class, and from the last class of a law on in the next law."""
    gone = activity.gone() if activity else np.zeros(sizes.users.size)
    due = {m for one in histograms for m in one.sums.classes.tolist()}
    band = BAND_OF[: sizes.users.size]
    for law in reversed(range(int(band[-1]))):
        last = int(np.flatnonzero(band == law)[-1])
        users = float(sizes.users[last])
        if law >= laws.laws or last not in due or users < (0.05 if last and law + 1 == laws.laws else 1e-9):
            continue
        stock = float(sizes.stock[band == law + 1].sum())
        residuals = histograms[0].residuals if not law else None
        laws.move_up(law, users / (users + stock), residuals, users, float(gone[last]))


def _learn_season(
    season: Season, phase: int, histograms: Sequence[ExpectedHistogram], activity: ActivityFilter, sizes: Sizes
) -> Season:
    """Learn what a slot says of its phase."""
    if not season.period or not histograms:
        return season
    counts, users, noise = np.zeros(season.counts.shape[1]), 0.0, 0.0
    for one in histograms:
        paid = float(one.payments.sum())
        if paid <= 0:
            continue
        number, each = one.users, one.squared / paid
        weight = number / (number + 2 * counts.size / each**2)
        counts += weight / each * one.sums.values
        users += weight * number
        noise += 2 * (weight / each) ** 2
    return learn_phase(season, phase, counts, users, noise, activity.told)
