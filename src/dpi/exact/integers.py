"""Exact integer arithmetic on arrays: what a user adds and pays, and sums that would overflow 64 bits.

The functions are made of operators and of numpy's elementwise functions alone. So the same code that runs on arrays
also runs on the terms of a solver, which proves what the docstrings promise for all inputs of the stated ranges, and
that no intermediate leaves 64 bits (`tests/proofs`, `docs/audit.md`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

GRAIN_BITS = 24
GRAINS = 1 << GRAIN_BITS
"""One unit of contribution is this many grains (G in the docs)."""
MOST = (1 << 31) - 1
"""The number of equal events of one user in one slot is cut at this: it is the user's own."""

WORD = 1 << 32
"""Wide sums are made of halves below this."""


def wide_sum(values: Integers) -> int:
    """Return the sum, exact where 64 bits would overflow.

    >>> wide_sum(np.array([2**62, 2**62])) == 2**63
    True
    """
    high, low = halves(values)
    return (int(high.sum()) << 32) + int(low.sum())


def capped_sums(values: Integers, labels: Integers, size: int, cap_bits: int) -> Integers:
    """For each label 0 … size - 1 the sum of its values, cut at ± 2^cap_bits; no sum is refused.

    The halves of up to 2^31 values are added by themselves, so no intermediate exceeds 2^63.

    >>> capped_sums(np.array([2**62, 2**62, 3, 4]), np.array([0, 0, 1, 1]), 2, cap_bits=60).tolist() == [2**60, 7]
    True
    """
    high, low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    top, bottom = halves(values)
    np.add.at(high, labels, top)
    np.add.at(low, labels, bottom)
    return capped(high, low, cap_bits)


def halves(values: Integers) -> tuple[Integers, Integers]:
    """(high, low) with value = high · 2^32 + low, 0 ≤ low < 2^32 and |high| ≤ 2^31."""
    return values >> 32, values & (WORD - 1)


def capped(high: Integers, low: Integers, cap_bits: int) -> Integers:
    """Return the sum high · 2^32 + low, cut to ± 2^cap_bits.

    For |high| ≤ 2^62, 0 ≤ low < 2^63, 32 < cap_bits ≤ 61.
    """
    beyond = (1 << (cap_bits - 32)) + 1
    high = np.clip(high + (low >> 32), -beyond, beyond)
    return np.clip((high << 32) + (low & (WORD - 1)), -(1 << cap_bits), 1 << cap_bits)


def proportional(weight: Integers, count: Integers, total: Integers) -> Integers:
    """floor(weight · count / total), for 0 ≤ weight ≤ 2^24, 0 ≤ count < 2^39 and count ≤ total < 2^63.

    Over counts that sum to `total` it sums to at most `weight`, because each is at most its share.
    """
    return weight * count // total


def each(weight: Integers, most: int) -> Integers:
    """floor(weight / most): what each of at most `most` events adds, so that all of them add at most `weight`."""
    return weight // most


def fraction_floor(part: Integers, whole: Integers | int) -> Integers:
    """floor(part · 2^24 / whole), for 0 ≤ part ≤ whole < 2^51, exactly.

    Long division with two digits of 12 bits: no intermediate exceeds 2^63.

    >>> fraction_floor(np.array([0, 1, 3]), 3).tolist()
    [0, 5592405, 16777216]
    """
    half = GRAIN_BITS // 2
    high, rest = np.divmod(part << half, whole)
    return (high << half) + (rest << half) // whole


def fraction_ceil(amount: int | Integers, grains: Integers) -> Integers:
    """ceil(amount · grains / 2^24), for 0 ≤ grains ≤ 2^24 and 0 ≤ amount < 2^62, exactly.

    >>> fraction_ceil(10, np.array([0, 1, 1 << 23, 1 << 24])).tolist()
    [0, 1, 5, 10]
    """
    high, low = divmod(amount, GRAINS)
    return high * grains + ((low * grains + (GRAINS - 1)) >> GRAIN_BITS)
