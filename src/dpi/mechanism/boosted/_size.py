"""How large a slot is, which part of its users still pays, and what its noisy counts say of levels.

A slot's scale s is that at which a measurement looks like s times the forecast PDF. Once accounts may be empty, a
median over a season, or the last size without one, tells against the largest before which part of the users pays. A
count is Poisson-like around scale · level, with `dispersion` times the variance of Poisson, plus Laplace noise; the new
message is the old one times a Gaussian site with the exact slope and the expected Fisher information (assumed-density
filtering). Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted._experts import JUMP
from dpi.mechanism.filtering._gaussians import Gaussians, blocks
from dpi.mechanism.filtering._population import WIDTH, grid_levels
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts, Reals, score_evidence

GROWTH = 25
"""Slots in which accounts may be empty whose median must be above the largest before it is a growth: a crowd that goes
again would otherwise make all others look like a few. Source: by trial."""


ALL_PAY = 0.8
"""From this part on all are taken to pay: sizes vary by themselves, and where a slot takes a part of an account, even
those who have all of it pay somewhat less than one. Source: `dpi reproduce methods` and benchmarks/real.py, with and
without it (docs/utility.md, Real streams)."""


@dataclass(frozen=True)
class Payers:
    """Sizes of past slots.

    >>> payers = Payers().after(100, partial=False)
    >>> payers.after(99, partial=True).coverage, payers.after(33, partial=True).coverage
    (1.0, 0.33)
    >>> day = payers.after(99, partial=True, season=3).after(60, partial=True, season=3)
    >>> day.after(33, partial=True, season=3).coverage  # the median of 99, 60 and 33
    0.6
    """

    reference: float = 0.0
    """The largest typical size. It is never forgotten: those who came once and paid do not pay again."""
    recent: tuple[float, ...] = ()
    """The sizes of the last slots."""
    partial: bool = False
    """Whether accounts may have been empty in them."""
    season: int = 1
    """Slots whose median is typical."""

    def after(self, size: float, *, partial: bool, season: int | None = None) -> Payers:
        """With one more slot, of a declared `season` of so many."""
        before, whole = self.recent if partial is self.partial else (), season or 1
        recent = (*before, float(size))[-max(whole, GROWTH) :]
        if partial:
            grown = median(recent) if len(recent) >= max(whole, GROWTH) else 0.0
            return Payers(max(self.reference, grown), recent, partial, whole)
        typical = median(recent[-whole:])
        first = not self.partial and len(before) < whole
        return Payers(typical if first else max(self.reference, typical), recent, partial, whole)

    @property
    def coverage(self) -> float:
        """Payers among the active users of the last slot."""
        known = self.reference or max(self.recent, default=0.0)  # of a view never seen while all could pay
        if not self.partial or not known:
            return 1.0
        part = median(self.recent[-self.season :]) / known
        return part if part < ALL_PAY else 1.0


LARGEST_VARIANCE = 0.25
"""The relative variance by which sizes change never counts as more: those within a factor of about e are no surprise.
Source: by trial."""
SURPRISE = 2.0
"""Log odds against a size out of all expectation. Holidays and crowds are common; that all bins are new at once
(`FRESH`) must be the rarer explanation, or a quiet week would wipe the memory out. Source: by trial."""
FAR = 4.0
"""Deviations by which the sum may differ from the expected size before that counts for nothing. Source: by trial."""
RAREST = 1e-6
"""The least that a slot says, where it decides by how many deviations more: 6.6 instead of 4, which is noise in one
slot of 10¹¹. After an empty week a slot says next to nothing by what was expected, and a crowd has to be seen all the
same. Source: by calculation."""
REACH = 2.0
"""Deviations of a size within which log scores are parabolas of its logarithm. Source: by definition."""
EMPTY = 0.01
"""The scale of a slot without users: the smallest that there is. Source: by definition."""
ENOUGH = 4096
"""The largest bins, by forecast, fix the scale; further ones would add nothing but time. Source: by trial."""


@dataclass(frozen=True)
class Size:
    """A slot's scale, its relative variance, and the relative variance by which scales change from slot to slot.

    The scale of a slot that is drowned in noise may vary by far more than itself.
    """

    scale: float
    variance: float
    change: float

    def forecast(self) -> Size:
        """The belief about the next slot's size."""
        return replace(self, variance=max(min(self.variance + self.change, LARGEST_VARIANCE), self.variance))

    def changed(self, prior: tuple[float, float], seen: tuple[float, float], scale: float) -> float:
        """The relative variance by which scales change, after one was `seen` where this was the `prior`."""
        unit = max(prior[0], scale) ** 2
        noise = (seen[1] + max(prior[1] - self.change * self.scale**2, 0.0)) / unit
        moved = (seen[0] - prior[0]) ** 2 / unit - noise
        counts = 0.05 * (LARGEST_VARIANCE / (LARGEST_VARIANCE + noise)) ** 2
        return float(np.clip(self.change + counts * (min(moved, 4.0) - self.change), 1e-4, LARGEST_VARIANCE))

    def __post_init__(self) -> None:
        for field in fields(self):  # numpy's floats have other powers in the last digit: a resumed state would differ
            object.__setattr__(self, field.name, float(getattr(self, field.name)))


