"""ToPL of Wang et al.: the local-model twin of ToPS; every value is randomised by its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.local import HybridReport, SquareWave, without_tail
from dpi_research.baselines.prefixed import Prefixed


@dataclass(kw_only=True, eq=False)
class ToPL(Prefixed):
    """Prefix sums of values in 0 … `largest`, one value in every slot, from local reports.

    slots: the values that are summed, after a warm-up of `prefix` values that are used for the threshold.

    **Guarantee.** ε-LDP for one value (in ideal arithmetic): each is reported once, by the square wave in the prefix
    and by the hybrid report after it. The threshold is made of reports.

    >>> mechanism = ToPL(epsilon=2, slots=10, prefix=500, largest=100, grid=64)
    >>> for value in range(500):
    ...     _ = mechanism.update(value % 20)
    >>> bool(np.isfinite(mechanism.update(3)[0])), 0 < mechanism.threshold <= 100
    (True, True)
    """

    facts: ClassVar[Facts] = Facts(
        source="Wang, Chen, Zhang, Su, Cheng, Li, Jha, CCS 2021",
        releases="prefix",
        unit="one value, local model",
        horizon="m + T slots, declared; the first m are not released",
        delta="none",
        memory="m reports, then 1 number",
        variance="at most t·(θ/2)²·v(ε), exact for ε > 0.61; v the hybrid report's variance",
        user_loss="c·t·ε",
        reconstructed="floating-point reports; the repository's wrong rescaling of the piecewise report not followed",
    )

    grid: int = 1024

    def _start(self) -> None:
        super()._start()
        check_count(self.grid, "grid", 8)
        self._wave = SquareWave(float(self.rate))
        self._report = HybridReport(float(self.rate))
        self._reports: list[float] = []
        self._sum = 0.0
        self.threshold: float | None = None
        """θ, public once the prefix is over."""

    def _uniform(self) -> float:
        return int(self._source.words(1)[0] >> np.uint64(11)) * 2.0**-53

    def _step(self, grains: Integers) -> Floats:
        value = min(int(grains[0]) / GRAINS, float(self.largest))
        if self.threshold is None:
            self._reports.append(self._wave.report(value / self.largest, self._uniform))
            if self.slot == self.prefix:
                shares = self._wave.estimate(np.array(self._reports), self.grid)
                self.threshold = self.best_threshold(without_tail(shares))
                self._reports = []
            return np.array([np.nan])
        scaled = 2 * min(value, self.threshold) / self.threshold - 1
        self._sum += (self._report.report(scaled, self._uniform) + 1) * self.threshold / 2
        return np.array([self._sum])

    def best_threshold(self, shares: Floats) -> float:
        """The θ that minimises n·v·θ²/3 + (n²/24)·(Σ_{x>θ} f(x)·(x - θ))²: noise against what is cut off."""
        values = (np.arange(self.grid) + 1) * self.largest / self.grid
        above = np.maximum(values[None, :] - values[:, None], 0) @ shares
        cost = self.slots * self._report.variance * values**2 / 3 + self.slots**2 / 24 * above**2
        return float(values[int(np.argmin(cost))])

    def loss(self, slots: int) -> Loss:
        """One report for every value."""
        return Loss(pure=slots * self.rate)

    def variance(self, slot: int) -> float | None:
        """The largest, around the sum of the cut values; known once the threshold is public."""
        if self.threshold is None or slot <= self.prefix:
            return None
        return (slot - self.prefix) * (self.threshold / 2) ** 2 * self._report.variance

    @property
    def memory(self) -> int:
        """The prefix's reports, then the sum."""
        return len(self._reports) + 1
