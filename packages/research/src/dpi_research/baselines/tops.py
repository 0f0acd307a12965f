"""ToPS of Wang et al.: a threshold by selection, a wide tree with online consistency, a smoother."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.noise import exponential_mechanism
from dpi_research.baselines.accounting import Loss
from dpi_research.baselines.base import Prefixed, check_count
from dpi_research.baselines.counters import Noise


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


SCORE_UNITS = 1 << 20
"""Scores are whole numbers of 2^-20 records."""


class ToPS(Prefixed):
    """Prefix sums of values in 0 … `largest`, one value in every slot.

    slots: the values that are released, after a warm-up of `prefix` values that are not.
    dropped: how many of the lowest levels of the tree are not released; None is the published choice. Inside a block of
    b^dropped slots a predictor's guess is released, and the block's last slot puts it right.

    **Guarantee.** ε-DP for one value. *Why:* the threshold's score moves by at most one, for all candidates in the same
    direction (a user without records has values of 0, so for many values too), so the exponential mechanism at rate ε
    is ε-DP, and sees the prefix alone; the tree sees the other values, cut to the threshold θ, each in one node of h
    released levels with noise θ·h/ε.

    >>> mechanism = ToPS(epsilon=1000, slots=3, prefix=100, largest=10, fan_out=4, dropped=0)
    >>> for value in range(100):
    ...     _ = mechanism.update(value % 10)
    >>> [round(float(mechanism.update(3)[0])) for _ in range(3)], mechanism.threshold >= 9
    ([3, 6, 9], True)
    """

    fan_out: int = 16
    step: int = 1
    tail: float = 60.0
    dropped: int | None = None
    predictor: Predictor = "recent"

    def _start(self) -> None:
        super()._start()
        check_count(self.fan_out, "fan_out", 2)
        check_count(self.step, "step")
        if self.predictor not in PREDICTORS:
            raise OptionError(f"`predictor` must be one of {', '.join(PREDICTORS)}. Got {self.predictor!r}.")
        self.height = 1
        while self.fan_out**self.height <= self.slots:
            self.height += 1
        choice = dropped_levels(float(self.rate), self.fan_out) if self.dropped is None else self.dropped
        check_count(choice, "dropped", 0)
        self.dropped_levels = min(choice, self.height - 1)
        self.levels = self.height - self.dropped_levels
        self.block = self.fan_out**self.dropped_levels
        self._open, self._guessed, self._published = 0, 0.0, 0.0
        self._blocks: list[float] = []
        self.threshold: int | None = None
        """θ, public once the prefix is over."""

    # The threshold.

    @property
    def candidates(self) -> Integers:
        """The thresholds among which one is chosen."""
        return np.arange(self.step, self.largest + 1, self.step)

    def penalty(self) -> float:
        """What one record of threshold costs a candidate, in records: public."""
        noise = math.sqrt(2 * (self.fan_out - 1) * self.height**3) / float(self.rate)
        return 3 * self.prefix / (self.tail * self.slots) * noise

    def scores(self, values: Integers) -> Integers:
        """#{x ≤ θ} - m - θ·penalty for every candidate, in units of 2^-20: one value moves each by at most one."""
        below = np.searchsorted(np.sort(values), self.candidates * GRAINS, side="right")
        cost = np.minimum(self.candidates * self.penalty() * SCORE_UNITS, 2.0**49).astype(np.int64)
        return np.asarray((below - self.prefix) * SCORE_UNITS - cost)

    def _learn(self) -> None:
        scores = self.scores(np.array(self._values, dtype=np.int64))
        chosen = exponential_mechanism(scores, self.rate / SCORE_UNITS, self._source)
        self.threshold = int(self.candidates[chosen])
        scale = self.threshold * self.levels / self.rate
        self._tree = BaryTree(self.fan_out, self.levels, partial(self._laplace, scale=scale))

    # The slots.

    def _count(self, grains: int) -> float:
        assert self.threshold is not None  # noqa: S101 - the prefix is over
        self._open += min(grains, self.threshold * GRAINS)
        if (self.slot - self.prefix) % self.block:
            # The predicted block's mean; half the threshold before any block is known.
            guess = PREDICTORS[self.predictor](self._blocks) / self.block if self._blocks else self.threshold / 2
            self._guessed += guess
        else:
            total = self._tree.add(self._open)
            self._blocks.append(total - self._published)
            if self.predictor == "recent":
                self._blocks = self._blocks[-1:]
            self._open, self._guessed, self._published = 0, 0.0, total
        return self._published + self._guessed

    # The protocol.

    def loss(self, slots: int) -> Loss:
        """The threshold, whose score moves with each value; then all finished nodes of the released levels."""
        if slots < self.prefix:
            return Loss()
        shifts: dict[Fraction, int] = {}
        for level in range(self.dropped_levels, self.height):
            size = self.fan_out**level
            if count := (slots - self.prefix) // size:
                shifts[size * self.rate / self.levels] = count
        return Loss(shifts, self.prefix * self.rate)

    def variance(self, slot: int) -> float | None:
        """Around the sum of the cut values, at the end of a block; known once the threshold is public."""
        after = slot - self.prefix
        if self.threshold is None or after <= 0 or after % self.block:
            return None
        scale = self.threshold * float(self.levels / self.rate)
        return 2 * scale**2 * self._tree.weights(after // self.block)

    @property
    def memory(self) -> int:
        """The prefix's values, then the tree and the predictor's blocks."""
        return len(self._values) if self.threshold is None else self._tree.size + len(self._blocks) + 3
