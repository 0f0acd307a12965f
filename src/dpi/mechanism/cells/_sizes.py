"""How many users of each class are active: what flowed in, what returns, and what the counts say.

Of a class, n = α·(paid since it was last measured) + β·(its size then): recursive least squares for each class, with
the rates of the class below as the prior. Newcomers are a level that moves. One factor of activity serves all classes:
a level that walks slowly, plus a deviation of the slot alone. Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells._dynamics import BEHIND, Cells
from dpi.mechanism.cells._law import fit_size, softmax
from dpi.mechanism.filtering._gaussians import Gaussians, fast_replace
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

FIRST_RATES, FIRST_DEVIATIONS = (0.8, 0.1), (0.4, 0.3)
RATE_STEPS = (0.1, 0.05)
"""Rates α and β of the first class before anything was seen, their deviations, and how far a class is from the one
below. Source: by trial (benchmarks/clocked.py)."""
LEAVING = (1.0, 1.5, 2.0)
"""A class waits twice as long as the one below. If a share s of those who would return at once is lost in that time, s
to the power of one of these is expected of the next: 2 if users leave at a constant rate, 1 if some leave at once and
the rest never. Source: by definition."""
LEAST_RATES = (0.001, 0.0)
"""The smallest rates: some return of those who have just paid. Source: by trial."""
FORGETTING = 0.9
"""What a measurement of a class counts after the next one. Source: by trial."""
MISFIT = 0.05
"""Relative deviation of a size by the shape of the counts, because the shape is itself an estimate. Source: by
trial."""
ACTIVITY = 0.15
"""Relative deviation of a class's activity from what its rates say. Source: by trial (benchmarks/clocked.py)."""
ABSENT = 0.05
"""Deviation of the number of active users from what rates say, as a share of those who entered a class and were not
there when it was measured: they may come back, and where a class drowns in noise no rate tells it. Source: by trial
(benchmarks/clocked.py)."""
LOOKED = 0.7
"""What a look at those who were absent counts after the next one: who is absent changes. Source: by trial
(benchmarks/clocked.py)."""
SURPRISE = 6.0
"""A size this many deviations from what was expected is believed as it was measured. Source: by calculation."""
ODD = 2.0
"""Deviations from what was expected beyond which a measurement tells less of rates of return. Source: by trial
(benchmarks/clocked.py)."""
EMPTY = 10.0
"""Prior odds, times the width of the alternatives in deviations, that nobody is new. Source: by trial."""
NOBODY = 0.01
"""Prior odds that a class in which users are expected has nobody. Source: by trial."""
MOST = 2.0
"""No class has more active users than this times those who entered it or were there when it was measured last. Source:
by trial."""
CHANGES = 0.1
LEAST_CHANGE, MOST_CHANGE = 0.003, 1.0
LEARNING = 0.05
"""The relative variance by which the number of newcomers changes in a slot: at first, its bounds, and the weight of the
last slot in its estimate. Source: by trial."""
HEARING = 0.02
"""Deviation by which the level of newcomers walks in a slot, as a share of the noise: a trickle below the noise is
averaged over about 1/`HEARING` slots. Source: by calculation."""


@dataclass(frozen=True)
class Inflow:
    """Newcomers a slot, its variance, and the relative variance by which it changes from slot to slot."""

    size: float = 0.0
    variance: float = 0.0
    change: float = CHANGES


@dataclass(frozen=True)
class Sized:
    """A number of active users and its variance; `seen` and `seen_variance` are what the counts alone say."""

    size: float
    variance: float
    seen: float
    seen_variance: float


def first_inflow(counts: NoisyCounts) -> tuple[Inflow, Sized]:
    """Newcomers of the first slot ever: the sum, as far as it stands out from its noise."""
    seen, noise = counts.total, counts.total_variance
    return Inflow(seen, noise), _present(seen, noise, seen, noise)


def combine_size(counts: NoisyCounts, law: Gaussians, size: float) -> tuple[float, float]:
    """What the counts say of a size, near `size`: their shape and their sum, by precision."""
    found, noise = fit_size(counts, law.mean, law.variance, size)
    noise += (MISFIT * size) ** 2
    total, total_noise = counts.total, counts.total_variance
    share = noise / (noise + total_noise)
    return found + share * (total - found), share * total_noise


def not_empty(size: float, variance: float, odds: float = EMPTY) -> float:
    """The probability that anybody is there: a spike at zero against a slab, ten deviations wide."""
    ratio = max(size, 0.0) ** 2 / max(variance, 1e-12)
    return 1 / (1 + odds * math.exp(-0.495 * min(ratio, 200.0)))


