"""What one slot's noisy counts say of levels: their log score under every expert, and the experts' new messages.

A count is Poisson-like around scale · level, with `dispersion` times the variance of Poisson, plus Laplace noise; an
expert's reading is Gaussian. The new message is the old one times a Gaussian site with the exact slope and the
expected Fisher information (assumed-density filtering), which is √2 sharper than treating the noise as Gaussian.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.size import Counts, Size
from dpi.mechanism.filtering import laplace_gauss as _laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians, blocks
from dpi.mechanism.filtering.laplace_gauss import Reals
from dpi.mechanism.filtering.population import WIDTH, levels

BIAS = 0.02
SAMPLING = 1.5
"""Of users without budget left a slot says nothing. With a share c of the users paying, a probability p differs between
payers and all by a variance of p·(min(BIAS, p)·(1 - c)² + SAMPLING·(1 - c)/payers): who comes may be of another kind,
though by no more than about the whole of p, and is drawn by chance.

Source: by trial; what they do together is measured by benchmarks/churn.py (docs/utility.md, When users come and go).
"""

ALL = slice(None)

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
        """Variance of the counts around their rates, by the slot's own randomness and by who still pays.

        As Poisson's, for large bins too: less, as given the number of users, would take a size that is off for drift.
        """
        own = expected * self.dispersion
        return own if self.coverage == 1 else own + self.scale**2 * self.doubt(expected / self.scale)

    def doubt(self, share: Reals) -> Reals:
        """Variance of probabilities between payers and all active users."""
        missing = 1 - self.coverage
        kind = np.minimum(share, BIAS)
        kind *= missing**2
        kind += SAMPLING * missing / max(self.scale, 1.0)
        return kind * share

    def alone(self, *, own: bool, at: slice | Integers = ALL) -> Gaussians:
        """Messages of this slot alone, as if nothing had been seen before: of the rates or, with `own`, of its PDF.

        A Laplace tail is not a Gaussian one: between 4 b and (4 + log k) b a large count may still be noise, so the
        message has the Laplace odds there against 0: y²/2R = y/b.
        """
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
        """Log density of every count if its level were drawn anew from the population.

        A table in the logarithm of 1 + |y|/b, interpolated: fine near 0, and as long as it must be for the largest
        counts. The logarithm is that which the bits of a float are: straight between powers of two.
        """
        values, noise = self.counts.values, self.counts.noise
        lowest, highest = (_logarithm(np.array([end / noise], np.float32))[0] for end in (values.min(), values.max()))
        nodes, step = np.linspace(min(lowest, -1), max(highest, 1), _FRESH_NODES, retstep=True)
        mean = self.scale * levels(self.bins)
        variance = (WIDTH * mean) ** 2 + self.scatter(mean)
        log = _laplace_gauss.evidence(_exponential(nodes)[:, None] * noise - mean, variance, noise).log_density
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
    """The messages after the slot, given each one's scale, and slope and information of its log score by the count.

    The site has the precision q/(1 - q·P) with q = scale²·information and P the variance of the forecast, and the mean
    of the forecast plus slope/(scale·information). Beside the messages, the share that is left of their variances.
    """
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
