"""Quiet bins: those of a huge domain that the noise hides, where all trackers keep one message together.

Trackers differ in how fast they forget. Where the level of a bin is small against the deviation of all that was ever
measured of it, forgetting shows in no reading: the population speaks there, whatever the tracker. So a huge domain has
one row for all trackers, that of the leading one, and rows of their own in *loud* bins alone. A bin is loud as soon as
its level stands out: the trackers then start from what they had together, and differ from there on. What is quiet costs
a third of the time and of the memory, and most of a huge domain is.

Sees messages and readings made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.experts import Walked
from dpi.mechanism.filtering.gaussians import Gaussians

STANDS_OUT = 0.25
"""A bin is loud if the second moment of its level is above this share of the variance of its message.

Source: benchmarks/huge.py and benchmarks/utility.py (docs/utility.md, Huge domains).
"""


@dataclass(frozen=True, eq=False)
class Loud:
    """The trackers' own messages in the bins that stand out; elsewhere all have the leader's."""

    at: Integers
    """The bins, in increasing order."""
    trackers: Walked
    """(trackers, bins that are loud)."""

    def rows(self, at: Integers, leader: Walked) -> Walked:
        """The trackers' messages in other bins: those of the `leader`, where they had none of their own."""
        count = len(self.trackers.walk)
        rows = [np.repeat(part[None, at], count, 0) for part in parts(leader)]
        place = np.searchsorted(self.at, at)
        same = np.flatnonzero(np.append(self.at, -1)[place] == at)
        for row, own in zip(rows, parts(self.trackers), strict=True):
            row[:, same] = own[:, place[same]]
        return Walked(Gaussians(*rows[:2]), rows[2])


def parts(walked: Walked) -> tuple[Floats, Floats, Floats]:
    """Means, variances and walks."""
    return walked.messages.mean, walked.messages.variance, walked.walk


def standing_out(measured: Floats, reading: Gaussians) -> Integers:
    """Which bins are loud, by the variances of their messages as they were measured, and by their readings."""
    second = reading.mean * reading.mean
    second += reading.variance
    return np.flatnonzero(second > STANDS_OUT * measured)


def merged(pool: Walked, leader: int) -> tuple[Walked, Loud]:
    """A pool of whole rows as that of a huge domain in which every bin is loud."""
    trackers = len(pool.walk) - 2
    every = np.arange(pool.walk.shape[1])
    return pool[[leader, -2, -1]], Loud(every, pool[list(range(trackers))])


def whole(pool: Walked, loud: Loud | None) -> Walked:
    """The pool of a state with a whole row for every expert."""
    if loud is None:
        return pool
    own = loud.rows(np.arange(pool.walk.shape[1]), Walked(pool.messages[0], pool.walk[0]))
    mean, variance, walk = (
        np.concatenate([one, other[1:]]) for one, other in zip(parts(own), parts(pool), strict=True)
    )
    return Walked(Gaussians(mean, variance), walk)
