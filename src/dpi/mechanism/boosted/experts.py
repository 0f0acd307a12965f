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
from dpi.mechanism.filtering.gaussians import PATIENCE, UNKNOWN, Floats, Gaussians, blocks

SEASONAL_DRIFT = 0.03
"""Drift of the seasonal expert over one period.

Source: by trial; not measured by itself.
"""

SEASONAL_SHARE = 0.2
"""Prior weight of the seasonal expert.

Source: by trial; not measured by itself.
"""

UNIFORM_SHARE = 0.2
"""Prior weight of the uniform PDF.

Source: by trial; not measured by itself.
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
        if self.season is not None and (not isinstance(self.season, int) or self.season < 2):
            raise OptionError(f"`season` must be a number of slots from 2. Got {self.season!r}.")

    @property
    def pace(self) -> Floats:
        """The drift of every expert with messages from one use to the next: trackers, season, restart, challenger."""
        seasonal = [SEASONAL_DRIFT] if self.season else []
        return np.array([*self.drifts, *seasonal, 0, 0], dtype=np.float64)

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


Season = tuple[Gaussians | None, ...]
"""A ring of messages, one for each phase of the period; None for a phase that was never measured."""


def unknown(experts: int, bins: int) -> Gaussians:
    """Messages of a pool that has seen nothing."""
    return Gaussians(np.full((experts, bins), 1 / bins), np.full((experts, bins), UNKNOWN))


def aged(messages: Gaussians, level: Gaussians, drifts: Floats) -> Gaussians:
    """A pool's messages one slot later: a log-walk of step d adds d²·E[level²] to a level's variance."""
    variance = np.empty_like(messages.variance)
    for here in blocks(level.mean.size):
        step = level.mean[here] ** 2
        step += level.variance[here]
        grown = np.multiply.outer(drifts**2, step)
        grown += messages.variance[:, here]
        np.minimum(grown, UNKNOWN, out=variance[:, here])
    return Gaussians(messages.mean, variance)


def recalled(pool: Gaussians, season: Season, slot: int, leader: int, mass: float) -> Gaussians:
    """The pool for a slot: the trackers, the message of the slot's phase, restart and challenger.

    A phase that was never measured speaks as the leading tracker does, so that it neither wins nor loses by that. A
    phase is kept at a sum of levels of one and comes back at the trackers' `mass`.
    """
    if not season:
        return pool
    phase = season[slot % len(season)]
    row = pool[leader] if phase is None else phase.rescaled(mass)
    return Gaussians.stacked([*pool[:-2].rows(), row, *pool[-2:].rows()])


def remembered(pool: Gaussians, season: Season, slot: int, mass: float) -> tuple[Gaussians, Season]:
    """The pool without the season, and the ring with the slot's phase replaced by its row, over the `mass`."""
    if not season:
        return pool, season
    phase, *rows = slot % len(season), *pool.rows()
    row = rows.pop(-3).rescaled(1 / mass)
    return Gaussians.stacked(rows), (*season[:phase], row, *season[phase + 1 :])
