"""What one slot's noisy counts do to one expert: its log score, its new messages, and what they say of the dispersion.

A count is Poisson-like around scale · level, with `dispersion` times the variance of Poisson, plus Laplace noise; the
expert's reading is Gaussian. The new message is the old one times a Gaussian site with the exact slope and the
expected Fisher information (assumed-density filtering), which is √2 sharper than treating the noise as Gaussian. With a
small probability a bin has jumped; its message is then replaced by that of the slot alone.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted import laplace_gauss as _laplace_gauss
from dpi.mechanism.boosted.experts import Expert, Gaussians, blocks
from dpi.mechanism.boosted.laplace_gauss import Reals
from dpi.mechanism.boosted.population import WIDTH, levels
from dpi.mechanism.boosted.size import JUMP, Counts, Size

SEEN = 0.05
POSSIBLE = 0.01
"""A jump must be seen, not only possible: probabilities below `SEEN` are damped, below `POSSIBLE` they are none. A slot
drowned in noise would otherwise mix a little of its own, huge variance into everything that is known.

Source: by trial; not measured by itself.
"""

BIAS = 0.02
SAMPLING = 1.5
"""Of users without budget left a slot says nothing. With a share c of the users paying, a probability p differs between
payers and all by a variance of p·(min(BIAS, p)·(1 - c)² + SAMPLING·(1 - c)/payers): who comes may be of another kind,
though by no more than about the whole of p, and is drawn by chance.

Source: by trial; what they do together is measured by benchmarks/churn.py (docs/utility.md, When users come and go).
"""

_FRESH_NODES = 300
"""Nodes of the table in which a fresh start is read.

Source: by trial; not measured by itself.
"""
_FAINT = math.log(POSSIBLE / (1 - POSSIBLE))  # log odds of a jump below which there was none


@dataclass(frozen=True)
class Dispersion:
    """Variance of a slot's counts around their rates, relative to Poisson, and the information that is known by.

    It starts at one, which is right for users who come independently and have one bin each.
    """

    value: float = 1.0
    information: float = 20.0

    def stepped(self, score: float, information: float) -> Dispersion:
        """After one stochastic Newton step; old information fades over about 500 slots."""
        known = 0.998 * self.information + information
        return Dispersion(float(np.clip(self.value + score / known, 0.01, 10)), known)


@dataclass(frozen=True, eq=False)
class Slot:
    """A slot's counts, the scale at which levels become counts, and the dispersion of counts around that."""

    counts: Counts
    size: Size
    dispersion: float
    coverage: float = 1.0
    """Payers among the active users, as far as public numbers tell."""

    @property
    def scale(self) -> float:
        """Users per unit of level."""
        return self.size.scale

    def expected(self, forecast: Gaussians) -> tuple[Floats, Floats]:
        """Means of the counts under a forecast, and their variances by its uncertainty alone."""
        return self.scale * forecast.mean, self.scale**2 * forecast.variance

    def scatter(self, expected: Floats) -> Floats:
        """Variance of the counts around their rates, by the slot's own randomness and by who still pays."""
        own = self.dispersion * expected
        return own if self.coverage == 1 else own + self.scale**2 * self.doubt(expected / self.scale)

    def doubt(self, share: Floats) -> Floats:
        """Variance of probabilities between payers and all active users."""
        missing = 1 - self.coverage
        kind = np.minimum(share, BIAS)
        kind *= missing**2
        kind += SAMPLING * missing / max(self.scale, 1.0)
        return kind * share

    def alone(self) -> Gaussians:
        """Messages of this slot alone, as if nothing had been seen before.

        A Laplace tail is not a Gaussian one: between 4 b and (4 + log k) b a large count may still be noise, so the
        message has the Laplace odds there against 0: y²/2R = y/b.
        """
        values, noise = self.counts.values, self.counts.noise
        variance = self.scatter(np.maximum(values, 0))
        variance += 2 * noise**2
        large = np.flatnonzero(values > 4 * noise)
        doubtful = large[values[large] < (4 + math.log(values.size)) * noise]
        variance[doubtful] += 0.5 * values[doubtful] * noise - 2 * noise**2
        variance /= self.scale**2
        return Gaussians(values / self.scale, variance)

    def fresh(self, population: Floats) -> Floats:
        """Log density of every count if its level were drawn anew from the population.

        A table in arcsinh(y/b), interpolated: fine near 0, and as long as it must be for the largest counts.
        """
        values, noise = self.counts.values, self.counts.noise
        place = np.arcsinh(values / noise)
        nodes, step = np.linspace(min(place.min(), -1), max(place.max(), 1), _FRESH_NODES, retstep=True)
        mean = self.scale * levels(values.size)
        variance = (WIDTH * mean) ** 2 + self.scatter(mean)
        log = _laplace_gauss.score(np.sinh(nodes)[:, None] * noise - mean, variance, noise).log_density
        top = log.max(1)
        table = top + np.log(np.exp(log - top[:, None]) @ population)
        place -= nodes[0]
        place /= step
        left = np.minimum(place.astype(np.int64), _FRESH_NODES - 2)
        place -= left
        return np.asarray(table.take(left) + place * np.diff(table).take(left))


