"""The logarithmic mechanism: a running count that is released at powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts


@dataclass(kw_only=True, eq=False)
class Logarithmic(Baseline):
    """Prefix sums at slots 1, 2, 4, 8, …; between them the last release stands.

    **Guarantee.** ε-DP for one record. *Why:* the slots after 2^(k-1) up to 2^k are summed and noised once, with
    scale 1/ε; a record is in one such segment. (The published form is silent in between.)

    >>> counter = Logarithmic(epsilon=1000)
    >>> [round(float(counter.update(1)[0])) for _ in range(5)]
    [1, 2, 2, 4, 4]
    """

    facts: ClassVar[Facts] = Facts(
        source="Chan, Shi, Song, TISSEC 2011",
        releases="prefix",
        unit="one record",
        horizon="for ever",
        delta="none",
        memory="2 numbers a bin",
        variance="2·(K + 1)/ε² at t = 2^K, K = ⌊log₂ t⌋",
        user_loss="c·ε·2^K, exact",
        reconstructed="between powers of two the last release is repeated; the published form is silent there",
    )

    def _start(self) -> None:
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._released = np.zeros(self.bins)

    def _step(self, grains: Integers) -> Floats:
        self._segment = self._segment + grains
        if self.slot.bit_count() == 1:
            self._released = self._released + self._laplace(self._segment, 1 / self.rate) / GRAINS
            self._segment = np.zeros(self.bins, dtype=np.int64)
        return self._released

    def loss(self, slots: int) -> Loss:
        """Segments of 1, 1, 2, 4, … slots, each released once."""
        return Loss(segments(slots, 1 / self.rate))

    def variance(self, slot: int) -> float:
        """One noise for each segment; around the count at the last power of two."""
        return 2 * slot.bit_length() / float(self.rate) ** 2

    @property
    def memory(self) -> int:
        """The open segment and the last release."""
        return 2 * self.bins


def segments(slots: int, scale: Fraction) -> dict[Fraction, int]:
    """Ratios of the segments that end by a slot: 1, 1, 2, 4, … slots over the scale."""
    if slots < 1:
        return {}
    ratios = {Fraction(1) / scale: min(slots.bit_length(), 2)}
    ratios.update({Fraction(1 << k) / scale: 1 for k in range(1, slots.bit_length() - 1)})
    return ratios
