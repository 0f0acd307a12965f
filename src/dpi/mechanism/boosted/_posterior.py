"""From the experts' beliefs to the release: the posterior of the slot's own PDF, a mixture over the experts.

An expert's belief about a count x is N(m, P), with P by what it does not know of the rate and by the slot's own
randomness. Measured with Laplace noise, x has the mean m + P·(log Z)'(m) and the variance P + P²·(log Z)''
(`dpi.mechanism.filtering.laplace_gauss`). Sees beliefs and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted._experts import Walked, Weights
from dpi.mechanism.boosted._forecast import Forecast, Recalled, Scored, block_width
from dpi.mechanism.boosted._size import Slot
from dpi.mechanism.filtering._gaussians import Gaussians, blocks
from dpi.mechanism.filtering._population import Readout
from dpi.mechanism.filtering.laplace_gauss import Reals

WIDE = 50.0
"""From this many b² on, a belief about a count is so wide that what was measured of it is all there is. Source: by
calculation."""


SLACK = 1.15
"""The variance of a probability counts this much more: it is computed as if the experts' models and their Gaussian
beliefs were true. Source: by trial (benchmarks/utility.py)."""


@dataclass(frozen=True, eq=False)
class Belief:
    """A PDF with the variance of each probability, and the share of each bin that is prior."""

    pdf: Floats
    variance: Floats
    skew: Floats


class Totals(NamedTuple):
    """Sums over all bins, of each expert: of the means of counts, and of their variances."""

    mean: Floats
    variance: Floats


def settle_variance(variance: Floats, slope: Reals, heat: Reals, noise: float) -> Floats:
    """The variance of counts after the slot, from that before it and the derivatives of the log score."""
    curvature = heat + heat
    curvature -= slope * slope
    seen = variance * curvature
    seen += 1
    seen *= variance
    alone = 2 * noise**2
    wide = variance > WIDE * noise**2
    if wide.any():
        far = variance[wide]
        seen[wide] = far * alone / (far + alone)
    return np.asarray(np.maximum(seen, 0.02 * variance, out=seen))


def normalise_counts(counts: Gaussians, totals: Totals) -> Gaussians:
    """PDFs of counts that are known up to independent errors: each is a part of the total that it is divided by."""
    total = totals.mean[:, None]
    pdf = counts.mean / total
    spread = 1 - 2 * pdf
    spread *= counts.variance
    spread += pdf**2 * totals.variance[:, None]
    np.maximum(spread, 0, out=spread)
    spread /= total**2
    return Gaussians(pdf, spread)


def mix_beliefs(weights: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture."""
    mean = weights @ means
    away = means - mean
    away *= away
    away += variances
    return mean, np.asarray(weights @ away)


def bound_variance(variance: Floats, pdf: Floats) -> Floats:
    """The variance, but at most p(1 - p): nothing between 0 and 1 with mean p varies more."""
    return np.clip(variance, 1e-30, np.maximum(pdf * (1 - pdf), 1e-30))


SMALLEST = 1e-15
"""The smallest probability that is released: a PDF is positive, also where a count is far beyond all that users make.
Source: by definition."""
LIKELY = 1e-3
"""A bin that has jumped with less than this probability is released as if it had not. Source: by calculation."""


@dataclass(frozen=True, eq=False)
class Heard:
    """Which experts of a forecast are heard, each of which has a row, and last the uniform PDF."""

    shares: Floats
    """Weights in the release."""
    group: Floats
    """Weights among those that know the past, or of the restart if all is new."""
    scales: Floats
    lead: int
    """The row of the leader."""

    @property
    def rows(self) -> list[int]:
        """Those with a share, and the leader's; the challenger speaks for single bins alone."""
        return sorted({self.lead, *map(int, np.flatnonzero(self.shares[:-2]))})

    @classmethod
    def of(cls, weights: Weights, scales: Floats) -> Heard:
        """All experts."""
        among = np.arange(scales.size)
        group = weights.experts * (among == weights.restart if weights.all_new else among < weights.restart)
        return cls(weights.heard(), group, scales, weights.leader)

    def merged(self, recalled: Recalled) -> Heard:
        """The rows of all bins, one of which may stand for all trackers."""
        every = recalled.every
        shares, group = (recalled.summed(part, every) for part in (self.shares, self.group))
        return Heard(shares, group, self.scales[recalled.trackers - 1 :], recalled.row(self.lead, every))