@dataclass(frozen=True, eq=False)
class Scored:
    """How an expert's forecast of a slot turned out."""

    slot: Slot
    slope: Floats
    """Derivative of the log score with respect to each expected count, if the bin has not jumped."""
    where: Integers
    """Bins that may have jumped."""
    jumped: Floats
    """Probability that each of those has jumped, damped; it stays below 0.96."""
    evidence: float
    """Log score of the forecast."""
    novelty: float
    """Log score of a fresh start minus that of the forecast, over bins that are known by data rather than by prior."""
    dispersion_score: float
    dispersion_information: float

    def settled_slope(self) -> Floats:
        """The slope, as far as bins have not jumped."""
        slope = self.slope.copy()
        slope[self.where] *= 1 - self.jumped
        return slope


def score(expert: Expert, slot: Slot, fresh: Floats) -> Scored:
    """Score one expert's forecast, its reading. `fresh` is the log density of every count if it has jumped."""
    messages, forecast = expert
    bins = fresh.size
    slope, sums = np.empty(bins), np.zeros(4)
    where, jumped = [], []
    for here in blocks(bins):
        values = slot.counts.values[here]
        slope[here], maybe, probability, part = _score(messages[here], forecast[here], slot, values, fresh[here])
        sums += part
        where.append(maybe + here.start)
        jumped.append(probability)
    return Scored(slot, slope, np.concatenate(where), np.concatenate(jumped), *sums.tolist())


def _score(
    messages: Gaussians, forecast: Gaussians, slot: Slot, values: Floats, fresh: Floats
) -> tuple[Reals, Integers, Floats, Floats]:
    """Slope, bins that may have jumped with the probability of that, and the block's part of the four sums."""
    noise = slot.counts.noise
    expected, variance = slot.expected(forecast)
    variance += slot.scatter(expected)
    stays, slope, heat = _laplace_gauss.score(values - expected, variance, noise)
    stays += math.log1p(-JUMP)
    moved = fresh.astype(stays.dtype)
    odds = moved - stays
    odds += math.log(JUMP)
    maybe = np.flatnonzero(odds > _FAINT)
    ratio = np.exp(np.minimum(odds, _FAINT))
    evidence = stays + ratio * (1 - 0.5 * ratio)  # log(1 + ratio), within 4·10⁻⁷
    gain = np.logaddexp(0, odds[maybe])
    evidence[maybe] = stays[maybe] + gain
    jumped = _damped(np.exp(odds[maybe] - gain))
    by_data = (forecast.variance / messages.variance).astype(stays.dtype)
    by_data *= 2
    by_data -= 1
    np.minimum(np.maximum(by_data, 0, out=by_data), 1, out=by_data)
    variance += noise**2
    spread = np.minimum(heat, 4 / variance)
    spread *= expected
    spread[maybe] *= 1 - jumped
    moved -= evidence
    sums = [evidence.sum(dtype=np.float64), by_data @ moved, spread.sum(), spread @ spread]
    return slope, maybe, jumped, np.array(sums)


def _damped(probability: Reals) -> Floats:
    excess = np.maximum(probability.astype(np.float64) - POSSIBLE, 0)
    return np.asarray(excess * excess / (excess + SEEN))


def assimilate(expert: Expert, scored: Scored, alone: Gaussians) -> Gaussians:
    """The expert's messages after the slot it was scored on; `alone` are those of the slot alone, for jumps."""
    messages, forecast = expert
    after = Gaussians.empty(messages.mean.size)
    for here in blocks(messages.mean.size):
        _assimilate(messages[here], forecast[here], scored.slot, scored.slope[here], after[here])
    at, jumped = scored.where, scored.jumped
    mean, variance = after.mean[at], after.variance[at]
    away = alone.mean[at] - mean
    after.mean[at] = mean + jumped * away
    after.variance[at] = variance + jumped * (alone.variance[at] - variance + (1 - jumped) * away**2)
    return after


def _assimilate(messages: Gaussians, forecast: Gaussians, slot: Slot, slope: Floats, after: Gaussians) -> None:
    """Fill in `after` as if no bin had jumped."""
    expected, known = slot.expected(forecast)
    information = _laplace_gauss.information(known + slot.scatter(expected), slot.counts.noise)
    known *= information
    gain = slot.scale**2 * messages.variance  # precision of the site over that of the message
    gain *= information
    gain /= np.maximum(1 - known, 1e-3)
    information *= slot.scale
    away = slope / information
    away += forecast.mean
    away -= messages.mean
    away *= gain
    gain += 1
    np.divide(messages.variance, gain, out=after.variance)
    away /= gain
    np.add(messages.mean, away, out=after.mean)
