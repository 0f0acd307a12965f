"""The counters of Chan, Shi and Song: running counts by dyadic blocks; ranges, consistency, most frequent bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Baseline, check_count

Noise = Callable[[Integers], Integers]


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number ≥ 1: how many slots the block that ends there covers."""
    return number & -number


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


class Binary(Baseline):
    """Prefix sums of up to `slots` slots from noisy sums of dyadic blocks.

    **Guarantee.** ε-DP for one record. *Why:* slot s lies in at most one block of each of the L = ⌊log₂ T⌋ + 1 sizes,
    and each block has Laplace noise of scale L/ε. The published scale is log₂(T)/ε, which is one level short when T is
    a power of two: slot 1 then loses ε·(log₂ T + 1)/log₂ T.

    *A user* with c records in each of t slots moves the block that ends at s by c·low(s) with low(s) its size: the
    loss is c·(ε/L)·Σ low(s), attained.

    >>> counter = Binary(epsilon=1000, slots=4)
    >>> [round(float(counter.update(1)[0])) for _ in range(4)]
    [1, 2, 3, 4]
    >>> counter.user_epsilon(4), counter.variance(3)
    (2666.6666666666665, 3.6e-05)
    """

    held = ("_tree",)

    slots: int

    def _start(self) -> None:
        check_count(self.slots, "slots")
        self.levels = self.slots.bit_length()
        self.scale = self.levels / self.rate
        self._tree = DyadicTree(self.levels, self.bins, partial(self._laplace, scale=self.scale))

    def _step(self, grains: Integers) -> Floats:
        return self._tree.add(grains)

    def loss(self, slots: int) -> Loss:
        """One block of each size, moved by its size."""
        return Loss({Fraction(size) / self.scale: count for size, count in blocks(slots).items()})

    def variance(self, slot: int) -> float:
        """One noise for every set bit of the slot's number."""
        return 2 * slot.bit_count() * float(self.scale) ** 2

    def error_bound(self, slot: int, beta: float) -> float:
        """A release is off by more than this with probability at most β."""
        return laplace_sum_bound([float(self.scale)] * slot.bit_count(), beta)


def laplace_sum_bound(scales: list[float], beta: float) -> float:
    """A bound ν·√(8·ln(2/β)) that a sum of independent Laplace noises exceeds with probability at most β.

    With ν = max(√Σb², b_max·√ln(2/β)) (Chan, Shi, Song, Corollary 2.9).
    """
    check_between(beta, "beta")
    log = math.log(2 / beta)
    spread = max(math.sqrt(sum(b * b for b in scales)), max(scales, default=0.0) * math.sqrt(log))
    return spread * math.sqrt(8 * log)


class Logarithmic(Baseline):
    """Prefix sums at slots 1, 2, 4, 8, …; between them the last release stands.

    **Guarantee.** ε-DP for one record. *Why:* the slots after 2^(k-1) up to 2^k are summed and noised once, with
    scale 1/ε; a record is in one such segment. (The published form is silent in between.)

    >>> counter = Logarithmic(epsilon=1000)
    >>> [round(float(counter.update(1)[0])) for _ in range(5)]
    [1, 2, 2, 4, 4]
    """

    held = ("_segment", "_released")

    def _start(self) -> None:
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._released = np.zeros(self.bins)

    def _step(self, grains: Integers) -> Floats:
        self._segment = self._segment + grains
        if self.slot.bit_count() == 1:
            self._released = self._released + self._laplace(self._segment, 1 / self.rate) / GRAINS
            self._segment = np.zeros(self.bins, dtype=np.int64)
        return self._released

    def loss(self, slots: int) -> Loss:
        """Segments of 1, 1, 2, 4, … slots, each released once."""
        return Loss(segments(slots, 1 / self.rate))

    def variance(self, slot: int) -> float:
        """One noise for each segment; around the count at the last power of two."""
        return 2 * slot.bit_length() / float(self.rate) ** 2


