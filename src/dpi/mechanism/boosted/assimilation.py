"""What one slot's noisy counts say of levels: their log score under every expert, and the experts' new messages.

A count is Poisson-like around scale · level, with `dispersion` times the variance of Poisson, plus Laplace noise; an
expert's reading is Gaussian. The new message is the old one times a Gaussian site with the exact slope and the
expected Fisher information (assumed-density filtering), which is √2 sharper than treating the noise as Gaussian.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.size import Counts, Size
from dpi.mechanism.filtering import laplace_gauss as _laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import Reals
from dpi.mechanism.filtering.population import WIDTH, levels

BIAS = 0.02
SAMPLING = 1.5
"""Of users without budget left a slot says nothing. With a share c of the users paying, a probability p differs between
payers and all by a variance of p·(min(BIAS, p)·(1 - c)² + SAMPLING·(1 - c)/payers): who comes may be of another kind,
though by no more than about the whole of p, and is drawn by chance.

Source: by trial; what they do together is measured by benchmarks/churn.py (docs/utility.md, When users come and go).
"""

_FRESH_NODES = 200
"""Nodes of the table in which a fresh start is read.

Source: by trial; not measured by itself.
"""


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

    counts: Counts
    size: Size
    dispersion: float
    coverage: float = 1.0
    """Payers among the active users, as far as public numbers tell."""

    @property
    def scale(self) -> float:
        """Users per unit of level."""
        return self.size.scale

    def scatter(self, expected: Floats) -> Floats:
        """Variance of the counts around their rates, by the slot's own randomness and by who still pays.

        As Poisson's, for large bins too: less, as given the number of users, would take a size that is off for drift.
        """
        own = expected * self.dispersion
        return own if self.coverage == 1 else own + self.scale**2 * self.doubt(expected / self.scale)

    def doubt(self, share: Floats) -> Floats:
        """Variance of probabilities between payers and all active users."""
        missing = 1 - self.coverage
        kind = np.minimum(share, BIAS)
        kind *= missing**2
        kind += SAMPLING * missing / max(self.scale, 1.0)
        return kind * share

    def alone(self, *, own: bool) -> Gaussians:
        """Messages of this slot alone, as if nothing had been seen before: of the rates or, with `own`, of its PDF.

        A Laplace tail is not a Gaussian one: between 4 b and (4 + log k) b a large count may still be noise, so the
        message has the Laplace odds there against 0: y²/2R = y/b.
        """
        values, noise = self.counts.values, self.counts.noise
        variance = np.zeros_like(values) if own else self.scatter(np.maximum(values, 0))
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


def assimilate(
    messages: Gaussians, forecast: Gaussians, scales: Floats, slope: Reals, information: Floats
) -> Gaussians:
    """The messages after the slot, given each one's scale, and slope and information of its log score by the count."""
    units = scales**2 * information
    gain = units * messages.variance  # precision of the site over that of the message
    units *= forecast.variance
    np.subtract(1, units, out=units)
    gain /= np.maximum(units, 1e-3, out=units)
    away = slope / (scales * information)
    away += forecast.mean
    away -= messages.mean
    away *= gain
    gain += 1
    away /= gain
    away += messages.mean
    return Gaussians(away, messages.variance / gain)
