"""The plain noisy histogram: fresh Laplace noise in every slot. The yardstick of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts


@dataclass(kw_only=True, eq=False)
class NoisyHistogram(Baseline):
    """Counts of single slots, each with noise of scale 1/ε.

    **Guarantee.** ε-DP for one record: it moves one bin of one slot by one.

    >>> [round(x) for x in NoisyHistogram(epsilon=1000, bins=2).update([3, 4]).tolist()]
    [3, 4]
    """

    facts: ClassVar[Facts] = Facts(
        source="Dwork, McSherry, Nissim, Smith, TCC 2006",
        releases="slot",
        unit="one record",
        horizon="for ever",
        delta="none",
        memory="0",
        variance="2/ε²",
        user_loss="c·t·ε, exact",
        reconstructed="nothing",
    )

    def _start(self) -> None:
        pass

    def _step(self, grains: Integers) -> Floats:
        return self._laplace(grains, 1 / self.rate) / GRAINS

    def loss(self, slots: int) -> Loss:
        """One release a slot."""
        return Loss({self.rate: slots})

    def variance(self, slot: int) -> float:
        """The same in every slot."""
        return 2 / float(self.rate) ** 2

    @property
    def memory(self) -> int:
        """Nothing is kept."""
        return 0