def size_newcomers(inflow: Inflow, counts: NoisyCounts, law: Gaussians) -> tuple[Inflow, Sized]:
    """The number of newcomers by the counts and by what was expected; a trickle below the noise is heard in time."""
    expected = max(inflow.size, 0.0)
    size = expected
    for _ in range(2):  # the noise of the shape depends on the size
        seen, noise = combine_size(counts, law, size)
        size = max(seen, 0.5 * noise**0.5)
    prior = inflow.variance + inflow.change * expected**2 + HEARING**2 * noise
    if (seen - inflow.size) ** 2 > SURPRISE**2 * (prior + noise):
        size, spread = max(seen, 0.0), noise  # a level below zero is noise, however far
    else:
        gain = prior / (prior + noise)
        size, spread = inflow.size + gain * (seen - inflow.size), gain * noise
    moved = ((seen - inflow.size) ** 2 - noise - inflow.variance) / max(seen**2, expected**2, 4 * noise)
    change = inflow.change + LEARNING * (min(max(moved, -0.5), 2.0) - inflow.change)
    after = Inflow(size, spread, min(max(change, LEAST_CHANGE), MOST_CHANGE))
    return after, _present(size, spread, seen, noise)


def _present(size: float, variance: float, seen: float, noise: float) -> Sized:
    """A size, shrunk by the probability that nobody is there."""
    there = not_empty(size, variance)
    return Sized(max(size * there, 1e-3), variance + there * (1 - there) * size**2, seen, noise)


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of return of every class, (classes, 2), their covariances, and the active users of every cell."""

    mean: Floats
    covariance: Floats
    active: Floats
    ready: Floats
    """Users of every cell of which α and β are shares."""
    missing: Floats
    """Users of every class who were absent when it was measured, and"""
    looked: Floats
    """the precision of the share of them who return, by what was seen of it."""

    def spread(self, cells: Cells, m: int) -> float:
        """Variance of the active users of a class: rates, activity, and the cells' sizes."""
        (paid, behind), ((a, b), (_, d)) = self.ready[:, m].tolist(), self.covariance[m].tolist()
        by_rates = 0.25 * (a * paid**2 + 2 * b * paid * behind + d * behind**2)
        (first, second), doubts = self.active[:, m].tolist(), cells.doubt[:, m].tolist()
        of_sizes = first**2 * doubts[0] + second**2 * doubts[1]
        return float(by_rates + (ACTIVITY * (first + second)) ** 2 + of_sizes + 1.0)

    @cached_property
    def absent(self) -> Floats:
        """Variance of the active users of every class beside that, for what no rate tells: who was absent may return.

        It widens what is said, and moves no size: it would make small classes follow their noise. It is no more than
        what looks at the class have left open.
        """
        return np.minimum((ABSENT * self.missing) ** 2, self.unheard)

    @cached_property
    def unheard(self) -> Floats:
        """Variance of the active users of every class beside that, as far as no rate of return was heard: totals alone.

        Where a class drowns in noise, those who were absent may be there as well as not; where it was looked at and
        few were there, few of them return, and of the class above hardly more.
        """
        doubt, doubts = FIRST_DEVIATIONS[1] ** 2, [0.0]
        for looked in self.looked.tolist()[1:]:
            doubt = 1 / (1 / doubt + looked)
            doubts.append(doubt)
            doubt += RATE_STEPS[1] ** 2
        return np.asarray(self.missing**2 * doubts)

    def alone(self, cells: Cells) -> Floats:
        """Both of every cell by itself, (2, classes)."""
        both = self.ready * self.ready
        both *= 0.25 * self.covariance[:, (0, 1), (0, 1)].T
        both += self.active * self.active * (ACTIVITY**2 + cells.doubt)
        both[BEHIND] += self.absent
        both += 1.0
        return both


def active_users(known: tuple[Floats, Floats], cells: Cells, missing: Floats, looked: Floats) -> Rates:
    """Who is active, by rates of return and their covariances."""
    found, spread = known
    ready = _ready(cells, found)
    return Rates(found, spread, ready * found.T, ready, missing, looked)


def regress_rates(precision: Floats, evidence: Floats) -> tuple[Floats, Floats]:
    """Rates and covariances by regression, however users leave: each way by how likely it makes what was seen."""
    known = list(zip(precision[1:].reshape(-1, 4).tolist(), evidence[1:].tolist(), strict=True))
    fits, logs = zip(*(_regressed(known, leaving) for leaving in LEAVING), strict=True)
    moments = softmax(np.array(logs)) @ np.array(fits)
    mean, squared = moments.reshape(-1, 6)[:, :2], moments.reshape(-1, 6)[:, 2:].reshape(-1, 2, 2)
    return mean, squared - mean[:, :, None] * mean[:, None, :]


