"""What the authors' public demo of DPI releases: an average of random synopses that never saw the data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.budget.epsilon import Amount
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts, check_count


@dataclass(kw_only=True, eq=False)
class Demo(Baseline):
    """The mean of `draws` fresh multinomials of `units` units over equally likely bins, in every slot.

    **Guarantee.** 0-DP: no data are looked at, whatever ε is declared. Kept as a comparator: a mechanism that learns
    less than this learns nothing.

    >>> release = Demo(bins=4).update([1000, 0, 0, 0])
    >>> round(float(release.sum())), Demo(bins=4).user_epsilon(100)
    (100, 0.0)
    """

    facts: ClassVar[Facts] = Facts(
        source="public demo of Feng et al., S&P 2024",
        releases="slot",
        unit="everything: no data are used",
        horizon="for ever",
        delta="none",
        memory="0",
        variance="(n/N)·(1/K)(1 - 1/K), n units, N draws, around n/K",
        user_loss="0, exact",
        reconstructed="in our own words; units n = 1/p for the precision p = 0.01",
    )

    epsilon: Amount = 1
    draws: int = 20
    units: int = 100

    def _start(self) -> None:
        check_count(self.draws, "draws")
        check_count(self.units, "units")

    def _step(self, grains: Integers) -> Floats:
        rng = np.random.default_rng(self._source.words(4))
        return np.asarray(rng.multinomial(self.units, np.full(self.bins, 1 / self.bins), self.draws).mean(axis=0))

    @property
    def event_epsilon(self) -> float:
        """Nothing is lost."""
        return 0.0

    def loss(self, slots: int) -> Loss:
        """Nothing is lost."""
        return Loss(pure=Fraction(0))

    def variance(self, slot: int) -> float:
        """Of the mean of multinomials, around n/K."""
        return self.units / self.draws * (1 / self.bins) * (1 - 1 / self.bins)

    @property
    def memory(self) -> int:
        """Nothing is kept."""
        return 0
