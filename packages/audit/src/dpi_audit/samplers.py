"""The law of a sampler, read off the sampler itself: of any, and of the shipped ones.

Each exact sampler of `dpi.noise` decides by one uniform U, whose bits it draws as far as it needs them, and its result
is monotone in U. So a source that hands out chosen bits finds, by bisection, the border in U between two results: the
difference of two borders is a probability, known to 2^-256. Nothing is assumed of the code inside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from dpi.noise import RandomSource, bernoulli_exp, exponential_mechanism, geometric
from dpi.noise.source import WORD_BITS, Words
from dpi.testing.laws import Finite
from dpi_audit.exact import Finding

PRECISION = 256
"""Bits of U that a border is found to."""

Sampler = Callable[[RandomSource], int]


class _Undecided(Exception):
    """The sampler wants more bits of U than the script has: a border lies within the script's last bit."""


class _Script:
    """Hands out the bits of one U."""

    def __init__(self, numerator: int) -> None:
        self._bits = PRECISION
        self._numerator = numerator

    def words(self, count: int) -> Words:
        """Return the next words of U."""
        if self._bits < count * WORD_BITS:
            raise _Undecided
        taken = []
        for _ in range(count):
            self._bits -= WORD_BITS
            taken.append(self._numerator >> self._bits & (1 << WORD_BITS) - 1)
        return np.array(taken, dtype=np.uint64)


def boundary(sampler: Sampler, low_side: Callable[[int], bool]) -> Fraction:
    """Return the share of [0, 1), from 0 on, for whose U the result satisfies `low_side`; the sampler is monotone in U.

    >>> boundary(lambda source: int(source.words(1)[0] >> 63), lambda bit: bit == 0)
    Fraction(1, 2)
    """
    low, high = 0, 1 << PRECISION
    while low < high:
        middle = (low + high) // 2
        if (holds := _holds(sampler, low_side, middle)) is None:
            # A border lies here, at an end of the interval; it is another one where both sides of it agree.
            before, after = (_holds(sampler, low_side, middle + step) for step in (-2, 2))
            if before is None or after is None or before != after:
                return Fraction(middle, 1 << PRECISION)
            holds = after
        low, high = (middle + 1, high) if holds else (low, middle)
    return Fraction(low, 1 << PRECISION)


def _holds(sampler: Sampler, low_side: Callable[[int], bool], numerator: int) -> bool | None:
    """Whether the result for this U is on the low side; None if its bits do not decide."""
    try:
        return low_side(sampler(_Script(numerator)))
    except _Undecided:
        return None


def geometric_loss(sampler: Sampler, scale: Fraction, levels: Sequence[int]) -> Finding:
    """Return the largest |ln P(j)/P(j + 1)| of a geometric sampler at the given levels; 1/scale is claimed.

    Noise that is the difference of two such variables loses as much for one step of its input. A level that cannot
    happen means that the support ends below it: the last level that can is told apart from the next for sure.
    """
    worst, where = 0.0, "no level"
    for level in levels:
        tails = [boundary(sampler, lambda g, j=level + i: g >= j) for i in range(3)]  # type: ignore[misc]
        here, after = tails[0] - tails[1], tails[1] - tails[2]
        ratio = math.inf if 0 in (here, after) else abs(math.log(here / after))
        if ratio > worst:
            worst, where = ratio, f"noise of {level} against {level + 1} grains, scale {float(scale):g}"
    return Finding(worst, 1 / scale, where)


def selection_law(sampler: Sampler, candidates: int) -> Finite:
    """Return the law of a choice by one uniform: the probability of each candidate, in the order of its intervals."""
    borders = [boundary(sampler, lambda i, j=j: i <= j) for j in range(candidates - 1)]  # type: ignore[misc]
    edges = [Fraction(0), *borders, Fraction(1)]
    return Finite({i: _log(b - a) for i, (a, b) in enumerate(itertools.pairwise(edges))})


def coins_law(coin: Callable[[int, RandomSource], bool], gaps: Sequence[int]) -> Finite:
    """Return the law of permute-and-flip: a uniform one of the heads, each coin's probability read off the coin."""
    heads = [Fraction(1) if gap == 0 else boundary(lambda s, g=gap: int(coin(g, s)), bool) for gap in gaps]  # type: ignore[misc]
    law = {i: Fraction(0) for i in range(len(gaps))}
    for flips in itertools.product((False, True), repeat=len(gaps)):
        up = [i for i, flip in enumerate(flips) if flip]
        chance = math.prod((p if flip else 1 - p for p, flip in zip(heads, flips, strict=True)), start=Fraction(1))
        for i in up:
            law[i] += chance / len(up)
    return Finite({i: _log(p) for i, p in law.items()})


def selection_loss(
    law: Callable[[Sequence[int]], Finite], pairs: Sequence[tuple[Sequence[int], Sequence[int]]], rate: Fraction
) -> Finding:
    """Return the largest loss of a selection on pairs of neighbouring scores; 2·rate·(largest change) is claimed."""
    findings: list[Finding] = []
    for one, other in pairs:
        moved = max(abs(a - b) for a, b in zip(one, other, strict=True))
        ours, theirs = law(one), law(other)
        witness = f"scores {list(one)} against {list(other)}"
        worst = (ours.worst(theirs), theirs.worst(ours))
        findings += [Finding(each.loss, 2 * rate * moved, witness) for each in worst]
    return max(findings, key=lambda finding: finding.ratio)


def _log(probability: Fraction) -> float:
    if probability <= 0:
        return -math.inf
    return math.log(probability.numerator) - math.log(probability.denominator)


SCALE = Fraction(5, 2)
LEVELS = (0, 110, 300)
"""64 bits end at floor(2.5 · 64 · ln 2) = 110."""
RATE = Fraction(1, 3)
SCORES = (((0, 129), (1, 128)), ((0, 300, 1), (1, 299, 0)), ((1, 0, 0, 0), (0, 1, 1, 1)))
"""The first pair lies where e^(-gap/3) passes 2^-62."""


def shipped_geometric(source: RandomSource) -> int:
    """Draw by the shipped sampler, which takes bits until the result is decided."""
    high, low, bits = geometric(1, SCALE, source)
    return (int(high[0]) << bits) + int(low[0])


def exponential_law(scores: Sequence[int]) -> Finite:
    """Return the law of the shipped exponential mechanism, read off its draws."""
    return selection_law(lambda source: exponential_mechanism(np.array(scores), RATE, source), len(scores))


def permute_and_flip_law(scores: Sequence[int]) -> Finite:
    """Return the law of the shipped permute-and-flip, from its coins."""
    gaps = [max(scores) - score for score in scores]
    return coins_law(lambda gap, source: bool(bernoulli_exp(np.array([gap]), RATE, source)[0]), gaps)


@cache
def noise_loss() -> Finding:
    """Return the loss of the shipped geometric sampler at its levels."""
    return geometric_loss(shipped_geometric, SCALE, LEVELS)


@cache
def exponential_loss() -> Finding:
    """Return the loss of the shipped exponential mechanism on all pairs of scores."""
    return selection_loss(exponential_law, SCORES, RATE)


@cache
def permute_and_flip_loss() -> Finding:
    """Return the loss of the shipped permute-and-flip on all pairs of scores."""
    return selection_loss(permute_and_flip_law, SCORES, RATE)
