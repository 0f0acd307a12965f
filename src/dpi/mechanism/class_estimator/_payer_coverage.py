"""Which part of the active users still pays, once accounts may be empty: by sizes of slots.

A slot's size, or its median over a declared season, against the largest that was seen while all could pay. Sees totals
after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats

GROWTH = 25
"""Slots in which accounts may be empty whose median must be above the largest before it is a growth: a crowd that goes
again would otherwise make all others look like a few. Source: a prior; a day of hours."""
ALL_PAY = 0.8
"""From this part on all are taken to pay: sizes vary by themselves, and where a slot takes a part of an account, even
those who have all of it pay somewhat less than one. Source: benchmarks/real.py."""


@dataclass(frozen=True, eq=False)
class Payers:
    """Sizes of past slots.

    >>> payers = Payers.begun().after(100, partial=False)
    >>> payers.after(99, partial=True).coverage, payers.after(33, partial=True).coverage
    (1.0, 0.33)
    >>> day = payers.after(99, partial=True, season=3).after(60, partial=True, season=3)
    >>> day.after(33, partial=True, season=3).coverage  # the median of 99, 60 and 33
    0.6
    """

    reference: float
    """The largest typical size. It is never forgotten: those who came once and paid do not pay again."""
    recent: Floats
    """The sizes of the last slots."""
    partial: bool
    """Whether accounts may have been empty in them."""
    season: int
    """Slots whose median is typical."""

    @classmethod
    def begun(cls) -> Payers:
        """Before anything was seen."""
        return cls(0.0, np.zeros(0), partial=False, season=1)

    def after(self, size: float, *, partial: bool, season: int = 0) -> Payers:
        """With one more slot, of a declared `season` of so many."""
        before, whole = self.recent if partial is self.partial else np.zeros(0), season or 1
        recent = np.append(before, size)[-max(whole, GROWTH) :]
        if partial:
            grown = float(np.median(recent)) if recent.size >= max(whole, GROWTH) else 0.0
            return Payers(max(self.reference, grown), recent, partial, whole)
        typical = float(np.median(recent[-whole:]))
        first = not self.partial and before.size < whole
        return Payers(typical if first else max(self.reference, typical), recent, partial, whole)

    @property
    def coverage(self) -> float:
        """Payers among the active users of the last slot."""
        known = self.reference or float(max(self.recent, default=0.0))  # of a view never seen while all could pay
        if not self.partial or not known:
            return 1.0
        part = float(np.median(self.recent[-self.season :])) / known
        return max(part, 0.0) if part < ALL_PAY else 1.0  # noise may take a size below zero