@dataclass(frozen=True, eq=False)
class Counted:
    """Of some bins: the posteriors of their counts, of each expert that is heard and of the uniform PDF."""

    counts: Gaussians
    levels: Floats
    """Sums of levels after the slot, of each expert that is heard."""
    skew: Floats
    lead: Gaussians
    """What the leader's messages say after the slot."""

    @property
    def totals(self) -> Totals:
        """Sums over the bins."""
        return Totals(self.counts.mean.sum(1), self.counts.variance.sum(1))


@dataclass(frozen=True, eq=False)
class After:
    """A slot after the experts were weighed."""

    slot: Slot
    doubtful: Slot
    """With the largest dispersion that is likely."""
    readout: Readout
    newborn: bool
    """Whether the restart has started again."""

    def at(self, bins: Integers) -> After:
        """Of some bins."""
        return replace(self, slot=self.slot.at(bins))


def release_posterior(
    recalled: Recalled, scored: list[Scored], after: After, heard: Heard
) -> tuple[Belief, float, Gaussians]:
    """The posterior of the slot's PDF, the best group's sum of levels, and what the leader's row says after it."""
    merged, at = heard.merged(recalled), recalled.at
    every = _counted(recalled.every, scored[0], after, merged)
    group = heard.group[heard.rows]
    if recalled.loud is None:
        levels = every.levels
        pdf, spread = _mixed(every, merged, every.totals)
    else:
        own = _counted(recalled.loud, scored[1], after.at(at), heard)
        totals, levels = _exchanged(every, own, at)
        pdf, spread = _mixed(every, merged, _together(totals, heard, merged))
        pdf[at], spread[at] = _mixed(own, heard, totals)
        every.skew[at] = own.skew
    if after.slot.coverage < 1:
        spread += after.slot.doubt(pdf)
    np.maximum(pdf, SMALLEST, out=pdf)
    spread *= SLACK
    return (
        Belief(pdf / pdf.sum(), bound_variance(spread, pdf), every.skew),
        float(group @ levels / group.sum()),
        every.lead,
    )


def _exchanged(every: Counted, own: Counted, at: Integers) -> tuple[Totals, Floats]:
    """The totals of all experts, and their sums of levels: a tracker's loud bins are its own, all others are shared."""
    trackers = len(own.levels) - len(every.levels) + 1
    there = [part[:, at].sum(1) for part in (every.counts.mean, every.counts.variance)]
    sums = [
        np.append(whole[0] - inside[0] + new[:trackers], whole[1:])
        for whole, inside, new in zip(every.totals, there, own.totals, strict=True)
    ]
    levels = every.levels[0] - float(every.lead.mean[at].sum()) + own.levels[:trackers]
    return Totals(*sums), np.append(levels, every.levels[1:])


def _together(totals: Totals, heard: Heard, merged: Heard) -> Totals:
    """The totals of the row for all trackers: that by which their mixture is divided."""
    trackers = len(heard.rows) - len(merged.rows) + 1
    weights = np.maximum(heard.shares[heard.rows[:trackers]], 1e-300)
    weights = weights / weights.sum()
    mean, variance = (part[:trackers] for part in totals)
    return Totals(
        np.append(1 / (weights @ (1 / mean)), totals.mean[trackers:]),
        np.append(weights @ variance, totals.variance[trackers:]),
    )


def _counted(forecast: Forecast, scored: Scored, after: After, heard: Heard) -> Counted:
    """The posteriors of counts, block by block; where bins may have jumped, together with the challenger's."""
    rows, restart, slot = heard.rows, forecast.restart, after.slot
    counts = Gaussians.empty(len(rows) + 1, forecast.bins)
    lead, skew, levels = Gaussians.empty(forecast.bins), np.zeros(forecast.bins), np.zeros(len(rows))
    share, lead_at = heard.shares[rows], rows.index(heard.lead)
    for here in blocks(forecast.bins, block_width(len(rows) + 1)):
        told, read = _read(forecast.pool, rows, here, after.readout)
        before = Gaussians(forecast.readings.mean[rows, here], forecast.readings.variance[rows, here])
        slope, heat = scored.slope[:, here][[*rows, -1]], scored.heat[:, here][[*rows, -1]]
        counts.mean[:, here], counts.variance[:, here] = _believed(
            _with_uniform(read, forecast.uniform),
            _with_uniform(before, forecast.uniform),
            slope,
            heat,
            after,
            heard.scales[[*rows, -1], None],
        )
        levels += read.mean.sum(1)
        skew[here] = share @ np.maximum(1 - read.variance / told, 0)
        lead.mean[here], lead.variance[here] = read.mean[lead_at], read.variance[lead_at]
    if after.newborn and restart in rows:
        own = after.readout.read(slot.alone(own=True)).rescaled(slot.scale)
        counts.mean[rows.index(restart)], counts.variance[rows.index(restart)] = own.mean, own.variance
    _jumped(forecast, scored, after, heard, counts)
    return Counted(counts, levels, skew, lead)


