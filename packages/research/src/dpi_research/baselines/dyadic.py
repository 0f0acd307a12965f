"""The dyadic tree behind the counters of Chan, Shi and Song: partial sums over blocks of 2^i slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats

Noise = Callable[[Integers], Integers]


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number ≥ 1: how many slots the block that ends there covers."""
    return number & -number


def covered(slots: int) -> int:
    """B(t) = Σ_{s ≤ t} lowest_bit(s): slots covered by all blocks that end by slot t, blocks counted apart.

    >>> covered(5), covered(50), covered(1 << 10) == (1 << 9) * 12
    (9, 163, True)
    """
    return sum(size * count for size, count in blocks(slots).items())


def blocks(slots: int) -> dict[int, int]:
    """How many blocks of each size end by slot t.

    >>> blocks(6)
    {1: 3, 2: 2, 4: 1}
    """
    return {1 << j: (slots + (1 << j)) >> (j + 1) for j in range(slots.bit_length())}


class DyadicTree:
    """Noisy sums of the blocks that end at each slot; the prefix is the sum of one block for every set bit of t.

    Each slot is in at most one block of every size, so in at most `levels` of them as long as t < 2^levels.
    """

    def __init__(self, levels: int, bins: int, noise: Noise) -> None:
        self._noise = noise
        self._slot = 0
        self._exact = np.zeros((levels, bins), dtype=np.int64)
        self._noisy = np.zeros((levels, bins))

    def add(self, grains: Integers) -> Floats:
        """The noisy sum of all slots so far, this one included, in records."""
        self._slot += 1
        level = lowest_bit(self._slot).bit_length() - 1
        block = grains + self._exact[:level].sum(axis=0)
        self._exact[:level] = 0
        self._noisy[:level] = 0
        self._exact[level] = block
        self._noisy[level] = self._noise(block) / GRAINS
        return np.asarray(self._noisy.sum(axis=0))

    @property
    def size(self) -> int:
        """Numbers held."""
        return int(self._exact.size + self._noisy.size)
