"""A public season: how the PDF and the activity of a phase differ from those of all phases, for all laws and classes.

A phase's *profile* is its PDF over that of all phases, shrunk to one by what is not known; experts smooth it over
neighbouring phases. Its *activity* is how many of those who may return were seen, over how many were expected. Sees
counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.cells._law import clearness, softmax
from dpi.mechanism.cells._sizes import Measured
from dpi.mechanism.filtering._gaussians import Gaussians

WIDTHS = (0.0, 1.5, 3.0)
"""Deviations, in phases, of the kernels by which neighbouring phases are averaged. Source: by trial
(benchmarks/clocked.py)."""

PRIOR: Floats = np.array([0.2, 0.2, 0.4, 0.2])
"""Weights of these experts before anything was seen, and of the one that knows no season. Source: by trial."""
RETURN = 0.01
"""Share of weight that flows back to the prior in every slot, so that a beaten expert can return. Source: by trial."""
SPREAD, ACTIVITY = 0.25, 0.25
"""Variances of a profile and of an activity around one before anything was seen. Source: by trial
(benchmarks/clocked.py)."""
MISFIT = 0.1**2
"""Relative variance of what experts predict beside what they know of, for laws drift and classes differ; the same of
the number of users who are expected. Source: by trial."""
FADING = 0.9
"""What is left of a phase's sums after a period; more, if less than the rest was measured in it. Source: by trial
(benchmarks/clocked.py)."""
LEAST, MOST = 0.05, 20.0
"""Between these lies a profile. Source: by definition."""
RAREST = 0.1
"""No bin has less than this share of the uniform probability over all phases: a ratio to less says nothing. Source: by
trial."""
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
    laws: Floats
    """The phases in which the laws were learned, in the order in which a state has them."""
    cells: Floats
    """The phases in which cells were learned, (2, classes)."""

    @classmethod
    def begun(cls, period: int, bins: int, classes: int) -> Season:
        """Before anything was seen."""
        some = min(period, 1)
        return cls(
            counts=np.zeros((period, bins)),
            users=np.zeros(period),
            noise=np.zeros(period),
            activity=np.zeros((2, period)),
            log_weights=np.log(PRIOR)[: some * PRIOR.size],
            laws=np.zeros(4 * some),
            cells=np.zeros((2, some * classes)),
        )

    @cached_property
    def period(self) -> int:
        """Number of phases; zero without a season."""
        return int(self.users.size)

    @property
    def base(self) -> Floats:
        """The PDF over all phases."""
        bins = self.counts.shape[1]
        return np.asarray(np.maximum(self.counts.sum(0) / max(float(self.users.sum()), 1e-9), RAREST / bins))


def phase_profiles(season: Season, phases: Integers) -> Gaussians:
    """The profiles of some phases, (phases, bins), by the weights of the experts; under the base each sums to one."""
    base, weights = season.base, np.exp(season.log_weights)[:, None, None]
    each = _profiles(season, base, phases)
    mean = (weights * each.mean).sum(0)
    variance = (weights * (each.variance + (each.mean - mean) ** 2)).sum(0)
    whole = (mean @ base / base.sum())[:, None]
    return Gaussians(mean / whole, variance / whole**2)


def phase_activity(season: Season, phase: int) -> float:
    """How active those who may return are in a phase, against the mean over all phases."""
    whole = season.activity.sum(1)
    base = float(whole[0] / whole[1]) if whole[1] > 0 else 1.0
    weights = np.exp(season.log_weights)
    seen, expected = season.activity @ np.array([_kernel(season, np.array([phase]), width)[0] for width in WIDTHS]).T
    return float(weights[:-1] @ ((seen + 1 / ACTIVITY) / (expected * base + 1 / ACTIVITY)) + weights[-1])


def learn_phase(season: Season, phase: int, new: Measured, parts: Sequence[Measured]) -> Season:
    """After a slot of newcomers and of due classes; what stands out from its noise counts more."""
    bins = season.counts.shape[1]
    values, users, noise = np.zeros(bins), 0.0, 0.0
    for part in (new, *parts):
        weight = part.size / (part.size + part.counts.total_variance)
        values += weight * part.counts.values
        users += weight * part.size
        noise += weight**2 * 2 * part.counts.noise**2
    now = phase_activity(season, phase)
    told = np.zeros(2)
    for part in parts:
        expected = part.expected / now
        weight = expected / (part.spread + part.sized.seen_variance + MISFIT * part.expected**2)
        told += weight * part.sized.seen, weight * expected
    fading, row = np.ones(season.period), np.zeros(season.period)
    fading[phase], row[phase] = 1 - min(1 - FADING, users / (float(season.users[phase]) + 1e-9)), 1.0
    return Season(
        counts=fading[:, None] * season.counts + row[:, None] * values,
        users=fading * season.users + row * users,
        noise=fading**2 * season.noise + row * noise,
        activity=fading * season.activity + told[:, None] * row,
        log_weights=_scored(season, phase, values, users, noise),
        laws=season.laws,
        cells=season.cells,
    )


def _scored(season: Season, phase: int, values: Floats, users: float, noise: float) -> Floats:
    """Log weights of the experts after what they said of a phase was compared with what was seen."""
    if not season.users.any():
        return season.log_weights
    base = season.base
    each = _profiles(season, base, np.array([phase]))
    expected = base * each.mean[:, 0]
    expected *= users / expected.sum(1, keepdims=True)
    spread = (users * base) ** 2 * (each.variance[:, 0] + MISFIT) + expected + noise + 1e-9
    errors = np.minimum((values - expected) ** 2 / spread, OUTLIER)
    trust = clearness(users * base, max(noise, 1e-9) ** 0.5)
    weights = softmax(season.log_weights - 0.5 * trust * (errors + np.log(spread)).sum(1))
    return np.asarray(np.log((1 - RETURN * trust) * weights + RETURN * trust * PRIOR))


def _profiles(season: Season, base: Floats, phases: Integers) -> Gaussians:
    """What each expert says of some phases, (experts, phases, bins); the last one knows no season."""
    shape = (len(WIDTHS) + 1, phases.size, base.size)
    mean, variance = np.ones(shape), np.zeros(shape)
    for i, width in enumerate(WIDTHS):
        kernel = _kernel(season, phases, width)
        squared = kernel**2
        expected = (kernel @ season.users)[:, None] * base + 1e-9
        noise = ((squared @ season.noise)[:, None] + (squared @ season.users)[:, None] * base) / expected**2
        trust = SPREAD / (SPREAD + noise)
        found = kernel @ season.counts / expected - 1
        mean[i], variance[i] = np.clip(1 + trust * found, LEAST, MOST), SPREAD * (1 - trust)
    return Gaussians(mean, variance)


def _kernel(season: Season, phases: Integers, width: float) -> Floats:
    """What all phases count in the average around some of them, (some, phases)."""
    apart = np.abs(phases[:, None] - np.arange(season.period))
    apart = np.minimum(apart, season.period - apart)
    return np.asarray(np.exp(-0.5 * (apart / width) ** 2) if width else apart == 0, dtype=np.float64)
