"""A private upper quantile by smooth sensitivity: the threshold of Perrier, Asghar and Kaafar."""

from __future__ import annotations

import math

import numpy as np

from dpi.errors import OptionError
from dpi_research.baselines.accounting import Floats


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
            if not 0 < value < 1:
                raise OptionError(f"`{name}` must be between 0 and 1. Got {value}.")
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
