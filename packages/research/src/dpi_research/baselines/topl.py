"""ToPL of Wang et al.: the local-model twin of ToPS; every value is randomised by its owner.

Floating-point randomness with 53 bits, as published: the guarantees hold for ideal real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpi.exact.integers import GRAINS
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Prefixed, check_count

Uniform = Callable[[], float]
"""Draws a number in [0, 1)."""

_MOST_ROUNDS = 2_000
"""Of expectation maximisation: with few reports it creeps."""

PIECEWISE_FROM = 0.61
"""Below this ε the hybrid report is Duchi's alone."""


class SquareWave:
    """Square-wave reports of values in [0, 1]: density p within half a width of the value, q elsewhere, p = e^ε·q.

    >>> wave = SquareWave(1.0)
    >>> round(wave.width, 4), round(wave.p / wave.q, 4), round(wave.width * wave.p + wave.q, 9)
    (0.5122, 2.7183, 1.0)
    """

    def __init__(self, epsilon: float) -> None:
        power = math.exp(epsilon)
        self.width = (epsilon * power - power + 1) / (power * (power - 1 - epsilon))
        self.q = 1 / (self.width * power + 1)
        self.p = power * self.q

    def report(self, value: float, uniform: Uniform) -> float:
        """A report in [-w/2, 1 + w/2]."""
        half = self.width / 2
        if uniform() < self.p * self.width:
            return value - half + self.width * uniform()
        elsewhere = uniform()  # the rest has length one: [-w/2, v - w/2) and (v + w/2, 1 + w/2]
        return elsewhere - half if elsewhere < value else elsewhere + half

    def transition(self, bins: int) -> Floats:
        """P(report in bin i | value at the centre of bin j), both grids of this many bins."""
        half = self.width / 2
        borders = np.linspace(-half, 1 + half, bins + 1)[:, None]
        centres = (np.arange(bins) + 0.5)[None, :] / bins
        near = np.clip(borders, centres - half, centres + half)
        return np.asarray(self.q * np.diff(borders, axis=0) + (self.p - self.q) * np.diff(near, axis=0))

    def estimate(self, reports: Floats, bins: int = 1024, stop: float = 1e-3) -> Floats:
        """The values' distribution over [0, 1] by expectation maximisation, until the log-likelihood gains < `stop`."""
        half = self.width / 2
        places = np.clip(((reports + half) / (1 + self.width) * bins).astype(np.int64), 0, bins - 1)
        seen = np.bincount(places, minlength=bins).astype(float)
        law = self.transition(bins)
        shares = np.full(bins, 1 / bins)
        likelihood = -math.inf
        for _ in range(_MOST_ROUNDS):
            predicted = law @ shares
            gain = float(seen @ np.log(predicted)) - likelihood
            if gain < stop:
                break
            likelihood += gain
            shares = shares * (law.T @ (seen / predicted))
            shares /= shares.sum()
        return shares


