"""The pool before a slot is looked at, how its forecasts turned out, and what it knows after it: one pass over bins.

Sees messages and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted._experts import ALL, JUMP, ExpertPool, Jumps, Walked, find_loud, recall_season, walked_parts
from dpi.mechanism.boosted._size import Dispersion, Slot, assimilate, marginal_scores
from dpi.mechanism.boosted._state import BoostedState
from dpi.mechanism.filtering._gaussians import Gaussians, blocks
from dpi.mechanism.filtering._population import Readout
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts, Reals, fisher_information, score_tails

WIDEST = 4.0
"""A message of this variance says nothing, as levels are between 0 and 1. Source: by definition."""


UNHEARD = 1e-30
"""An expert of less weight than this is not read where nothing is measured: rounding loses it in the mixture. Source:
by calculation."""
_CACHE = 1 << 16
"""Numbers that are worked on at a time: the bins of a block, times the experts. Smaller blocks have more calls. Source:
by trial (benchmarks/huge.py)."""


def block_width(rows: int) -> int:
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
        for here in blocks(self.bins, block_width(len(weights))):
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


def recall(state: BoostedState, slot: int, pool: ExpertPool, counts: NoisyCounts | None) -> Recalled:
    """The experts' messages for a slot, read under the population; the table reaches to what `counts` will bring."""
    weights, leader = np.exp(state.log_weights), state.leader
    first = 0 if state.loud else leader
    before = recall_season(Walked(state.pool, state.walk), state.season, slot, first, state.mass)
    steps = pool.steps(state.age)
    own = steps if state.loud is None else steps[[leader, *range(state.trackers, steps.size)]]
    readout = _table(state, before, float(steps.max()), counts)
    if state.loud is None:
        every = Forecast(*_aged(before, readout, own), weights, state.mass, 1 / state.bins)
        return Recalled(every, None, np.zeros(0, dtype=np.int64), readout, weights)
    lumped = np.append(weights[: state.trackers].sum(), weights[state.trackers :])
    heard = ALL if counts is not None else np.flatnonzero(lumped[:-1] > UNHEARD)
    every = Forecast(*_aged(before, readout, own, heard), lumped, state.mass, 1 / state.bins)
    at = find_loud(before.messages.variance[0] - before.walk[0], every.readings[0])
    lead = Walked(before.messages[0], before.walk[0])
    stacked = [
        np.concatenate([one, other[1:, at]])
        for one, other in zip(walked_parts(state.loud.rows(at, lead)), walked_parts(before), strict=True)
    ]
    aged = _aged(Walked(Gaussians(*stacked[:2]), stacked[2]), readout, steps)
    loud = Forecast(*aged, weights, state.mass, 1 / state.bins)
    return Recalled(every, loud, at, readout, weights)


def _table(state: BoostedState, before: Walked, step: float, counts: NoisyCounts | None) -> Readout:
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
    return (pool.at(here).measured.variance for here in blocks(pool.walk.shape[1], block_width(len(pool.walk))))


def _aged(before: Walked, readout: Readout, steps: Floats, heard: slice | Integers = ALL) -> tuple[Walked, Gaussians]:
    """A pool and its readings (of those `heard`) after log-walks of variance `steps`, in arrays that are its own."""
    walked, readings = before.aged(before.read(readout, heard), steps)
    own = Gaussians(walked.messages.mean.copy(), walked.messages.variance)
    return Walked(own, walked.walk), readings


Mask = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]

EVIDENCE, NOVELTY, NEWEST, SPREAD, SQUARED, PULL, HOLD = range(7)
"""Sums over the bins, of each expert: log scores; how much likelier a fresh start is, in all bins known by data and in
the one that says so most; score and information of the dispersion; and those of the size's logarithm. Source: by
definition."""
LARGEST = 1e30
"""Variances of counts from which on they are in double precision. Source: by calculation."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Of some bins: how their forecasts turned out. The forecast's pool is now what is known after the slot."""

    slope: Singles
    """Derivatives of the log scores with respect to the expected counts: (experts + 1, bins)."""
    heat: Singles
    """Their derivatives with respect to the variances. Single precision, in which they are made, is kept."""
    jumped: Reals
    """Probabilities that bins have jumped, for each expert that knows the past."""
    newborn: Mask
    """Whether the challenger starts again in a bin."""
    stale: Mask
    """Whether the seasonal expert's message of a bin is less likely than a fresh start."""
    sums: Floats
    """(7, experts + 1)."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of all bins: what decides between the experts."""

    evidence: Floats
    """Log scores of the experts."""
    novelty: float
    """Log score of a fresh start minus the best expert's, over bins that are known by data rather than by prior; but
    for the bin that says so most: a crowd in one bin is no sign that all bins are new."""
    spread: Floats
    squared: Floats

    def dispersed(self, before: Dispersion, weights: Floats) -> Dispersion:
        """The dispersion after one stochastic Newton step on the mixture's log score."""
        return before.stepped(float(weights @ self.spread), float(weights @ self.squared))


