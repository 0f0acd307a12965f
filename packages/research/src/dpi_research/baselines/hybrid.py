"""The hybrid mechanism: a running count for ever, with noise that grows with the logarithm of time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts
from dpi_research.baselines.binary import laplace_sum_bound
from dpi_research.baselines.dyadic import DyadicTree, blocks
from dpi_research.baselines.logarithmic import segments


@dataclass(kw_only=True, eq=False)
class Hybrid(Baseline):
    """Prefix sums for ever: a logarithmic count at powers of two, and a fresh binary one after each.

    **Guarantee.** ε-DP for one record. *Why:* half of ε is spent on the segment of the logarithmic mechanism that holds
    the record; the other half on the tree that was started at the power of two before it. After t = 2^K that tree runs
    for less than 2^K slots, so K levels of noise 2K/ε are enough.

    >>> counter = Hybrid(epsilon=1000)
    >>> [round(float(counter.update(1)[0])) for _ in range(6)]
    [1, 2, 3, 4, 5, 6]
    >>> Hybrid(epsilon=1).user_epsilon(8), Hybrid(epsilon=1).variance(5)
    (5.5, 56.0)
    """

    facts: ClassVar[Facts] = Facts(
        source="Chan, Shi, Song, TISSEC 2011",
        releases="prefix",
        unit="one record",
        horizon="for ever",
        delta="none",
        memory="2K + 2 numbers a bin, K = ⌊log₂ t⌋",
        variance="(8/ε²)·[(K + 1) + K²·pop(t - 2^K)]",
        user_loss="c·ε·[3·2^K/4 - 1/2 + B(t - 2^K)/(2K)], exact; c·ε/2 at t = 1",
        reconstructed="nothing",
    )

    def _start(self) -> None:
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._base = np.zeros(self.bins)
        self._tree = self._new_tree(0)

    def _new_tree(self, levels: int) -> DyadicTree:
        return DyadicTree(levels, self.bins, partial(self._laplace, scale=2 * Fraction(levels) / self.rate))

    def _step(self, grains: Integers) -> Floats:
        self._segment = self._segment + grains
        if self.slot.bit_count() > 1:
            return self._base + self._tree.add(grains)
        self._base = self._base + self._laplace(self._segment, 2 / self.rate) / GRAINS
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._tree = self._new_tree(self.slot.bit_length() - 1)
        return self._base

    def loss(self, slots: int) -> Loss:
        """The segments, and the blocks of every tree so far."""
        ratios = segments(slots, 2 / self.rate)
        for level in range(1, slots.bit_length()):
            length = min(slots, (2 << level) - 1) - (1 << level)
            for size, count in blocks(length).items():
                ratio = size * self.rate / (2 * level)
                ratios[ratio] = ratios.get(ratio, 0) + count
        return Loss(ratios)

    def scales(self, slot: int) -> list[float]:
        """The scales of the noises that a release is the sum of."""
        level = slot.bit_length() - 1
        rate = float(self.rate)
        return [2 / rate] * (level + 1) + [2 * level / rate] * (slot - (1 << level)).bit_count()

    def variance(self, slot: int) -> float:
        """The sum over all noises in a release."""
        return 2 * sum(scale**2 for scale in self.scales(slot))

    def error_bound(self, slot: int, beta: float) -> float:
        """A release is off by more than this with probability at most β."""
        return laplace_sum_bound(self.scales(slot), beta)

    @property
    def memory(self) -> int:
        """The open segment, the base, and the tree."""
        return 2 * self.bins + self._tree.size
