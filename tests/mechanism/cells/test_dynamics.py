from dataclasses import replace

import numpy as np
import pytest

from dpi.mechanism.cells import _dynamics as drift
from dpi.mechanism.cells import _dynamics as dynamics
from dpi.mechanism.cells._dynamics import CellBatch, CommonDrift
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

RNG = np.random.default_rng(6)


def test_the_prior_is_a_law():
    """Weights of the dynamics are positive and have the sum one."""
    assert (dynamics.DYNAMICS_PRIOR > 0).all()
    assert dynamics.DYNAMICS_PRIOR.sum() == pytest.approx(1)


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
    along = Gaussians(RNG.uniform(0.5, 2, (count, 1, 6)), np.full((count, 1, 6), 0.01))
    return CellBatch(own, each(size), age, each(20.0), kin, each(9.0), absent, along)


def test_condensed_dynamics_are_the_same_mixture():
    """Fewer rows, the same means and variances, of several cells at once."""
    cells, common = batch(7.0, 1.0, 30.0), laws(2)
    weights = RNG.dirichlet(np.ones(dynamics.DYNAMICS_PRIOR.size), 3)
    each = dynamics.forecast_laws(cells, common)
    full = dynamics.mix_dynamics(weights, each.laws)
    rows, few = dynamics.condense_dynamics(weights)
    fewer = dynamics.forecast_laws(cells, common, rows)
    short = dynamics.mix_dynamics(few, fewer.laws)
    assert few.shape[1] < weights.shape[1]
    np.testing.assert_allclose(short.mean, full.mean)
    np.testing.assert_allclose(short.variance, full.variance)
    np.testing.assert_allclose(fewer.in_common(few[:, None]), each.in_common(weights[:, None]))


def test_single_precision_is_the_same_to_a_millionth():
    """Also of probabilities near 10⁻⁹, whose variances are near 10⁻²⁰; and nothing is made in double by the way."""
    single, (rows, few) = (
        np.float32,
        dynamics.condense_dynamics(RNG.dirichlet(np.ones(dynamics.DYNAMICS_PRIOR.size), 3)),
    )
    cells, common = batch(7.0, 1.0, 30.0), laws(2)
    for belief in (cells.law, cells.kin, cells.absent, common):
        belief.mean[..., 0], belief.variance[..., 0] = 1e-9, 1e-20
    double = dynamics.forecast_laws(cells, common, rows)
    other = dynamics.forecast_laws(cells.astype(single), common.astype(single), rows.astype(single))
    mixed, found = dynamics.mix_dynamics(few, double.laws), dynamics.mix_dynamics(few.astype(single), other.laws)
    assert found.mean.dtype == found.variance.dtype == other.shared.dtype == single
    np.testing.assert_allclose(found.mean, mixed.mean, rtol=1e-6)
    np.testing.assert_allclose(found.variance, mixed.variance, rtol=1e-6)
    np.testing.assert_allclose(other.shared, double.shared, rtol=3e-6)


def test_every_forecast_is_a_pdf():
    """Each dynamic keeps the sum of one."""
    forecast = dynamics.forecast_laws(batch(7.0, 2.0), laws(2)).laws
    assert forecast.mean.shape == (2, dynamics.DYNAMICS_PRIOR.size, 6)
    np.testing.assert_allclose(forecast.mean.sum(2), 1)
    assert (forecast.variance > 0).all()


def test_forecasts_widen_with_age():
    """The longer ago a cell was measured, the less is known of it."""
    young, common = batch(1.0), laws(2)
    old = replace(young, age=np.full((1, 1, 1), 50.0), kin_age=np.full((1, 1, 1), 50.0))
    young = replace(young, kin_age=np.ones((1, 1, 1)))
    later, now = (dynamics.forecast_laws(cells, common).laws for cells in (old, young))
    assert (later.variance >= now.variance - 1e-15).all()


def test_what_is_in_common_is_a_part_of_the_deviation():
    """A law of all, or a common drift, adds no more to a law's variance than that has."""
    forecast = dynamics.forecast_laws(batch(7.0, 2.0, 60.0), laws(2))
    last = forecast.laws.variance[:, -forecast.shared.shape[1] :]
    assert (forecast.shared**2 <= last * (1 + 1e-9)).all()
    assert (forecast.shared > 0).any()


