"""A public season: how the PDF and the activity of a phase differ from those of all phases, for all users alike.

A phase's *profile* is its PDF over that of all phases, shrunk to one by what is not known; experts smooth it over
neighbouring phases. Its *activity* is how many of those who may return were seen, over how many were expected.

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering._gaussians import Gaussians

WIDTHS = (0.0, 1.5, 3.0)
"""Deviations, in phases, of the kernels by which neighbouring phases are averaged. Source: a prior; phases by
themselves, a few, and half a dozen."""
PRIOR: Floats = np.array([0.2, 0.2, 0.4, 0.2])
"""Weights of these experts before anything was seen, and of the one that knows no season. Source: a prior."""
SPREAD = 0.25
"""Variance of a profile and of an activity around one before anything was seen. Source: a prior; a half up or down."""
MISFIT = 0.1**2
"""Relative variance of what experts predict beside what they know of. Source: a prior."""
FADING = 0.9
"""What is left of a phase's sums after a period: ten periods count. Source: a prior."""
LEAST, MOST = 0.05, 20.0
"""Between these lies a profile. Source: by definition."""
RETURN = 0.01
"""Share of weight that flows back to the prior in every slot. Source: a prior; a regime lasts a hundred slots."""
RAREST = 0.1
"""No bin has less than this share of the uniform probability over all phases. Source: by calculation; a ratio to less
says nothing."""
OUTLIER = 16.0
"""A squared error counts as at most this many of its variance. Source: by calculation; four deviations."""


@dataclass(frozen=True, eq=False)
class Season:
    """Sums of what was measured in each phase; without a season all is empty."""

    counts: Floats
    """Users of each phase by bin, (phases, bins)."""
    users: Floats
    """How many users were measured in each phase, (phases,)."""
    noise: Floats
    """The variance of the noise of each count, (phases,)."""
    activity: Floats
    """Of those who returned, (2, phases): how active they were, by how much a slot told of it, and the sums of that."""
    log_weights: Floats
    """Log weights of the experts, one for each width and one without a season."""

    @classmethod
    def begun(cls, period: int, bins: int) -> Season:
        """Before anything was seen."""
        return cls(np.zeros((period, bins)), np.zeros(period), np.zeros(period), np.zeros((2, period)), np.log(PRIOR))

    @property
    def period(self) -> int:
        """Number of phases; zero without a season."""
        return int(self.users.size)

    @property
    def base(self) -> Floats:
        """The PDF over all phases."""
        bins = self.counts.shape[1]
        return np.asarray(np.maximum(self.counts.sum(0) / max(float(self.users.sum()), 1e-9), RAREST / bins))


def phase_profile(season: Season, phase: int) -> Gaussians:
    """Return the profile of a phase, by the weights of the experts; under the base it sums to one."""
    base, weights = season.base, np.exp(season.log_weights)[:, None]
    each = _profiles(season, base, phase)
    mean = (weights * each.mean).sum(0)
    variance = (weights * (each.variance + (each.mean - mean) ** 2)).sum(0)
    whole = float(mean @ base / base.sum())
    return Gaussians(mean / whole, variance / whole**2)


def activities(season: Season, common: float) -> Floats:
    """How active those who may return are in every phase, against the mean over all phases.

    What was seen of a phase is shrunk to the mean of its neighbours, near or far, or of all other phases: whichever
    foretells phases best. By how much they differ from it is estimated by moments (DerSimonian and Laird), where
    activity has the variance `common` from slot to slot.
    """
    (seen, told), period = season.activity / common, season.period
    whole, mean = float(told.sum()), float(seen.sum()) / max(float(told.sum()), 1e-9)
    if mean <= 0 or whole < 1e-9:
        return np.ones(period)
    own = np.where(told > 0, seen / np.maximum(told, 1e-9), mean)
    best, least = np.full(period, mean), np.inf
    for width in (*WIDTHS[1:], np.inf):
        kernel = _kernel(season, 0, width)
        kernel[0] = 0.0  # of others, not of itself
        weight = np.maximum(_around(kernel, told), 1e-9 * whole)
        others = mean + _around(kernel, seen - mean * told) / weight
        unsure = np.clip(_around(kernel**2, told) / weight**2, 0.0, SPREAD)
        apart = float(told @ ((own - others) ** 2 - unsure)) - np.count_nonzero(told)
        if apart < least:
            spread = max(apart / whole, 0.0) + unsure
            best, least = others + spread * told / (1 + spread * told) * (own - others), apart
    return np.asarray(np.clip(best / mean, LEAST, MOST))


