"""Zero-concentrated privacy and what it is worth as (ε, δ). Formulas about public numbers only.

ρ-zCDP says: the Rényi divergence of every order α > 1 is at most ρ·α. Losses add up, and c records of one user cost
c²·ρ. The conversion used here is that of Canonne, Kamath and Steinke (2020, Corollary 13): for every α > 1,

    δ = e^((α-1)(αρ-ε)) / (α - 1) · (1 - 1/α)^α .

It is a bound from above at any α, so a grid of orders errs to the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpi.errors import OptionError

_AROUND = np.geomspace(1 / 64, 64, 1025)
"""Orders, as multiples of the best one of the simple conversion."""


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest ε found for ρ at δ; never above ρ + 2·√(ρ·ln(1/δ)), the simple conversion.

    >>> round(epsilon_of(0.02, 1e-6), 4), round(0.02 + 2 * math.sqrt(0.02 * math.log(1e6)), 4)
    (0.8999, 1.0713)
    """
    if rho <= 0:
        return 0.0
    log = math.log(1 / delta)
    order = 1 + math.sqrt(log / rho) * _AROUND
    best = rho * order + np.log1p(-1 / order) + (log - np.log(order)) / (order - 1)
    return max(0.0, float(best.min()))


def delta_of(rho: float, epsilon: float) -> float:
    """The smallest δ found for ρ at ε.

    >>> round(delta_of(0.02, epsilon_of(0.02, 1e-6)) * 1e6, 3)
    1.0
    """
    if rho <= 0:
        return 0.0
    middle = max(epsilon - rho, 0.0) / (2 * rho) + 1 / math.sqrt(2 * rho)
    order = 1 + middle * _AROUND
    log = (order - 1) * (order * rho - epsilon) - np.log(order - 1) + order * np.log1p(-1 / order)
    return min(1.0, math.exp(min(0.0, float(log.min()))))


@lru_cache(maxsize=256)
def rho_of(epsilon: Fraction, delta: float) -> Fraction:
    """The largest ρ found that keeps (ε, δ), rounded down.

    >>> rho = rho_of(Fraction(1), 1e-6)
    >>> epsilon_of(float(rho), 1e-6) <= 1 < epsilon_of(1.001 * float(rho), 1e-6)
    True
    """
    if not 0 < delta < 1:
        raise OptionError(f"`delta` must be between 0 and 1. Got {delta}.")
    low, high = 0.0, float(epsilon) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= float(epsilon) else (low, middle)
    return Fraction(low)