def first_size(counts: NoisyCounts) -> Size:
    """The size of the first slot ever: its sum. One that is too small is safe: counts then say less of levels."""
    scale = max(counts.total, 1.0)
    return Size(scale, counts.total_variance / scale**2, 0.02)


def size_by_sum(counts: NoisyCounts, expected: Size, jump: float) -> Size:
    """The size by the sum, whatever the PDF: together with what was expected, unless they are far apart."""
    prior, direct = (expected.scale, expected.scale**2 * expected.variance), (counts.total, counts.total_variance)
    least = FAR**2 + 2 * min(math.log(JUMP) - jump, -math.log(RAREST))
    far = (direct[0] - prior[0]) ** 2 > least * (prior[1] + direct[1])
    crowd = float(counts.values.max())
    surely = crowd - counts.noise * (float(np.log(counts.values.size)) - jump)
    if not far and surely > prior[0] + FAR * prior[1] ** 0.5:
        prior = (prior[0] + crowd, prior[1] + 2 * counts.noise**2)
    scale, variance = direct if far else _fused(prior, direct)
    scale = max(scale, 1.0)
    return Size(scale, variance / scale**2, expected.changed(prior, direct, scale))


class _Candidate(NamedTuple):
    """A scale with its variance, what was seen that speaks for it, and whether it may be just what was expected."""

    size: tuple[float, float]
    seen: tuple[float, float]
    expected: bool


def fit_size(
    counts: NoisyCounts, forecast: Gaussians, expected: Size, plain: Size, dispersion: float, fresh: Reals
) -> Size:
    """The scale of highest evidence among a robust ratio, the sum, the expected scale, and mixtures of them."""
    bins = counts.values.size
    largest = np.argpartition(forecast.mean, bins - ENOUGH)[bins - ENOUGH :] if bins > ENOUGH else slice(None)
    values, fresh = counts.values[largest], fresh[largest]
    belief = Gaussians(forecast.mean[largest], forecast.variance[largest])
    scale = max(expected.scale, EMPTY)
    prior = (scale, scale**2 * expected.variance)
    direct = (counts.total, counts.total_variance)
    ratio = _ratio(values, belief, scale, dispersion, counts.noise)
    other = _ratio(values, belief, max(counts.total, 1.0), dispersion, counts.noise)
    limit = LARGEST_VARIANCE * scale**2
    found = [
        _Candidate((scale, _fused(prior, ratio)[1]), ratio, True),
        _Candidate((plain.scale, plain.variance * plain.scale**2), direct, True),
        *(_Candidate(_fused(prior, seen), seen, True) for seen in (ratio, other, direct)),
        *(_Candidate(seen, seen, seen[1] < limit) for seen in (ratio, other, direct)),
        _Candidate((EMPTY, EMPTY**2), direct, False),
    ]
    candidates = [one for one in found if one.size[0] >= EMPTY]
    scales = np.array([one.size[0] for one in candidates])
    mean = scales[:, None] * belief.mean
    variance = dispersion * mean + scales[:, None] ** 2 * belief.variance
    stays = score_evidence(values - mean, variance, counts.noise).log_density
    stays = np.logaddexp(stays + np.log1p(-JUMP), (fresh + np.log(JUMP)).astype(stays.dtype))
    surprise = np.minimum(np.log(scales / scale) ** 2, np.log(scales / plain.scale) ** 2) / expected.variance
    signal = 0.5 * (max(scale, plain.scale) / counts.noise) ** 2 * float(belief.mean @ belief.mean)
    rare = SURPRISE - np.log(max(-np.expm1(-signal), 1e-300))  # a slot drowned in noise shows no surprise
    odds = rare + np.log1p(surprise)
    np.minimum(odds, 0.5 * surprise, out=odds, where=np.array([one.expected for one in candidates]))
    (best, variance_of_best), seen, _ = candidates[int(np.argmax(stays.sum(1, dtype=np.float64) - odds))]
    return Size(best, variance_of_best / best**2, expected.changed(prior, seen, best))


