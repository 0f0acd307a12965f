"""The mechanisms of Kellaris et al. for a window of w slots: budget distribution (BD) and budget absorption (BA)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, check_count

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


class WEvent(Baseline):
    """Histograms of single slots; a new one is published only where it differs enough from the last.

    In every slot the mean distance (1/d)·Σ|o - c| between the last publication o and the counts c gets noise
    of scale 2w/(ε·d), at a cost of ε/(2w). If it is above 1/e, the error of a publication with budget e, the counts
    are published with noise 1/e; e comes from the second half of ε. The first slot is always published.
    """

    held = ("_last", "spent", "_division")
    division: ClassVar[type[Division]]
    """How publications share ε/2."""

    window: int = 20

    def _start(self) -> None:
        check_count(self.window, "window")
        self.unit_budget = self.rate / (2 * self.window)
        self._last = np.zeros(self.bins, dtype=np.int64)
        self._division = self.division(self.window)
        self.spent = Fraction(0)
        """What the last slot's publication took of ε, as a share; 0 if there was none. Public."""

    def _step(self, grains: Integers) -> Floats:
        offer = self._division.offer(self.slot, self.spent)
        self.spent = Fraction(0)
        if offer and (self.slot == 1 or self._differs(grains, offer * self.rate)):
            self.spent = offer
            self._last = self._laplace(grains, 1 / self.budget)
        return self._last / GRAINS

    @property
    def budget(self) -> Fraction:
        """What the last slot's publication cost; 0 if there was none. Public."""
        return self.spent * self.rate

    def _differs(self, grains: Integers, budget: Fraction) -> bool:
        """The noisy sum of distances against d/e: the published test, times d on both sides."""
        distance = sum(abs(int(x)) for x in self._last - grains)
        noisy = self._laplace(np.array([min(distance, 1 << 60)]), 1 / self.unit_budget)
        return int(noisy[0]) > self.bins * GRAINS / budget

    @property
    def record_share(self) -> Fraction:
        """One test, and the largest publication."""
        return Fraction(1, 2 * self.window) + self.division.largest

    def loss(self, slots: int) -> Loss:
        """The tests of all slots but the first, and the most that publications can cost."""
        return Loss({self.unit_budget: slots - 1} if slots > 1 else {}, self._division.most(slots) * self.rate)


class BudgetDistribution(WEvent):
    """Few publications in a window: the i-th of a fresh window has the budget ε/2^(i+1).

    **Guarantee.** ε-DP for all records of a user within any `window` slots, one record a slot (w-event privacy).
    *Why:* tests cost ε/(2w) a slot, ε/2 a window; a publication costs half of what the last w - 1 slots have left of
    ε/2, so a window's publications sum to less than ε/2.

    *A user* of all t slots loses at most c·(t - 1)·ε/(2w) in tests and c·min(t·ε/4, ⌈t/w⌉·ε/2) in publications.

    >>> mechanism = BudgetDistribution(epsilon=1000, bins=2, window=3)
    >>> [round(x) for x in mechanism.update([5, 9]).tolist()], mechanism.budget
    ([5, 9], Fraction(250, 1))
    >>> BudgetDistribution(epsilon=1, window=10).user_epsilon(100)
    9.95
    """

    division: ClassVar = Distribution


class BudgetAbsorption(WEvent):
    """Every slot has a share u = ε/(2w); a publication after j skipped slots has the budget (j + 1)·u, at most w·u.

    **Guarantee.** ε-DP for all records of a user within any `window` slots, one record a slot (w-event privacy).
    *Why:* tests cost ε/(2w) a slot. A publication that took the shares of j slots before its own is followed by j
    slots in which nothing may be published, so a window's publications sum to at most w shares, ε/2.

    *A user* of all t slots loses at most c·(t - 1)·ε/(2w) in tests and c·t·ε/(2w) in publications, which use shares of
    slots that are over.

    >>> mechanism = BudgetAbsorption(epsilon=1000, bins=2, window=4)
    >>> [round(x) for x in mechanism.update([5, 9]).tolist()], mechanism.budget
    ([5, 9], Fraction(125, 1))
    >>> BudgetAbsorption(epsilon=1, window=10).user_epsilon(100)
    9.95
    """

    division: ClassVar = Absorption
