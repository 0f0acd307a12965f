"""What laws have in common of their change: one walk of log-levels for all, beside what each law has of its own.

A slot measures newcomers and some classes; all others are carried. If everybody turns to something new, those who are
carried did so too, though nobody looked. So the log-level of a bin, in any law, is an offset of that law plus a
*common drift*, of which every measurement tells something. A cell remembers where the walk was when it was measured,
and one of its dynamics (`dpi.mechanism.cells.dynamics`) takes it along by as much as the walk has gone since. Whether
that is so is for the evidence to say: where newcomers alone change, classes do not follow, and their weights show it.

A Gaussian for each bin, updated by relative residuals; offsets and walk count as independent. What no walk explains is
believed: everybody may turn in one slot.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells.counts import Counts
from dpi.mechanism.filtering.gaussians import Gaussians

STEP = 0.01**2
"""Variance by which the walk moves in a slot, and so does the offset of newcomers.

Source: by trial; a step that is learned stayed there (benchmarks/clocked.py, trend).
"""

SURPRISE = 5.0
"""A residual of so many deviations is a jump.

Source: by trial; measured by benchmarks/clocked.py (offers).
"""

UNKNOWN = 4.0
"""Relative variance of the levels of newcomers before anything was seen.

Source: by definition.
"""

FARTHEST = 5.0
"""Bound of the walk, and of the offsets below those of a uniform law.

Source: by definition; a factor of 150.
"""


@dataclass(frozen=True, eq=False)
class CommonDrift:
    """The walk and its variance; the log-levels of newcomers without it, and their variance: (bins,) each."""

    mean: Floats
    variance: Floats
    offset: Floats
    doubt: Floats

    @classmethod
    def begun(cls, bins: int) -> CommonDrift:
        """Before anything was seen."""
        return cls(np.zeros(bins), np.zeros(bins), np.full(bins, -np.log(bins)), np.full(bins, UNKNOWN))

    def later(self, elapsed: int) -> CommonDrift:
        """Some slots later."""
        step = elapsed * STEP
        return CommonDrift(self.mean, self.variance + step, self.offset, np.minimum(self.doubt + step, UNKNOWN))

    def along(self, since: Floats, age: Floats) -> Gaussians:
        """By what factor levels changed since the walk was somewhere, so many slots ago, and its relative variance."""
        return Gaussians(np.exp(self.mean - since), np.minimum(2 * self.variance, age * STEP))

    def newcomers(self, counts: Counts, size: float) -> CommonDrift:
        """After newcomers were measured, so many of them."""
        levels = np.exp(self.offset + self.mean)
        change, wide, total = self._compared(counts, levels * (size / levels.sum()), self.doubt)
        lowest = -np.log(levels.size) - FARTHEST
        return CommonDrift(
            mean=self._gone(wide / total * change),
            variance=wide * (1 - wide / total),
            offset=np.maximum(self.offset + np.log1p(self.doubt / total * change), lowest),
            doubt=self.doubt * (1 - self.doubt / total),
        )

    def of_class(self, counts: Counts, size: float, law: Gaussians) -> CommonDrift:
        """After a class was measured, of which this law was foreseen if it went along."""
        mean = np.maximum(law.mean, 1e-12)
        change, wide, total = self._compared(counts, size * mean, law.variance / mean**2)
        return CommonDrift(self._gone(wide / total * change), wide * (1 - wide / total), self.offset, self.doubt)

    def _compared(self, counts: Counts, expected: Floats, doubt: Floats) -> tuple[Floats, Floats, Floats]:
        """By what share counts differ from what was expected, and the variance of the walk in that, and of all."""
        noise = (2 * counts.noise**2 + counts.doubt + expected) / expected**2
        change = np.maximum(counts.values / expected - 1, -0.95)
        others, squared = doubt + noise, change**2
        jumped = squared > SURPRISE**2 * (self.variance + others)
        wide = np.where(jumped, np.maximum(squared - others, self.variance), self.variance)
        return change, wide, wide + others

    def _gone(self, share: Floats) -> Floats:
        gone = self.mean + np.log1p(share)
        return np.minimum(np.maximum(gone, -FARTHEST, out=gone), FARTHEST, out=gone)
