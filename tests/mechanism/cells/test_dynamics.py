from dataclasses import replace

import numpy as np
import pytest

from dpi.mechanism.cells import dynamics
from dpi.mechanism.cells.dynamics import Batch
from dpi.mechanism.filtering.gaussians import Gaussians

RNG = np.random.default_rng(6)


def test_the_prior_is_a_law():
    """Weights of the dynamics are positive and have the sum one."""
    assert (dynamics.PRIOR > 0).all()
    assert dynamics.PRIOR.sum() == pytest.approx(1)


def laws(count, bins=6):
    """Random laws in rows."""
    mean = RNG.dirichlet(np.ones(bins), count)
    return Gaussians(mean, 0.01 * mean)


def batch(*ages, size=50.0):
    """Cells of random laws, measured so many slots ago."""
    count = len(ages)

    def each(value):
        return np.full((count, 1, 1), value)

    own, kin, absent = (Gaussians(one.mean[:, None], one.variance[:, None]) for one in (laws(count) for _ in range(3)))
    age = np.array(ages, dtype=float)[:, None, None]
    return Batch(own, each(size), age, each(20.0), kin, each(9.0), absent)


def test_condensed_dynamics_are_the_same_mixture():
    """Fewer rows, the same means and variances, of several cells at once."""
    cells, common = batch(7.0, 1.0, 30.0), laws(2)
    weights = RNG.dirichlet(np.ones(dynamics.PRIOR.size), 3)
    full = dynamics.mixed(weights, dynamics.forecast(cells, common))
    rows, few = dynamics.condensed(weights)
    short = dynamics.mixed(few, dynamics.forecast(cells, common, rows))
    assert few.shape[1] < weights.shape[1]
    np.testing.assert_allclose(short.mean, full.mean)
    np.testing.assert_allclose(short.variance, full.variance)


def test_every_forecast_is_a_pdf():
    """Each dynamic keeps the sum of one."""
    forecast = dynamics.forecast(batch(7.0, 2.0), laws(2))
    assert forecast.mean.shape == (2, dynamics.PRIOR.size, 6)
    np.testing.assert_allclose(forecast.mean.sum(2), 1)
    assert (forecast.variance > 0).all()


def test_forecasts_widen_with_age():
    """The longer ago a cell was measured, the less is known of it."""
    young, common = batch(1.0), laws(2)
    old = replace(young, age=np.full((1, 1, 1), 50.0), kin_age=np.full((1, 1, 1), 50.0))
    young = replace(young, kin_age=np.ones((1, 1, 1)))
    assert (dynamics.forecast(old, common).variance >= dynamics.forecast(young, common).variance - 1e-15).all()


def test_weights_of_the_first_version_keep_their_sum():
    """What was shrunk to one law is shrunk to two, which share its weight."""
    old = RNG.dirichlet(np.ones(dynamics.FIRST), 3)
    new = dynamics.divided(old)
    assert new.shape == (3, dynamics.PRIOR.size)
    np.testing.assert_allclose(new.sum(1), 1)


def test_weights_of_cell_and_class_are_together_those_of_the_cell_where_the_class_knows_nothing():
    """A class that has learned nothing changes nothing."""
    weights = RNG.dirichlet(np.ones(dynamics.PRIOR.size))
    np.testing.assert_allclose(dynamics.together(weights, dynamics.PRIOR), weights)
