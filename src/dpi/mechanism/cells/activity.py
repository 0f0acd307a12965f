"""How active users are as a whole, against what the rates of return say: days and seasons that all classes share.

Rates of return are averages. In one slot all classes may be more active than that, or less; and where high classes
drown in noise, rates may be off for long. So one factor 1 + a serves all classes: a is a *level* that walks slowly,
plus a *deviation* of the slot alone, whose variance is learned. Classes that are due tell it by how many of them were
seen; those that are carried are scaled by it. How far classes are off together all the same is told by their errors.

Sees sizes made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpi.mechanism.cells.parts import Measured

FIRST_LEVEL, FIRST_DEVIATION = 0.1**2, 0.15**2
"""Variances of the level and of a slot's deviation before anything was seen.

Source: by trial; the coverage that they lead to is measured by benchmarks/clocked.py.
"""

WALK, WIDEST = 0.02**2, 0.4**2
"""Variance by which the level moves in a slot, and the most that it has.

Source: by trial; the coverage that they lead to is measured by benchmarks/clocked.py.
"""

LEARNING = 0.1
"""The share of the last slot in the variance of deviations, where it tells all: expectation maximisation, step by step.

Source: by trial; the coverage that it leads to is measured by benchmarks/clocked.py.
"""

LOWEST, HIGHEST = 0.4, 2.5
"""Between these lies the factor.

Source: by definition; what is farther off is no average of anything.
"""

OUTLIER = 3.0
"""A slot that is this many deviations off counts as one that is exactly so many off.

Source: by definition.
"""


@dataclass(frozen=True)
class Activity:
    """The level and its variance, and the variance of a slot's deviation from it."""

    level: float = 0.0
    variance: float = FIRST_LEVEL
    deviation: float = FIRST_DEVIATION


def later(activity: Activity, elapsed: int) -> Activity:
    """Some slots later."""
    return Activity(activity.level, min(activity.variance + elapsed * WALK, WIDEST), activity.deviation)


def told(activity: Activity, parts: Sequence[Measured]) -> tuple[Activity, float]:
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
        activity.deviation + LEARNING * (squared - activity.deviation),
    )
    return after, _factor(activity.level + both / total * surprise)


def _factor(found: float) -> float:
    return min(max(1 + found, LOWEST), HIGHEST)
