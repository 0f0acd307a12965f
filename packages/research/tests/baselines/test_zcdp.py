import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.errors import OptionError
from dpi_research.baselines import Loss, user_level
from dpi_research.baselines.accounting import delta_of, epsilon_of, rho_of
from dpi_research.baselines.honaker import Honaker

RHOS = [1e-4, 0.01, 0.02, 0.5, 3.0, 50.0]
DELTAS = [1e-2, 1e-6, 1e-10]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_conversion_is_that_of_dp_accounting(rho, delta):
    """ε is that of an independent library's Rényi accountant on a fine grid of orders, to 0.1 %."""
    rdp = pytest.importorskip("dp_accounting.rdp", reason="dp-accounting, the oracle of this test, is not installed")
    orders = 1 + math.sqrt(math.log(1 / delta) / rho) * np.geomspace(1 / 64, 64, 3000)
    expected, _ = rdp.compute_epsilon(orders.tolist(), (rho * orders).tolist(), delta)
    assert epsilon_of(rho, delta) == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_conversion_lies_between_the_exact_gaussian_and_the_simple_formula(rho, delta):
    """Never above ρ + 2√(ρ·ln(1/δ)), and never below the exact ε of the Gaussian mechanism, which is ρ-zCDP."""
    from scipy import optimize, stats

    shift = math.sqrt(2 * rho)

    def gap(epsilon):  # δ of the Gaussian mechanism (Balle and Wang 2018)
        first = stats.norm.cdf(shift / 2 - epsilon / shift)
        return first - math.exp(epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)) - delta

    simple = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    exact = 0.0 if gap(0.0) <= 0 else optimize.brentq(gap, 0.0, simple + 1)
    assert exact - 1e-9 <= epsilon_of(rho, delta) <= simple


@given(st.floats(0.01, 50), st.floats(1e-12, 0.5))
def test_calibration_keeps_its_promise(epsilon, delta):
    """ρ for (ε, δ) gives at most ε back, and a thousandth more would not; δ and ε invert each other."""
    rho = float(rho_of(Fraction(epsilon), delta))
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * 1.001, delta) >= epsilon * (1 - 1e-9)
    assert delta_of(rho, epsilon) <= delta * 1.05


def test_nothing_costs_nothing_and_bad_deltas_are_refused():
    """ρ = 0 is ε = δ = 0."""
    assert epsilon_of(0.0, 1e-6) == delta_of(0.0, 1.0) == 0.0
    assert delta_of(5.0, 0.0) <= 1.0
    with pytest.raises(OptionError, match="delta"):
        rho_of(Fraction(1), 0.0)
    with pytest.raises(OptionError, match="delta"):
        Honaker(epsilon=1, slots=4, own_delta=2.0)


def test_losses_in_rho_add_up_and_grow_with_the_square_of_records():
    """Loss: c records c²·ρ, n times n·ρ, Laplace parts beside it pure; without a δ infinite."""
    loss = Loss({Fraction(1, 2): 2}, Fraction(1, 4), Fraction(1, 100))
    assert loss.scaled(Fraction(3)).rho == Fraction(9, 100)
    assert (loss.times(3) + loss).rho == Fraction(4, 100)
    assert loss.epsilon() == math.inf
    assert loss.epsilon(1e-6) == pytest.approx(1.25 + epsilon_of(0.01, 1e-6))


@pytest.mark.parametrize(("epsilon", "cap"), [(2, 4), (10, 10), (Fraction(1, 2), 100)])
def test_a_cap_keeps_the_declared_delta(epsilon, cap):
    """Cap records cost cap²·ρ, set so that this is (ε, δ) with the declared δ, not the δ of group privacy."""
    capped = user_level(Honaker(epsilon=1, slots=8, own_delta=1e-9), epsilon=epsilon, cap=cap)
    rho = capped.mechanism._epoch.rho * cap**2
    assert epsilon_of(float(rho), 1e-9) <= epsilon
    assert epsilon_of(float(rho), 1e-9) == pytest.approx(float(epsilon), rel=1e-4)
    assert capped.delta == pytest.approx(1e-9, rel=0.05)
    assert capped.mechanism.event_epsilon < float(epsilon) / cap
