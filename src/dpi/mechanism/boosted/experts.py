"""Experts: forecasts of the next slot's PDF that are made of past measurements, without a look at the slot's data.

An expert is a *tracker*: for each bin a Gaussian message (mean, variance) that sums up what all measurements so far
said of the bin's level, if log-levels walk by `drift` a slot. A tracker of small drift has a long memory, one of
large drift a short one. The *seasonal* expert has one such message for each phase of a public period, touched once a
period.

Messages are likelihoods: they hold no prior, and the population of levels (`dpi.mechanism.filtering.population`) enters
only when they are read. This module sees messages, readings and public options; no measurement, no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.mechanism.filtering.gaussians import PATIENCE, UNKNOWN, Floats, Gaussians, blocks
from dpi.mechanism.filtering.population import Readout

ALL = slice(None)

ROUNDING = 1e-9
"""The least share of a variance that walks leave.

Source: by calculation; differences of double precision are good to far less.
"""

_BLOCK = 1 << 13
"""Bins of one expert that are aged at a time.

Source: by trial; the speed that it leads to is measured by benchmarks/huge.py.
"""

SEASONAL_DRIFT = 0.03
"""Drift of the seasonal expert over one period.

Source: by trial; not measured by itself.
"""

SEASONAL_SHARE = 0.2
"""Prior weight of the seasonal expert.

Source: by trial; not measured by itself.
"""
LONGEST = 1_000_000
"""Slots of a season: each has a place in memory.

Source: chosen; about a year of slots of half a minute.
"""

UNIFORM_SHARE = 0.2
"""Prior weight of the uniform PDF, of experts that take over from each other.

Source: benchmarks/clocked.py, spent first; with 0.6 (and twice the `SHARE`) 40 bins that are reshuffled are 5 % better,
but flights has 0.079 instead of 0.054.
"""

PROOF = 0.99
"""Weight of the uniform PDF before the first slot: whoever knows better has to show it. A mixture that holds a share w
of the uniform PDF is never further from the truth than that PDF is, plus log(1/w): 0.01, until there is evidence.

