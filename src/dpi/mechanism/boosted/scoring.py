"""How the experts' forecasts of a slot turned out, and what they know after it: one pass over the bins.

Sees forecasts and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted import jumps, tails
from dpi.mechanism.boosted import size as _size
from dpi.mechanism.boosted.assimilation import Dispersion, Slot, assimilate
from dpi.mechanism.boosted.forecast import Forecast, Recalled, width
from dpi.mechanism.boosted.jumps import Jumps
from dpi.mechanism.filtering import laplace_gauss as _laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians, blocks
from dpi.mechanism.filtering.laplace_gauss import Reals

Mask = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]

EVIDENCE, NOVELTY, NEWEST, SPREAD, SQUARED, PULL, HOLD = range(7)
"""Sums over the bins, of each expert: log scores; how much likelier a fresh start is, in all bins known by data and in
the one that says so most; score and information of the dispersion; and those of the size's logarithm.

Source: by definition.
"""

LARGEST = 1e30
"""Variances of counts from which on they are in double precision.

Source: by calculation; single precision ends at 10³⁸.
"""


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


def outcome(
    recalled: Recalled, scored: list[Scored], leader: int, sizes: tuple[Floats, float], nobody: float
) -> Outcome:
    """The sums of all experts.

    In quiet bins each tracker's are those of the row for all, which is the leader's; in loud ones they are its own.

    Every expert is scored over all sizes that were expected, `sizes` (`dpi.mechanism.boosted.size.marginal`): the one
    that is fitted to some of them would make the others worse than they are.
    """
    sums, trackers = scored[0].sums, recalled.trackers
    for loud in scored[1:]:
        own = loud.sums[:, :trackers]
        merged = sums[:, :1] + own - own[:, [leader]]
        merged[NEWEST] = np.maximum(sums[NEWEST, 0], own[NEWEST])
        sums = np.concatenate([merged, sums[:, 1:]], axis=1)
    evidence = _size.marginal(sums[EVIDENCE], sums[PULL], sums[HOLD], *sizes, nobody)
    best = int(np.argmax(np.log(recalled.weights) + evidence))
    return Outcome(evidence, float(sums[NOVELTY, best] - sums[NEWEST, best]), sums[SPREAD], sums[SQUARED])


def score(
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
    """Score the forecasts of some bins, and take the counts in.

    `fresh` is the log density of every count if its level is new, `odds` are those of jumps before, `rate` is that of
    one in this slot.
    """
    rows, bins = len(forecast.weights), forecast.bins
    slope, heat = np.empty((2, rows, bins), dtype=np.float32)
    newborn, stale = np.ones(bins, dtype=bool), np.zeros(bins, dtype=bool)
    sums = np.zeros((7, rows))
    restart, noise = forecast.restart, slot.counts.noise
    jumped = np.full((restart, bins), jumps.JUMP, dtype=np.float32)
    scales = sizes[-rows:, None]
    widest = float(scales.max()) ** 2 * float(forecast.readings.variance.max(initial=1.0))
    real: type[np.floating] = np.float32 if widest < LARGEST else np.float64
    squares, messages = (scales[:-1] ** 2).astype(real), forecast.pool.messages
    for here in blocks(bins, width(rows)):
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
        log, slope[:, here], heat[:, here] = tails.score(expected, variance, noise)
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
        information = _laplace_gauss.information(variance, noise)
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