def _regressed(known: Sequence[tuple[list[float], list[float]]], leaving: float) -> tuple[list[float], float]:
    """Rates and their second moments, six numbers a class, and the log-likelihood of what was seen, up to a constant.

    A class is like the one below, within `RATE_STEPS`; class 0 has none.
    """
    soon, late = FIRST_RATES
    a, b, d = FIRST_DEVIATIONS[0] ** 2, 0.0, FIRST_DEVIATIONS[1] ** 2  # a symmetric matrix: (a, b), (b, d)
    moments = [soon, late, a + soon * soon, soon * late, soon * late, d + late * late]
    (least_soon, least_late), step_soon, step_late = LEAST_RATES, RATE_STEPS[0] ** 2, RATE_STEPS[1] ** 2
    first, log = None, 0.0
    for (of_soon, of_both, _, of_late), (said_soon, said_late) in known:
        if first is not None:
            most = first if first > soon else soon
            soon = most * (soon / most) ** leaving
            a, d = a + step_soon, d + step_late
        if of_soon or of_late:  # something was seen of it
            before = a * d - b * b
            a, b, d = d / before, -b / before, a / before
            log -= 0.5 * (a * soon * soon + 2 * b * soon * late + d * late * late)
            along, beside = said_soon + a * soon + b * late, said_late + b * soon + d * late
            a, b, d = of_soon + a, of_both + b, of_late + d
            scale = a * d - b * b
            a, b, d = d / scale, -b / scale, a / scale
            soon, late = a * along + b * beside, b * along + d * beside
            log += 0.5 * (along * soon + beside * late - math.log(before * scale))
        soon = least_soon if soon < least_soon else min(soon, 1.0)
        late = least_late if late < least_late else min(late, 1.0)
        first = soon if first is None else first
        both = b + soon * late
        moments += (soon, late, a + soon * soon, both, both, d + late * late)
    return moments, log


def _ready(cells: Cells, rate: Floats) -> Floats:
    """Users of every cell, as many as would give the same active ones after an average wait: what rates are rates of.

    Who has just paid returns as class 1 does, 2^m slots later as class m does on average: in between, and up to the
    longest wait of twice that, users leave at a constant rate. Of those behind there are never more than `MOST` times.
    """
    log = np.log(rate[:, 0])
    lost = log - np.maximum(log, log[min(1, log.size - 1)])
    change = cells.age / _waits(log.size)
    np.minimum(change, 2.0, out=change)
    change -= 1
    change *= lost
    np.minimum(change[1], math.log(MOST), out=change[1])
    np.exp(change, out=change)
    change *= cells.size
    return change


@cache
def _waits(classes: int) -> Floats:
    """After how many slots each class is due, on average."""
    return np.exp2(np.arange(classes))


def measure_size(counts: NoisyCounts, law: Gaussians, expected: float, spread: float, entered: float) -> Sized:
    """A class's number of active users: `expected` with variance `spread`, corrected by the counts."""
    seen, noise = combine_size(counts, law, expected)
    both = spread + noise
    if (seen - expected) ** 2 > SURPRISE**2 * both:
        size, after = seen, noise
    else:
        size, after = expected + spread / both * (seen - expected), spread * noise / both
    size = min(max(size, 0.0), MOST * entered)
    log = 0.5 * ((seen - expected) ** 2 / both - seen**2 / noise + math.log(both / noise))
    there = 1 / (1 + NOBODY * math.exp(min(max(log, -50.0), 50.0)))
    return Sized(max(size * there, 1e-3), after + there * (1 - there) * size**2, seen, noise)


def learn_rates(
    precision: Floats, evidence: Floats, parts: Floats, sized: Sized, expected: float, spread: float
) -> tuple[Floats, Floats]:
    """One class's regression after its size was seen; `parts` are those who paid and those who were behind."""
    noise = _noise(sized, expected)
    noise *= max(1.0, abs(sized.seen - expected) / math.sqrt(noise + spread) / ODD)
    paid, behind = parts.tolist()
    said = np.array([[paid * paid, paid * behind], [paid * behind, behind * behind]]) / noise
    known, new = float(precision[0, 0] + precision[1, 1]), (paid * paid + behind * behind) / noise
    kept = 1 - min(1 - FORGETTING, new / (known + 1e-300))
    return kept * precision + said, kept * evidence + parts * (sized.seen / noise)


def learn_absence(before: float, missing: float, sized: Sized, expected: float) -> float:
    """The precision of the share of a class's missing users who return, after its size was seen."""
    return LOOKED * before + missing**2 / _noise(sized, expected)


