"""Two ways to divide the account of a window of w slots: half of ε, or half of all users, for publications.

Amounts are shares of the whole, so a window has 1/2. Both were published for budgets (Kellaris et al.) and used
again for users (LDP-IDS).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from fractions import Fraction
from typing import ClassVar

SMALLEST = Fraction(1, 1 << 40)
"""Shares are multiples of this: without rounding their denominators would grow for ever."""


def rounded_down(share: Fraction) -> Fraction:
    """The largest multiple of 2^-40 that is not above.

    >>> rounded_down(Fraction(1, 8)), rounded_down(Fraction(1, 3)) < Fraction(1, 3)
    (Fraction(1, 8), True)
    """
    return share // SMALLEST * SMALLEST


class Division(ABC):
    """What publications may take of the account, slot after slot. Sees what was taken before, which is public."""

    largest: ClassVar[Fraction]
    """The most that one publication can take."""

    def __init__(self, window: int) -> None:
        self.window = window

    @abstractmethod
    def offer(self, slot: int, spent: Fraction) -> Fraction:
        """The share for slot 1, 2, …, asked once for each; `spent` is what the slot before took."""

    @abstractmethod
    def most(self, slots: int) -> Fraction:
        """A bound of what the publications of the first `slots` slots take."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many numbers are held."""


class Distribution(Division):
    """Half of what the last w - 1 slots have left of 1/2, rounded down.

    >>> shares = Distribution(window=2)
    >>> [str(shares.offer(*slot)) for slot in ((1, Fraction(0)), (2, Fraction(1, 4)), (3, Fraction(0)))]
    ['1/4', '1/8', '1/4']
    """

    largest = Fraction(1, 4)

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._recent: deque[Fraction] = deque(maxlen=window - 1)

    def offer(self, slot: int, spent: Fraction) -> Fraction:
        """Half of the rest."""
        if slot > 1:
            self._recent.append(spent)
        return rounded_down((Fraction(1, 2) - sum(self._recent, Fraction(0))) / 2)

    def most(self, slots: int) -> Fraction:
        """The largest share in every slot, or the account of every window that was begun."""
        return min(slots * self.largest, Fraction(-(-slots // self.window), 2))

    @property
    def memory(self) -> int:
        """What the last w - 1 slots took."""
        return len(self._recent)


class Absorption(Division):
    """A share of 1/(2w) for every slot; a publication takes those of skipped slots, and pays them back.

    A publication that took j shares besides its own is followed by j slots without any. So the publications of any w
    slots in a row take at most w shares, and those of the first t slots at most t.

    >>> shares = Absorption(window=4)
    >>> [str(shares.offer(slot, Fraction(0))) for slot in (1, 2, 3)], str(shares.offer(4, Fraction(3, 8)))
    (['1/8', '1/4', '3/8'], '0')
    """

    largest = Fraction(1, 2)

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._free_from = 1

    def offer(self, slot: int, spent: Fraction) -> Fraction:
        """Its own share and those of skipped slots; none while they are paid back."""
        if spent:
            self._free_from = slot + int(spent * 2 * self.window) - 1
        return Fraction(max(0, min(slot - self._free_from + 1, self.window)), 2 * self.window)

    def most(self, slots: int) -> Fraction:
        """Every slot's share."""
        return Fraction(slots, 2 * self.window)

    @property
    def memory(self) -> int:
        """From when on shares are free."""
        return 1
