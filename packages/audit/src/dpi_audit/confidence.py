"""Exact confidence bounds for a probability, by the incomplete beta function."""

from __future__ import annotations

import math

from dpi.errors import OptionError

_STEPS = 100
_TINY = 1e-300
_NEAR = 1e-13
"""Relative: a bound that is so near to the best one is it."""


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method).

    >>> round(incomplete_beta(2, 3, 0.4), 12)
    0.5248
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d, c = 1 / _away(1 + term * d), _away(1 + term / c)
            value *= c * d
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return front * value


def _away(value: float) -> float:
    """Not zero."""
    return value if abs(value) > _TINY else _TINY


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Lower and upper bound of a probability; *each* is wrong with probability at most `error`.

    The lower bound p solves P(Binomial(n, p) ≥ k) = error, the upper one P(Binomial(n, p) ≤ k) = error. Both are
    rounded outwards.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    if not 0 <= successes <= trials or trials < 1:
        raise OptionError("`successes` must lie between 0 and `trials`, and `trials` must be at least 1.")
    if not 0 < error < 1:
        raise OptionError(f"`error` must be above 0 and below 1. Got {error!r}.")
    return lowest(successes, trials, error), 1 - lowest(trials - successes, trials, error)


def lowest(successes: int, trials: int, error: float) -> float:
    """The lower bound alone: the largest p, up to rounding, with P(Binomial(n, p) ≥ k) ≤ error."""
    if successes == 0:
        return 0.0
    a, b = successes, trials - successes + 1
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    low, high = 0.0, successes / trials
    at = high
    for _ in range(_STEPS):
        # 1e-10 relative covers the error of the continued fraction and of lgamma
        chance = incomplete_beta(a, b, at) * (1 + 1e-10)
        low, high = (at, high) if chance <= error else (low, at)
        # ln P is concave in ln p: Newton's steps come from below, where the bound holds.
        slope = math.exp(front + a * math.log(at) + (b - 1) * math.log1p(-at)) if at < 1 else a
        following = at * (error / chance) ** (chance / slope) if chance and slope else 0.0
        if high - low <= _NEAR * high or low < following <= low * (1 + _NEAR):
            break
        at = following if low < following < high else (low + high) / 2
    return low
