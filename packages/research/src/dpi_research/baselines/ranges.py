"""Range counts over an ordered domain: a counter for every node of a dyadic tree on the domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts
from dpi_research.baselines.hybrid import Hybrid


@dataclass(kw_only=True, eq=False)
class RangeCounter(Baseline):
    """Prefix sums of all ranges of bins, for ever.

    **Guarantee.** ε-DP for one record. *Why:* the record's bin lies in one node of each of H = ⌈log₂ K⌉ + 1 levels, and
    each node has a hybrid counter with ε/H. A range is the sum of at most 2(H - 1) nodes.

    >>> counter = RangeCounter(epsilon=1000, bins=6)
    >>> _ = counter.update([1, 2, 3, 4, 5, 6])
    >>> round(counter.range(1, 5)), counter.nodes(1, 5)
    (14, [(0, 1), (0, 4), (1, 1)])
    """

    facts: ClassVar[Facts] = Facts(
        source="Chan, Shi, Song, TISSEC 2011",
        releases="prefix",
        unit="one record",
        horizon="for ever",
        delta="none",
        memory="that of the hybrid counter for 2K nodes",
        variance="a bin: hybrid with ε/H, H = ⌈log₂ K⌉ + 1; a range: at most 2(H - 1) times that",
        user_loss="that of hybrid, exact",
        reconstructed="nothing; one dimension only",
    )

    def _start(self) -> None:
        self.levels = (self.bins - 1).bit_length() + 1
        leaves = 1 << (self.levels - 1)
        share = self.rate / self.levels
        self._counter = Hybrid(epsilon=share, bins=2 * leaves - 1, unsafe_source=self._source)
        self._leaves = leaves
        self._released: Floats | None = None

    def _step(self, grains: Integers) -> Floats:
        level = np.zeros(self._leaves, dtype=np.int64)
        level[: self.bins] = grains
        levels = [level]
        while level.size > 1:
            level = level[0::2] + level[1::2]
            levels.append(level)
        self._released = self._counter.advance(np.concatenate(levels))
        return self._released[: self.bins]

    def nodes(self, low: int, high: int) -> list[tuple[int, int]]:
        """Levels and places of the nodes that make up the bins low … high - 1; leaves are level 0."""
        if not 0 <= low < high <= self.bins:
            raise OptionError(f"a range must satisfy 0 <= low < high <= {self.bins}. Got {low}, {high}.")
        found, level = [], 0
        while low < high:
            if low & 1:
                found.append((level, low))
                low += 1
            if high & 1:
                high -= 1
                found.append((level, high))
            low, high, level = low >> 1, high >> 1, level + 1
        return found

    def range(self, low: int, high: int) -> float:
        """The released count of bins low … high - 1, over all slots so far."""
        if self._released is None:
            raise OptionError("nothing is released yet: call `update` first.")
        places = [self._place(level, place) for level, place in self.nodes(low, high)]
        return float(self._released[places].sum())

    def _place(self, level: int, place: int) -> int:
        return 2 * self._leaves - (2 * self._leaves >> level) + place

    def loss(self, slots: int) -> Loss:
        """In every level one node moves as the whole count would: H times the loss of a counter with ε/H."""
        return Loss({ratio: count * self.levels for ratio, count in self._counter.loss(slots).shifts.items()})

    def variance(self, slot: int) -> float:
        """Of one bin."""
        return self._counter.variance(slot)

    def range_variance(self, low: int, high: int, slot: int) -> float:
        """Of the range low … high - 1."""
        return len(self.nodes(low, high)) * self._counter.variance(slot)

    @property
    def memory(self) -> int:
        """The counters, and the last release."""
        return self._counter.memory + 2 * self._leaves - 1
