"""Discrete Laplace noise on every value of a universe that nobody can list, of which the large ones are shown.

The mechanism that is meant is dense: each of the N values of a public universe has a number (zero, unless somebody
has it), every number gets independent noise, and the values whose noisy number is at least a public threshold are
shown with it. With N = 115^32 nobody can draw that. Here the same law is drawn without a list: values that have a
number get noise as they are; of the others, it is drawn how many pass, which, and by how much.

How many pass is binomial, decided by one uniform U, as all laws here are: the k with F(k - 1) ≤ U < F(k). F is
irrational, and the number of trials may have hundreds of digits; so F is enclosed from below and from above in decimal
arithmetic with directed rounding, and U and the digits are extended until U lies on one side of every bound that is
asked for. Nothing is approximated: what cannot be decided is computed again.

It sees numbers and no users.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.exponential import decimal_context, geometric
from dpi.noise.laplace import SATURATION, add_laplace
from dpi.noise.source import WORD_BITS, LazyUniform, RandomSource, uniform_below

_ONE = Decimal(1)


@dataclass(frozen=True)
class Rounding:
    """Arithmetic of some digits, rounded downwards and upwards.

    `exp` and `ln` of the standard library are right to half a unit in the last place, whatever the rounding; a step to
    the next number makes a bound of them.
    """

    down: Context
    up: Context

    @classmethod
    def to(cls, digits: int) -> Rounding:
        """With so many digits."""
        return cls(decimal_context(digits, ROUND_FLOOR), decimal_context(digits, ROUND_CEILING))

    def exp_minus(self, x: Fraction) -> tuple[Decimal, Decimal]:
        """Bounds of e^-x, for x ≥ 0."""
        top, bottom = Decimal(x.numerator), Decimal(x.denominator)
        low, high = self.down.divide(top, bottom), self.up.divide(top, bottom)
        return (
            self.down.next_minus(self.down.exp(high.copy_negate())),
            self.up.next_plus(self.up.exp(low.copy_negate())),
        )


def tail(threshold: int, scale: Fraction, rounding: Rounding) -> tuple[Decimal, Decimal]:
    """Bounds of P(Z ≥ threshold) of discrete Laplace noise, for a threshold of at least 1.

    With q = e^(-1/scale), P(z) = (1 - q)/(1 + q)·q^|z|, so that the tail is q^threshold/(1 + q).

    >>> low, high = tail(3, Fraction(2), Rounding.to(30))
    >>> low < high, round(float(low), 9)
    (True, 0.13888945)
    """
    down, up = rounding.down, rounding.up
    step, power = rounding.exp_minus(1 / scale), rounding.exp_minus(threshold / scale)
    return down.divide(power[0], up.add(_ONE, step[1])), up.divide(power[1], down.add(_ONE, step[0]))


def passing(trials: int, threshold: int, scale: Fraction, source: RandomSource) -> int:
    """How many of `trials` independent draws of discrete Laplace noise are at least `threshold` ≥ 1: exactly.

    **Law.** Binomial(trials, p) with p = e^(-threshold/scale)/(1 + e^(-1/scale)).

    *Why.* U is uniform, so k with F(k - 1) ≤ U < F(k) has the law F. F falls as p grows: with p⁻ ≤ p ≤ p⁺ it lies
    between F at p⁺, rounded down, and F at p⁻, rounded up (`_cumulated`). A k is returned only where U is at or above
    every upper bound before it and below the lower one of its own; a wider precision narrows all bounds around F, so
    that each U but for a set of measure zero is decided.

    >>> from dpi.noise import SystemSource
    >>> passing(256**32, 10**6, Fraction(1), SystemSource())
    0
    """
    if trials < 0 or threshold < 1 or scale <= 0:
        raise OptionError("`trials` must be at least 0, `threshold` at least 1, and `scale` above 0.")
    if trials == 0:
        return 0
    uniform = LazyUniform(int(source.words(1)[0]), WORD_BITS, source)
    while (number := _decided(uniform, trials, threshold, scale)) is None:
        uniform.extend()
    return number


def _decided(uniform: LazyUniform, trials: int, threshold: int, scale: Fraction) -> int | None:
    """Return the result for a uniform that is known so far; None if that does not decide it."""
    rounding = Rounding.to(30 + len(str(trials)) + uniform.bits * 302 // 1000)
    unit, (smaller, larger) = Decimal(1 << uniform.bits), tail(threshold, scale, rounding)
    lower = _cumulated(trials, larger, rounding.down, rounding.up, lower=True)
    upper = _cumulated(trials, smaller, rounding.up, rounding.down, lower=False)
    for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if k == trials or rounding.down.multiply(low, unit) >= uniform.numerator + 1:
            return k
        if rounding.up.multiply(high, unit) > uniform.numerator:
            return None
    return None


def _cumulated(trials: int, p: Decimal, near: Context, far: Context, *, lower: bool) -> Iterator[Decimal]:
    """One-sided bounds of F(k) for k = 0 … trials; `near` rounds to the side of the bound, `far` to the other.

    F(k) = Σ_j t_j with t_0 = (1 - p)^trials and t_{j+1} = t_j·(trials - j)/(j + 1)·p/(1 - p): every factor is positive
    (the logarithm, which is not, is multiplied by a positive number), so that each step keeps its side.
    """

    def beyond(value: Decimal) -> Decimal:
        return near.next_minus(value) if lower else near.next_plus(value)

    exponent = near.multiply(beyond(near.ln(near.subtract(_ONE, p))), Decimal(trials))
    term = max(beyond(near.exp(exponent)), Decimal(0))
    odds = near.divide(p, far.subtract(_ONE, p))
    total = term
    yield total
    for j in range(trials):
        term = near.multiply(near.divide(near.multiply(term, Decimal(trials - j)), Decimal(j + 1)), odds)
        total = near.add(total, term)
        yield total


LARGEST_THRESHOLD = SATURATION
"""Sums are cut here: up to it, a cut one passes exactly if the sum does; beyond, nothing could pass."""


def sparse_laplace(
    values: Integers, occupied: Container[int], universe: int, scale: Fraction, threshold: int, source: RandomSource
) -> tuple[dict[int, int], dict[int, int]]:
    """Return what of a universe of values 0 … universe - 1 is at least `threshold` after noise.

    `values` are the numbers of some values, and `occupied` says of a value whether it is one of these; all others have
    zero. The first dictionary has those of `values` that pass, by their place in it, the second the others that pass,
    by value: each with its noisy number, which is cut at 2^61, as in `add_laplace`.

    **Guarantee.** If one user moves the numbers of all values together by at most s in ℓ₁, the union of both is
    (s/scale)-DP for that user. There is no δ. (Which of the two dictionaries a value is in is private.)

    *Why.* It is a function of the dense vector of all N noisy numbers, which is (s/scale)-DP by `add_laplace`: it has
    the law of {(v, y_v) : y_v ≥ threshold} with y_v = number + Z_v. For occupied values it is that by construction. The
    M others are independent of them and of each other, and pass with probability p = P(Z ≥ threshold) each. So their
    number is Binomial(M, p) (`passing`, exactly). Given it, by symmetry every set of so many of them is as
    likely (`others`). Given the set, their noisy numbers are independent with P(Z ≥ threshold + j | Z ≥ threshold) =
    q^(threshold+j)/q^threshold = q^j: the threshold plus a geometric variable. A value that is occupied with the number
    zero has the law of one that is not, so that which values are listed does not enter the law.

    What follows must not ask the data whether a value that was drawn is somebody's: a result that can hold only what
    somebody has is private for no ε.

    How long it takes follows from how many values are occupied, as the reading of them does; that is not observed, by
    assumption (`docs/privacy.md`).

    >>> from dpi.noise import SystemSource
    >>> sparse_laplace(np.array([900, 0]), {3, 7}, 256**32, Fraction(1), 400, SystemSource())[0].keys()
    dict_keys([0])
    """
    if not 1 <= threshold <= LARGEST_THRESHOLD:
        raise OptionError("`threshold` must be a whole number from 1 to 2^61.")
    if values.size > universe:
        raise OptionError("`values` must be of different values of the universe.")
    noisy = add_laplace(values, scale, source)
    passed = {int(at): int(noisy[at]) for at in np.flatnonzero(noisy >= threshold)}
    drawn = others(passing(universe - values.size, threshold, scale, source), occupied, universe, source)
    high, low, bits = geometric(len(drawn), scale, source)
    excess = zip(drawn, high.tolist(), low.tolist(), strict=True)
    return passed, {v: min(threshold + (top << bits) + bottom, SATURATION) for v, top, bottom in excess}


def others(count: int, occupied: Container[int], universe: int, source: RandomSource) -> list[int]:
    """Return a uniform set of `count` values that are not occupied, of which there are enough, in increasing order.

    *Why.* Each is uniform among those that are neither occupied nor drawn before it, by exact uniform numbers of which
    the others are thrown away. So every order of every set is as likely. Since `count` is Binomial(M, p) with M of N
    values left, about N·p draws are needed on average for small p: as many as pass in a universe that is empty.

    >>> from dpi.noise import SystemSource
    >>> others(2, {1, 3}, 4, SystemSource())
    [0, 2]
    """
    drawn = set[int]()
    while len(drawn) < count:
        value = uniform_below(universe, source)
        if value not in occupied:
            drawn.add(value)
    return sorted(drawn)
