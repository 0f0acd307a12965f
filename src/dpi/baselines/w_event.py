"""What the two mechanisms of Kellaris et al. share: half of ε tests, in every slot, if the last release still fits."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpi.baselines.accounting import Floats, Loss
from dpi.baselines.base import Baseline, check_count
from dpi.integers import GRAINS, Integers


@dataclass(kw_only=True, eq=False)
class WEvent(Baseline):
    """Histograms of single slots; a new one is published only where it differs enough from the last.

    In every slot the mean distance (1/d)·Σ|o - c| between the last publication o and the counts c gets noise
    of scale 2w/(ε·d), at a cost of ε/(2w). If it is above 1/e, the error of a publication with budget e, the counts
    are published with noise 1/e; e comes from the second half of ε. The first slot is always published.
    """

    window: int = 20

    def _start(self) -> None:
        check_count(self.window, "window")
        self.unit_budget = self.rate / (2 * self.window)
        self._last = np.zeros(self.bins, dtype=np.int64)
        self._recent: deque[Fraction] = deque(maxlen=self.window - 1)
        self.spent = Fraction(0)
        """What the last slot's publication took of ε, as a share; 0 if there was none. Public."""

    @abstractmethod
    def _offer(self) -> Fraction:
        """The share of ε that a publication in this slot would have; 0 if there may be none."""

    def _step(self, grains: Integers) -> Floats:
        offer = self._offer()
        self.spent = Fraction(0)
        if offer and (self.slot == 1 or self._differs(grains, offer * self.rate)):
            self.spent = offer
            self._last = self._laplace(grains, 1 / self.budget)
        self._recent.append(self.spent)
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

    def loss(self, slots: int) -> Loss:
        """The tests of all slots but the first, and the most that publications can cost."""
        return Loss({self.unit_budget: slots - 1} if slots > 1 else {}, self._most(slots))

    @abstractmethod
    def _most(self, slots: int) -> Fraction:
        """A bound of what publications in so many slots cost."""

    @property
    def memory(self) -> int:
        """The last publication, and the budgets of a window."""
        return self.bins + len(self._recent) + 1
