"""Losses of Laplace and Gaussian releases agree with simulations, with oracles and with each other."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpi.errors import OptionError
from dpi_research.baselines import Loss, user_level
from dpi_research.baselines.accounting import delta_at, delta_of, epsilon_of, from_law, from_renyi, renyi, rho_of
from dpi_research.baselines.counters import Binary, Hybrid
from dpi_research.baselines.honaker import Honaker
from strategies import few


@pytest.mark.parametrize("ratio", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
def test_the_divergence_is_the_integral(ratio, order):
    """The closed form of the Rényi divergence is the integral of the two Laplace densities."""
    p, q = stats.laplace(0).pdf, stats.laplace(ratio).pdf
    integral = sum(
        integrate.quad(lambda x: p(x) ** order * q(x) ** (1 - order), a, b)[0]
        for a, b in ((-60, 0), (0, ratio), (ratio, 60))
    )
    assert float(renyi(ratio, np.array([order]))[0]) == pytest.approx(math.log(integral) / (order - 1), rel=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.2])
def test_one_release_has_the_known_delta(ratio, delta):
    """For one Laplace release δ(ε) = 1 - e^((ε - r)/2), so ε = r + 2·ln(1 - δ), reached from above within 10^-4."""
    exact = max(0.0, ratio + 2 * math.log1p(-delta))
    found = from_law({ratio: 1}, delta)
    assert exact <= found <= exact + 1e-4


def test_a_sum_of_losses_has_the_delta_of_a_simulation():
    """δ(ε) of twelve releases, simulated, is at most δ and near it (six standard errors, < 10^-8)."""
    shifts, delta = {0.3: 8, 0.7: 4}, 1e-3
    epsilon = from_law(shifts, delta)
    rng = np.random.default_rng(2)
    total = np.zeros(few(200_000, 1_000_000))
    for ratio, count in shifts.items():
        for _ in range(count):
            x = rng.laplace(0, 1, total.size)
            total += np.abs(x - ratio) - np.abs(x)
    excess = np.maximum(0, 1 - np.exp(epsilon - total))
    error = 6 * excess.std() / math.sqrt(total.size)
    assert excess.mean() <= delta + error
    assert excess.mean() >= 0.98 * delta - error


def test_bounds_are_in_order():
    """Law ≤ improved conversion ≤ published conversion, and all at most the pure loss where it is small."""
    for shifts in ({0.1: 100}, {1.0: 20}, {0.01: 5, 2.0: 3}):
        law, improved, published = (
            from_law(shifts, 1e-5),
            from_renyi(shifts, 1e-5),
            from_renyi(shifts, 1e-5, improved=False),
        )
        assert law <= improved + 1e-3
        assert improved <= published
        pure = float(sum(r * n for r, n in shifts.items()))
        exact = Loss({Fraction(str(r)): n for r, n in shifts.items()}).epsilon(1e-5)
        assert exact <= min(pure, improved, law)


def test_honest_values_of_the_published_table():
    """At c = 1.34, ε = 0.5, δ = 10^-5, after 50 slots: 14.7 and 7.1 (binary, T = 50 and 2,700), 16.1 (hybrid)."""
    for mechanism, pure, at_delta in (
        (Binary(epsilon=0.5, slots=50), 18.20, 14.7),
        (Binary(epsilon=0.5, slots=2700), 9.10, 7.1),
        (Hybrid(epsilon=0.5), 19.16, 16.1),
    ):
        assert mechanism.user_epsilon(50, 1.34) == pytest.approx(pure, abs=0.005)
        assert mechanism.user_epsilon(50, 1.34, 1e-5) == pytest.approx(at_delta, abs=0.05)


def test_large_losses_and_odd_deltas():
    """Beyond the floats' range the Rényi bound serves; tiny δ too; δ outside (0, 1) is refused."""
    assert 600 < Loss({Fraction(5): 400}).epsilon(1e-5) <= 2000
    assert Loss({Fraction(1): 3}).epsilon(1e-15) <= 3
    # More releases than the grid has room for; together nearly Gaussian with μ = 0.1, whose δ(0.3) is 4.5·10^-5, and
    # whose zCDP bound ρ + 2·√(ρ·ln(1/δ)) is 0.485.
    assert 0.3 < Loss({Fraction(1, 10**4): 10**6}).epsilon(1e-5) < 0.485
    assert delta_at({5.0: 400}, 1.0) == 1.0
    assert delta_at({5.0: 400}, 2000.0) == 0.0
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(OptionError, match="delta"):
            Loss({Fraction(1): 3}).epsilon(delta)


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
