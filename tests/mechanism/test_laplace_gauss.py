"""The law of a Gaussian level seen through Laplace noise: its density, slope and information."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from dpi.mechanism.filtering import laplace_gauss


def test_erfcx_is_within_its_bound():
    """The fit's relative error is at most 1.3·10⁻⁷ on [0, 10^6], and 5·10⁻⁷ in single precision."""
    x = np.concatenate([np.linspace(0, 30, 20_001), np.geomspace(30, 1e6, 1000)])
    assert np.abs(laplace_gauss.erfcx(x) / special.erfcx(x) - 1).max() < 1.3e-7
    single = laplace_gauss.erfcx(x.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single / special.erfcx(x) - 1).max() < 5e-7


@pytest.mark.parametrize("variance", [0.01, 1.0, 400.0, 40_000.0])
@pytest.mark.parametrize("residual", [-500.0, -3.0, 0.1, 20.0, 150.0])
def test_the_density_is_the_convolution(variance, residual):
    """The log density agrees with numerical convolution, its slope with a difference quotient of that."""
    noise = 20.0

    def exact(u, v):
        def product(x):
            return math.exp(-abs(u - x) / noise) / (2 * noise) * math.exp(-x * x / (2 * v)) / math.sqrt(2 * math.pi * v)

        reach = 12 * math.sqrt(v) + v / noise
        points = sorted({min(max(x, -reach), reach) for x in (0.0, u, v / noise, -v / noise)})
        edges = [-reach, *points, reach]
        return sum(integrate.quad(product, a, b, epsrel=1e-12, epsabs=0)[0] for a, b in pairwise(edges) if b > a)

    log, slope = (float(x[0]) for x in laplace_gauss.score_evidence(np.array([residual]), np.array([variance]), noise))
    expected = math.log(exact(residual, variance))
    assert log == pytest.approx(expected, abs=5e-7 * (1 + abs(expected)))
    step = 1e-3 * math.sqrt(variance)
    difference = math.log(exact(residual - step, variance)) - math.log(exact(residual + step, variance))
    assert slope == pytest.approx(difference / (2 * step), abs=2e-4 / noise)


@given(st.floats(-1e3, 1e3), st.floats(0, laplace_gauss.SINGLE))
def test_single_precision_is_enough(residual, variance):
    """Where it is used, single precision moves no log density by 5·10⁻⁷ of itself, nor a slope by 10⁻⁶/b."""
    alone = laplace_gauss.score_evidence(np.array([residual]), np.array([variance]), 1.0)
    beside = np.array([variance, 2 * laplace_gauss.SINGLE])  # too large for single precision
    exact = laplace_gauss.score_evidence(np.array([residual, 0.0]), beside, 1.0)
    assert (alone.slope.dtype, exact.slope.dtype) == (np.float32, np.float64)
    log = float(exact.log_density[0])
    assert float(alone.log_density[0]) == pytest.approx(log, abs=5e-7 * (1 + abs(log)))
    assert float(alone.slope[0]) == pytest.approx(float(exact.slope[0]), abs=1e-6)


@given(st.floats(-1e15, 1e15), st.floats(0, 1e30), st.floats(1e-3, 1e13))
def test_the_score_is_finite(residual, variance, noise):
    """No residual, variance or noise over- or underflows, and the slope is at most that of the Laplace law."""
    result = laplace_gauss.score_evidence(np.array([residual]), np.array([variance]), noise)
    assert all(np.isfinite(part).all() for part in result)
    assert abs(float(result.slope[0])) <= 1 / noise * (1 + 1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0, 10.0, 1000.0])
def test_the_information_is_fishers(ratio):
    """The fitted information is within three per cent of the integral of slope² over the law."""
    noise = 1.0
    variance = max(ratio, 1e-6)
    u = np.linspace(-1, 1, 400_001) * (40 + 10 * math.sqrt(variance))
    log, slope = laplace_gauss.score_evidence(u, np.full(u.size, variance), noise)
    exact = float((np.exp(log) * slope**2).sum() * (u[1] - u[0]))
    assert float(laplace_gauss.fisher_information(ratio, noise)) == pytest.approx(exact, rel=0.03)
