"""Exact private selection on integer scores.

Both mechanisms take `rate`, the factor in front of the score. If one user moves every score by at most s, the choice
is (2 · rate · s)-DP; if all scores move in the same direction, it is (rate · s)-DP.

*Why (exponential mechanism).* P(i) = e^(rate·qᵢ) / Σⱼ e^(rate·qⱼ): numerator and denominator change by a factor of
at most e^(rate·s) each; if all scores move one way, the two partly cancel.
*Why (permute-and-flip).* McKenna and Sheldon, NeurIPS 2020, Theorem 1; its expected error is never above that of the
exponential mechanism.

Scores are any 64-bit integers: which of them are there is private, so nothing here may refuse some and take others. No
weight is ever truncated to zero, and the vectorised work is the same for all scores. (The exact path of the
exponential mechanism, taken about once in 10^4 draws at 10^5 candidates, costs time by the number of score levels;
`permute_and_flip` has no such path and is the one to use where time can be observed.)
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.exponential import bernoulli_exp, decimal_context, to_decimal
from dpi.noise.source import WORD_BITS, LazyUniform, RandomSource, Words, uniform_below

LARGEST_RATE = 64
"""Far above any rate of use: rate · gap stays a float of ordinary size, at most 2^70."""


def _gaps(scores: Integers) -> Words:
    """How far each score is below the highest: at most 2^64 - 1, so exact modulo 2^64, whatever the scores span."""
    if scores.ndim != 1 or scores.size == 0 or scores.dtype.kind != "i":
        raise OptionError("`scores` must be a non-empty vector of integers.")
    words = scores.astype(np.int64).view(np.uint64)
    gaps: Words = words[scores.argmax()] - words
    return gaps


def _check(rate: Fraction) -> None:
    if not 0 < rate <= LARGEST_RATE:
        raise OptionError("`rate` must be above 0 and at most 64.")


def permute_and_flip(scores: Integers, rate: Fraction, source: RandomSource) -> int:
    """Index of a high score, by permute-and-flip.

    The published form walks through the candidates in random order, flips a coin of probability e^(rate·(qᵢ - q*))
    for each and stops at the first heads. Here all coins are flipped and the winner is uniform among the heads:
    the same law, because the first heads of a random order is a uniform one of all heads, and work that does not
    tell where the walk stopped.

    >>> from dpi.noise import SystemSource
    >>> permute_and_flip(np.array([0, 900, 1]), Fraction(1), SystemSource())
    1
    """
    _check(rate)
    heads = np.flatnonzero(bernoulli_exp(_gaps(scores), rate, source))
    return int(heads[uniform_below(heads.size, source)])


def exponential_mechanism(scores: Integers, rate: Fraction, source: RandomSource) -> int:
    """Index i with probability e^(rate·qᵢ) / Σⱼ e^(rate·qⱼ), exactly.

    >>> from dpi.noise import SystemSource
    >>> exponential_mechanism(np.array([0, 900, 1]), Fraction(1), SystemSource())
    1
    """
    return exponential_choices(scores, rate, source, 1)[0]


def exponential_choices(scores: Integers, rate: Fraction, source: RandomSource, draws: int) -> list[int]:
    """So many independent choices of `exponential_mechanism` on the same scores, whose weights are added up once.

    Each has a word of the source, and further bits, of its own, so that each has the law of a single choice whatever
    the others are: together they cost as many times what one costs.
    """
    _check(rate)
    gaps = _gaps(scores)
    prefix = np.cumsum(np.exp(gaps * -float(rate)))
    total = float(prefix[-1])
    # Each weight e^-x is off by at most (x + 1)·e^-x·2^-49 ≤ 2^-49, the running sum of n by n·2^-53 of the total.
    error = gaps.size * (1 + total) * 2.0**-48
    choices = []
    for _ in range(draws):
        uniform = LazyUniform(int(source.words(1)[0]), WORD_BITS, source)
        low = uniform.numerator / 2.0**64 * total * (1 - 2.0**-50) - 2 * error
        high = (uniform.numerator + 1) / 2.0**64 * total * (1 + 2.0**-50) + 2 * error
        first, last = prefix.searchsorted((low, high), side="right").tolist()
        # A candidate whose float weight underflowed has an interval narrower than the error: it is found below.
        choices.append(first if first == last else _exponential_exact(gaps, rate, uniform))
    return choices


def _exponential_exact(gaps: Words, rate: Fraction, uniform: LazyUniform) -> int:
    """Return the same choice for the same uniform, in integers: weights in units of 2^-precision, refined as needed."""
    levels, level_of = np.unique(gaps, return_inverse=True)
    while True:
        precision = uniform.bits + 64
        context = decimal_context(precision * 302 // 1000 + 25)
        unit = Decimal(1 << precision)
        weights = [int(context.multiply(context.exp(to_decimal(-rate * int(x), context)), unit)) for x in levels]
        # An integer weight w stands for a true weight in (w - 1, w + 2); so does 0 where e^-x underflows a decimal.
        below = above = 0
        slack = 2 * gaps.size
        total = sum(weights[i] for i in level_of)
        low = uniform.numerator * (total - slack) >> uniform.bits
        high = -(-(uniform.numerator + 1) * (total + slack) >> uniform.bits)
        last = gaps.size - 1
        for i, level in enumerate(level_of):
            above = below + weights[level]
            if (i == 0 or low >= below + slack) and (i == last or high + slack <= above):
                return i
            below = above
        uniform.extend()
