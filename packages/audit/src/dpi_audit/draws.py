"""The shipped samplers, as something to audit: noise and selection, their laws read off their own draws."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpi.noise import RandomSource, bernoulli_exp, exponential_mechanism, geometric
from dpi.testing.laws import Finite
from dpi_audit.exact import Finding
from dpi_audit.samplers import coins_law, geometric_loss, selection_law, selection_loss

SCALE = Fraction(5, 2)
LEVELS = (0, 110, 300)
"""64 bits end at floor(2.5 · 64 · ln 2) = 110."""
RATE = Fraction(1, 3)
SCORES = (((0, 129), (1, 128)), ((0, 300, 1), (1, 299, 0)), ((1, 0, 0, 0), (0, 1, 1, 1)))
"""The first pair lies where e^(-gap/3) passes 2^-62."""


def shipped_geometric(source: RandomSource) -> int:
    """The shipped sampler, which draws bits until the result is decided."""
    high, low, bits = geometric(1, SCALE, source)
    return (int(high[0]) << bits) + int(low[0])


def exponential_law(scores: Sequence[int]) -> Finite:
    """The law of the shipped exponential mechanism, read off its draws."""
    return selection_law(lambda source: exponential_mechanism(np.array(scores), RATE, source), len(scores))


def permute_and_flip_law(scores: Sequence[int]) -> Finite:
    """The law of the shipped permute-and-flip, from its coins."""
    gaps = [max(scores) - score for score in scores]
    return coins_law(lambda gap, source: bool(bernoulli_exp(np.array([gap]), RATE, source)[0]), gaps)


def noise_loss() -> Finding:
    """The shipped geometric sampler at its levels."""
    return geometric_loss(shipped_geometric, SCALE, LEVELS)


def exponential_loss() -> Finding:
    """The shipped exponential mechanism on all pairs of scores."""
    return selection_loss(exponential_law, SCORES, RATE)


def permute_and_flip_loss() -> Finding:
    """The shipped permute-and-flip on all pairs of scores."""
    return selection_loss(permute_and_flip_law, SCORES, RATE)
