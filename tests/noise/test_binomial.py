from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.noise import UnsafeSeededSource
from dpi.noise.sparse import Rounding, passing, tail
from dpi_audit.samplers import PRECISION, boundary
from statistics_ import assert_law

CASES = [
    (4, 1, Fraction(2)),
    (115**32, 2_665_000_000, Fraction(1 << 24)),  # one of them passes in about a thousand draws
]


def exactly(trials, threshold, scale):
    """The binomial distribution function of the number of noises at or above the threshold, to 300 digits."""
    p = mpmath.exp(-mpmath.mpf(threshold) * scale.denominator / scale.numerator)
    p /= 1 + mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)

    def below(k):
        term = mpmath.exp(trials * mpmath.log1p(-p))
        terms = [term := term * (trials - j + 1) / j * p / (1 - p) if j else term for j in range(k + 1)]
        return mpmath.fsum(terms)

    return p, below


@pytest.mark.parametrize(("trials", "threshold", "scale"), CASES)
def test_the_unit_interval_is_cut_exactly_where_the_law_does(trials, threshold, scale):
    """The borders of U between two results, found by bisection to 2^-256, are those of the distribution function."""
    with mpmath.workdps(300):
        _, below = exactly(trials, threshold, scale)
        for k in (0, 1):
            found = boundary(lambda source: passing(trials, threshold, scale, source), lambda n, k=k: n <= k)
            border = mpmath.mpf(found.numerator) / found.denominator
            assert abs(border - below(k)) < mpmath.mpf(2) ** (2 - PRECISION)


@pytest.mark.parametrize(("trials", "threshold", "scale"), [*CASES, (256**128, 710 * 5, Fraction(5))])
def test_the_tail_lies_between_its_bounds_and_they_close_in(trials, threshold, scale):
    """Of 40 digits the two bounds of P(Z ≥ θ) differ in the last ones alone, and the truth lies between."""
    with mpmath.workdps(300):
        p, _ = exactly(trials, threshold, scale)
        low, high = (mpmath.mpf(str(bound)) for bound in tail(threshold, scale, Rounding.to(40)))
        assert low < p < high
        assert (high - low) / p < mpmath.mpf(10) ** -30


def test_the_law_is_binomial():
    """Frequencies of 1,500 draws follow Binomial(6, p) (false alarm 10^-7)."""
    source = UnsafeSeededSource(5)
    drawn = [passing(6, 2, Fraction(2), source) for _ in range(1_500)]
    with mpmath.workdps(50):
        _, below = exactly(6, 2, Fraction(2))
        law = [float(below(k) - (below(k - 1) if k else 0)) for k in range(7)]
    assert_law(np.bincount(drawn, minlength=7), law)


@pytest.mark.parametrize(("trials", "threshold"), [(-1, 1), (5, 0)])
def test_what_has_no_tail_is_refused(trials, threshold):
    """A threshold of zero is passed by half of the noise and more: the formula is that of one and above."""
    with pytest.raises(OptionError, match="at least"):
        passing(trials, threshold, Fraction(1), UnsafeSeededSource(1))
    assert passing(0, 1, Fraction(1), UnsafeSeededSource(1)) == 0
