"""Frequency oracles of the local model: each user randomises one value, the collector estimates all frequencies.

Simulated from the histogram of the users' values: the sum of their reports is drawn in one go, from a generator that
the random source seeds; it stands for the users' own randomness.
"""

from __future__ import annotations

import math

import numpy as np

from dpi.exact.integers import Integers
from dpi.noise import RandomSource
from dpi_research.baselines.accounting import Floats


def users_randomness(source: RandomSource) -> np.random.Generator:
    """A generator with 256 bits of the source as its seed."""
    return np.random.default_rng([int(word) for word in source.words(4)])


LARGEST = 500.0
"""More ε than this is not used: e^ε must stay a float."""


class Oracle:
    """Generalised randomised response (GRR) for few values, d < 3·e^ε + 2, and optimised unary encoding (OUE) for many.

    GRR reports the value itself with probability p = e^ε/(e^ε + d - 1), else another at random. OUE reports d bits:
    that of the value is 1 with probability 1/2, the others with q = 1/(e^ε + 1). Either is ε-LDP.

    >>> Oracle(4, 1.0).kind, Oracle(100, 1.0).kind
    ('GRR', 'OUE')
    """

    def __init__(self, size: int, epsilon: float) -> None:
        self.size, self.epsilon = size, min(epsilon, LARGEST)
        power = math.exp(self.epsilon)
        self.kind = "GRR" if size < 3 * power + 2 else "OUE"
        if self.kind == "GRR":
            self.p, self.q = power / (power + size - 1), 1 / (power + size - 1)
        else:
            self.p, self.q = 0.5, 1 / (power + 1)

    def estimate(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """Unbiased frequencies from one report of each user; counts are how many users hold each value."""
        users = int(counts.sum())
        if self.kind == "OUE":
            seen = rng.binomial(counts, self.p) + rng.binomial(users - counts, self.q)
        else:
            kept = rng.binomial(counts, self.p)
            seen = kept.copy()
            for value in np.flatnonzero(counts - kept):
                others = rng.multinomial(counts[value] - kept[value], np.full(self.size - 1, 1 / (self.size - 1)))
                seen += np.insert(others, value, 0)
        return np.asarray((seen / users - self.q) / (self.p - self.q))

    def variance(self, users: int, frequency: float) -> float:
        """Of one estimated frequency.

        GRR: (d - 2 + e^ε)/((e^ε - 1)²·n) + f·(d - 2)/((e^ε - 1)·n); OUE: 4·e^ε/((e^ε - 1)²·n) + f/n.
        """
        power, gain = math.exp(self.epsilon), math.expm1(self.epsilon)
        if self.kind == "GRR":
            return (self.size - 2 + power) / (gain**2 * users) + frequency * (self.size - 2) / (gain * users)
        return 4 * power / (gain**2 * users) + frequency / users

    def mean_variance(self, users: int) -> float:
        """The mean over all values; frequencies sum to 1, so it does not depend on them."""
        return self.variance(users, 1 / self.size)