def _around(kernel: Floats, values: Floats) -> Floats:
    """Sum values around every phase, by a kernel around the first."""
    return np.asarray(np.fft.irfft(np.fft.rfft(kernel) * np.fft.rfft(values), values.size))


def learn_phase(season: Season, phase: int, counts: Floats, users: float, noise: float, told: Floats) -> Season:
    """After a slot with `counts` of so many users, of noise so much each; `told` of those who returned, at most 1."""
    fading, row = np.ones(season.period), np.zeros(season.period)
    fading[phase], row[phase] = 1 - min(1 - FADING, users / (float(season.users[phase]) + 1e-9)), 1.0
    most = 1 / (1 - FADING)  # sums of earlier versions were larger
    kept = (1 - told[1] * row / most) * most / np.maximum(season.activity[1], most)
    return Season(
        counts=fading[:, None] * season.counts + row[:, None] * counts,
        users=fading * season.users + row * users,
        noise=fading**2 * season.noise + row * noise,
        activity=kept * season.activity + told[:, None] * row,
        log_weights=_score(season, phase, counts, users, noise),
    )


def _score(season: Season, phase: int, counts: Floats, users: float, noise: float) -> Floats:
    """Log weights of the experts after what they said of a phase was compared with what was seen."""
    if not season.users.any():
        return season.log_weights
    base = season.base
    each = _profiles(season, base, phase)
    expected = base * each.mean
    expected *= users / expected.sum(1, keepdims=True)
    spread = (users * base) ** 2 * (each.variance + MISFIT) + expected + noise + 1e-9
    errors = np.minimum((counts - expected) ** 2 / spread, OUTLIER)
    clear = -np.expm1(-0.5 * float((users * base) @ (users * base)) / max(noise, 1e-9))
    log = season.log_weights - 0.5 * clear * (errors + np.log(spread)).sum(1)
    weights = np.exp(np.maximum(log - log.max(), -60.0))
    return np.asarray(np.log((1 - RETURN * clear) * weights / weights.sum() + RETURN * clear * PRIOR))


def _profiles(season: Season, base: Floats, phase: int) -> Gaussians:
    """Return what each expert says of a phase, (experts, bins); the last one knows no season."""
    shape = (len(WIDTHS) + 1, base.size)
    mean, variance = np.ones(shape), np.zeros(shape)
    for i, width in enumerate(WIDTHS):
        kernel = _kernel(season, phase, width)
        squared = kernel**2
        users = float(kernel @ season.users)
        if users <= 1e-6:
            variance[i] = SPREAD
            continue
        expected = users * base
        noise = (float(squared @ season.noise) + float(squared @ season.users) * base) / expected**2
        trust = SPREAD / (SPREAD + noise)
        excess = kernel @ season.counts / expected - 1
        mean[i], variance[i] = np.clip(1 + trust * excess, LEAST, MOST), SPREAD * (1 - trust)
    return Gaussians(mean, variance)


def _kernel(season: Season, phase: int, width: float) -> Floats:
    """Weigh all phases in the average around one of them."""
    apart = np.abs(phase - np.arange(season.period))
    apart = np.minimum(apart, season.period - apart)
    return np.asarray(np.exp(-0.5 * (apart / width) ** 2) if width else apart == 0, dtype=np.float64)
