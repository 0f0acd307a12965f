"""The two yardsticks: fresh noise in every slot, and the authors' public demo, which never sees the data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpi.budget.epsilon import Amount
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, check_count


class NoisyHistogram(Baseline):
    """Counts of single slots, each with noise of scale 1/ε.

    **Guarantee.** ε-DP for one record: it moves one bin of one slot by one.

    >>> [round(x) for x in NoisyHistogram(epsilon=1000, bins=2).update([3, 4]).tolist()]
    [3, 4]
    """

    def _step(self, grains: Integers) -> Floats:
        return self._laplace(grains, 1 / self.rate) / GRAINS

    def loss(self, slots: int) -> Loss:
        """One release a slot."""
        return Loss({self.rate: slots})

    def variance(self, slot: int) -> float:
        """The same in every slot."""
        return 2 / float(self.rate) ** 2


class Demo(Baseline):
    """The mean of `draws` fresh multinomials of `units` units over equally likely bins, in every slot.

    **Guarantee.** 0-DP: no data are looked at, whatever ε is declared. Kept as a comparator: a mechanism that learns
    less than this learns nothing.

    >>> release = Demo(bins=4).update([1000, 0, 0, 0])
    >>> round(float(release.sum())), Demo(bins=4).user_epsilon(100)
    (100, 0.0)
    """

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
