import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpi.errors import OptionError
from dpi_research.baselines import Loss
from dpi_research.baselines.accounting import delta_at, from_law, from_renyi, renyi
from dpi_research.baselines.counters import Binary, Hybrid


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
    """δ(ε) of twelve releases, simulated a million times, is at most δ and near it (six standard errors, < 10^-8)."""
    shifts, delta = {0.3: 8, 0.7: 4}, 1e-3
    epsilon = from_law(shifts, delta)
    rng = np.random.default_rng(2)
    total = np.zeros(1_000_000)
    for ratio, count in shifts.items():
        for _ in range(count):
            x = rng.laplace(0, 1, total.size)
            total += np.abs(x - ratio) - np.abs(x)
    excess = np.maximum(0, 1 - np.exp(epsilon - total))
    error = 6 * excess.std() / 1000
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
