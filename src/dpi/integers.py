"""Exact integer arithmetic on arrays, where the plain product would overflow 64 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

GRAIN_BITS = 24
GRAINS = 1 << GRAIN_BITS
"""One unit of contribution is this many grains (G in the docs)."""


def fraction_floor(part: Integers, whole: Integers | int) -> Integers:
    """floor(part · 2^24 / whole), for 0 ≤ part ≤ whole < 2^51, exactly.

    Long division with two digits of 12 bits: no intermediate exceeds 2^63.

    >>> fraction_floor(np.array([0, 1, 3]), 3).tolist()
    [0, 5592405, 16777216]
    """
    half = GRAIN_BITS // 2
    high, rest = np.divmod(part << half, whole)
    return (high << half) + (rest << half) // whole


def fraction_ceil(amount: int, grains: Integers) -> Integers:
    """ceil(amount · grains / 2^24), for 0 ≤ grains ≤ 2^24 and 0 ≤ amount < 2^62, exactly.

    >>> fraction_ceil(10, np.array([0, 1, 1 << 23, 1 << 24])).tolist()
    [0, 1, 5, 10]
    """
    high, low = divmod(amount, GRAINS)
    return high * grains + ((low * grains + (GRAINS - 1)) >> GRAIN_BITS)
