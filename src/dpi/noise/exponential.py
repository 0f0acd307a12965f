"""Exact Bernoulli(e^-x) and geometric variables.

Each law is decided by a uniform U whose bits are drawn lazily: a fast path in floating point settles a draw only
where a rigorous error bound says that arbitrary precision would settle it alike; what is in doubt goes on with the
same U in decimal arithmetic (the standard library's `ln` and `exp` are correctly rounded), with more bits of U and
more digits until it is decided. So the law is exact, and no number of bits limits its support.

Of `geometric`, in Coq: what floats decide is right (`float_path_right`, `proofs/Floats.v`), and so are the laws of both
digits (`logs_law`, `proofs/Sampler.v`; `lows_law`, `proofs/Sampler.v`).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.source import WORD_BITS, LazyUniform, RandomSource, Words

Mask = npt.NDArray[np.bool_]

FAST_BITS = 30
"""Scales up to 2^30 go to the floating-point path whole; there about 10^-5 of the draws stay in doubt."""

_TWO_64 = 2.0**64
_FLOAT_ERROR = 2.0**-49
"""Relative error allowed to a float64 `log` or `exp` with the products around it: 8 units in the last place, where
numpy and the C libraries stay below 4 (tests measure it)."""


def decimal_context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    """Arithmetic with this many digits, to nearest unless said otherwise, with exponents that do not run out."""
    return Context(prec=digits, rounding=rounding, Emin=-(10**17), Emax=10**17, traps=[])


def to_decimal(value: Fraction, context: Context) -> Decimal:
    """Return the rational, rounded once."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _digits(uniform: LazyUniform, magnitude: int) -> int:
    return 25 + len(str(magnitude)) + uniform.bits * 302 // 1000


def below_exp(uniform: LazyUniform, x: Fraction) -> bool:
    """Whether U < e^-x, exactly: the slow path of every Bernoulli(e^-x)."""
    while True:
        context = decimal_context(_digits(uniform, int(x)))
        power = context.exp(context.minus(to_decimal(x, context)))
        margin = context.scaleb(power, 5 + len(str(int(x))) - context.prec)
        scale = Decimal(1 << uniform.bits)
        if context.multiply(context.subtract(power, margin), scale) >= uniform.numerator + 1:
            return True
        # Where e^-x underflows a decimal, U is above it as soon as any of its bits is one; until then, go on.
        if uniform.numerator and context.multiply(context.add(power, margin), scale) <= uniform.numerator:
            return False
        uniform.extend()


def floor_log(uniform: LazyUniform, scale: Fraction) -> int:
    """floor(-scale · ln U), exactly: the slow path of every geometric variable."""
    while True:
        context = decimal_context(_digits(uniform, int(scale)))
        factor = to_decimal(scale, context)
        bounds: list[int] = []
        for numerator, direction in ((uniform.numerator + 1, -1), (uniform.numerator, 1)):
            if numerator == 0:
                break
            u = context.divide(Decimal(numerator), Decimal(1 << uniform.bits))
            log = context.minus(context.ln(u))
            margin = context.scaleb(context.add(log, Decimal(1)), 3 - context.prec)
            bound = context.multiply(factor, context.add(log, context.multiply(margin, Decimal(direction))))
            bounds.append(int(bound.to_integral_value(rounding=ROUND_FLOOR)))
        if len(bounds) == 2 and max(bounds[0], 0) == bounds[1]:
            return bounds[1]
        uniform.extend()


def bernoulli_exp(exponents: Integers | Words, rate: Fraction, source: RandomSource) -> Mask:
    """Independent coins with P(heads) = e^(-rate · exponent), exactly, for exponents ≥ 0.

    The work of the fast path is the same for all exponents. No probability is truncated to zero: where 64 bits
    cannot tell, more are drawn.

    >>> from dpi.noise import SystemSource
    >>> bool(bernoulli_exp(np.array([0, 0]), Fraction(1), SystemSource()).all())
    True
    """
    words = source.words(exponents.size)
    x = exponents * float(rate)
    power = np.exp(-x)
    # |error of x| ≤ x·2^-50 (two conversions and a product, 2^-53 each), so e^-x is off by a factor of at most
    # 1 ± (x·2^-49 + 2^-49); underflow adds 2^-1000.
    margin = power * ((x + 1) * _FLOAT_ERROR) + 2.0**-1000
    u = words / _TWO_64
    heads: Mask = u * (1 + 2.0**-52) + 2.0**-64 <= power - margin
    tails: Mask = u * (1 - 2.0**-52) >= power + margin
    for i in np.flatnonzero(~(heads | tails)):
        uniform = LazyUniform(int(words[i]), WORD_BITS, source)
        heads[i] = below_exp(uniform, rate * int(exponents[i]))
    return heads