def test_who_goes_along_is_moved_by_the_common_drift():
    """If all levels stay, the last dynamics say what own past says; if one doubles, its share grows."""
    cells = batch(3.0)
    still = replace(cells, along=Gaussians(np.ones((1, 1, 6)), np.zeros((1, 1, 6))))
    np.testing.assert_allclose(dynamics.forecast_laws(still, laws(2)).laws.mean[0, -1], cells.law.mean[0, 0])
    factor = np.ones((1, 1, 6))
    factor[..., 2] = 2.0
    moved = replace(cells, along=Gaussians(factor, np.zeros((1, 1, 6))))
    said = dynamics.forecast_laws(moved, laws(2)).laws.mean[0, -1]
    odds = said[2] / (1 - said[2]), cells.law.mean[0, 0, 2] / (1 - cells.law.mean[0, 0, 2])
    assert odds[0] == pytest.approx(2 * odds[1])


def test_weights_of_cell_and_class_are_together_those_of_the_cell_where_the_class_knows_nothing():
    """A class that has learned nothing changes nothing."""
    weights = RNG.dirichlet(np.ones(dynamics.DYNAMICS_PRIOR.size))
    np.testing.assert_allclose(dynamics.join_weights(weights, dynamics.DYNAMICS_PRIOR), weights)


DRIFT_RNG = np.random.default_rng(13)
LAW = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
NOISE = 2.0


def counts(pdf, users=5000):
    """Users in each bin, with noise."""
    return NoisyCounts(users * pdf + DRIFT_RNG.laplace(0, NOISE, pdf.size), NOISE)


def settled(slots=30):
    """After newcomers of one law."""
    walk = CommonDrift.begun(LAW.size)
    for _ in range(slots):
        walk = walk.later(1).newcomers(counts(LAW), 5000)
    return walk


def test_a_law_that_stays_moves_nothing():
    """Newcomers find their own levels; the walk stays near zero. False alarm below 1e-6: ten deviations."""
    walk = settled()
    np.testing.assert_allclose(np.exp(walk.offset), LAW, rtol=0.1)
    assert np.abs(walk.mean).max() < 0.1


def jumped(law=LAW, bin=4, factor=6.0):
    """A law in which one bin is so many times as large."""
    levels = law.copy()
    levels[bin] *= factor
    return levels / levels.sum()


def test_everybody_who_turns_in_one_slot_is_seen_in_it():
    """A jump is believed at once, and those who went along are moved by the same factor."""
    walk = settled()
    at = walk.mean
    walk = walk.later(1).newcomers(counts(jumped()), 5000)
    along = walk.along(at, np.ones(1))
    assert along.mean[4] / along.mean[0] == pytest.approx(6.0, rel=0.25)
    back = walk.later(1).newcomers(counts(LAW), 5000).along(at, np.ones(1))
    assert back.mean[4] / back.mean[0] == pytest.approx(1.0, abs=0.3)


def test_classes_tell_the_walk_too():
    """A class that was foreseen to go along, and was found elsewhere, moves the walk and no offset of newcomers."""
    walk = settled().later(20)
    foreseen = Gaussians(LAW, 1e-5 * LAW**2)
    after = walk.of_class(counts(jumped(factor=1.2)), 5000, foreseen)
    assert after.mean[4] - after.mean[0] > walk.mean[4] - walk.mean[0] + 0.02
    assert after.offset is walk.offset
    assert (after.variance < walk.variance).all()


def test_nothing_is_learned_from_noise_alone():
    """NoisyCounts that drown say nothing of the walk."""
    walk = settled(5).later(1)
    after = walk.newcomers(NoisyCounts(DRIFT_RNG.laplace(0, 500, LAW.size), 500.0), 3.0)
    np.testing.assert_allclose(after.mean, walk.mean, atol=0.01)


def test_the_walk_is_bounded():
    """However strange the counts are, all numbers stay finite and within bounds."""
    walk = settled(3)
    for _ in range(50):
        strange = NoisyCounts(DRIFT_RNG.choice([0.0, -1e6, 1e9], LAW.size), 1.0)
        walk = walk.later(1).newcomers(strange, 100.0).of_class(strange, 100.0, Gaussians(LAW, LAW**2))
        for part in (walk.mean, walk.variance, walk.offset, walk.doubt):
            assert np.isfinite(part).all()
        assert np.abs(walk.mean).max() <= drift.FARTHEST
        assert (walk.variance >= 0).all()
        assert (walk.doubt >= 0).all()
