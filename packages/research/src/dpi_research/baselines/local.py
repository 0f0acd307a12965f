"""Reports of the local model: each value is randomised by its owner, before anybody collects it.

Floating-point randomness with 53 bits, as published: the guarantees hold for ideal real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpi_research.baselines.accounting import Floats

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
