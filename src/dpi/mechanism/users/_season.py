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
    """Users, (phases, bins),"""
    users: Floats
    """how many they were, (phases,),"""
    noise: Floats
    """and the variance of the noise of each count, (phases,)."""
    activity: Floats
    """Of those who returned, (2, phases): how many were seen and were expected, each by how much it told."""
    log_weights: Floats
    """Of the experts."""

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


def phase_activity(season: Season, phase: int) -> float:
    """How active those who may return are in a phase, against the mean over all phases."""
    whole = season.activity.sum(1)
    base = float(whole[0] / whole[1]) if whole[1] > 0 else 1.0
    weights = np.exp(season.log_weights)
    seen, expected = season.activity @ np.array([_kernel(season, phase, width) for width in WIDTHS]).T
    return float(weights[:-1] @ ((seen + 1 / SPREAD) / (expected * base + 1 / SPREAD)) + weights[-1])


def learn_phase(season: Season, phase: int, counts: Floats, users: float, noise: float, told: Floats) -> Season:
    """After a slot with `counts` of so many users, of noise so much each; `told` of those who returned."""
    fading, row = np.ones(season.period), np.zeros(season.period)
    fading[phase], row[phase] = 1 - min(1 - FADING, users / (float(season.users[phase]) + 1e-9)), 1.0
    return Season(
        counts=fading[:, None] * season.counts + row[:, None] * counts,
        users=fading * season.users + row * users,
        noise=fading**2 * season.noise + row * noise,
        activity=fading * season.activity + told[:, None] * row,
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
