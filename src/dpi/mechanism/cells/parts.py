"""The parts of which a slot's users are made: classes that were measured, and cells that are carried forward.

Sees sizes and laws made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells.counts import Counts
from dpi.mechanism.cells.sizes import Sized
from dpi.mechanism.filtering.changed import replace
from dpi.mechanism.filtering.gaussians import Gaussians


@dataclass(frozen=True, eq=False)
class Measured:
    """A class in a slot in which it was due."""

    expected: float
    """Its size before it was looked at,"""
    spread: float
    """the variance of that, absentees who may return included,"""
    prior: Gaussians
    """and its PDF."""
    counts: Counts
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

    @property
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
        return replace(self, size=factor * self.size, spread=factor**2 * self.spread)