def _floor_logs(words: Words, scale: Fraction, source: RandomSource) -> Integers:
    """floor(-scale · ln U) for uniforms that begin with `words`, exactly."""
    with np.errstate(divide="ignore", invalid="ignore"):
        floats = words.astype(np.float64)
        x = np.log(floats / _TWO_64)
        x *= -float(scale)
        # U lies within 1/words of the float, relatively; rounding it costs 2^-53; log and products 2^-49 of x.
        error = float(scale) * (2.0**-51 + 2.0 / floats) + x * _FLOAT_ERROR
        low = np.floor(x - error)
        doubt = ~(low == np.floor(x + error))  # also where the word is 0 and x is infinite
        low[doubt] = 0
    result = low.astype(np.int64)
    for i in np.flatnonzero(doubt | (result < 0)):
        result[i] = floor_log(LazyUniform(int(words[i]), WORD_BITS, source), scale)
    return result


def split(words: Words, coin_bits: int) -> tuple[Integers, Words]:
    """Return the bits of a word above `coin_bits`, and those below: two independent uniforms of one uniform word."""
    return (words >> np.uint64(coin_bits)).astype(np.int64), words & np.uint64((1 << coin_bits) - 1)


def _low_digits(size: int, bits: int, scale: Fraction, source: RandomSource) -> Integers:
    """Variables on 0 … 2^bits - 1 with P(r) ∝ e^(-r/scale), exactly, where 2^bits / scale ≤ 2^-29.

    A uniform r is accepted with probability e^(-r/scale) > 1 - 2^-28. One word gives both: its top `bits` bits
    are r, the others are the first bits of the accepting uniform.
    """
    result = np.zeros(size, dtype=np.int64)
    open_ = np.arange(size)
    coin_bits = WORD_BITS - bits
    # Coins below this are below (1 - 2^bits/scale) · 2^coin_bits, so U < e^(-r/scale) for every r < 2^bits.
    sure = int((1 << coin_bits) * (1 - Fraction(1 << bits) / scale))
    while open_.size:
        words = source.words(open_.size)
        digits, coins = split(words, coin_bits)
        accepted: Mask = coins < np.uint64(sure)
        for i in np.flatnonzero(~accepted):
            uniform = LazyUniform(int(coins[i]), coin_bits, source)
            accepted[i] = below_exp(uniform, Fraction(int(digits[i])) / scale)
        result[open_[accepted]] = digits[accepted]
        open_ = open_[~accepted]
    return result


def geometric(size: int, scale: Fraction, source: RandomSource) -> tuple[Integers, Integers, int]:
    """Independent geometric variables g = floor(-scale · ln U) with P(g ≥ j) = e^(-j/scale), exactly.

    Returned as (high, low, bits) with g = high · 2^bits + low, because g may exceed 64 bits. The two digits of a
    geometric variable are independent: high is geometric with scale / 2^bits, low is a geometric truncated to
    0 … 2^bits - 1. `bits` depends on the scale alone and is 0 up to a scale of 2^30; beyond that the split keeps
    the share of draws that need arbitrary precision at about 10^-5, whatever the scale.

    A high digit of 2^63 would need more than 2^30 · 64 zero bits in a row; it would raise OverflowError.

    >>> from dpi.noise import SystemSource
    >>> high, low, bits = geometric(5, Fraction(1, 1000), SystemSource())
    >>> bits, low.tolist()
    (0, [0, 0, 0, 0, 0])
    """
    if scale <= 0 or scale > 1 << 80:
        raise OptionError(f"`scale` must be above 0 and at most 2^80. Got {float(scale):g}.")
    bits = max(0, int(scale).bit_length() - FAST_BITS)
    high = _floor_logs(source.words(size), scale / (1 << bits), source)
    low = _low_digits(size, bits, scale, source) if bits else np.zeros(size, dtype=np.int64)
    return high, low, bits