def find_outcome(
    recalled: Recalled, scored: list[Scored], leader: int, sizes: tuple[Floats, float], nobody: float
) -> Outcome:
    """The sums of all experts."""
    sums, trackers = scored[0].sums, recalled.trackers
    for loud in scored[1:]:
        own = loud.sums[:, :trackers]
        merged = sums[:, :1] + own - own[:, [leader]]
        merged[NEWEST] = np.maximum(sums[NEWEST, 0], own[NEWEST])
        sums = np.concatenate([merged, sums[:, 1:]], axis=1)
    evidence = marginal_scores(sums[EVIDENCE], sums[PULL], sums[HOLD], *sizes, nobody)
    best = int(np.argmax(np.log(recalled.weights) + evidence))
    return Outcome(evidence, float(sums[NOVELTY, best] - sums[NEWEST, best]), sums[SPREAD], sums[SQUARED])


def score_forecast(
    forecast: Forecast,
    slot: Slot,
    sizes: Floats,
    fresh: Reals,
    odds: Floats,
    rate: float,
    trust: float,
    *,
    known: bool,
    seasonal: bool,
) -> Scored:
    """Score the forecasts of some bins, and take the counts in."""
    rows, bins = len(forecast.weights), forecast.bins
    slope, heat = np.empty((2, rows, bins), dtype=np.float32)
    newborn, stale = np.ones(bins, dtype=bool), np.zeros(bins, dtype=bool)
    sums = np.zeros((7, rows))
    restart, noise = forecast.restart, slot.counts.noise
    jumped = np.full((restart, bins), JUMP, dtype=np.float32)
    scales = sizes[-rows:, None]
    widest = float(scales.max()) ** 2 * float(forecast.readings.variance.max(initial=1.0))
    real: type[np.floating] = np.float32 if widest < LARGEST else np.float64
    squares, messages = (scales[:-1] ** 2).astype(real), forecast.pool.messages
    for here in blocks(bins, block_width(rows)):
        read = Gaussians(forecast.readings.mean[:, here], forecast.readings.variance[:, here])
        values = slot.counts.values[here]
        expected = np.empty((rows, values.size))
        np.multiply(scales[:-1], read.mean, out=expected[:-1])
        expected[-1] = scales[-1] * forecast.uniform
        small: Reals = expected.astype(real)
        np.subtract(values, expected, out=expected)
        scatter: Reals = slot.scatter(small)
        variance = scatter.copy()
        variance[:-1] += squares * read.variance.astype(real)
        log, slope[:, here], heat[:, here] = score_tails(expected, variance, noise)
        new = fresh[here]
        if not known:  # nobody knew anything
            log[:-1] = new
            sums[EVIDENCE] += log.sum(1, dtype=np.float64)
            continue
        jump = Jumps.of(odds[here], log[restart + 1], new, rate)
        newborn[here] = jump.newborn
        if seasonal:
            stale[here] = rate + trust * (new - log[restart - 1]) > 0
        log[:restart], moved = jump.either(log[:restart], trust)
        jumped[:, here] = moved
        sums[EVIDENCE] += log.sum(1, dtype=np.float64)
        newer = np.subtract(new, log, out=log)
        by_data = read.variance / messages.variance[:, here]
        by_data *= 2
        by_data -= 1
        newer[:-1] *= np.minimum(np.maximum(by_data, 0, out=by_data), 1, out=by_data)
        sums[NOVELTY] += newer.sum(1)
        np.maximum(sums[NEWEST], newer.max(1), out=sums[NEWEST])
        spread = variance + noise**2
        np.divide(4, spread, out=spread)
        np.minimum(spread, heat[:, here], out=spread)
        spread *= scatter
        spread /= slot.dispersion
        stayed = np.subtract(1, moved, out=moved)
        spread[:restart] *= stayed
        sums[SPREAD] += spread.sum(1)
        sums[SQUARED] += np.einsum("ij,ij->i", spread, spread)
        information = fisher_information(variance, noise)
        small[:restart] *= stayed
        sums[PULL] += np.einsum("ij,ij->i", slope[:, here], small)
        sums[HOLD] += np.einsum("ij,ij,ij->i", information, small, small)
        _take_in(forecast, read, scales, slope[:-1, here], information[:-1], here)
        born = np.flatnonzero(jump.newborn) + here.start
        alone = slot.alone(own=False, at=born)
        messages.mean[-1, born], messages.variance[-1, born] = alone.mean, alone.variance
    return Scored(slope, heat, jumped, newborn, stale, sums)


def _take_in(
    forecast: Forecast, read: Gaussians, scales: Floats, slope: Singles, information: Reals, here: slice
) -> None:
    """The messages of a block after the slot; they forget a part of what they were, and of its walks."""
    messages, walk = forecast.pool.messages, forecast.pool.walk
    before = Gaussians(messages.mean[:, here], messages.variance[:, here])
    after, left = assimilate(before, read, scales[:-1], slope, information)
    left *= left
    walk[:, here] *= left
    messages.mean[:, here], messages.variance[:, here] = after.mean, after.variance
