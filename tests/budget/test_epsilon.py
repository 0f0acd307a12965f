import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.budget.epsilon import LARGEST, UNITS, Epsilon, promised, rational
from dpi.errors import OptionError, WeakPromise


@given(st.fractions(Fraction(1, UNITS), 1024))
def test_rounding_goes_where_its_name_says(value):
    """`at_most` is the largest amount not above."""
    low = Epsilon.at_most(value)
    assert low.fraction <= value < low.fraction + Fraction(1, UNITS)


@pytest.mark.parametrize("same", ["0.05", 0.05, Decimal("0.05"), Fraction(1, 20), np.float64(0.05), "5e-2"])
def test_one_number_in_many_forms_is_one_amount(same):
    """Text, float, Decimal, Fraction and numpy scalars of one number give one amount."""
    assert Epsilon.at_most(same) == Epsilon.at_most(Fraction(1, 20))


@pytest.mark.parametrize(
    "bad", [0, -1, "0", float("nan"), float("inf"), "-inf", "x", None, True, [1], Fraction(1, 2 * UNITS), 1025, 1j]
)
def test_a_bad_amount_is_refused_in_one_sentence(bad):
    """Zero, negative, NaN, infinite, below one unit, above 1024 or no number: an error that says what is expected."""
    with pytest.raises(OptionError, match="`epsilon` must be") as error:
        Epsilon.at_most(bad)
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize("units", [0.05, True, 1.0, "1"])
def test_units_are_whole(units):
    """An amount is not to be mistaken for its units."""
    with pytest.raises(OptionError, match="at_most"):
        Epsilon(units)


def test_amounts_are_ordered_and_hashable():
    """Amounts compare as numbers do."""
    small, large = Epsilon.at_most("0.1"), Epsilon.at_most("0.2")
    assert small < large
    assert len({small, large, Epsilon.at_most(0.1)}) == 2


def test_the_scale_of_noise_charges_the_amount():
    """A user of one unit (2^24 grains) under noise of this scale loses exactly ε."""
    epsilon = Epsilon.at_most("0.3")
    assert 2**24 / epsilon.scale == epsilon.fraction
    assert math.isclose(float(epsilon), 0.3, abs_tol=1e-12)


def test_rational_reads_what_a_person_wrote():
    """A float counts as its shortest decimal form."""
    assert rational(0.1) == Fraction(1, 10)


def test_units_lie_between_nothing_and_1024():
    """No budget is an amount; one unit below zero or above 1024 is none."""
    assert Epsilon(0).fraction == 0
    assert Epsilon(1024 * UNITS).fraction == 1024
    for bad in (-1, 1024 * UNITS + 1):
        with pytest.raises(OptionError, match="between 0 and 1024"):
            Epsilon(bad)


@pytest.mark.parametrize("kind", [str, Decimal])
def test_an_exponent_of_four_digits_is_refused_before_the_number_is_written_out(kind):
    """Zeros before it do not count; one of three digits is a number."""
    assert rational(kind("1e-0999")) == Fraction(1, 10**999)
    for long in ("1e1000", "1E-1000", "1e+9999"):
        with pytest.raises(OptionError, match="finite number"):
            rational(kind(long))


def test_the_largest_amount_is_an_amount_and_ten_is_not_yet_warned_of():
    """1,024, and not a unit more; a warning begins above ten."""
    assert Epsilon.at_most(1024).units == LARGEST
    with pytest.raises(OptionError, match="at most 1024"):
        Epsilon.at_most(Fraction(LARGEST + 1, UNITS))
    with warnings.catch_warnings(action="error"):
        assert promised(10) == Epsilon(10 * UNITS)
    with pytest.warns(WeakPromise):
        promised(Fraction(10 * UNITS + 1, UNITS))
