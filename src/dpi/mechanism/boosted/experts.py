"""Experts: forecasts of the next slot's PDF that are made of past measurements, without a look at the slot's data.

An expert is a *tracker*: for each bin a Gaussian message (mean, variance) that sums up what all measurements so far
said of the bin's level, if log-levels walk by `drift` a slot. A tracker of small drift has a long memory, one of
large drift a short one. The *seasonal* expert has one such message for each phase of a public period, touched once a
period.

Messages are likelihoods: they hold no prior, and the population of levels (`dpi.mechanism.boosted.population`) enters
only when they are read. This module sees messages, readings and public options; no measurement, no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError

Floats = npt.NDArray[np.float64]

UNKNOWN = 1e6
"""Variance of a message that says nothing; a level is a probability.

Source: by definition; any number far above one serves.
"""

PATIENCE = 0.7
"""Prior weight of each tracker relative to the next slower one: most streams change slowly.

Source: by trial; not measured by itself.
"""

SEASONAL_DRIFT = 0.03
"""Drift of the seasonal expert over one period.

Source: by trial; not measured by itself.
"""

SEASONAL_SHARE = 0.2
"""Prior weight of the seasonal expert.

Source: by trial; not measured by itself.
"""

_BLOCK = 16_384
"""Bins that are worked on at a time, so that they stay in the cache.

Source: by trial; the speed that it leads to is measured by benchmarks/mechanism.py (docs/benchmarks.md, Mechanisms).
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
        """The drift of every expert from one use to the next."""
        return np.array([*self.drifts, *([SEASONAL_DRIFT] if self.season else [])], dtype=np.float64)

    @property
    def prior(self) -> Floats:
        """Weights of the experts before anything was seen.

        >>> ExpertPool((0, 0.1), season=24).prior.round(2).tolist()
        [0.47, 0.33, 0.2]
        """
        trackers = np.power(PATIENCE, np.arange(len(self.drifts)))
        seasonal = [SEASONAL_SHARE] if self.season else []
        return np.array([*(trackers / trackers.sum() * (1 - sum(seasonal))), *seasonal])


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Means and variances on the PDF's scale: of shape (bins,) for one expert, (experts, bins) for a pool."""

    mean: Floats
    variance: Floats

    def __getitem__(self, key: int | slice) -> Gaussians:
        return Gaussians(self.mean[key], self.variance[key])

    def rescaled(self, factor: float) -> Gaussians:
        """The same beliefs about `factor` times the quantity."""
        return Gaussians(self.mean * factor, self.variance * factor**2)

    def rows(self) -> list[Gaussians]:
        """The single experts of a pool; an expert alone is its own row."""
        return [Gaussians(m, v) for m, v in zip(*map(np.atleast_2d, (self.mean, self.variance)), strict=True)]

    @staticmethod
    def empty(*shape: int) -> Gaussians:
        """Room for beliefs that are filled in block by block."""
        return Gaussians(np.empty(shape), np.empty(shape))

    @staticmethod
    def stacked(rows: Sequence[Gaussians]) -> Gaussians:
        """A pool of single experts."""
        return Gaussians(np.stack([r.mean for r in rows]), np.stack([r.variance for r in rows]))


class Expert(NamedTuple):
    """One expert's messages, and what they say under the population."""

    messages: Gaussians
    reading: Gaussians

    def rescaled(self, factor: float) -> Expert:
        """The same beliefs about `factor` times the levels."""
        return Expert(self.messages.rescaled(factor), self.reading.rescaled(factor))


def blocks(bins: int) -> Iterator[slice]:
    """Ranges of bins that are small enough to be worked on in the cache."""
    return (slice(first, min(first + _BLOCK, bins)) for first in range(0, bins, _BLOCK))


Season = tuple[Gaussians | None, ...]
"""A ring of messages, one for each phase of the period; None for a phase that was never measured."""


def unknown(experts: int, bins: int) -> Gaussians:
    """Messages of a pool that has seen nothing."""
    return Gaussians(np.full((experts, bins), 1 / bins), np.full((experts, bins), UNKNOWN))


def aged(experts: Sequence[Expert], drifts: Floats) -> Gaussians:
    """The experts' messages one slot later: a log-walk of step d adds d²·E[level²] to a level's variance."""
    pool = Gaussians.empty(len(experts), experts[0].messages.mean.size)
    for (messages, reading), drift, new in zip(experts, drifts.tolist(), pool.rows(), strict=True):
        new.mean[:] = messages.mean
        if drift == 0:
            np.minimum(messages.variance, UNKNOWN, out=new.variance)
            continue
        for here in blocks(new.mean.size):
            step = reading.mean[here] ** 2
            step += reading.variance[here]
            step *= drift**2
            step += messages.variance[here]
            np.minimum(step, UNKNOWN, out=new.variance[here])
    return pool


def recalled(trackers: Gaussians, season: Season, slot: int, leader: int, mass: float) -> Gaussians:
    """The pool for a slot: the trackers and, in the last row, the message of the slot's phase.

    A phase that was never measured speaks as the leading tracker does, so that it neither wins nor loses by that. A
    phase is kept at a sum of levels of one and comes back at the trackers' `mass`.
    """
    if not season:
        return trackers
    phase = season[slot % len(season)]
    row = trackers[leader] if phase is None else phase.rescaled(mass)
    return Gaussians.stacked([*trackers.rows(), row])


def remembered(pool: Gaussians, season: Season, slot: int, mass: float) -> tuple[Gaussians, Season]:
    """The trackers of a pool, and the ring with the slot's phase replaced by the pool's last row, over its `mass`."""
    if not season:
        return pool, season
    phase = slot % len(season)
    row = pool[-1].rescaled(1 / mass)
    return pool[:-1], (*season[:phase], row, *season[phase + 1 :])