def without_tail(shares: Floats, smallest: float = 1e-4, run: int = 5) -> Floats:
    """Shares below `smallest` become 0, and so does everything after the first `run` zeros in a row.

    >>> without_tail(np.array([0.5, 0.4, 0, 0, 0, 0, 0, 0.1])).tolist()
    [0.5, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    kept = np.where(shares < smallest, 0.0, shares)
    zeros = 0
    for i, share in enumerate(kept):
        zeros = zeros + 1 if share == 0 else 0
        if zeros == run:
            kept[i:] = 0
            break
    return np.asarray(kept)


class HybridReport:
    """Unbiased reports of values in [-1, 1]: piecewise with probability 1 - e^(-ε/2), else Duchi's two points.

    Above ε = 0.61 the variance is the same for every value; below, Duchi's is largest at 0.

    >>> round(HybridReport(1.0).variance, 3), round(HybridReport(0.5).variance, 3)
    (4.289, 16.671)
    """

    def __init__(self, epsilon: float) -> None:
        self._root = math.exp(epsilon / 2)
        power = math.exp(epsilon)
        self.piecewise = 1 - 1 / self._root if epsilon > PIECEWISE_FROM else 0.0
        self._two_points = (power + 1) / (power - 1)
        duchi = self._two_points**2
        root = self._root
        self.variance = (root + 3) / (3 * root * (root - 1)) + duchi / root if self.piecewise else duchi
        """The largest variance over all values."""

    def report(self, value: float, uniform: Uniform) -> float:
        """A report whose mean is the value."""
        if uniform() < self.piecewise:
            return self._piecewise(value, uniform)
        return self._two_points if uniform() < (1 + value / self._two_points) / 2 else -self._two_points

    def _piecewise(self, value: float, uniform: Uniform) -> float:
        top = (self._root + 1) / (self._root - 1)
        left = (top + 1) / 2 * value - (top - 1) / 2
        right = left + top - 1
        if uniform() < self._root / (self._root + 1):
            return left + (right - left) * uniform()
        place = -top + (top + 1) * uniform()  # [-C, l) and (r, C] have length C + 1 together
        return place if place < left else place + (right - left)


class ToPL(Prefixed):
    """Prefix sums of values in 0 … `largest`, one value in every slot, from local reports.

    slots: the values that are summed, after a warm-up of `prefix` values that are used for the threshold.

    **Guarantee.** ε-LDP for one value (in ideal arithmetic): each is reported once, by the square wave in the prefix
    and by the hybrid report after it. The threshold is made of reports.

    >>> mechanism = ToPL(epsilon=2, slots=10, prefix=500, largest=100, grid=64)
    >>> for value in range(500):
    ...     _ = mechanism.update(value % 20)
    >>> bool(np.isfinite(mechanism.update(3)[0])), 0 < mechanism.threshold <= 100
    (True, True)
    """

    held = ("_values", "_sum")

    grid: int = 1024

    def _start(self) -> None:
        super()._start()
        check_count(self.grid, "grid", 8)
        self._wave = SquareWave(float(self.rate))
        self._report = HybridReport(float(self.rate))
        self._sum = 0.0
        self.threshold: float | None = None
        """θ, public once the prefix is over."""

    def _uniform(self) -> float:
        return int(self._source.words(1)[0] >> np.uint64(11)) * 2.0**-53

    def _value(self, grains: int) -> float:
        return min(grains / GRAINS, float(self.largest))

    def _keep(self, grains: int) -> float:
        return self._wave.report(self._value(grains) / self.largest, self._uniform)

    def _learn(self) -> None:
        shares = self._wave.estimate(np.array(self._values), self.grid)
        self.threshold = self.best_threshold(without_tail(shares))

    def _count(self, grains: int) -> float:
        assert self.threshold is not None  # noqa: S101 - the prefix is over
        scaled = 2 * min(self._value(grains), self.threshold) / self.threshold - 1
        self._sum += (self._report.report(scaled, self._uniform) + 1) * self.threshold / 2
        return self._sum

    def best_threshold(self, shares: Floats) -> float:
        """The θ that minimises n·v·θ²/3 + (n²/24)·(Σ_{x>θ} f(x)·(x - θ))²: noise against what is cut off."""
        values = (np.arange(self.grid) + 1) * self.largest / self.grid
        above = np.maximum(values[None, :] - values[:, None], 0) @ shares
        cost = self.slots * self._report.variance * values**2 / 3 + self.slots**2 / 24 * above**2
        return float(values[int(np.argmin(cost))])

    def loss(self, slots: int) -> Loss:
        """One report for every value."""
        return Loss(pure=slots * self.rate)

    def variance(self, slot: int) -> float | None:
        """The largest, around the sum of the cut values; known once the threshold is public."""
        if self.threshold is None or slot <= self.prefix:
            return None
        return (slot - self.prefix) * (self.threshold / 2) ** 2 * self._report.variance
