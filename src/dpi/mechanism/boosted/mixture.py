"""From the experts' beliefs to the release: the posterior of the slot's own PDF, its users as they were.

A slot's PDF is its rate plus a deviation of its own (people are random). Before the slot is looked at, an expert's
belief about a count x is N(m, P), with P by what it does not know of the rate and by the slot's own randomness. After
a measurement with Laplace noise, x has the mean m + P·(log Z)'(m) and the variance P + P²·(log Z)''
(`dpi.mechanism.filtering.laplace_gauss`). The release is the mixture of that over the experts.

Sees beliefs and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering.gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import Reals

WIDE = 50.0
"""From this many b² on, a belief about a count is so wide that what was measured of it is all there is.

Source: by calculation; there single precision would lose the difference that the variance is.
"""


SLACK = 1.15
"""The variance of a probability counts this much more: it is computed as if the experts' models and their Gaussian
beliefs were true.

Source: by trial; the coverage that it leads to is in docs/utility.md, Synthetic streams (benchmarks/utility.py).
"""


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


def settled(variance: Floats, slope: Reals, heat: Reals, noise: float) -> Floats:
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


def normalised(counts: Gaussians, totals: Totals) -> Gaussians:
    """PDFs of counts that are known up to independent errors: each is a part of the total that it is divided by."""
    total = totals.mean[:, None]
    pdf = counts.mean / total
    spread = 1 - 2 * pdf
    spread *= counts.variance
    spread += pdf**2 * totals.variance[:, None]
    np.maximum(spread, 0, out=spread)
    spread /= total**2
    return Gaussians(pdf, spread)


def mixture(weights: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture."""
    mean = weights @ means
    away = means - mean
    away *= away
    away += variances
    return mean, np.asarray(weights @ away)


def bounded(variance: Floats, pdf: Floats) -> Floats:
    """The variance, but at most p(1 - p): nothing between 0 and 1 with mean p varies more."""
    return np.clip(variance, 1e-30, np.maximum(pdf * (1 - pdf), 1e-30))
