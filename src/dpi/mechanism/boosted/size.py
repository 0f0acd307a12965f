"""How large a slot is: the scale s at which a measurement looks like s times the forecast PDF.

The forecast helps twice: a robust ratio over its large bins is far more exact than the noisy sum, and a bin that jumps
does not disturb it. Sees a slot's counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.jumps import JUMP
from dpi.mechanism.filtering import laplace_gauss as _laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import Reals

LARGEST_VARIANCE = 0.25
"""The relative variance by which sizes change never counts as more: those within a factor of about e are no surprise.

Source: by trial; not measured by itself.
"""

SURPRISE = 2.0
"""Log odds against a size out of all expectation. Holidays and crowds are common; that all bins are new at once
(`FRESH`) must be the rarer explanation, or a quiet week would wipe the memory out.

Source: by trial; not measured by itself.
"""

FAR = 4.0
"""Deviations by which the sum may differ from the expected size before that counts for nothing.

Source: by trial; not measured by itself.
"""

RAREST = 1e-6
"""The least that a slot says, where it decides by how many deviations more: 6.6 instead of 4, which is noise in one
slot of 10¹¹. After an empty week a slot says next to nothing by what was expected, and a crowd has to be seen all the
same.

Source: by calculation.
"""

REACH = 2.0
"""Deviations of a size within which log scores are parabolas of its logarithm.

Source: by definition; beyond, sizes are a surprise.
"""

EMPTY = 0.01
"""The scale of a slot without users: the smallest that there is.

Source: by definition; a user is a hundred times as many.
"""

ENOUGH = 4096
"""The largest bins, by forecast, fix the scale; further ones would add nothing but time.

Source: by trial; not measured by itself.
"""


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
        """The relative variance by which scales change, after one was `seen` where this was the `prior`.

        The noisier it is, the less it counts, as in a step of Newton on the log score: the information that a
        deviation of variance q + r has of q is 1 / 2(q + r)².
        """
        unit = max(prior[0], scale) ** 2
        noise = (seen[1] + max(prior[1] - self.change * self.scale**2, 0.0)) / unit
        moved = (seen[0] - prior[0]) ** 2 / unit - noise
        counts = 0.05 * (LARGEST_VARIANCE / (LARGEST_VARIANCE + noise)) ** 2
        return float(np.clip(self.change + counts * (min(moved, 4.0) - self.change), 1e-4, LARGEST_VARIANCE))

    def __post_init__(self) -> None:
        for field in fields(self):  # numpy's floats have other powers in the last digit: a resumed state would differ
            object.__setattr__(self, field.name, float(getattr(self, field.name)))


@dataclass(frozen=True, eq=False)
class Counts:
    """What was measured of a slot, in users: true counts plus Laplace noise of scale `noise`."""

    values: Floats
    noise: float

    @property
    def total(self) -> float:
        """Noisy number of users."""
        return float(self.values.sum())

    @property
    def total_variance(self) -> float:
        """Variance of the noise in the total."""
        return 2 * self.values.size * self.noise**2

    @property
    def nobody(self) -> float:
        """Log score if all of it is noise."""
        return -float(np.abs(self.values).sum()) / self.noise - self.values.size * float(np.log(2 * self.noise))


def first(counts: Counts) -> Size:
    """The size of the first slot ever: its sum. One that is too small is safe: counts then say less of levels."""
    scale = max(counts.total, 1.0)
    return Size(scale, counts.total_variance / scale**2, 0.02)


def of_sum(counts: Counts, expected: Size, jump: float) -> Size:
    """The size by the sum, whatever the PDF: together with what was expected, unless they are far apart.

    The less a slot can say, the farther that has to be: in endlessly many slots that drown, some sum lies beyond any
    number of deviations, and its users would be phantoms for long.

    A crowd in a single bin may be lost in the noise of the sum, and still be seen: it comes in addition. It has to be
    likelier than noise that large is, in any bin, if a bin jumps with log probability `jump`.
    """
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


def fit(counts: Counts, forecast: Gaussians, expected: Size, plain: Size, dispersion: float, fresh: Reals) -> Size:
    """The scale of highest evidence among a robust ratio, the sum, the expected scale, and mixtures of them.

    Evidence is the log score of the large bins, each of which may have jumped (`fresh` is its log density then), times
    a heavy-tailed prior around the expected scale. Bins are chosen by forecast, never by measurement: that would bias.
    `plain` is the size by the sums, and as little of a surprise as the expected one: after an empty week the scale
    comes back, and one that fell too low is not its own reason to stay there. What is seen takes the place of what was
    expected, whose knowledge is lost, only where it is known within `LARGEST_VARIANCE`, or as a surprise: in slots that
    drown, sizes would follow the noise.
    """
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
    stays = _laplace_gauss.evidence(values - mean, variance, counts.noise).log_density
    stays = np.logaddexp(stays + np.log1p(-JUMP), (fresh + np.log(JUMP)).astype(stays.dtype))
    surprise = np.minimum(np.log(scales / scale) ** 2, np.log(scales / plain.scale) ** 2) / expected.variance
    signal = 0.5 * (max(scale, plain.scale) / counts.noise) ** 2 * float(belief.mean @ belief.mean)
    rare = SURPRISE - np.log(max(-np.expm1(-signal), 1e-300))  # a slot drowned in noise shows no surprise
    odds = rare + np.log1p(surprise)
    np.minimum(odds, 0.5 * surprise, out=odds, where=np.array([one.expected for one in candidates]))
    (best, variance_of_best), seen, _ = candidates[int(np.argmax(stays.sum(1, dtype=np.float64) - odds))]
    return Size(best, variance_of_best / best**2, expected.changed(prior, seen, best))


def marginal(evidence: Floats, pull: Floats, hold: Floats, away: Floats, variance: float, nobody: float) -> Floats:
    """Log scores at one size, averaged over all sizes that may be.

    `pull` and `hold` are slope and information of each score by the logarithm of the size, of which `away` was
    expected, with a `variance`. By Laplace's method, which holds near the size that was used: within `REACH`
    deviations. Other sizes are the same surprise to all experts; but where nobody is there, which `nobody` is the log
    score of, all of them are equally right.
    """
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


def total(fitted: Size, plain: Size, mass: float) -> tuple[float, float]:
    """Number of users and its variance: the fitted size for levels of sum `mass`, or the size by the sums.

    They share a slot's noise, so the better known of the two counts, and the sums where the two are far apart.
    """
    users, variance = fitted.scale * mass, fitted.variance * (fitted.scale * mass) ** 2
    noise = plain.variance * plain.scale**2
    if variance > noise or (users - plain.scale) ** 2 > FAR**2 * (variance + noise):
        return plain.scale, noise
    return users, variance
