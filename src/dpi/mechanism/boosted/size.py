"""How large a slot is: the scale s at which a measurement looks like s times the forecast PDF.

The forecast helps twice: a robust ratio over its large bins is far more exact than the noisy sum, and a bin that jumps
does not disturb it. Sees a slot's counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted import laplace_gauss as _laplace_gauss
from dpi.mechanism.boosted.experts import Gaussians

LARGEST_VARIANCE = 0.25
"""The relative variance of a slot's size never counts as more: sizes within a factor of about e are no surprise.

Source: by trial; not measured by itself.
"""

JUMP = 1e-4
"""Probability that a bin jumps to a level that has nothing to do with its past.

Source: by trial; not measured by itself.
"""

SURPRISE = 2.0
"""Log odds against a size out of all expectation. Holidays and crowds are common; that all bins are new at once
(`FRESH`) must be the rarer explanation, or a quiet week would wipe the memory out.

Source: by trial; not measured by itself.
"""

LOUD = 8
"""A total of this many standard deviations of its noise is heard even where no signal was expected.

Source: by trial; not measured by itself.
"""

ENOUGH = 4096
"""The largest bins, by forecast, fix the scale; further ones would add nothing but time.

Source: by trial; not measured by itself.
"""


@dataclass(frozen=True)
class Size:
    """A slot's scale, its relative variance, and the relative variance by which scales change from slot to slot."""

    scale: float
    variance: float
    change: float

    def forecast(self) -> Size:
        """The belief about the next slot's size."""
        return replace(self, variance=min(self.variance + self.change, LARGEST_VARIANCE))

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


def first(counts: Counts) -> Size:
    """The size of the first slot ever: its sum, but never less than the noise of the sum."""
    scale = max(counts.total, counts.total_variance**0.5, 1.0)
    return Size(scale, min(counts.total_variance / scale**2, LARGEST_VARIANCE), 0.02)


def of_sum(counts: Counts, expected: Size) -> Size:
    """The size by the sum alone, as if nothing but the expected size were known: for a slot in which all is new."""
    total, noise = counts.total, counts.total_variance
    prior = expected.scale**2 * expected.variance
    if abs(total - expected.scale) > 4 * (prior + noise) ** 0.5:
        scale = max(total, 1.0)
        return replace(expected, scale=scale, variance=noise / scale**2)
    scale = max(expected.scale + prior / (prior + noise) * (total - expected.scale), 1.0)
    return replace(expected, scale=scale, variance=prior * noise / (prior + noise) / scale**2)


def fit(counts: Counts, forecast: Gaussians, expected: Size, dispersion: float, fresh: Floats) -> Size:
    """The scale of highest evidence among a robust ratio, the sum, the expected scale, and mixtures of them.

    Evidence is the log score of the large bins, each of which may have jumped (`fresh` is its log density then), times
    a heavy-tailed prior around the expected scale. Bins are chosen by forecast, never by measurement: that would bias.
    """
    total, noise = counts.total, counts.total_variance
    bins = counts.values.size
    largest = np.argpartition(forecast.mean, bins - ENOUGH)[bins - ENOUGH :] if bins > ENOUGH else slice(None)
    values, fresh = counts.values[largest], fresh[largest]
    belief = Gaussians(forecast.mean[largest], forecast.variance[largest])
    scale = max(expected.scale, 1.0)
    prior = scale**2 * expected.variance

    def shrunk(value: float, variance: float) -> tuple[float, float]:
        gain = prior / (prior + variance)
        return scale + gain * (value - scale), gain * variance

    ratio = _ratio(values, belief, scale, dispersion, counts.noise)
    other = _ratio(values, belief, max(total, 1.0), dispersion, counts.noise)
    direct = (total, noise)
    candidates = [shrunk(*ratio), shrunk(*other), shrunk(*direct), (scale, shrunk(*ratio)[1])]
    expected_signal = 0.5 * float((scale * belief.mean / counts.noise) @ (scale * belief.mean / counts.noise))
    if expected_signal > 1 or total > LOUD * noise**0.5:
        candidates += [ratio, other, direct]
        if total < 4 * noise**0.5:
            candidates.append((1.0, 1.0))  # an empty slot
    # Otherwise the slot is drowned in noise: one draw from its tail must not pass for a crowd.
    candidates = [c for c in candidates if c[0] >= 1]

    def evidence(candidate: float) -> float:
        variance = candidate**2 * belief.variance + dispersion * candidate * belief.mean
        stays = _laplace_gauss.score(values - candidate * belief.mean, variance, counts.noise).log_density
        surprise = float(np.log(candidate / scale)) ** 2 / expected.variance
        jumps = np.logaddexp(stays + np.log1p(-JUMP), fresh + np.log(JUMP))
        return float(jumps.sum()) - min(0.5 * surprise, SURPRISE + float(np.log1p(surprise)))

    best, variance = max(candidates, key=lambda candidate: evidence(candidate[0]))
    innovation = (ratio[0] / scale - 1) ** 2 - ratio[1] / scale**2 if ratio[1] < 0.25 * scale**2 else 0.0
    change = float(np.clip(expected.change + 0.05 * (innovation - expected.change), 1e-4, 0.25))
    return Size(best, variance / best**2, change)


def _ratio(values: Floats, belief: Gaussians, scale: float, dispersion: float, noise: float) -> tuple[float, float]:
    """Weighted median of value / forecast and its variance, with the precision of the bins near `scale` as weights."""
    deviation = np.sqrt(2 * noise**2 + scale**2 * belief.variance + dispersion * scale * belief.mean)
    weights = belief.mean / deviation
    ratios = values / belief.mean
    order = np.argsort(ratios)
    cumulative = np.cumsum(weights[order])
    middle = min(int(np.searchsorted(cumulative, 0.5 * cumulative[-1])), ratios.size - 1)
    return float(ratios[order[middle]]), 1.5 / float((weights**2).sum())


def is_empty(counts: Counts, size: Size, expected: Size, gauge: float) -> bool:
    """Whether a slot looks empty: far below what was expected, and within the noise of the sum.

    Such a slot says nothing of the PDF, nor of the next slot's size.
    """
    noise = counts.total_variance**0.5
    return size.scale < 0.1 * expected.scale and size.scale * gauge < 3 * noise and abs(counts.total) < 4 * noise


def total(counts: Counts, size: Size, mass: float) -> tuple[float, float]:
    """Number of users and its variance: the fitted size for levels of sum `mass`, and the plain sum, by precision."""
    fitted = size.scale * mass
    variance, noise = size.variance * fitted**2, counts.total_variance
    share = variance / (variance + noise)
    return max(fitted + share * (counts.total - fitted), 0.0), share * noise
