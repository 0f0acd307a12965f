"""Time to release: do neighbouring streams take about as long?

A slot is published at a fixed public delay, so the time that the program took is not seen. This is a second line: if
it were seen, would one ordinary user show? A user with very many rows does: work grows with rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi_audit.confidence import incomplete_beta

Floats = npt.NDArray[np.float64]
ERROR = 1e-6
_RESAMPLED = 200
_POWER = 0.9


@dataclass(frozen=True)
class Timing:
    """Medians of the two streams, an interval for their ratio, and what the test would have seen."""

    seconds: tuple[float, float]
    ratio: tuple[float, float]
    """Wrong with probability at most `error`."""
    factor: float
    """Medians are to lie within this factor of each other."""
    power: float
    """The smallest true factor that the test finds in at least nine of ten repetitions; infinite if there is none."""
    error: float = ERROR

    @property
    def apart(self) -> bool:
        """Whether the medians are certainly further apart than `factor`."""
        return self.ratio[0] > self.factor or self.ratio[1] < 1 / self.factor


def time_to_release(run: Callable[[bool], object], *, repeats: int = 60, factor: float = 1.5, seed: int = 0) -> Timing:
    """Time `run(with_user)` in a random order, so that a drift of the machine hits both streams alike."""
    chance = np.random.default_rng(seed)
    order = chance.permutation(np.repeat([True, False], repeats))
    for side in (True, False):
        run(side)
    taken: dict[bool, list[float]] = {True: [], False: []}
    for side in order:
        start = time.perf_counter()
        run(bool(side))
        taken[bool(side)].append(time.perf_counter() - start)
    one, other = np.array(taken[True]), np.array(taken[False])
    medians = float(np.median(one)), float(np.median(other))
    return Timing(medians, _interval(one, other), factor, _power(one, other, factor, chance))


def _interval(one: Floats, other: Floats) -> tuple[float, float]:
    """An interval for the ratio of medians, from order statistics of each sample: no law of times is assumed."""
    (a, b), (c, d) = (_median_interval(sample) for sample in (one, other))
    return a / d, b / c


def _median_interval(sample: Floats) -> tuple[float, float]:
    """The k-th smallest and largest time, with k as large as 2·P(Binomial(n, ½) < k) ≤ error/2 allows."""
    ordered, k = np.sort(sample), 0
    # P(Binomial(n, ½) ≤ k) = I_½(n - k, k + 1)
    while k + 1 < sample.size // 2 and 4 * incomplete_beta(sample.size - k, k + 1, 0.5) <= ERROR:
        k += 1
    at = max(k - 1, 0)
    return float(ordered[at]), float(ordered[-1 - at])


def _power(one: Floats, other: Floats, factor: float, chance: np.random.Generator) -> float:
    """Resample from the second stream's times, slow one side down, and see when the test says so."""
    pooled = np.concatenate([one / np.median(one), other / np.median(other)])
    for true in factor * 1.1 ** np.arange(1, 30):
        found = 0
        for _ in range(_RESAMPLED):
            slow, plain = (chance.choice(pooled, size=x.size) for x in (one, other))
            found += _interval(slow * true, plain)[0] > factor
        if found >= _POWER * _RESAMPLED:
            return float(true)
    return math.inf
