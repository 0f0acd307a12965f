from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.series import Elements, Geometric, LogSquared, Spence, Zeta, _log_squared_above, _zeta_above
from dpi.errors import OptionError

ALL = [
    Spence(0.1, 0.1),
    Spence(0.5, 0.3),
    Zeta(2),
    Zeta("1.5"),
    Zeta(1.1),
    LogSquared(),
    Geometric(0.5),
    Geometric("0.999"),
]
epsilons = st.integers(1, 10 * UNITS).map(Epsilon)


with mpmath.workdps(40):
    LOG_SQUARED = mpmath.mpf("2.109742801236891974479257197616551326")  # the sum of 1/(j ln² j) from j = 2 on


@pytest.mark.parametrize("s", ["1.01", "1.1", "1.5", "2", "3", "10"])
def test_the_zeta_normaliser_is_above_the_true_sum(s):
    """A⁺ ≥ ζ(s), by at most a millionth: with elements rounded down, the infinite sum stays within ε."""
    with mpmath.workdps(45):
        above, true = mpmath.mpf(str(_zeta_above(Fraction(s)))), mpmath.zeta(mpmath.mpf(s))
        assert true <= above <= true * (1 + mpmath.mpf(10) ** -6)


def test_the_log_squared_normaliser_is_above_the_true_sum():
    """A⁺ ≥ Σ 1/(j ln² j), by at most a millionth."""
    with mpmath.workdps(36):
        above = mpmath.mpf(str(_log_squared_above()))
        assert LOG_SQUARED <= above <= LOG_SQUARED * (1 + mpmath.mpf(10) ** -6)


@settings(max_examples=25)
@given(units=st.integers(1, 10 * UNITS), mu=st.fractions(Fraction(1, 100), 1), zeta=st.fractions(Fraction(1, 100), 1))
def test_the_spence_root_is_rounded_up(units, mu, zeta):
    """C·(π²/6 - Li₂(m²)), the real sum for the stored root, is at most ε and within 2^-100 of it."""
    series, epsilon = Spence(mu, zeta), Epsilon(units)
    assume(epsilon.fraction / series.constant < Fraction(16, 10))
    with mpmath.workdps(60):
        root = mpmath.mpf(series._root(epsilon)) / mpmath.mpf(2) ** 128
        share = mpmath.mpf(epsilon.fraction.numerator) / epsilon.fraction.denominator / series.constant
        total = mpmath.pi**2 / 6 - mpmath.polylog(2, root).real
        assert total <= share <= total + mpmath.mpf(2) ** -100


@pytest.mark.parametrize("series", ALL, ids=repr)
@settings(max_examples=20)
@given(epsilon=epsilons)
def test_prefixes_stay_within_epsilon_and_elements_do_not_increase(series, epsilon):
    """Adding element after element never passes ε."""
    element = series.of(epsilon).element
    elements = [element(t) for t in range(1, 150)]
    assert sum(elements) <= epsilon.units
    assert elements == sorted(elements, reverse=True)


def test_a_series_that_ends_spends_all_but_its_roundings():
    """All elements of a geometric series down to zero sum to ε less at most one unit each."""
    elements = Geometric("0.9").of(Epsilon.at_most(1))
    listed = [elements.element(t) for t in range(1, elements.first_at_most(0))]
    assert UNITS - len(listed) - 10 <= sum(listed) <= UNITS