def _jumped(forecast: Forecast, scored: Scored, after: After, heard: Heard, counts: Gaussians) -> None:
    """Mix the challenger's counts in, where bins may have jumped."""
    past = [row for row in heard.rows if row < forecast.restart]
    if not past:
        return
    jumped, slot, row = scored.jumped[past], after.slot, [forecast.restart + 1]
    at = np.flatnonzero(jumped.max(0) > LIKELY)
    _, read = _read(forecast.pool, row, at, after.readout)
    before = Gaussians(*(part[row[0], at][None] for part in (forecast.readings.mean, forecast.readings.variance)))
    slope, heat = scored.slope[row[0], at][None], scored.heat[row[0], at][None]
    mean, variance = (part[0] for part in _believed(read, before, slope, heat, after, heard.scales[-1]))
    born = np.flatnonzero(scored.newborn[at])
    own = after.readout.read(slot.alone(own=True, at=at[born])).rescaled(slot.scale)
    mean[born], variance[born] = own.mean, own.variance
    chance = jumped[:, at].astype(np.float64)
    away = mean - counts.mean[: len(past), at]
    counts.mean[: len(past), at] += chance * away
    counts.variance[: len(past), at] += (
        chance * (variance - counts.variance[: len(past), at]) + chance * (1 - chance) * away**2
    )


def _read(pool: Walked, rows: list[int], at: slice | Integers, readout: Readout) -> tuple[Floats, Gaussians]:
    """Variances of messages after the slot, as they were measured, and what the messages say."""
    part = Walked(
        Gaussians(pool.messages.mean[:, at][rows], pool.messages.variance[:, at][rows]), pool.walk[:, at][rows]
    )
    told = part.measured
    read = readout.read(told)
    return told.variance, Gaussians(read.mean, np.add(read.variance, part.walk, out=read.variance))


def _with_uniform(part: Gaussians, uniform: float) -> Gaussians:
    bins = part.mean.shape[1]
    return Gaussians(
        np.concatenate([part.mean, np.full((1, bins), uniform)]), np.concatenate([part.variance, np.zeros((1, bins))])
    )


def _believed(
    read: Gaussians, before: Gaussians, slope: Reals, heat: Reals, after: After, scale: Floats
) -> tuple[Floats, Floats]:
    """Mean and variance of counts after the slot."""
    slot = after.slot
    gain = slope * (slot.coverage * slot.dispersion)
    gain += 1
    mean = scale * read.mean
    mean *= np.maximum(gain, 0.1, out=gain)
    scatter = slot.scatter(scale * before.mean)
    first = scatter + scale**2 * before.variance
    known = settle_variance(first, slope, heat, slot.counts.noise)
    scatter *= after.doubtful.dispersion / slot.dispersion - 1
    np.divide(known, first, out=first)
    first *= first
    first *= scatter
    first += known
    return mean, first


def _mixed(counted: Counted, heard: Heard, totals: Totals) -> tuple[Floats, Floats]:
    """Mean and variance of the mixture of the experts' PDFs."""
    bins = counted.skew.size
    shares, mixed = heard.shares[[*heard.rows, -1]], Gaussians.empty(bins)
    for here in blocks(bins, block_width(shares.size)):
        part = Gaussians(counted.counts.mean[:, here], counted.counts.variance[:, here])
        one = normalise_counts(part, totals)
        mixed.mean[here], mixed.variance[here] = mix_beliefs(shares, one.mean, one.variance)
    return mixed.mean, mixed.variance
