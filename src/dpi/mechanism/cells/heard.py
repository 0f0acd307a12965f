"""Whether the laws know more than a uniform guess: evidence that adds up over slots.

Few users, or a small ε, do not stand out from the noise of one slot; over a hundred slots they do. In each slot the
counts are compared with what the laws had forecast, and with as many users spread evenly. The probability that the laws
are right is that of two experts, by Bayes' rule; some of it flows back to doubt with every measurement, so that laws
that were right once and are not confirmed fade to uniform.

Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpi.mechanism.cells.parts import Measured
from dpi.mechanism.filtering import laplace_gauss

DOUBT = 0.01
"""The probability before anything was seen that laws know more than a uniform guess.

Source: by calculation; laws made of noise then cost about a hundredth more than a uniform guess.
"""

RETURN = 0.005
"""Share of the probability that flows back to `DOUBT` with every measurement.

Source: by trial; with 0.02, flights-carrier at ε = 0.1 has 0.41 instead of 0.27, and retail 0.112 instead of 0.099
(benchmarks/clocked.py, seeds 0 and 1, and 0 to 3, with rates of return that counted every slot alike).
"""

SUREST = 0.9999
"""The probability is never nearer to one before a slot.

Source: by definition; as good as one, and left within a few slots.
"""


def confirmed(heard: float, parts: Sequence[Measured]) -> float:
    """The probability after a slot in which these classes were measured; none tell nothing."""
    if not parts:
        return heard
    before = min((1 - RETURN) * heard + RETURN * DOUBT, SUREST)
    log = math.log(before / (1 - before)) + sum(map(_evidence, parts))
    return 1 / (1 + math.exp(-min(max(log, -700.0), 700.0)))


def _evidence(part: Measured) -> float:
    """Log density of a class's counts as its law had forecast them, less that of users spread evenly.

    Each of the two may say how many they are, by what was expected and what the counts then show.
    """
    counts, bins = part.counts, part.counts.values.size
    users = _sized(part, part.sized.seen, part.sized.seen_variance)
    forecast, even = users * part.prior.mean, _sized(part, counts.total, counts.total_variance) / bins
    expected = np.array([forecast, np.full(bins, even)])
    variance = expected.copy()
    variance[0] += users**2 * part.prior.variance
    density = laplace_gauss.evidence(counts.values - expected, variance, counts.noise).log_density
    said, guessed = np.add.reduce(density, 1, np.float64).tolist()
    return float(said - guessed)


def _sized(part: Measured, seen: float, variance: float) -> float:
    """How many users there are, if the counts show so many."""
    return max(part.expected + part.spread / (part.spread + variance) * (seen - part.expected), 0.0)
