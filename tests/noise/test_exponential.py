import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi.noise import SystemSource, UnsafeSeededSource, bernoulli_exp, geometric
from dpi.noise.exponential import _FLOAT_ERROR, _floor_logs, _low_digits, below_exp, floor_log
from dpi.noise.source import LazyUniform
from statistics_ import assert_law


class Script:
    """A source that plays given words, then fresh ones: to force rare paths."""

    def __init__(self, *words):
        self._words = list(words)

    def words(self, count):
        """The next words of the script."""
        head, self._words = self._words[:count], self._words[count:]
        return np.array([*head, *SystemSource().words(count - len(head))], dtype=np.uint64)


def test_float_functions_stay_within_the_allowed_error():
    """Float64 log and exp are within the error that the fast path allows for, on a wide sample."""
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random(3000), 1 - rng.random(500) * 2.0**-30, rng.random(500) * 2.0**-60])
    x = np.concatenate([rng.random(2000) * 700, rng.random(2000)])
    with mpmath.workprec(120):
        for value, result in zip(u, np.log(u), strict=True):
            assert abs(mpmath.log(mpmath.mpf(float(value))) - float(result)) <= abs(float(result)) * _FLOAT_ERROR / 2
        for value, result in zip(x, np.exp(-x), strict=True):
            true = mpmath.exp(-mpmath.mpf(float(value)))
            assert abs(true - float(result)) <= true * _FLOAT_ERROR / 2


@given(st.integers(0, 2**64 - 1), st.fractions(Fraction(1, 10), 2**64, max_denominator=10**6))
def test_slow_path_equals_arbitrary_precision(word, scale):
    """floor(-scale · ln U) by the slow path is what 400 bits of arithmetic say for both ends of U's interval."""
    uniform = LazyUniform(word, 64, SystemSource())
    result = floor_log(uniform, scale)
    with mpmath.workprec(400):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        for numerator in (uniform.numerator, uniform.numerator + 1):
            u = mpmath.mpf(numerator) / mpmath.mpf(2) ** uniform.bits
            if u > 0:
                value = -s * mpmath.log(u)
                assert result - mpmath.mpf(10) ** -15 <= value <= result + 1 + mpmath.mpf(10) ** -15


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7), Fraction(2**24, 10), Fraction(2**29 + 1, 3)])
def test_fast_path_equals_slow_path(scale):
    """Every word gives the same result by floats as by decimal arithmetic."""
    words = SystemSource().words(300)
    fast = _floor_logs(words, scale, SystemSource())
    slow = [floor_log(LazyUniform(int(w), 64, SystemSource()), scale) for w in words]
    assert fast.tolist() == slow


def test_words_in_doubt_go_to_the_slow_path():
    """A word whose interval contains a jump of the floor is settled by further bits, both ways."""
    scale = Fraction(2**20)
    with mpmath.workprec(200):  # the interval of 2^-64 in which the floor turns from 1 to 0
        jump = int(mpmath.floor(mpmath.exp(mpmath.mpf(-1) / 2**20) * 2**64))
    results = {int(_floor_logs(np.array([jump], dtype=np.uint64), scale, SystemSource())[0]) for _ in range(100)}
    assert results == {0, 1}


def test_no_bound_on_the_support():
    """A run of zero words makes a value that 64 bits could not reach."""
    value = floor_log(LazyUniform(0, 64, Script(0, 0, 0)), Fraction(1))
    assert value > 64 * math.log(2) * 4 - 1


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(10)])
def test_geometric_has_its_exact_law(scale):
    """P(g = j) is e^(-j/s)(1 - e^(-1/s)) at small scales."""
    high, low, bits = geometric(200_000, scale, UnsafeSeededSource(scale.numerator))
    assert bits == 0
    assert not low.any()
    q = math.exp(-1 / scale)
    cells = 60
    law = [(1 - q) * q**j for j in range(cells)] + [q**cells]
    assert_law(np.bincount(np.minimum(high, cells), minlength=cells + 1), law)


@pytest.mark.parametrize("bits", [31, 40, 64, 80])
def test_large_scales_are_split_and_keep_their_law(bits):
    """The quantiles of the two digits together are those of the geometric law at scales up to 2^80."""
    scale = Fraction(2**bits)
    high, low, split = geometric(50_000, scale, UnsafeSeededSource(bits))
    assert split == max(0, bits + 1 - 30)
    assert low.max() < 1 << split
    u = np.exp(-(high.astype(float) * 2.0**split + low) / 2.0**bits)
    assert_law(np.histogram(u, bins=50, range=(0, 1))[0], np.full(50, 0.02))
    top = min(split, 3)
    assert_law(np.bincount(low >> (split - top), minlength=1 << top), np.full(1 << top, 2.0**-top))


def test_low_digit_has_a_truncated_law():
    """The low digit of a split is a truncated geometric: a coin forced to the slow path rejects."""
    scale = Fraction(2**40)
    coin = (1 << 53) - 1  # the largest coin below 11 digits: e^(-r/scale) is smaller for every r > 0
    word = (2047 << 53) | coin
    drawn = _low_digits(1, 11, scale, Script(word, 2**64 - 1, 5 << 53))
    assert drawn.tolist() == [5]


@given(st.integers(0, 60), st.fractions(Fraction(1, 100), 20, max_denominator=100))
def test_coin_slow_path_brackets_the_power(exponent, rate):
    """U < e^-x is decided like arbitrary precision says, for the interval that was finally known."""
    uniform = LazyUniform(int(SystemSource().words(1)[0]), 64, SystemSource())
    heads = below_exp(uniform, rate * exponent)
    with mpmath.workprec(300):
        power = mpmath.exp(-mpmath.mpf(rate.numerator) * exponent / rate.denominator)
        u = mpmath.mpf(uniform.numerator) / mpmath.mpf(2) ** uniform.bits
        assert heads == (u < power)


def test_coins_have_their_law_and_never_a_zero_probability():
    """Frequencies follow e^-x, and a zero word is tried further instead of deciding for heads or tails."""
    exponents = np.repeat(np.arange(6), 40_000)
    heads = bernoulli_exp(exponents, Fraction(1, 2), UnsafeSeededSource(3)).reshape(6, -1).sum(axis=1)
    for j, count in enumerate(heads):
        p = math.exp(-j / 2)
        assert_law([count, 40_000 - count], [p, 1 - p]) if j else None
    assert heads[0] == 40_000
    tiny = bernoulli_exp(np.array([100]), Fraction(1), Script(0, 0, 0))  # U < 2^-192 < e^-100
    assert tiny.tolist() == [True]


def test_a_scale_out_of_range_is_refused():
    """A scale of zero or beyond 2^80 is an error in one sentence."""
    for scale in (Fraction(0), Fraction(-1), Fraction(2**81)):
        with pytest.raises(OptionError, match="`scale` must be above 0"):
            geometric(1, scale, SystemSource())
