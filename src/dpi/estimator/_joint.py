"""How far a weighted sum of shares, and the change of a share, may be off: joint errors, and not from marginals.

The arithmetic of independent errors, times a learned factor, since they are not independent. Numpy, or JAX where the
factors are trained; one set of weights for any number of bins, and of users.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpi.estimator._layers import Array, Weights, dense, soft
from dpi.estimator._state import FREEDOM


def sum_scale(weights: Weights, shares: Array, scales: Array, users: Array, of: Array, xp: Any = np) -> Array:
    """Return the logarithm of the scale with which Σ `of`·share is off: of sums over bins, and of means.

    `shares` and the logarithms of their `scales` are those of a release with so many `users`. Bins whose errors are
    independent, and whose shares are one together, have the variance Σ (`of` - mean)²·scale².
    """
    centred = of - (of * shares).sum(-1, keepdims=True)
    parts = centred**2 * xp.exp(2 * xp.maximum(scales, -30.0))
    variance, chance = parts.sum(-1) + 1e-24, (centred**2 * shares).sum(-1) / (users + 1) + 1e-24
    bins = float(shares.shape[-1])
    features = xp.stack([
        -xp.log(((parts / variance[..., None]) ** 2).sum(-1) + 1e-6) * 0.2, xp.log(variance / chance) * 0.2,
        xp.log(variance / ((centred**2 * shares**2).sum(-1) + 1e-24)) * 0.1,
        xp.log(users + 1) * 0.1, xp.log(bins) * 0.2 * xp.ones_like(variance),
        parts.max(-1) / variance,
    ])  # fmt: skip
    return 0.5 * xp.log(variance) + _factor(xp, weights, "sum", features)


def difference_scale(
    weights: Weights, now: Array, now_scale: Array, then: Array, then_scale: Array, apart: Array, users: Array,
    xp: Any = np,
) -> Array:  # fmt: skip
    """Return the logarithm of the scale with which the change of each share is off, since a release so long ago."""
    base = 0.5 * xp.log(xp.exp(2 * xp.maximum(now_scale, -30.0)) + xp.exp(2 * xp.maximum(then_scale, -30.0)))
    some = xp.log(0.5 * (now + then) + 1e-9)
    features = xp.stack([
        now_scale - then_scale, (base - some) * 0.3, xp.log(now + 1e-9) - xp.log(then + 1e-9),
        xp.log(apart) * 0.3 + xp.zeros_like(base), (some + xp.log(users + 1)) * 0.1,
        xp.log(users + 1) * 0.1 + xp.zeros_like(base),
    ])  # fmt: skip
    return base + _factor(xp, weights, "difference", features)


def rose(difference: Array, scale: Array) -> Array:
    """Return the probability that a share is larger than it was: compared with the same phase, against its season.

    The law of Student of four degrees has a distribution function in closed form.
    """
    t = np.asarray(difference) * np.exp(-np.asarray(scale))
    square = 1 + t * t / FREEDOM
    root = t / np.sqrt(square)
    return 0.5 + 0.375 * root * (1 - (t * t / square) / 12)


def _factor(xp: Any, weights: Weights, name: str, features: Array) -> Array:
    columns = xp.clip(features, -8, 8).reshape(len(features), -1)
    hidden = xp.maximum(dense(weights, name + "_in", columns), 0)
    return 3 * soft(xp, dense(weights, name + "_out", hidden)[0]).reshape(features.shape[1:])
