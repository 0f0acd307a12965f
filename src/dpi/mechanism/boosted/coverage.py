"""Which part of the active users still pays, as far as the sizes of slots tell.

Once an account may fall short of a slot's budget, a slot's size is that of its payers. Fewer payers may be fewer users:
a night, or the end of a crowd. Sizes alone do not tell the two apart. A declared season does: how many users have an
account left changes slowly, with those who come and go, so it is the median over a season that counts, against the
largest before. Without a season a fall by a fifth of the largest size, or more, is taken for empty accounts, which is
the safer mistake: a release that leans on a few newcomers as if they were everybody can be far off.

Slots in which everybody paid are not among those in which accounts may be empty.

Sees sizes of slots, which are estimates from counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

GROWTH = 25
"""Slots in which accounts may be empty whose median must be above the largest before it is a growth: a crowd that goes
again would otherwise make all others look like a few.

Source: by trial; not measured by itself.
"""


ALL = 0.8
"""From this part on all are taken to pay: sizes vary by themselves, and where a slot takes a part of an account, even
those who have all of it pay somewhat less than one.

Source: `dpi reproduce methods` and benchmarks/real.py, with and without it (docs/utility.md, Real streams).
"""


@dataclass(frozen=True)
class Payers:
    """Sizes of past slots.

    >>> payers = Payers().after(100, partial=False)
    >>> payers.after(99, partial=True).coverage, payers.after(33, partial=True).coverage
    (1.0, 0.33)
    >>> day = payers.after(99, partial=True, season=3).after(60, partial=True, season=3)
    >>> day.after(33, partial=True, season=3).coverage  # the median of 99, 60 and 33
    0.6
    """

    reference: float = 0.0
    """The largest typical size. It is never forgotten: those who came once and paid do not pay again."""
    recent: tuple[float, ...] = ()
    """The sizes of the last slots."""
    partial: bool = False
    """Whether accounts may have been empty in them."""
    season: int = 1
    """Slots whose median is typical."""

    def after(self, size: float, *, partial: bool, season: int | None = None) -> Payers:
        """With one more slot, of a declared `season` of so many.

        The median of a part of a season says little, a day's peak or its night: it counts only while there is no other.
        Budgets that rise and fall may make slots of both kinds alternate; what was largest stays.
        """
        before, whole = self.recent if partial is self.partial else (), season or 1
        recent = (*before, float(size))[-max(whole, GROWTH) :]
        if partial:
            grown = median(recent) if len(recent) >= max(whole, GROWTH) else 0.0
            return Payers(max(self.reference, grown), recent, partial, whole)
        typical = median(recent[-whole:])
        first = not self.partial and len(before) < whole
        return Payers(typical if first else max(self.reference, typical), recent, partial, whole)

    @property
    def coverage(self) -> float:
        """Payers among the active users of the last slot."""
        known = self.reference or max(self.recent, default=0.0)  # of a view never seen while all could pay
        if not self.partial or not known:
            return 1.0
        part = median(self.recent[-self.season :]) / known
        return part if part < ALL else 1.0
