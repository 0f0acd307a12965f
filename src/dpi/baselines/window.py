"""Two ways to divide the account of a window of w slots: half of ε, or half of all users, for publications.

Amounts are shares of the whole, so a window has 1/2. Both were published for budgets (Kellaris et al.) and used
again for users (LDP-IDS).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

SMALLEST = Fraction(1, 1 << 40)
"""Shares are multiples of this: without rounding their denominators would grow for ever."""


def rounded_down(share: Fraction) -> Fraction:
    """The largest multiple of 2^-40 that is not above.

    >>> rounded_down(Fraction(1, 8)), rounded_down(Fraction(1, 3)) < Fraction(1, 3)
    (Fraction(1, 8), True)
    """
    return share // SMALLEST * SMALLEST


def half_of_rest(recent: Iterable[Fraction]) -> Fraction:
    """Distribution: half of what the last w - 1 slots have left of 1/2, rounded down.

    >>> half_of_rest([]), half_of_rest([Fraction(1, 4)])
    (Fraction(1, 4), Fraction(1, 8))
    """
    return rounded_down((Fraction(1, 2) - sum(recent, Fraction(0))) / 2)


class Absorption:
    """Absorption: a share of 1/(2w) for every slot; a publication takes those of skipped slots, and pays them back.

    A publication that took j shares besides its own is followed by j slots without any. So the publications of any w
    slots in a row take at most w shares, and those of the first t slots at most t.

    >>> shares = Absorption(window=4)
    >>> [str(shares.offer(slot, Fraction(0))) for slot in (1, 2, 3)], str(shares.offer(4, Fraction(3, 8)))
    (['1/8', '1/4', '3/8'], '0')
    """

    def __init__(self, window: int) -> None:
        self._window, self._free_from = window, 1

    def offer(self, slot: int, spent: Fraction) -> Fraction:
        """The share for this slot; `spent` is what the slot before took."""
        if spent:
            self._free_from = slot + int(spent * 2 * self._window) - 1
        return Fraction(max(0, min(slot - self._free_from + 1, self._window)), 2 * self._window)
