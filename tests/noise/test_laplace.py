import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpi.budget import Epsilon
from dpi.errors import OptionError
from dpi.noise import SystemSource, UnsafeSeededSource, add_laplace, geometric
from dpi.noise.exponential import _floor_logs
from dpi.noise.laplace import SATURATION
from statistics_ import assert_law


def laplace_law(scale, cells):
    """P(-cells … cells) of the discrete Laplace, and the rest."""
    q = math.exp(-1 / scale)
    law = [(1 - q) / (1 + q) * q ** abs(z) for z in range(-cells, cells + 1)]
    return [*law, 1 - sum(law)]


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(25, 3)])
def test_the_law_is_the_discrete_laplace(scale):
    """Frequencies follow (1-q)/(1+q)·q^|z| with q = e^(-1/scale)."""
    cells = 40
    z = add_laplace(np.zeros(200_000, dtype=np.int64), scale, UnsafeSeededSource(7))
    counts = np.bincount(np.where(np.abs(z) <= cells, z + cells, 2 * cells + 1), minlength=2 * cells + 2)
    assert_law(counts, laplace_law(float(scale), cells))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(25, 3), Fraction(2**24, 10)])
def test_the_sampler_cuts_the_unit_interval_exactly_where_the_law_does(scale):
    """A geometric is j exactly for U in (e^(-(j+1)/s), e^(-j/s)]: so its law is exact, and with it that of the noise.

    The two words next to each border, which only exact arithmetic tells apart, fall on the right sides.
    """
    with mpmath.workprec(300):
        for j in (1, 2, 5, 20):
            border = mpmath.exp(-mpmath.mpf(j) * scale.denominator / scale.numerator) * 2**64
            word = int(mpmath.floor(border))
            if word < 2:
                continue
            below, above = (
                _floor_logs(np.array([w], dtype=np.uint64), scale, SystemSource()) for w in (word - 1, word + 1)
            )
            assert below[0] >= j
            assert above[0] < j


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(25, 3)])
def test_measured_loss_is_at_most_the_shift_over_the_scale(scale):
    """Frequencies of each output under two inputs, one apart, differ by no more than e^(1/scale) and 6 standard errors.

    The false alarm is below 10^-7 over all outputs compared.
    """
    draws = 200_000
    zero, one = (add_laplace(np.full(draws, v), scale, UnsafeSeededSource(20 + v)) for v in (0, 1))
    for output in range(-3, 5):
        p, q = ((z == output).sum() / draws for z in (zero, one))
        if min(p, q) > 1e-3:
            error = 6 * math.sqrt((1 / p + 1 / q) / draws)
            assert abs(math.log(p / q)) <= 1 / scale + error
    # The bound is reached, so it is not the noise that is too large.
    p, q = ((z <= 0).sum() / draws for z in (zero, one))
    assert math.log(p / q) >= 1 / scale - 6 * math.sqrt((1 / p + 1 / q) / draws)


@pytest.mark.parametrize("epsilon", ["10", "1", "0.05", "1e-4", "1e-8"])
def test_the_scale_is_grains_over_epsilon(epsilon):
    """At every budget the mean magnitude is G/ε within six standard errors (false alarm below 10^-8)."""
    amount = Epsilon.at_most(epsilon)
    z = add_laplace(np.zeros(40_000, dtype=np.int64), amount.scale, UnsafeSeededSource(11))
    magnitude = np.abs(z).astype(float).mean()
    assert abs(magnitude / float(amount.scale) - 1) < 6 / math.sqrt(40_000)


def test_one_unit_saturates_the_sum_only():
    """At ε = 2^-40 the noise is wider than 62 bits: the sum is cut to both sides equally often, never redrawn."""
    scale = Epsilon(1).scale
    assert scale == 2**64
    z = add_laplace(np.zeros(20_000, dtype=np.int64), scale, UnsafeSeededSource(13))
    inside = math.exp(-(2.0**61) / 2.0**64)
    assert_law(
        [(z == -SATURATION).sum(), (z == SATURATION).sum(), (np.abs(z) < SATURATION).sum()],
        [inside / 2, inside / 2, 1 - inside],
    )


@pytest.mark.parametrize("bits", [20, 40, 55, 58, 60, 64, 70])
def test_sums_are_wide(bits):
    """Values + noise equals exact integer arithmetic on the same geometric digits, saturated."""
    values = np.array([0, 1 << 60, -(1 << 60), 12345] * 200)
    scale = Fraction(1 << bits)
    noisy = add_laplace(values, scale, UnsafeSeededSource(bits))
    high, low, split = geometric(2 * values.size, scale, UnsafeSeededSource(bits))
    for i, value in enumerate(values.tolist()):
        j = i + values.size
        exact = value + ((int(high[i]) - int(high[j])) << split) + int(low[i]) - int(low[j])
        assert noisy[i] == max(-SATURATION, min(SATURATION, exact))


def test_values_beyond_the_range_are_cut_and_never_refused():
    """How large a value is is private: beyond 2^60 it counts as 2^60, of either sign, in any integer type."""
    for value in ((1 << 60) + 1, 1 << 62, np.iinfo(np.int64).max):
        for sign in (1, -1):
            noisy = add_laplace(np.array([sign * value]), Fraction(1, 1000), SystemSource())
            assert noisy.tolist() == [sign << 60]
    assert add_laplace(np.array([-128, 127], dtype=np.int8), Fraction(1, 1000), SystemSource()).tolist() == [-128, 127]


@pytest.mark.parametrize("values", [np.array([0.25]), np.array([1], dtype=np.uint64), np.array([[1]])], ids=str)
def test_what_is_no_vector_of_whole_numbers_is_refused(values):
    """A fraction would survive the noise: only signed integers in one dimension are taken."""
    with pytest.raises(OptionError, match="whole numbers"):
        add_laplace(values, Fraction(5), SystemSource())


def test_an_empty_vector_stays_empty():
    """No bins, no noise."""
    assert add_laplace(np.array([], dtype=np.int64), Fraction(5), SystemSource()).size == 0