def segments(slots: int, scale: Fraction) -> dict[Fraction, int]:
    """Ratios of the segments that end by a slot: 1, 1, 2, 4, … slots over the scale."""
    if slots < 1:
        return {}
    ratios = {Fraction(1) / scale: min(slots.bit_length(), 2)}
    ratios.update({Fraction(1 << k) / scale: 1 for k in range(1, slots.bit_length() - 1)})
    return ratios


class Hybrid(Baseline):
    """Prefix sums for ever: a logarithmic count at powers of two, and a fresh binary one after each.

    **Guarantee.** ε-DP for one record. *Why:* half of ε is spent on the segment of the logarithmic mechanism that holds
    the record; the other half on the tree that was started at the power of two before it. After t = 2^K that tree runs
    for less than 2^K slots, so K levels of noise 2K/ε are enough.

    >>> counter = Hybrid(epsilon=1000)
    >>> [round(float(counter.update(1)[0])) for _ in range(6)]
    [1, 2, 3, 4, 5, 6]
    >>> Hybrid(epsilon=1).user_epsilon(8), Hybrid(epsilon=1).variance(5)
    (5.5, 56.0)
    """

    held = ("_segment", "_base", "_tree")

    def _start(self) -> None:
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._base = np.zeros(self.bins)
        self._tree = self._new_tree(0)

    def _new_tree(self, levels: int) -> DyadicTree:
        return DyadicTree(levels, self.bins, partial(self._laplace, scale=2 * Fraction(levels) / self.rate))

    def _step(self, grains: Integers) -> Floats:
        self._segment = self._segment + grains
        if self.slot.bit_count() > 1:
            return self._base + self._tree.add(grains)
        self._base = self._base + self._laplace(self._segment, 2 / self.rate) / GRAINS
        self._segment = np.zeros(self.bins, dtype=np.int64)
        self._tree = self._new_tree(self.slot.bit_length() - 1)
        return self._base

    def loss(self, slots: int) -> Loss:
        """The segments, and the blocks of every tree so far."""
        ratios = segments(slots, 2 / self.rate)
        for level in range(1, slots.bit_length()):
            length = min(slots, (2 << level) - 1) - (1 << level)
            for size, count in blocks(length).items():
                ratio = size * self.rate / (2 * level)
                ratios[ratio] = ratios.get(ratio, 0) + count
        return Loss(ratios)

    def scales(self, slot: int) -> list[float]:
        """The scales of the noises that a release is the sum of."""
        level = slot.bit_length() - 1
        rate = float(self.rate)
        return [2 / rate] * (level + 1) + [2 * level / rate] * (slot - (1 << level)).bit_count()

    def variance(self, slot: int) -> float:
        """The sum over all noises in a release."""
        return 2 * sum(scale**2 for scale in self.scales(slot))

    def error_bound(self, slot: int, beta: float) -> float:
        """A release is off by more than this with probability at most β."""
        return laplace_sum_bound(self.scales(slot), beta)


