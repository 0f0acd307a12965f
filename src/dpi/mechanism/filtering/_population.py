"""The population of levels: how many bins are of which size, and what a message means to one who knows that.

Most bins of a large domain are small, and a noisy message alone cannot tell a small bin from an empty one. The messages
of all bins together tell how levels are distributed, and each bin is then read under that prior (nonparametric
empirical Bayes: Robbins 1956; Kiefer and Wolfowitz 1956). A level is a Gaussian of relative width `WIDTH` around a
point of a logarithmic grid, so that a reading is a finite mixture, tabulated once a slot in (log variance, mean /
deviation).

Sees messages only: sums of measurements after noise. No histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.mechanism.filtering._gaussians import Floats, Gaussians, blocks

STEP = 0.3
"""Distance of neighbouring levels, in logarithm. Source: by trial."""
WIDTH = 0.12
"""Relative deviation of the levels around a grid point. Source: by trial."""
SMALLEST = 1e-3
"""The smallest level, as a share of the uniform one. Source: by trial."""
SPREAD = 1.5
"""Deviation of the logarithm of a level before anything was seen. Source: by trial."""
INERTIA = 0.02
"""Share of that initial population that is always kept. Source: by trial."""
STEPS = 3
"""Steps of expectation maximisation a slot; the previous slot's population is where they start. Source: by trial."""
TILT = 0.4
"""Share of the mass by which weak bins are over- or underestimated that is corrected in one slot. Source: by trial."""

Singles = npt.NDArray[np.float32]
"""Places in a table and what is read there, in units of the message: single precision is twice as fast."""
_TINY = 1e-30
"""The least that is kept apart from zero; single precision ends at 10⁻³⁸. Source: by calculation."""
_NODES = np.arange(-5, 10.01, 0.25)
_NEAR, _FAR = float(_NODES[0]), float(_NODES[-1])
_PER_NODE = 4
_ROWS = 36
"""The grid of the table in which messages are read: ratios of mean to deviation, how many to one, and variances.
Source: by trial."""
_BLOCK = 1 << 15
"""Messages that are read at a time, of one expert. Source: by trial."""
_STEPS = (0.25, 0.5, 1.0, 2.0)
"""Distances of rows, in log variance, among which a table at round places has the smallest that reaches far enough.
Source: by trial."""


def grid_levels(bins: int) -> Floats:
    """Return the grid of levels for a domain, from a thousandth of the uniform probability to one."""
    return np.asarray(np.exp(np.arange(np.log(SMALLEST / bins), STEP, STEP)))


