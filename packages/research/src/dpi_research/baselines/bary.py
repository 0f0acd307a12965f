"""A tree of fan-out b whose nodes are made consistent as they are finished, with nothing but the past."""

from __future__ import annotations

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.dyadic import Noise


def node_weight(fan_out: int, height: int) -> float:
    """Variance of a consistent node of this height, as a share of one noise's: b^(k-1)·(b - 1)/(b^k - 1).

    >>> [round(node_weight(16, k), 4) for k in (1, 2, 3)]
    [1.0, 0.9412, 0.9377]
    """
    size = float(fan_out**height)
    return size * (1 - 1 / fan_out) / (size - 1)


class BaryTree:
    """Noisy sums of all finished nodes, one bin.

    A node of height k (a leaf has height 1) gets its own noisy sum y, and from it and the finished children

        z = [(b^k - b^(k-1))·y + (b^(k-1) - 1)·Σ z_children] / (b^k - 1),

    the best linear estimate from its subtree. A prefix is the sum of z over the largest finished nodes. What is
    published for the last child is thereby corrected so that the b children sum to z; published siblings stay.
    (The authors' repository runs a second pass from the root down, which a stream cannot.)
    """

    def __init__(self, fan_out: int, levels: int, noise: Noise) -> None:
        self.fan_out = fan_out
        self.levels = levels
        self._noise = noise
        self._exact: list[list[int]] = [[] for _ in range(levels)]
        self._consistent: list[list[float]] = [[] for _ in range(levels)]

    def add(self, grains: int) -> float:
        """The prefix, in records, after the next leaf."""
        b, below = self.fan_out, 0.0
        for height in range(1, self.levels + 1):
            exact, consistent = self._exact[height - 1], self._consistent[height - 1]
            noisy = float(self._noise(_one(grains))[0]) / GRAINS
            node = ((b**height - b ** (height - 1)) * noisy + (b ** (height - 1) - 1) * below) / (b**height - 1)
            exact.append(grains)
            consistent.append(node)
            if len(exact) < b or height == self.levels:
                break
            grains, below = sum(exact), sum(consistent)
            exact.clear()
            consistent.clear()
        return sum(map(sum, self._consistent))

    def weights(self, leaves: int) -> float:
        """Variance of the prefix after so many leaves, as a share of one noise's.

        >>> BaryTree(2, 3, lambda grains: grains).weights(3)
        1.6666666666666665
        """
        total = 0.0
        for height in range(1, self.levels + 1):
            digit = leaves % self.fan_out if height < self.levels else leaves
            total += digit * node_weight(self.fan_out, height)
            leaves //= self.fan_out
        return total

    @property
    def size(self) -> int:
        """Numbers held."""
        return 2 * sum(map(len, self._exact))


def _one(grains: int) -> Integers:
    return np.array([min(grains, 1 << 60)], dtype=np.int64)