def _noise(sized: Sized, expected: float) -> float:
    """Variance of what was seen of a size, around what rates of return say."""
    return sized.seen_variance + (ACTIVITY * max(expected, sized.seen)) ** 2 + 1.0


@dataclass(frozen=True, eq=False)
class Measured:
    """A class in a slot in which it was due."""

    expected: float
    """Its size before it was looked at,"""
    spread: float
    """the variance of that, absentees who may return included,"""
    prior: Gaussians
    """and its PDF."""
    counts: NoisyCounts
    sized: Sized
    """Its size after that,"""
    realised: Gaussians
    """and its users' PDF in this slot."""
    redrawn: float
    """The share of belief that users draw their bins anew, so that the slot's own PDF differs from the law."""
    shared: Floats | float = 0.0
    """Deviation of its prior that all cells have in common."""
    factor: float = 1.0
    """By how much variances of its law are to be multiplied, by what forecasts of its class have shown,"""
    size_factor: float = 1.0
    """and those of its size."""

    @property
    def foreseen(self) -> Floats:
        """Variance of its counts before they were looked at."""
        return self.size**2 * self.prior.variance + self.redrawn * self.size * self.prior.mean + 1e-12

    @cached_property
    def size(self) -> float:
        """How many of them are active."""
        return self.sized.size


@dataclass(frozen=True, eq=False)
class Carried:
    """The cells of classes that were not due in a slot, a row each: arrays of shape (cells,) and (cells, bins)."""

    size: Floats
    spread: Floats
    """Variance of its size."""
    law: Gaussians
    """The PDF of those of it who are active."""
    age: Floats
    """Slots since it was measured."""
    shared: Floats
    """Deviation of its law that all cells have in common."""
    factor: Floats
    """By how much variances of its law are to be multiplied, by what forecasts of its class have shown,"""
    size_factor: Floats
    """and those of its size."""

    @classmethod
    def nobody(cls, bins: int) -> Carried:
        """No cell at all."""
        none, rows = np.zeros(0), np.zeros((0, bins))
        return cls(none, none, Gaussians(rows, rows), none, rows, none, none)

    @property
    def users(self) -> float:
        """How many are active in all of them."""
        return float(sum(self.size.tolist()))

    def scaled(self, factor: float) -> Carried:
        """The same with so many times as many users."""
        return fast_replace(self, size=factor * self.size, spread=factor**2 * self.spread)


FIRST_LEVEL, FIRST_DEVIATION = 0.1**2, 0.15**2
"""Variances of the level and of a slot's deviation before anything was seen. Source: by trial
(benchmarks/clocked.py)."""
WALK, WIDEST = 0.02**2, 0.4**2
"""Variance by which the level moves in a slot, and the most that it has. Source: by trial (benchmarks/clocked.py)."""
ACTIVITY_LEARNING = 0.1
"""The share of the last slot in the variance of deviations, where it tells all: expectation maximisation, step by step.
Source: by trial (benchmarks/clocked.py)."""
LOWEST, HIGHEST = 0.4, 2.5
"""Between these lies the factor. Source: by definition."""
OUTLIER = 3.0
"""A slot that is this many deviations off counts as one that is exactly so many off. Source: by definition."""


@dataclass(frozen=True)
class Activity:
    """The level and its variance, and the variance of a slot's deviation from it."""

    level: float = 0.0
    variance: float = FIRST_LEVEL
    deviation: float = FIRST_DEVIATION


def age_activity(activity: Activity, elapsed: int) -> Activity:
    """Some slots later."""
    return Activity(activity.level, min(activity.variance + elapsed * WALK, WIDEST), activity.deviation)


def learn_activity(activity: Activity, parts: Sequence[Measured]) -> tuple[Activity, float]:
    """After a slot: what the classes that were due say of all, by least squares; and the factor of the others in it."""
    known, both = activity.variance, activity.variance + activity.deviation
    said, precision = 0.0, 0.0
    for part in parts:
        weight = part.expected / (part.spread + part.sized.seen_variance)
        said += weight * (part.sized.seen - part.expected)
        precision += weight * part.expected
    if precision < 1e-9:
        return activity, _factor(activity.level)
    total = both + 1 / precision
    surprise = said / precision - activity.level
    surprise = min(max(surprise, -OUTLIER * total**0.5), OUTLIER * total**0.5)
    passing = activity.deviation / total
    squared = (passing * surprise) ** 2 + activity.deviation * (1 - passing)
    after = Activity(
        activity.level + known / total * surprise,
        known * (1 - known / total),
        activity.deviation + ACTIVITY_LEARNING * (squared - activity.deviation),
    )
    return after, _factor(activity.level + both / total * surprise)


def _factor(found: float) -> float:
    return min(max(1 + found, LOWEST), HIGHEST)