def initial_population(bins: int) -> Floats:
    """Shares of the levels before anything was seen: log-normal, with the uniform probability as its mean."""
    log = np.log(grid_levels(bins) * bins)
    shares = np.exp(-0.5 * ((log + 0.5 * SPREAD**2) / SPREAD) ** 2) + 1e-4 / log.size
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, eq=False)
class Readout:
    """Posterior mean and variance of a level, given a message, under a population: a table, read bilinearly.

    Rows are log variances of the message from `first` in steps of `step`; columns are means in units of the deviation.
    `likelihood` is that of every level at every node; `moments` has the coefficients (`_corners`) of mean and variance,
    in units of the message's deviation and variance.
    """

    population: Floats
    first: float
    step: float
    likelihood: Floats
    moments: Singles

    @classmethod
    def tabulate(cls, population: Floats, bins: int, narrowest: float, widest: float) -> Readout:
        """Return the table for messages with variances between `narrowest` and `widest`."""
        first = float(np.log(narrowest))
        step = max((float(np.log(widest)) - first) / (_ROWS - 1), 1e-3)
        return cls.of(population, _nodes(bins, first, step), first, step)

    @classmethod
    def snapped(cls, population: Floats, bins: int, narrowest: float, widest: float) -> Readout:
        """Put rows at round places, so that many slots share what does not depend on the population."""
        low = float(np.log(narrowest))
        step = next((s for s in _STEPS if (_ROWS - 3) * s >= float(np.log(widest)) - low), _STEPS[-1])
        first = step * float(np.floor(low / step / 2) * 2)
        return _under(population.tobytes(), bins, first, step)

    @classmethod
    def of(cls, population: Floats, nodes: Nodes, first: float, step: float) -> Readout:
        """Return the table of nodes under a population."""
        likelihood, weighted, squared = nodes
        total = likelihood @ population + 1e-300
        mean = weighted @ population / total
        second = squared @ population / total
        variance = np.exp(first + step * np.arange(_ROWS))[:, None]
        spread = np.maximum(second - mean * mean, 1e-12 * variance)
        flat = likelihood.reshape(-1, population.size)
        return cls(population, first, step, flat, _corners(np.array([mean / np.sqrt(variance), spread / variance])))

    def read(self, messages: Gaussians) -> Gaussians:
        """Posterior mean and variance of every bin's level, for one expert or a pool."""
        if messages.mean.size <= _BLOCK:  # all at once, without pieces
            return Gaussians(*self._read(messages, np.empty((2, *messages.mean.shape))))
        readings = np.empty((2, messages.mean.size))
        every = Gaussians(messages.mean.ravel(), messages.variance.ravel())
        for here in blocks(every.mean.size, _BLOCK):
            self._read(every[here], readings[:, here])
        return Gaussians(*readings.reshape(2, *messages.mean.shape))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The variances of the first row and of the last."""
        return float(np.exp(self.first)), float(np.exp(self.first + self.step * (_ROWS - 1)))

    def _read(self, messages: Gaussians, reading: Floats) -> Floats:
        """Means and variances, the one after the other, filled in."""
        deviation, ratio, cell, a, c = self._locate(messages)
        moments = _bilinear(self.moments, cell, a, c)
        moments *= deviation
        moments[1] *= deviation
        reading[:] = moments
        certain = ratio > _FAR  # so far from 0 that the population has nothing to add
        np.copyto(reading[0], messages.mean, where=certain)
        np.copyto(reading[1], messages.variance, where=certain)
        return reading

    def _locate(self, messages: Gaussians) -> tuple[Singles, Singles, Integers, Singles, Singles]:
        """Deviation, mean / deviation, the cell's number, and the place within it."""
        narrowest, widest = self._ends
        variance, mean = messages.variance, messages.mean
        row = np.maximum(variance, max(narrowest, _TINY))
        if not variance.size or variance.item(variance.argmax()) > widest:
            np.minimum(row, widest, out=row)
            mean = np.minimum(widest / variance, 1) * mean
        ratio, row = mean.astype(np.float32), row.astype(np.float32)
        deviation = np.sqrt(row)
        ratio /= deviation
        np.log(row, out=row)
        row -= self.first
        row /= self.step
        np.maximum(row, 0, out=row)
        np.minimum(row, _ROWS - 1.0001, out=row)
        column = ratio - _NEAR
        column *= _PER_NODE
        np.maximum(column, 0, out=column)
        np.minimum(column, _NODES.size - 1.0001, out=column)
        above, left = np.floor(row), np.floor(column)
        row -= above
        column -= left
        above *= _NODES.size
        above += left
        return deviation, ratio, above.astype(np.int64), row, column

    def learned(self, messages: Gaussians, reading: Gaussians, reach: float) -> Floats:
        """Learn the population from a slot's messages: expectation maximisation, a correction of mass, inertia."""
        bins = messages.mean.size
        shares = self._maximised(messages)
        tilt = np.clip(reach * _tilt(messages, reading), -1, 1)
        shares = shares * np.exp(-tilt * np.minimum(grid_levels(bins) / reach, 1))
        keep = (INERTIA * bins + 3) / (bins + 3)
        shares = (1 - keep) * shares / shares.sum() + keep * initial_population(bins)
        return np.asarray(shares / shares.sum())

    def _maximised(self, messages: Gaussians) -> Floats:
        """Take steps of expectation maximisation, on the table's cells instead of the bins."""
        _, ratio, cell, a, c = self._locate(messages)
        bins = ratio.size
        cell[a > 0.5] += _NODES.size
        cell += c > 0.5
        certain = np.flatnonzero(ratio > _NODES[-1])
        nearest = np.rint((np.log(messages.mean[certain]) - np.log(SMALLEST / bins)) / STEP)
        direct_levels = np.clip(nearest, 0, self.population.size - 1).astype(np.int64)
        direct = np.bincount(direct_levels, minlength=self.population.size) / bins
        counts = np.bincount(cell, minlength=len(self.likelihood))
        counts -= np.bincount(cell[certain], minlength=counts.size)
        weights = counts / bins
        used = np.flatnonzero(weights)
        weights, likelihood = weights[used], self.likelihood[used]
        shares = self.population
        for _ in range(STEPS):
            shares = shares * ((weights / (likelihood @ shares + 1e-300)) @ likelihood) + direct
        return shares


