import numpy as np
import pytest

from dpi.mechanism.cells import dynamics
from dpi.mechanism.cells.dynamics import Cell
from dpi.mechanism.filtering.gaussians import Gaussians

RNG = np.random.default_rng(6)


def law(bins=6):
    """A random PDF with variances."""
    mean = RNG.dirichlet(np.ones(bins))
    return Gaussians(mean, 0.01 * mean)


def test_the_prior_is_a_law():
    """Weights of the dynamics are positive and have the sum one."""
    assert (dynamics.PRIOR > 0).all()
    assert dynamics.PRIOR.sum() == pytest.approx(1)


@pytest.mark.parametrize("absent", [None, law()])
@pytest.mark.parametrize("kin", [None, law()])
def test_condensed_dynamics_are_the_same_mixture(kin, absent):
    """Fewer rows, the same mean and variance."""
    cell, pool = Cell(law(), 50.0, 7.0, 20.0, kin, 9.0, absent), law()
    weights = RNG.dirichlet(np.ones(dynamics.PRIOR.size))
    full = dynamics.mixed(weights, dynamics.forecast(cell, pool))
    rows, few = dynamics.condensed(weights)
    short = dynamics.mixed(few, dynamics.forecast(cell, pool, rows))
    assert few.size < weights.size
    np.testing.assert_allclose(short.mean, full.mean)
    np.testing.assert_allclose(short.variance, full.variance)


def test_every_forecast_is_a_pdf():
    """Each dynamic keeps the sum of one."""
    forecast = dynamics.forecast(Cell(law(), 50.0, 7.0, 20.0, law(), 9.0, law()), law())
    np.testing.assert_allclose(forecast.mean.sum(1), 1)
    assert (forecast.variance > 0).all()


def test_forecasts_widen_with_age():
    """The longer ago a cell was measured, the less is known of it."""
    own, pool = law(), law()
    young, old = (dynamics.forecast(Cell(own, 50.0, age, 20.0, None, age, None), pool) for age in (1.0, 50.0))
    assert (old.variance >= young.variance - 1e-15).all()


def test_weights_of_cell_and_class_are_together_those_of_the_cell_where_the_class_knows_nothing():
    """A class that has learned nothing changes nothing."""
    weights = RNG.dirichlet(np.ones(dynamics.PRIOR.size))
    np.testing.assert_allclose(dynamics.together(weights, dynamics.PRIOR), weights)
