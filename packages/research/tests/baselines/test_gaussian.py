import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.noise import SystemSource, UnsafeSeededSource, geometric
from dpi.noise.laplace import SATURATION
from dpi_research.baselines import _gaussian as gaussian
from dpi_research.baselines._gaussian import _below_exp, _proposals, add_gaussian
from statistics_ import assert_law

VARIANCES = [Fraction(1, 3), Fraction(1), Fraction(25, 3), Fraction(100)]


def gaussian_law(variance, cells):
    """P(-cells … cells) of the discrete Gaussian, and the rest."""
    with mpmath.workprec(200):
        reach = cells + 40 * (1 + math.isqrt(int(variance)))
        weight = {
            z: mpmath.exp(-mpmath.mpf(z * z) / (2 * mpmath.mpf(variance.numerator) / variance.denominator))
            for z in range(reach + 1)
        }
        total = weight[0] + 2 * sum(weight[z] for z in range(1, reach + 1))
        law = [float(weight[abs(z)] / total) for z in range(-cells, cells + 1)]
    return [*law, max(0.0, 1 - sum(law))]


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_law_is_the_discrete_gaussian(variance):
    """Frequencies of 200,000 draws follow e^(-z²/(2σ²)), normalised (chi-square, false alarm 10^-7)."""
    cells = 45
    z = add_gaussian(np.zeros(200_000, dtype=np.int64), variance, UnsafeSeededSource(7))
    counts = np.bincount(np.where(np.abs(z) <= cells, z + cells, 2 * cells + 1), minlength=2 * cells + 2)
    assert_law(counts, gaussian_law(variance, cells))


@pytest.mark.parametrize("sigma", [3, GRAINS, 50 * GRAINS, 1 << 45])
def test_wide_noise_has_the_normal_law(sigma):
    """At any width, 50,000 draws fall into the normal law's 20 equal cells (chi-square, false alarm 10^-7)."""
    from scipy import stats

    z = add_gaussian(np.zeros(50_000, dtype=np.int64), Fraction(sigma) ** 2, UnsafeSeededSource(sigma % 1000))
    borders = stats.norm.ppf(np.linspace(0, 1, 21)) * sigma
    if sigma == 3:  # discrete: the cells' true probabilities
        law = np.array(gaussian_law(Fraction(9), 60)[:-1])
        cell = np.searchsorted(borders[1:-1], np.arange(-60, 61) + 0.0)
        probabilities = np.bincount(cell, weights=law, minlength=20)
    else:
        probabilities = np.full(20, 0.05)
    assert_law(np.bincount(np.searchsorted(borders[1:-1], z), minlength=20), probabilities)


def test_coins_in_doubt_are_never_decided_by_floats():
    """Next to e^-x floats leave the coin open; two parts in 2^40 away they decide it, rightly."""
    with mpmath.workprec(300):
        for x in (0.0, 0.3, 1.0, 5.5, 20.0):
            border = int(mpmath.floor(mpmath.exp(-mpmath.mpf(x)) * 2**64))
            for distance in (0, 1, -1, 1 << 30, -(1 << 30)):
                word = border + distance
                if not 0 <= word < 1 << 64:
                    continue
                arrays = np.array([word], dtype=np.uint64), np.array([x]), np.array([2.0**-46 * (1 + x) ** 2])
                heads, doubt = _below_exp(*arrays)
                assert doubt[0] or heads[0] == (word < border)
                if abs(distance) <= 1 and x < 10:  # e^-20 in steps of 2^-64 is coarser than the margin
                    assert doubt[0]
    assert _below_exp(np.array([1 << 63], dtype=np.uint64), np.array([50.0]), np.array([0.7]))[1][0]


