"""The pool before a slot is looked at: messages that have aged, read under the population of levels.

In a huge domain one row stands for all trackers, and a second, small forecast has each of them in the bins that are
loud (`dpi.mechanism.boosted.quiet`).

Sees messages made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted import experts
from dpi.mechanism.boosted.experts import ALL, ExpertPool, Walked
from dpi.mechanism.boosted.quiet import parts, standing_out
from dpi.mechanism.boosted.size import Counts
from dpi.mechanism.boosted.state import BoostedState
from dpi.mechanism.filtering.gaussians import Gaussians, blocks
from dpi.mechanism.filtering.population import Readout

WIDEST = 4.0
"""A message of this variance says nothing, as levels are between 0 and 1.

Source: by definition.
"""


UNHEARD = 1e-30
"""An expert of less weight than this is not read where nothing is measured: rounding loses it in the mixture.

Source: by calculation; with all of a level between 0 and 1 it moves a probability by less than 10⁻¹⁵ of the smallest.
"""

_CACHE = 1 << 16
"""Numbers that are worked on at a time: the bins of a block, times the experts. Smaller blocks have more calls.

Source: by trial; of 1,000,000 bins 1 << 14 takes 21 % more time, and 1 << 18 4 % less (benchmarks/huge.py).
"""


def width(rows: int) -> int:
    """Bins of a block for so many experts."""
    return _CACHE // min(rows, 8)


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a pool says of some bins of a domain."""

    pool: Walked
    """Trackers (or one row for all), season, restart, challenger: (experts, bins), in arrays of its own."""
    readings: Gaussians
    """What the messages say under the population; the uniform PDF, the last expert, needs none."""
    weights: Floats
    """Of the experts, and of the uniform PDF."""
    mass: float
    """Sum of the levels of those that know the past; the others' have a sum of one."""
    uniform: float
    """The probability of each bin in the uniform PDF."""

    @property
    def bins(self) -> int:
        """Number of bins that this is of."""
        return int(self.readings.mean.shape[1])

    @property
    def restart(self) -> int:
        """The restart's row; those before it know the past, the next is the challenger's."""
        return len(self.readings.mean) - 2

    def mixed(self) -> Gaussians:
        """The mixture of the readings, at the scale of those that know the past."""
        mixed = Gaussians.empty(self.bins)
        unit = np.ones((len(self.weights), 1))
        unit[self.restart :] = self.mass
        weights, even = self.weights[:-1], self.mass * self.uniform
        for here in blocks(self.bins, width(len(weights))):
            mean, variance = unit[:-1] * self.readings.mean[:, here], unit[:-1] ** 2 * self.readings.variance[:, here]
            centre = weights @ mean
            centre += self.weights[-1] * even
            mean -= centre
            mean *= mean
            mean += variance
            spread = weights @ mean
            spread += self.weights[-1] * (even - centre) ** 2
            mixed.mean[here], mixed.variance[here] = centre, spread
        return mixed


@dataclass(frozen=True, eq=False)
class Recalled:
    """The forecast of all bins, and that of the loud ones with all trackers."""

    every: Forecast
    loud: Forecast | None
    at: Integers
    """The loud bins."""
    readout: Readout
    weights: Floats
    """Of all experts, and of the uniform PDF."""

    @property
    def trackers(self) -> int:
        """How many trackers one row of all bins stands for."""
        return len(self.weights) - len(self.every.weights) + 1

    @property
    def restart(self) -> int:
        """The number of the restart among all experts."""
        return len(self.weights) - 3

    @property
    def parts(self) -> list[tuple[Forecast, slice | Integers]]:
        """The forecasts with their bins."""
        return [(self.every, ALL)] if self.loud is None else [(self.every, ALL), (self.loud, self.at)]

    def mixed(self) -> Gaussians:
        """The mixture of the readings of all experts."""
        mixed = self.every.mixed()
        if self.loud is not None:
            own = self.loud.mixed()
            mixed.mean[self.at], mixed.variance[self.at] = own.mean, own.variance
        return mixed

    def summed(self, values: Floats, forecast: Forecast) -> Floats:
        """Numbers of all experts as those of a forecast's rows: of trackers that share one, their sum."""
        own = forecast is self.loud or self.trackers == 1
        return values if own else np.append(values[: self.trackers].sum(), values[self.trackers :])

    def row(self, expert: int, forecast: Forecast) -> int:
        """An expert's row in a forecast."""
        return expert if forecast is self.loud else max(expert - self.trackers + 1, 0)


def recall(state: BoostedState, slot: int, pool: ExpertPool, counts: Counts | None) -> Recalled:
    """The experts' messages for a slot, read under the population; the table reaches to what `counts` will bring."""
    weights, leader = np.exp(state.log_weights), state.leader
    first = 0 if state.loud else leader
    before = experts.recalled(Walked(state.pool, state.walk), state.season, slot, first, state.mass)
    steps = pool.steps(state.age)
    own = steps if state.loud is None else steps[[leader, *range(state.trackers, steps.size)]]
    readout = _table(state, before, float(steps.max()), counts)
    if state.loud is None:
        every = Forecast(*_aged(before, readout, own), weights, state.mass, 1 / state.bins)
        return Recalled(every, None, np.zeros(0, dtype=np.int64), readout, weights)
    lumped = np.append(weights[: state.trackers].sum(), weights[state.trackers :])
    heard = ALL if counts is not None else np.flatnonzero(lumped[:-1] > UNHEARD)
    every = Forecast(*_aged(before, readout, own, heard), lumped, state.mass, 1 / state.bins)
    at = standing_out(before.messages.variance[0] - before.walk[0], every.readings[0])
    lead = Walked(before.messages[0], before.walk[0])
    stacked = [
        np.concatenate([one, other[1:, at]])
        for one, other in zip(parts(state.loud.rows(at, lead)), parts(before), strict=True)
    ]
    aged = _aged(Walked(Gaussians(*stacked[:2]), stacked[2]), readout, steps)
    loud = Forecast(*aged, weights, state.mass, 1 / state.bins)
    return Recalled(every, loud, at, readout, weights)


def _table(state: BoostedState, before: Walked, step: float, counts: Counts | None) -> Readout:
    """The table that reaches from the narrowest to the widest message."""
    pools = [before] if state.loud is None or not state.loud.at.size else [before, state.loud.trackers]
    narrowest = min(float(part.min()) for pool in pools for part in _measured_variances(pool))
    widest = max(float(pool.messages.variance.max()) for pool in pools)
    highest = max(float(pool.messages.mean.max()) for pool in pools)
    widest += step * (highest**2 + widest)  # as they will be aged
    if counts is not None:
        scale = max(state.size.scale if state.known else 1.0, counts.total + 3 * counts.total_variance**0.5)
        narrowest = 1 / (1 / narrowest + 4 * (scale / counts.noise) ** 2)
        widest = max(widest, WIDEST) if not state.known else widest
    return Readout.tabulate(state.population, state.bins, max(narrowest, 1e-24), min(widest, WIDEST))


def _measured_variances(pool: Walked) -> Iterator[Floats]:
    return (pool.at(here).measured.variance for here in blocks(pool.walk.shape[1], width(len(pool.walk))))


def _aged(before: Walked, readout: Readout, steps: Floats, heard: slice | Integers = ALL) -> tuple[Walked, Gaussians]:
    """A pool and its readings (of those `heard`) after log-walks of variance `steps`, in arrays that are its own."""
    walked, readings = before.aged(before.read(readout, heard), steps)
    own = Gaussians(walked.messages.mean.copy(), walked.messages.variance)
    return Walked(own, walked.walk), readings
