"""What ToPS publishes inside a block before the block's noisy sum is known: a guess from published blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

Predictor = Literal["recent", "mean", "median", "exponential"]

_MEMORY = 0.6


def _exponential(blocks: list[float]) -> float:
    level = blocks[0]
    for block in blocks[1:]:
        level = _MEMORY * block + (1 - _MEMORY) * level
    return level


PREDICTORS: dict[Predictor, Callable[[list[float]], float]] = {
    "recent": lambda blocks: blocks[-1],
    "mean": lambda blocks: float(np.mean(blocks)),
    "median": lambda blocks: float(np.median(blocks)),
    "exponential": _exponential,
}
"""The next block's sum, guessed from the published sums of those before it."""


def dropped_levels(epsilon: float, fan_out: int, leaves: float = float(1 << 20)) -> int:
    """How many of the tree's lowest levels are not released, as published.

    The exponent s of x = b^s that minimises 2(b - 1)·(log_b(r/x))³/ε² + x²/36 with r = 2^20, rounded.

    >>> [dropped_levels(epsilon, 16) for epsilon in (0.05, 0.5, 1.0)]
    [3, 2, 2]
    """
    top = math.log(leaves, fan_out)
    exponents = np.linspace(0, top, 20_001)
    cost = 2 * (fan_out - 1) * (top - exponents) ** 3 / epsilon**2 + fan_out ** (2 * exponents) / 36
    return round(float(exponents[int(np.argmin(cost))]))
