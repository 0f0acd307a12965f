"""Perrier, Asghar and Kaafar: learn a threshold from the first values, cut the rest to it, count with a tree."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Prefixed, check_count
from dpi_research.baselines.counters import DyadicTree, blocks


def smooth_sensitivity(values: Floats, largest: float, rank: int, decay: float) -> float:
    """Smooth sensitivity of the order statistic x_(rank) of values in 0 … largest.

    max_k e^(-decay·k)·max_{0 ≤ j ≤ k+1} (x_(rank+j) - x_(rank+j-k-1)), with x_(i) = 0 before the first and `largest`
    after the last. The inner term is at most `largest`, so the search ends where e^(-decay·k)·largest cannot win.

    >>> smooth_sensitivity(np.array([1.0, 2.0, 3.0, 4.0]), largest=10, rank=2, decay=100.0)
    1.0
    """
    count = values.size
    ordered = np.concatenate([np.zeros(count + 1), np.sort(values), np.full(count + 1, float(largest))])
    centre = count + rank  # the place of x_(rank)
    best = 0.0
    for k in range(count + 1):
        factor = math.exp(-decay * k)
        if factor * largest <= best:
            break
        high = np.arange(centre, centre + k + 2)
        inside = ordered[np.minimum(high, ordered.size - 1)] - ordered[np.maximum(high - k - 1, 0)]
        best = max(best, factor * float(inside.max()))
    return best


class QuantileThreshold:
    """The noisy quantile's public constants.

    epsilon, delta: the guarantee of the threshold.
    quantile: which one; failure: the probability that the threshold falls below it through noise.

    **Guarantee.** (ε, δ)-DP for one value. *Why:* with a = ε/2 and decay b = ε/(2·ln(1/δ)), noise Lap(1)·S/a with S the
    b-smooth sensitivity is (ε, δ)-DP (Nissim, Raskhodnikova, Smith 2007). The noise is scaled by a number made from the
    data, in floating point; it is as published, not exact like the other noise of this package.
    """

    def __init__(self, epsilon: float, delta: float, quantile: float = 0.995, failure: float = 0.006) -> None:
        for name, value in (("delta", delta), ("quantile", quantile), ("failure", 2 * failure)):
            check_between(value, name)
        self.quantile = quantile
        self.decay = epsilon / (2 * math.log(1 / delta))
        self.admissible = epsilon / 2
        self.offset = math.log(1 / (2 * failure))
        """The 1 - failure quantile of Lap(1)."""
        slack = 1 - math.expm1(self.decay) * self.offset / self.admissible
        if slack <= 0:
            raise OptionError("`delta` is too large for `failure`: make `delta` smaller.")
        self.factor = 1 / slack

    def rank(self, count: int) -> int:
        """The rank of the quantile among so many values."""
        return math.floor(self.quantile * count)

    def threshold(self, values: Floats, largest: float, noise: float) -> float:
        """The noisy upper quantile, for a draw of Lap(1)."""
        rank = self.rank(values.size)
        sensitivity = smooth_sensitivity(values, largest, rank, self.decay)
        middle = float(np.sort(values)[rank - 1]) if rank else 0.0
        shifted = middle + self.factor * sensitivity / self.admissible * (noise + self.offset)
        return max(0.0, shifted)


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

    held = ("_values", "_tree")

    quantile: float = 0.995
    failure: float = 0.006
    threshold_delta: float | None = None

    def _start(self) -> None:
        super()._start()
        check_count(self.slots, "slots", 2)
        self._quantile = QuantileThreshold(float(self.rate), self.delta, self.quantile, self.failure)
        self.levels = self.slots.bit_length()
        self.threshold: Fraction | None = None
        """τ, public once the prefix is over."""

    def _learn(self) -> None:
        noise = float(self._laplace(np.zeros(1, dtype=np.int64), Fraction(1))[0]) / GRAINS
        values = np.minimum(self._values, self.largest * GRAINS) / GRAINS
        learned = self._quantile.threshold(values, float(self.largest), noise)
        # At least one grain, at most the largest value: both public, so the tree's scale is positive.
        units = min(max(1, math.ceil(learned * GRAINS)), self.largest * GRAINS)
        self.threshold = Fraction(units, GRAINS)
        self._tree = DyadicTree(self.levels, 1, partial(self._laplace, scale=self.threshold * self.levels / self.rate))

    def _count(self, grains: int) -> float:
        assert self.threshold is not None  # noqa: S101 - the prefix is over
        return float(self._tree.add(np.array([min(grains, int(self.threshold * GRAINS))]))[0])

    @property
    def delta(self) -> float:
        """The threshold's δ."""
        delta = 1 / self.slots**2 if self.threshold_delta is None else self.threshold_delta
        check_between(delta, "delta")
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
