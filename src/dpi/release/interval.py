"""Intervals for the slot's probabilities, from an estimate's moments. Knows public estimates only."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from dpi.errors import OptionError
from dpi.mechanism.base import Floats

LEVEL = 0.95
"""The level of every interval that is shown, unless another is asked for."""
LEVEL_TEXT = f"{100 * LEVEL:g} %"

STRETCH = 0.52
"""How far, at most, the upper end moves out where an estimate is all prior: a belief shrunk towards many small bins
has a longer tail upwards than its variance says."""


def deviations(level: float) -> float:
    """Return how many deviations around the mean hold `level` of a normal law."""
    if not 0 < level < 1:
        raise OptionError(f"`level` must be above 0 and below 1. Got {level!r}.")
    return NormalDist().inv_cdf((1 + level) / 2)


def deviations_of_all(level: float, bins: int) -> float:
    """Return how many hold all bins together with a probability of at least `level`, however they depend.

    Each bin may miss with a k-th of what is left to miss (Bonferroni's inequality). So far out it matters that noise is
    Laplace, of which e^(-√2·x) lies beyond x deviations, and a normal law has less beyond.
    """
    return max(deviations(level), math.log(bins / (1 - level)) / math.sqrt(2))


def interval(
    pdf: Floats, variance: Floats, skew: Floats, total: float, level: float, z: float | None = None
) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the `level` intervals (0.95: 95 %) of the slot's probabilities.

    A probability is positive and its belief is skewed, so the interval is that of the gamma law with the estimate's
    mean and variance, by the cube-root approximation of Wilson and Hilferty (1931). Below shape 1 it starts at 0. Users
    are whole, so both ends move out by half a user. 0 ≤ lower ≤ pdf ≤ upper ≤ 1. `z` deviations stand in for the level.

    >>> pdf, variance = np.array([0.2, 0.8]), np.array([0.0001, 0.0001])
    >>> lower, upper = interval(pdf, variance, np.zeros(2), 1e6, 0.95)
    >>> lower.round(2).tolist(), upper.round(2).tolist()
    ([0.18, 0.78], [0.22, 0.82])
    """
    z = deviations(level) if z is None else z
    up = z * (1 + STRETCH * skew)
    spread = np.sqrt(np.maximum(variance, 1e-300))
    root = np.minimum(pdf / spread, 1e100)  # of the gamma law's shape
    wide = root < 1
    shape = np.maximum(root, 1e-100) ** 2
    centre = 1 - 1 / (9 * shape)
    slope = 1 / (3 * np.sqrt(shape))
    lower = np.where(wide, 0.0, pdf * np.maximum(0, centre - z * slope) ** 3)
    upper = pdf * np.where(wide, 1.0, np.maximum(0, centre + up * slope)) ** 3
    upper = np.where(wide, np.maximum(upper, pdf + 0.9 * up * spread), upper)
    half = 0.5 / float(np.fmax(total, 1.0))
    return np.clip(lower - half, 0, pdf), np.clip(upper + half, pdf, 1)