def test_the_exact_path_gives_the_same_law(monkeypatch):
    """With every coin sent to exact arithmetic, the frequencies are those of the law (false alarm 10^-7)."""
    nothing = lambda words, x, error: (np.zeros(x.size, dtype=bool), np.ones(x.size, dtype=bool))  # noqa: E731
    monkeypatch.setattr("dpi_research.baselines._gaussian._below_exp", nothing)
    z = add_gaussian(np.zeros(4_000, dtype=np.int64), Fraction(5, 2), UnsafeSeededSource(3))
    counts = np.bincount(np.where(np.abs(z) <= 8, z + 8, 17), minlength=18)
    assert_law(counts, gaussian_law(Fraction(5, 2), 8))


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(25, 3)])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_laws_divergence_is_at_most_rho_times_the_order(variance, order, shift):
    """Σ p^α q^(1-α), summed to 60 digits, gives a Rényi divergence of at most α·Δ²/(2σ²)."""
    with mpmath.workprec(200):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        terms = [
            mpmath.exp(-(order * mpmath.mpf(z) ** 2 + (1 - order) * mpmath.mpf(z - shift) ** 2) / (2 * v))
            for z in range(-200, 201)
        ]
        total = sum(mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * v)) for z in range(-200, 201))
        divergence = mpmath.log(sum(terms) / total) / (order - 1)
        assert divergence <= order * shift**2 / (2 * v) * (1 + mpmath.mpf(10) ** -40)
        assert divergence > 0


def test_noisy_values_are_cut_and_bad_input_is_refused():
    """At σ = 2^56 a value of 2^60 stays within ± 2^61; a larger one is cut; wrong types and variances are refused."""
    z = add_gaussian(np.full(2_000, 1 << 60), Fraction(1 << 112), UnsafeSeededSource(1))
    assert np.abs(z).max() <= SATURATION
    assert z.std() == pytest.approx(2.0**56, rel=0.2)
    for value in ((1 << 60) + 1, 1 << 62, np.iinfo(np.int64).max):
        for sign in (1, -1):
            assert add_gaussian(np.array([sign * value]), Fraction(1, 1000), SystemSource()).tolist() == [sign << 60]
    for values, variance in (
        (np.zeros((2, 2), dtype=np.int64), Fraction(1)),
        (np.zeros(2), Fraction(1)),
        (np.array([0]), Fraction(0)),
        (np.array([0]), Fraction(1 << 113)),
    ):
        with pytest.raises(OptionError):
            add_gaussian(values, variance, SystemSource())
    assert add_gaussian(np.zeros(0, dtype=np.int64), Fraction(1), SystemSource()).size == 0


@pytest.mark.parametrize("bits", [20, 40, 66, 100, 112])
def test_draws_are_made_of_both_digits(bits):
    """A proposal is the difference of two geometric variables, digit by digit, as whole numbers of any size."""
    variance, size = Fraction(1 << bits), 300
    _, drawn = _proposals(size, variance, UnsafeSeededSource(bits))
    scale = Fraction(math.isqrt(int(variance)) + 1)
    high, low, split = geometric(2 * size, scale, UnsafeSeededSource(bits))
    for i in range(size):
        exact = ((int(high[i]) - int(high[i + size])) << split) + int(low[i]) - int(low[i + size])
        assert int(drawn[i]) == exact


def test_a_coin_too_small_for_floats_stays_open():
    """Where e^-x underflows, a uniform of 64 zeros may still be below it: floats must not decide."""
    heads, doubt = _below_exp(np.array([0, 1], dtype=np.uint64), np.array([800.0, 800.0]), np.array([2.0**-30] * 2))
    assert doubt.tolist() == [True, False]
    assert not heads[1]


def test_the_exact_path_sees_the_whole_draw(monkeypatch):
    """Where floats leave all coins open, each is decided by (|y| - σ²/t)²/(2σ²) of both digits, as a fraction."""
    variance, size, asked = Fraction(1 << 100), 50, []
    monkeypatch.setattr(gaussian, "_below_exp", lambda words, *_: (np.zeros(size, bool), np.ones(size, bool)))
    monkeypatch.setattr(gaussian, "below_exp", lambda uniform, x: asked.append(x) or True)
    _proposals(size, variance, UnsafeSeededSource(3))
    scale = Fraction(math.isqrt(int(variance)) + 1)
    high, low, split = geometric(2 * size, scale, UnsafeSeededSource(3))
    digits = [(int(high[i]) - int(high[i + size]), int(low[i]) - int(low[i + size])) for i in range(size)]
    assert asked == [(abs((h << split) + r) - variance / scale) ** 2 / (2 * variance) for h, r in digits]
