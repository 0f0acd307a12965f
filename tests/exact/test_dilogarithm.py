from decimal import ROUND_UP, Decimal, getcontext, localcontext

import mpmath
import pytest
from scipy.special import spence

from dpi.exact.dilogarithm import ERROR, LARGEST, PI, complement, inverse_complement

DIGITS = 150
BOUND = mpmath.mpf(str(ERROR))
GAPS = ["1e-60", "1e-33", "1e-12", "1e-4", "0.01", "0.2", "0.499999", "0.5", "0.500001", "0.9", "0.99999", "1"]


def real(x: Decimal) -> mpmath.mpf:
    """Return a decimal as a number of mpmath; inside `workdps` no digit is lost."""
    return mpmath.mpf(str(x))


def one_minus(gap: str) -> Decimal:
    """Return 1 - gap with all its digits."""
    with localcontext(prec=DIGITS):
        return 1 - Decimal(gap)


def reference_complement(x: Decimal) -> mpmath.mpf:
    """Return pi^2/6 - Li2(x) with at least 80 good digits, x = 1 - 1e-60 included."""
    return mpmath.pi**2 / 6 - mpmath.polylog(2, real(x)).real


@pytest.mark.parametrize("gap", GAPS)
def test_complement_keeps_its_relative_error_where_it_vanishes(gap):
    """The complement at 1 - gap is within ERROR of mpmath's in relative terms for gaps down to 1e-60."""
    x = one_minus(gap)
    with mpmath.workdps(DIGITS):
        assert abs(real(complement(x)) / reference_complement(x) - 1) < BOUND


@pytest.mark.parametrize("gap", GAPS)
def test_inverse_finds_the_point_again(gap):
    """From mpmath's complement of x = 1 - gap the inverse returns x to within ERROR * gap."""
    x = one_minus(gap)
    with mpmath.workdps(DIGITS):
        y = min(Decimal(mpmath.nstr(reference_complement(x), 80)), LARGEST)
        assert abs(real(inverse_complement(y)) - real(x)) < BOUND * real(Decimal(gap))


def test_ends_are_exact():
    """The complement and its inverse exchange the ends."""
    assert complement(Decimal(0)) == LARGEST
    assert complement(Decimal(1)) == 0
    assert inverse_complement(Decimal(0)) == 1
    assert inverse_complement(LARGEST) < ERROR


def test_constant_is_pi():
    """PI has 60 correct digits, more than the arithmetic uses."""
    with mpmath.workdps(DIGITS):
        assert abs(real(PI) - mpmath.pi) < mpmath.mpf("1e-59")


def test_inverse_falls_as_its_argument_grows():
    """A larger complement belongs to a smaller x, also for neighbours 1e-30 apart."""
    step = Decimal("1e-30")
    for start in (Decimal("1e-20"), Decimal("0.5"), Decimal("1.0626"), Decimal("1.6")):
        with localcontext(prec=60):
            above = start + step
        assert inverse_complement(above) < inverse_complement(start)


def test_another_convention_in_scipy():
    """Spence's function of scipy at z is Li2 at 1 - z."""
    assert float(LARGEST - complement(Decimal("0.25"))) == pytest.approx(spence(0.75), rel=1e-15)


def test_callers_context_neither_matters_nor_changes():
    """Under a coarse context that rounds up the results are the same, and the context stays as it was."""
    expected = [f(Decimal("0.7")) for f in (complement, inverse_complement)]
    with localcontext(prec=5, rounding=ROUND_UP):
        getcontext().clear_flags()
        found = [f(Decimal("0.7")) for f in (complement, inverse_complement)]
        assert getcontext().prec == 5
        assert not any(getcontext().flags.values())
    assert found == expected


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (complement, "1.01"),
        (complement, "NaN"),
        (complement, "-0.01"),
        (complement, "Infinity"),
        (inverse_complement, "-1e-9"),
        (inverse_complement, "1.645"),
        (inverse_complement, "sNaN"),
    ],
)
def test_outside_the_range_is_refused(function, bad):
    """An argument outside the range, or no number at all, is a ValueError that states the range."""
    with pytest.raises(ValueError, match="must be a number from"):
        function(Decimal(bad))