class RangeCounter(Baseline):
    """Prefix sums of all ranges of bins, for ever.

    **Guarantee.** ε-DP for one record. *Why:* the record's bin lies in one node of each of H = ⌈log₂ K⌉ + 1 levels, and
    each node has a hybrid counter with ε/H. A range is the sum of at most 2(H - 1) nodes.

    >>> counter = RangeCounter(epsilon=1000, bins=6)
    >>> _ = counter.update([1, 2, 3, 4, 5, 6])
    >>> round(counter.range(1, 5)), counter.nodes(1, 5)
    (14, [(0, 1), (0, 4), (1, 1)])
    """

    held = ("_counter", "_released")

    def _start(self) -> None:
        self.levels = (self.bins - 1).bit_length() + 1
        leaves = 1 << (self.levels - 1)
        share = self.rate / self.levels
        self._counter = Hybrid(epsilon=share, bins=2 * leaves - 1, unsafe_source=self._source)
        self._leaves = leaves
        self._released: Floats = np.empty(0)

    def _step(self, grains: Integers) -> Floats:
        level = np.zeros(self._leaves, dtype=np.int64)
        level[: self.bins] = grains
        levels = [level]
        while level.size > 1:
            level = level[0::2] + level[1::2]
            levels.append(level)
        self._released = self._counter.advance(np.concatenate(levels))
        return self._released[: self.bins]

    def nodes(self, low: int, high: int) -> list[tuple[int, int]]:
        """Levels and places of the nodes that make up the bins low … high - 1; leaves are level 0."""
        if not 0 <= low < high <= self.bins:
            raise OptionError(f"a range must satisfy 0 <= low < high <= {self.bins}. Got {low}, {high}.")
        nodes, level = [], 0
        while low < high:
            if low & 1:
                nodes.append((level, low))
                low += 1
            if high & 1:
                high -= 1
                nodes.append((level, high))
            low, high, level = low >> 1, high >> 1, level + 1
        return nodes

    def range(self, low: int, high: int) -> float:
        """The released count of bins low … high - 1, over all slots so far."""
        if not self._released.size:
            raise OptionError("nothing is released yet: call `update` first.")
        places = [self._place(level, place) for level, place in self.nodes(low, high)]
        return float(self._released[places].sum())

    def _place(self, level: int, place: int) -> int:
        return 2 * self._leaves - (2 * self._leaves >> level) + place

    def loss(self, slots: int) -> Loss:
        """In every level one node moves as the whole count would: H times the loss of a counter with ε/H."""
        return Loss({ratio: count * self.levels for ratio, count in self._counter.loss(slots).shifts.items()})

    def variance(self, slot: int) -> float:
        """Of one bin."""
        return self._counter.variance(slot)

    def range_variance(self, low: int, high: int, slot: int) -> float:
        """Of the range low … high - 1."""
        return len(self.nodes(low, high)) * self._counter.variance(slot)


class Consistent:
    """Turns the releases of a counter into counts that a stream can have. Post-processing: it costs no privacy.

    From one slot to the next the output rises by what the counter's rounded release is above it, cut to 0 … `most`,
    the most records that one slot can add to a bin. With whole true counts that rise by at most `most`, the largest
    error so far is never above that of the rounded releases (Chan, Shi, Song, Theorem 6.1, by induction over slots).

    >>> steps = Consistent(most=1)
    >>> [int(steps.update(np.array([x]))[0]) for x in (0.2, 3.9, -2.0, 1.6)]
    [0, 1, 1, 2]
    """

    def __init__(self, most: int = 1) -> None:
        check_count(most, "most")
        self.most = most
        self._last: Integers | None = None

    def update(self, release: Floats) -> Integers:
        """The consistent counts of the next slot."""
        last = np.zeros(release.size, dtype=np.int64) if self._last is None else self._last
        rounded = np.rint(np.clip(release, -(2.0**60), 2.0**60)).astype(np.int64)
        self._last = last + np.clip(rounded - last, 0, self.most)
        return self._last


def top_k(release: Floats, k: int) -> list[tuple[int, float]]:
    """The k largest estimates with their bins, the largest first. Post-processing: it costs no privacy.

    >>> top_k(np.array([3.0, 9.0, 7.0]), 2)
    [(1, 9.0), (2, 7.0)]
    """
    check_count(k, "k")
    order = np.argsort(-release, kind="stable")[:k]
    return [(int(i), float(release[i])) for i in order]


def certain_gap(counter: Binary | Hybrid, slot: int, beta: float) -> float:
    """The gap that decides: a bin whose true count is this far above the (k + 1)-th is among the k largest estimates.

    Except with probability β. It is twice the error that no bin exceeds but with probability β, by the union bound.

    >>> round(certain_gap(Hybrid(epsilon=1, bins=100), slot=1024, beta=0.01))
    118
    """
    bound = counter.error_bound(slot, beta / counter.bins)
    return math.nextafter(2 * bound, math.inf)
