"""Perrier, Asghar and Kaafar: learn a threshold from the first values, cut the rest to it, count with a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_delta
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.dyadic import DyadicTree, blocks
from dpi_research.baselines.prefixed import Prefixed
from dpi_research.baselines.quantile import QuantileThreshold


@dataclass(kw_only=True, eq=False)
class Perrier(Prefixed):
    """Prefix sums of values in 0 … `largest` with a light tail, one value in every slot.

    slots: the values that are released, after a warm-up of `prefix` values that are not.

    **Guarantee.** (ε, δ)-DP for one value: the threshold sees the first values only and is (ε, δ)-DP, the tree sees the
    others, each cut to the threshold τ, and is ε-DP with noise τ·L/ε. *A user* with values in every slot of the prefix
    has group privacy there, which is vacuous for any usual δ: `user_epsilon` is infinite unless δ is large enough.

    δ is 1/slots² unless given.

    >>> mechanism = Perrier(epsilon=1, slots=300, prefix=50, largest=100)
    >>> for value in range(50):
    ...     silent = mechanism.update(value % 5)
    >>> release = mechanism.update(3)
    >>> bool(np.isnan(silent[0])), bool(np.isnan(release[0])), mechanism.levels
    (True, False, 9)
    """

    facts: ClassVar[Facts] = Facts(
        source="Perrier, Asghar, Kaafar, NDSS 2019",
        releases="prefix",
        unit="one value (the whole count of a bin in a slot)",
        horizon="m + T slots, declared; the first m are not released",
        delta="1/T², for the first m values",
        memory="m values, then 2L numbers",
        variance="2·pop(t)·(τ·L/ε)², given τ; bias -Σ(x - τ)₊",
        user_loss="threshold: c·m·ε with c·m·e^((c·m-1)ε)·δ; tree: c·ε·B(t)/L, exact",
        reconstructed="constants κ and G and the defaults as in the authors' successors' repository",
    )

    quantile: float = 0.995
    failure: float = 0.006
    threshold_delta: float | None = None

    def _start(self) -> None:
        super()._start()
        check_count(self.slots, "slots", 2)
        self._quantile = QuantileThreshold(float(self.rate), self.delta, self.quantile, self.failure)
        self._values: list[int] = []
        self.levels = self.slots.bit_length()
        self.threshold: Fraction | None = None
        """τ, public once the prefix is over."""

    def _step(self, grains: Integers) -> Floats:
        if self.threshold is None:
            self._values.append(min(int(grains[0]), self.largest * GRAINS))
            if self.slot == self.prefix:
                self._learn()
            return np.array([np.nan])
        return self._tree.add(np.minimum(grains, int(self.threshold * GRAINS)))

    def _learn(self) -> None:
        noise = float(self._laplace(np.zeros(1, dtype=np.int64), Fraction(1))[0]) / GRAINS
        values = np.array(self._values) / GRAINS
        learned = self._quantile.threshold(values, float(self.largest), noise)
        # At least one grain, at most the largest value: both public, so the tree's scale is positive.
        units = min(max(1, math.ceil(learned * GRAINS)), self.largest * GRAINS)
        self.threshold = Fraction(units, GRAINS)
        self._values = []
        self._tree = DyadicTree(self.levels, 1, partial(self._laplace, scale=self.threshold * self.levels / self.rate))

    @property
    def delta(self) -> float:
        """The threshold's δ."""
        delta = 1 / self.slots**2 if self.threshold_delta is None else self.threshold_delta
        check_delta(delta)
        return delta

    def loss(self, slots: int) -> Loss:
        """The tree's part alone, for one value in each slot after the prefix."""
        after = max(0, slots - self.prefix)
        return Loss({Fraction(size) * self.rate / self.levels: count for size, count in blocks(after).items()})

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        if slots < self.prefix:
            return 0.0  # nothing is released yet
        size = float(records * self.prefix)
        exponent = (size - 1) * float(self.rate) + math.log(size * self.delta)
        needed = math.exp(exponent) if exponent < 0 else 1.0
        if delta is None or needed >= delta:
            return math.inf
        tree = self.loss(slots).scaled(records).epsilon(delta - needed)
        return size * float(self.rate) + tree

    def variance(self, slot: int) -> float | None:
        """Around the sum of the cut values; known once the threshold is public."""
        if self.threshold is None or slot <= self.prefix:
            return None
        scale = float(self.threshold * self.levels / self.rate)
        return 2 * (slot - self.prefix).bit_count() * scale**2

    @property
    def memory(self) -> int:
        """The prefix's values, then the tree."""
        return len(self._values) if self.threshold is None else self._tree.size
