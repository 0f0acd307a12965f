"""How far forecasts were off against how far they said they could be, and whether laws know more than a uniform guess.

A forecast with variance V meets noise of variance R: its squared error is R + φ·V on average, and φ is learned class by
class, each like the one below within a step. Noise of two classes is independent, so that the product of their errors
tells their covariance. Sees predictions, and counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells._sizes import Measured
from dpi.mechanism.filtering.laplace_gauss import score_evidence

PRIOR = 10.0
"""Predictions that the factor one of the first class is worth before anything was seen. Source: by trial
(benchmarks/clocked.py)."""
SQUARES = 3.0
"""Variance of the square of an error, whose own variance is one. Source: by calculation (benchmarks/clocked.py)."""
OF_LAWS, OF_SIZES = 1.3, 1.1
STEP = 0.8
"""By what a class is less sure than the one below, of its law and of its size, and the relative deviation from that.
Source: by trial (benchmarks/clocked.py)."""
SMALLEST, LARGEST = 0.4, 30.0
"""Between these lies a factor: evidence is of bins with many users, and those with few are the less sure ones. Source:
by trial (benchmarks/clocked.py)."""
LEAST = 0.1
"""What a class may hand on to the one above is no less than this. Source: by definition."""
FADING = 0.9
"""What a measurement of a class counts after the next one that tells as much. Source: by trial."""
OUTLIER = 36.0
"""A squared error counts as at most this many of its variance: one surprise must not widen everything. Source: by
calculation."""
LAWS_ALIKE, SIZES_ALIKE = (0.3, 40.0), (0.5, 10.0)
"""The share of their variances that errors of classes have in common before anything was seen, and the predictions that
this is worth: of laws and of sizes. Source: by trial (benchmarks/clocked.py)."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Squared errors beyond noise, and what was foreseen of them, of each class, (classes,): sums of predictions."""

    seen: Floats
    foreseen: Floats
    growth: float
    """By what a class is less sure than the one below."""

    @classmethod
    def begun(cls, classes: int, growth: float) -> Factors:
        """Before anything was seen."""
        return cls(np.zeros(classes), np.zeros(classes), growth)

    @cached_property
    def each(self) -> Floats:
        """φ of each class, (classes,): by how much variances of forecasts are to be multiplied."""
        factor, variance, found = 1.0, SQUARES / PRIOR, [1.0]
        sums = zip(self.seen.tolist()[1:], self.foreseen.tolist()[1:], strict=True)
        for m, (seen, foreseen) in enumerate(sums):
            if m:
                factor, variance = self.growth * factor, self.growth**2 * variance + (STEP * factor) ** 2
            gain = variance * foreseen / (variance * foreseen + SQUARES)
            if foreseen > 0:
                factor = max(factor + gain * (seen / foreseen - factor), LEAST)
            variance *= 1 - gain
            found.append(factor)
        return np.minimum(np.maximum(found, SMALLEST), LARGEST)

    def after(self, m: int, error: Floats | float, foreseen: Floats | float, noise: float) -> Factors:
        """After class m was measured: errors whose variances were foreseen, under noise of a known variance."""
        both = foreseen * float(self.each[m]) + noise
        weight = foreseen / (both * both)
        squared = np.minimum(np.square(error), OUTLIER * both)
        told = float(np.dot(weight, foreseen))
        kept = _kept(float(self.foreseen[m]), told)
        seen, of = self.seen.copy(), self.foreseen.copy()
        seen[m] = kept * seen[m] + float(np.dot(weight, squared - noise))
        of[m] = kept * of[m] + told
        return Factors(seen, of, self.growth)


@dataclass(frozen=True)
class Alike:
    """Products of errors of two classes in one slot, and what they would be if errors were the same: sums."""

    seen: float = 0.0
    foreseen: float = 0.0

    def share(self, prior: tuple[float, float]) -> float:
        """The share of variances that errors of classes have in common; `prior` is one, and its predictions."""
        before, worth = prior
        return min(max((self.seen + before * worth) / (self.foreseen + worth), 0.0), 1.0)

    def after(self, classes: Sequence[tuple[Floats | float, Floats | float, float]]) -> Alike:
        """After a slot: errors of its due classes, the variances that were foreseen of them, and those of noise."""
        if len(classes) < 2:
            return self
        errors, wholes = [], []
        for error, foreseen, noise in classes:
            both = foreseen + noise
            most = np.sqrt(OUTLIER * both)
            errors.append(np.minimum(np.maximum(error, -most), most) * np.sqrt(foreseen) / both)
            wholes.append(foreseen / both)
        seen, told = _pairs(np.array(errors)), _pairs(np.array(wholes))
        kept = _kept(self.foreseen, told)
        return Alike(kept * self.seen + seen, kept * self.foreseen + told)


def _pairs(rows: Floats) -> float:
    """The sum of products of all pairs of rows."""
    together = np.add.reduce(rows)
    return 0.5 * float(np.dot(together, together) - np.vdot(rows, rows))


def _kept(before: float, told: float) -> float:
    """What is left of the past: it fades as far as something new takes its place."""
    return 1 - min(1 - FADING, told / (before + 1e-9))


DOUBT = 0.01
"""The probability before anything was seen that laws know more than a uniform guess. Source: by calculation."""
RETURN = 0.005
"""Share of the probability that flows back to `DOUBT` with every measurement. Source: by trial
(benchmarks/clocked.py)."""
SUREST = 0.9999
"""The probability is never nearer to one before a slot. Source: by definition."""


def confirm_laws(heard: float, parts: Sequence[Measured]) -> float:
    """The probability after a slot in which these classes were measured; none tell nothing."""
    if not parts:
        return heard
    before = min((1 - RETURN) * heard + RETURN * DOUBT, SUREST)
    log = math.log(before / (1 - before)) + sum(map(_evidence, parts))
    return 1 / (1 + math.exp(-min(max(log, -700.0), 700.0)))


def _evidence(part: Measured) -> float:
    """Log density of a class's counts as its law had forecast them, less that of users spread evenly."""
    counts, bins = part.counts, part.counts.values.size
    users = _sized(part, part.sized.seen, part.sized.seen_variance)
    forecast, even = users * part.prior.mean, _sized(part, counts.total, counts.total_variance) / bins
    expected = np.array([forecast, np.full(bins, even)])
    variance = expected.copy()
    variance[0] += users**2 * part.prior.variance
    density = score_evidence(counts.values - expected, variance, counts.noise).log_density
    said, guessed = np.add.reduce(density, 1, np.float64).tolist()
    return float(said - guessed)


def _sized(part: Measured, seen: float, variance: float) -> float:
    """How many users there are, if the counts show so many."""
    return max(part.expected + part.spread / (part.spread + variance) * (seen - part.expected), 0.0)
