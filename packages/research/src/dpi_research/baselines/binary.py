"""The binary mechanism: a running count with noise that grows with the logarithm of a known number of slots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts, check_count
from dpi_research.baselines.dyadic import DyadicTree, blocks


@dataclass(kw_only=True, eq=False)
class Binary(Baseline):
    """Prefix sums of up to `slots` slots from noisy sums of dyadic blocks.

    **Guarantee.** ε-DP for one record. *Why:* slot s lies in at most one block of each of the L = ⌊log₂ T⌋ + 1 sizes,
    and each block has Laplace noise of scale L/ε. The published scale is log₂(T)/ε, which is one level short when T is
    a power of two: slot 1 then loses ε·(log₂ T + 1)/log₂ T.

    *A user* with c records in each of t slots moves the block that ends at s by c·low(s) with low(s) its size: the
    loss is c·(ε/L)·Σ low(s), attained.

    >>> counter = Binary(epsilon=1000, slots=4)
    >>> [round(float(counter.update(1)[0])) for _ in range(4)]
    [1, 2, 3, 4]
    >>> counter.user_epsilon(4), counter.variance(3)
    (2666.6666666666665, 3.6e-05)
    """

    facts: ClassVar[Facts] = Facts(
        source="Chan, Shi, Song, TISSEC 2011",
        releases="prefix",
        unit="one record",
        horizon="T slots, declared",
        delta="none",
        memory="2L numbers a bin, L = ⌊log₂ T⌋ + 1",
        variance="2·pop(t)·L²/ε², pop(t) the set bits of t",
        user_loss="c·ε·B(t)/L, exact; B(t) = Σ_{s≤t} low(s)",
        reconstructed="L in place of the published log₂ T, which is a level short at powers of two",
    )

    slots: int

    def _start(self) -> None:
        check_count(self.slots, "slots")
        self.levels = self.slots.bit_length()
        self.scale = self.levels / self.rate
        self._tree = DyadicTree(self.levels, self.bins, partial(self._laplace, scale=self.scale))

    def _step(self, grains: Integers) -> Floats:
        return self._tree.add(grains)

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    def loss(self, slots: int) -> Loss:
        """One block of each size, moved by its size."""
        return Loss({Fraction(size) / self.scale: count for size, count in blocks(slots).items()})

    def variance(self, slot: int) -> float:
        """One noise for every set bit of the slot's number."""
        return 2 * slot.bit_count() * float(self.scale) ** 2

    def error_bound(self, slot: int, beta: float) -> float:
        """A release is off by more than this with probability at most β."""
        return laplace_sum_bound([float(self.scale)] * slot.bit_count(), beta)

    @property
    def memory(self) -> int:
        """Two numbers a level and bin."""
        return self._tree.size


def laplace_sum_bound(scales: list[float], beta: float) -> float:
    """A bound ν·√(8·ln(2/β)) that a sum of independent Laplace noises exceeds with probability at most β.

    With ν = max(√Σb², b_max·√ln(2/β)) (Chan, Shi, Song, Corollary 2.9).
    """
    if not 0 < beta < 1:
        raise OptionError(f"`beta` must be between 0 and 1. Got {beta}.")
    log = math.log(2 / beta)
    spread = max(math.sqrt(sum(b * b for b in scales)), max(scales, default=0.0) * math.sqrt(log))
    return spread * math.sqrt(8 * log)