Nodes = tuple[Floats, Floats, Floats]
"""At every node and level: the likelihood, and that times the first and the second moment of the level's posterior."""


def _nodes(bins: int, first: float, step: float) -> Nodes:
    """Compute what a table holds before a population is known."""
    level = grid_levels(bins)
    variance = np.exp(first + step * np.arange(_ROWS))[:, None, None]
    message = _NODES[None, :, None] * np.sqrt(variance)
    own = (WIDTH * level) ** 2
    both = variance + own
    log = message - level
    log *= log
    log *= -0.5 / both
    log -= 0.5 * np.log(both)
    log -= log.max(2, keepdims=True)
    likelihood = np.exp(log, out=log)
    # A level is positive: where the message pulls its Gaussian below, the mean stays at a small share of the level.
    means = message * (own / both)
    means += level * variance / both
    np.maximum(means, 0.05 * level, out=means)
    weighted = likelihood * means
    squared = weighted * means
    squared += likelihood * (variance * own / both)
    return likelihood, weighted, squared


_kept = lru_cache(maxsize=4)(_nodes)


@lru_cache(maxsize=4)
def _under(population: bytes, bins: int, first: float, step: float) -> Readout:
    """Keep the table under a population, which stays as it is, often for long, while newcomers are few."""
    return Readout.of(np.frombuffer(population), _kept(bins, first, step), first, step)


def _bilinear(corners: Singles, cell: Integers, a: Singles, c: Singles) -> Singles:
    """Tables at row `a` and column `c` within each cell: positive, even where rounding would make them zero."""
    value, right, above, both = corners.take(cell, axis=2, mode="clip")  # every cell is in the table: nothing to raise
    both *= a
    both += right
    both *= c
    above *= a
    value += above
    value += both
    return np.asarray(np.maximum(value, _TINY, out=value), dtype=np.float32)


def _corners(tables: Floats) -> Singles:
    """Tables of nodes as the coefficients of 1, column, row and row · column within each cell, for `_bilinear`."""
    corner, right = tables[:, :-1, :-1], tables[:, :-1, 1:]
    above, opposite = tables[:, 1:, :-1], tables[:, 1:, 1:]
    coefficients = np.zeros((4, *tables.shape), dtype=np.float32)
    coefficients[:, :, :-1, :-1] = corner, right - corner, above - corner, opposite - above - right + corner
    return coefficients.reshape(4, len(tables), -1)


def _tilt(messages: Gaussians, reading: Gaussians) -> float:
    """Rate at which larger levels become rarer, from one Newton step towards the right total mass of weak bins."""
    weak = np.maximum(1 - reading.variance / messages.variance, 0)
    trust = (0.3 * float(weak @ reading.mean)) ** 2
    gain = trust / (trust + float(weak @ messages.variance) + 1e-300)
    excess = float(weak @ (reading.mean - messages.mean))
    return TILT * gain * excess / max(float(weak @ reading.variance), 1e-300)