Source: by calculation, from the 0.01 of tests/mechanism/test_estimator.py.
"""


@dataclass(frozen=True)
class ExpertPool:
    """Which experts there are: a tracker for each of the `drifts`, then the seasonal expert if there is a `season`."""

    drifts: tuple[float, ...]
    season: int | None = None

    def __post_init__(self) -> None:
        finite = all(isinstance(d, int | float) and math.isfinite(d) and d >= 0 for d in self.drifts)
        if not self.drifts or not finite or any(a >= b for a, b in pairwise(self.drifts)):
            raise OptionError(f"`drifts` must be increasing finite numbers of at least 0. Got {self.drifts!r}.")
        if self.season is not None and (not isinstance(self.season, int) or not 2 <= self.season <= LONGEST):
            raise OptionError(f"`season` must be a number of slots from 2 to {LONGEST:,}. Got {self.season!r}.")

    def steps(self, age: float) -> Floats:
        """Variances of log-walks: of trackers that are `age` slots old, of season, restart and challenger.

        >>> ExpertPool((0, 0.1), season=24).steps(2.0).round(4).tolist()
        [0.0, 0.02, 0.0009, 0.0, 0.0]
        """
        seasonal = [SEASONAL_DRIFT**2] if self.season else []
        return np.array([*(age * np.square(self.drifts)), *seasonal, 0, 0], dtype=np.float64)

    @property
    def prior(self) -> Floats:
        """Weights before anything was seen: of trackers, season, restart, challenger, and the uniform PDF.

        The restart has none before a change, the challenger never: it speaks for single bins.

        >>> ExpertPool((0, 0.1), season=24).prior.round(2).tolist()
        [0.35, 0.25, 0.2, 0.0, 0.0, 0.2]
        """
        seasonal = [SEASONAL_SHARE] if self.season else []
        trackers = np.power(PATIENCE, np.arange(len(self.drifts)))
        trackers *= (1 - sum(seasonal) - UNIFORM_SHARE) / trackers.sum()
        return np.array([*trackers, *seasonal, 0, 0, UNIFORM_SHARE])

    @property
    def first(self) -> Floats:
        """The same for the first slot, in which the uniform PDF has nearly all of the weight.

        >>> ExpertPool((0, 0.1)).first.round(4).tolist()
        [0.0059, 0.0041, 0.0, 0.0, 0.99]
        """
        others = np.append(self.prior[:-1], 0)
        return np.asarray(others * (1 - PROOF) / others.sum() + np.append(np.zeros(others.size - 1), PROOF))


Season = tuple[Gaussians | None, ...]
"""A ring of messages, one for each phase of the period; None for a phase that was never measured."""


def unknown(experts: int, bins: int) -> Gaussians:
    """Messages of a pool that has seen nothing."""
    return Gaussians(np.full((experts, bins), 1 / bins), np.full((experts, bins), UNKNOWN))


@dataclass(frozen=True, eq=False)
class Walked:
    """Messages of a pool, and the part of their variances that log-walks have brought since the measurements.

    A message is read as it was measured, and what has been walked is then added to the reading. For a wider message
    would pass for that of a small bin, though no log-walk makes a large bin small; and the experts of large drifts
    would fit a slot without users, or any surprise, better than the truth does.
    """

    messages: Gaussians
    walk: Floats

    def __getitem__(self, key: int | list[int] | slice | Integers) -> Walked:
        """Some experts."""
        return Walked(Gaussians(self.messages.mean[key], self.messages.variance[key]), self.walk[key])

    def at(self, here: slice | Integers) -> Walked:
        """Some bins."""
        return Walked(Gaussians(self.messages.mean[:, here], self.messages.variance[:, here]), self.walk[:, here])

    @property
    def measured(self) -> Gaussians:
        """The messages, but for the walks; rounding leaves something to measure."""
        wide = self.messages.variance
        return Gaussians(self.messages.mean, np.maximum(wide - self.walk, ROUNDING * wide))

    def read(self, readout: Readout, rows: slice | Integers = ALL) -> Gaussians:
        """What messages say under a population: of some experts, and zeros for all others."""
        readings = Gaussians(np.zeros(self.walk.shape), np.zeros(self.walk.shape))
        for here in blocks(self.walk.shape[1], _BLOCK):
            part = self.at(here)[rows]
            reading = readout.read(part.measured)
            readings.mean[rows, here] = reading.mean
            readings.variance[rows, here] = np.add(reading.variance, part.walk, out=reading.variance)
        return readings

    def aged(self, readings: Gaussians, steps: Floats) -> tuple[Walked, Gaussians]:
        """Messages and readings after log-walks of variance `steps`, which add that times E[level²]."""
        wide, walk = self.messages.variance.copy(), self.walk.copy()
        for row in np.flatnonzero(steps):
            for here in blocks(walk.shape[1], _BLOCK):
                step = readings.mean[row, here] ** 2
                step += readings.variance[row, here]
                step *= steps[row]
                readings.variance[row, here] += step
                walk[row, here] += step
                step += wide[row, here]
                np.minimum(step, UNKNOWN, out=wide[row, here])
        return Walked(Gaussians(self.messages.mean, wide), walk), readings


def recalled(pool: Walked, season: Season, slot: int, leader: int, mass: float) -> Walked:
    """The pool for a slot: the trackers, the message of the slot's phase, restart and challenger.

    A phase that was never measured speaks as the leading tracker does, so that it neither wins nor loses by that. A
    phase is kept at a sum of levels of one and comes back at the trackers' `mass`.
    """
    if not season:
        return pool
    phase, trackers = season[slot % len(season)], len(pool.walk) - 2
    row, walk = (pool.messages[leader], pool.walk[leader]) if phase is None else (phase.rescaled(mass), 0.0)
    return Walked(
        Gaussians(
            np.insert(pool.messages.mean, trackers, row.mean, 0),
            np.insert(pool.messages.variance, trackers, row.variance, 0),
        ),
        np.insert(pool.walk, trackers, walk, 0),
    )


def remembered(pool: Walked, season: Season, slot: int, mass: float) -> tuple[Walked, Season]:
    """The pool without the season, and the ring with the slot's phase replaced by its row, over the `mass`."""
    if not season:
        return pool, season
    phase, row = slot % len(season), len(pool.walk) - 3
    rest = [at for at in range(len(pool.walk)) if at != row]
    return pool[rest], (*season[:phase], pool.messages[row].rescaled(1 / mass), *season[phase + 1 :])