@pytest.mark.parametrize("series", [Zeta(2), Zeta("1.5"), LogSquared(), Geometric(0.5)], ids=repr)
def test_next_to_nothing_is_lost_to_rounding(series):
    """The first elements reach the true value but for one unit and a relative 10^-6."""
    epsilon = Epsilon.at_most(1)
    elements = series.of(epsilon)
    with mpmath.workdps(30):
        total = {
            "Zeta(2)": mpmath.zeta(2),
            "Zeta(1.5)": mpmath.zeta(1.5),
            "LogSquared()": LOG_SQUARED,
            "Geometric(0.5)": mpmath.mpf(1),
        }[repr(series)]
        for t in (1, 2, 5, 100):
            true = {
                "Zeta(2)": mpmath.mpf(t) ** -2,
                "Zeta(1.5)": mpmath.mpf(t) ** mpmath.mpf("-1.5"),
                "LogSquared()": 1 / ((t + 1) * mpmath.log(t + 1) ** 2),
                "Geometric(0.5)": mpmath.mpf(2) ** -t,
            }[repr(series)]
            exact = true / total * UNITS
            assert exact * (1 - 1e-6) - 1 <= elements.element(t) <= exact


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10", "328"])
def test_spence_is_the_published_series(epsilon):
    """C(1 - m^{2t})/t² with the root by mpmath, rounded down by at most one unit and 10^-9."""
    series = Spence(0.1, 0.1)
    elements = series.of(Epsilon.at_most(epsilon))
    with mpmath.workdps(40):
        y = mpmath.pi**2 / 6 - mpmath.mpf(epsilon) / 200
        root = mpmath.findroot(
            lambda x: mpmath.polylog(2, x) - y, (y / 2, mpmath.mpf(1) - mpmath.mpf(10) ** -8), solver="anderson"
        )
        for t in (1, 2, 7, 50, 1000):
            exact = 200 * (1 - root**t) / t**2 * UNITS
            assert exact * (1 - mpmath.mpf(10) ** -9) - 1 <= elements.element(t) <= exact * (1 + mpmath.mpf(10) ** -9)


def test_an_epsilon_out_of_reach_is_refused_with_the_largest_that_works():
    """The largest ε that the message names is accepted, and a bit more is not."""
    with pytest.raises(OptionError, match=r"at most 3\.289868 for Spence\(mu=1, zeta=1\)"):
        Spence(1, 1).of(Epsilon.at_most("3.29"))
    assert Spence(1, 1).of(Epsilon.at_most("3.289868")).element(1) > 0


@pytest.mark.parametrize("series", ALL, ids=repr)
@settings(max_examples=40)
@given(units=st.integers(0, UNITS))
def test_search_finds_the_first_small_element(series, units):
    """`first_at_most` is where elements fall to the value: the one before is larger."""
    elements = series.of(Epsilon.at_most(1))
    t = elements.first_at_most(units)
    assert elements.element(t) <= units
    assert t == 1 or elements.element(t - 1) > units


@pytest.mark.parametrize(
    "make",
    [
        lambda: Zeta(1),
        lambda: Zeta("64.5"),
        lambda: Zeta("x"),
        lambda: Geometric(1),
        lambda: Geometric(0),
        lambda: Spence(0, 1),
        lambda: Spence(1, 2),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    """A series that does not converge, or a parameter outside its range, is an error in one sentence."""
    with pytest.raises(OptionError, match="must be"):
        make()
    assert Zeta(64).of(Epsilon.at_most(1)).element(2) == 0


@pytest.mark.parametrize("small", ["1e-14", "1e-20"])
def test_parameters_next_to_zero_give_no_negative_budget(small):
    """A root that rounds to one makes all elements zero."""
    elements = Spence(small, small).of(Epsilon(1))
    assert [elements.element(t) for t in (1, 2, 1000)] == [0, 0, 0]


def test_the_search_is_short_next_to_one():
    """A ratio of 1 - 10⁻¹² is searched in a moment."""
    elements = Geometric("0.999999999999").of(Epsilon.at_most(1))
    t = elements.first_at_most(0)
    assert elements.element(t) == 0 < elements.element(t - 1)


def test_series_are_values():
    """Series with the same parameters are equal, in whatever form they were written."""
    assert Spence(0.1, "0.1") == Spence(Fraction(1, 10), 0.1)
    assert hash(Zeta(2)) == hash(Zeta("2"))


@pytest.mark.parametrize("shift", [0.25, 0.5, 0.9, 1.0, 1.1, 2.0, 4.0])
def test_a_search_that_is_led_astray_still_ends_at_the_first(shift):
    """Floats only say where to look: whatever they say, the answer is settled on exact elements."""
    exact = [90, 70, 70, 40, 40, 40, 5, 1, 0]

    def element(t):
        return exact[t - 1] if t <= len(exact) else 0

    elements = Elements(Epsilon(UNITS), element, lambda t: shift * 100 / t)
    for units in range(101):
        assert elements.first_at_most(units) == next(t for t in range(1, 20) if element(t) <= units)
