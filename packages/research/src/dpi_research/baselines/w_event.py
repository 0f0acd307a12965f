"""What the two mechanisms of Kellaris et al. share: half of ε tests, in every slot, if the last release still fits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts, check_count
from dpi_research.baselines.window import Division


def facts(variance: str, user_loss: str, memory: str) -> Facts:
    """What is public about one of them."""
    return Facts(
        source="Kellaris, Papadopoulos, Xiao, Papadias, PVLDB 2014",
        releases="slot",
        unit="a window of w slots of a user, one record in each",
        horizon="for ever",
        delta="none",
        memory=memory,
        variance=variance,
        user_loss=user_loss,
        reconstructed="the first slot is always published; no shifting of budget between the halves",
    )


@dataclass(kw_only=True, eq=False)
class WEvent(Baseline):
    """Histograms of single slots; a new one is published only where it differs enough from the last.

    In every slot the mean distance (1/d)·Σ|o - c| between the last publication o and the counts c gets noise
    of scale 2w/(ε·d), at a cost of ε/(2w). If it is above 1/e, the error of a publication with budget e, the counts
    are published with noise 1/e; e comes from the second half of ε. The first slot is always published.
    """

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

    @property
    def memory(self) -> int:
        """The last publication, what it took, and what the division holds."""
        return self.bins + 1 + self._division.memory