def marginal_scores(
    evidence: Floats, pull: Floats, hold: Floats, away: Floats, variance: float, nobody: float
) -> Floats:
    """Log scores at one size, averaged over all sizes that may be."""
    reach = REACH * variance**0.5
    expected = np.clip(away, -reach, reach)
    pull, hold = pull + expected / variance, hold + 1 / variance
    best = np.clip(pull / hold, -reach, reach)
    gain = best * (pull - 0.5 * hold * best) - 0.5 * expected**2 / variance
    return np.logaddexp(evidence + gain - 0.5 * np.log(hold * variance), nobody - SURPRISE)


def _fused(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Two estimates with their variances, by precision."""
    gain = one[1] / (one[1] + other[1])
    return one[0] + gain * (other[0] - one[0]), gain * other[1]


def _ratio(values: Floats, belief: Gaussians, scale: float, dispersion: float, noise: float) -> tuple[float, float]:
    """Weighted median of value / forecast and its variance, with the precision of the bins near `scale` as weights."""
    deviation = np.sqrt(2 * noise**2 + scale**2 * belief.variance + dispersion * scale * belief.mean)
    weights = belief.mean / deviation
    ratios = values / belief.mean
    order = np.argsort(ratios)
    cumulative = np.cumsum(weights[order])
    middle = min(int(np.searchsorted(cumulative, 0.5 * cumulative[-1])), ratios.size - 1)
    return float(ratios[order[middle]]), 1.5 / float((weights**2).sum())


def total_users(fitted: Size, plain: Size, mass: float) -> tuple[float, float]:
    """Number of users and its variance: the fitted size for levels of sum `mass`, or the size by the sums."""
    users, variance = fitted.scale * mass, fitted.variance * (fitted.scale * mass) ** 2
    noise = plain.variance * plain.scale**2
    if variance > noise or (users - plain.scale) ** 2 > FAR**2 * (variance + noise):
        return plain.scale, noise
    return users, variance


BIAS = 0.02
SAMPLING = 1.5
"""Of users without budget left a slot says nothing. With a share c of the users paying, a probability p differs between
payers and all by a variance of p·(min(BIAS, p)·(1 - c)² + SAMPLING·(1 - c)/payers): who comes may be of another kind,
though by no more than about the whole of p, and is drawn by chance. Source: by trial (benchmarks/churn.py)."""
ALL_BINS = slice(None)

_FRESH_NODES = 200
"""Nodes of the table in which a fresh start is read. Source: by trial."""


@dataclass(frozen=True)
class Dispersion:
    """Variance of a slot's counts around their rates, relative to Poisson, and the information that is known by.

    It starts at one, which is right for users who come independently and have one bin each.
    """

    value: float = 1.0
    information: float = 20.0

    @property
    def likely(self) -> float:
        """One deviation above the value: what is used, because it is itself an estimate."""
        return self.value + 1 / math.sqrt(self.information)

    def stepped(self, score: float, information: float) -> Dispersion:
        """After one stochastic Newton step; old information fades over about 500 slots, down to the first."""
        first = type(self)()
        fading = 0.002 * self.information
        known = self.information - fading + 0.002 * first.information + information
        pull = 0.002 * first.information * (first.value - self.value)
        return Dispersion(float(np.clip(self.value + (score + pull) / known, 0.01, 10)), known)


@dataclass(frozen=True, eq=False)
class Slot:
    """A slot's counts, the scale at which levels become counts, and the dispersion of counts around that."""

    counts: NoisyCounts
    size: Size
    dispersion: float
    bins: int
    """Of the domain: the counts may be those of a part."""
    coverage: float = 1.0
    """Payers among the active users, as far as public numbers tell."""

    def at(self, bins: slice | Integers) -> Slot:
        """Of some bins."""
        return replace(self, counts=replace(self.counts, values=self.counts.values[bins]))

    @property
    def scale(self) -> float:
        """Users per unit of level."""
        return self.size.scale

    def scatter(self, expected: Reals) -> Reals:
        """Variance of the counts around their rates, by the slot's own randomness and by who still pays."""
        own = expected * self.dispersion
        return own if self.coverage == 1 else own + self.scale**2 * self.doubt(expected / self.scale)

    def doubt(self, share: Reals) -> Reals:
        """Variance of probabilities between payers and all active users."""
        missing = 1 - self.coverage
        kind = np.minimum(share, BIAS)
        kind *= missing**2
        kind += SAMPLING * missing / max(self.scale, 1.0)
        return kind * share

    def alone(self, *, own: bool, at: slice | Integers = ALL_BINS) -> Gaussians:
        """Messages of this slot alone, as if nothing had been seen before: of the rates or, with `own`, of its PDF."""
        values, noise = self.counts.values[at], self.counts.noise
        variance = np.full(values.shape, 2 * noise**2)
        if not own:
            variance += self.scatter(np.maximum(values, 0))
        large = np.flatnonzero(values > 4 * noise)
        doubtful = large[values[large] < (4 + math.log(self.bins)) * noise]
        variance[doubtful] += 0.5 * values[doubtful] * noise - 2 * noise**2
        variance /= self.scale**2
        return Gaussians(values / self.scale, variance)

    def fresh(self, population: Floats) -> Reals:
        """Log density of every count if its level were drawn anew from the population."""
        values, noise = self.counts.values, self.counts.noise
        lowest, highest = (_logarithm(np.array([end / noise], np.float32))[0] for end in (values.min(), values.max()))
        nodes, step = np.linspace(min(lowest, -1), max(highest, 1), _FRESH_NODES, retstep=True)
        mean = self.scale * grid_levels(self.bins)
        variance = (WIDTH * mean) ** 2 + self.scatter(mean)
        log = score_evidence(_exponential(nodes)[:, None] * noise - mean, variance, noise).log_density
        top = log.max(1)
        table = top + np.log(np.exp(log - top[:, None]) @ population)
        start, slope = table.astype(np.float32), np.append(np.diff(table), 0).astype(np.float32)
        found = np.empty(values.size, dtype=np.float32)
        for here in blocks(values.size, 1 << 13):
            place = _logarithm((values[here] / noise).astype(np.float32))
            place -= np.float32(nodes[0])
            place /= np.float32(step)
            np.minimum(np.maximum(place, 0, out=place), _FRESH_NODES - 1, out=place)
            left = place.astype(np.int64)
            place -= left
            place *= slope.take(left)
            np.add(place, start.take(left), out=found[here])
        return found


def _logarithm(x: Reals) -> Reals:
    """The sign of x times the logarithm to base two of 1 + |x|, but straight between powers of two, by its bits."""
    bits = (np.abs(x) + np.float32(1)).view(np.int32) - np.float32(1).view(np.int32)
    return np.asarray(np.copysign(bits.astype(np.float32) * np.float32(2.0**-23), x))


def _exponential(place: Floats) -> Floats:
    """The inverse of `_logarithm`.

    >>> _exponential(np.array([-1.5, 0.0, 3.25])).tolist(), _logarithm(np.float32([-2, 0, 9])).tolist()
    ([-2.0, 0.0, 9.0], [-1.5, 0.0, 3.25])
    """
    whole = np.floor(np.abs(place))
    return np.asarray(np.copysign((1 + np.abs(place) - whole) * np.exp2(whole) - 1, place))


def assimilate(
    messages: Gaussians, forecast: Gaussians, scales: Floats, slope: Reals, information: Reals
) -> tuple[Gaussians, Floats]:
    """The messages after the slot, given each one's scale, and slope and information of its log score by the count."""
    units = scales**2 * information
    site = units * forecast.variance
    np.subtract(1, site, out=site)
    np.divide(messages.variance, np.maximum(site, 1e-3, out=site), out=site)
    units *= site  # precision of the site over that of the message
    mean = forecast.mean - messages.mean
    mean *= units
    site *= scales
    site *= slope
    mean += site
    units += 1
    left = np.divide(1, units, out=units)
    mean *= left
    mean += messages.mean
    return Gaussians(mean, messages.variance * left), left
