import numpy as np
import pytest

from dpi.mechanism.cells import _dynamics as drift
from dpi.mechanism.cells._dynamics import CommonDrift
from dpi.mechanism.cells._law import Counts
from dpi.mechanism.filtering.gaussians import Gaussians

RNG = np.random.default_rng(13)
LAW = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
NOISE = 2.0


def counts(pdf, users=5000):
    """Users in each bin, with noise."""
    return Counts(users * pdf + RNG.laplace(0, NOISE, pdf.size), NOISE)


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
    """Counts that drown say nothing of the walk."""
    walk = settled(5).later(1)
    after = walk.newcomers(Counts(RNG.laplace(0, 500, LAW.size), 500.0), 3.0)
    np.testing.assert_allclose(after.mean, walk.mean, atol=0.01)


def test_the_walk_is_bounded():
    """However strange the counts are, all numbers stay finite and within bounds."""
    walk = settled(3)
    for _ in range(50):
        strange = Counts(RNG.choice([0.0, -1e6, 1e9], LAW.size), 1.0)
        walk = walk.later(1).newcomers(strange, 100.0).of_class(strange, 100.0, Gaussians(LAW, LAW**2))
        for part in (walk.mean, walk.variance, walk.offset, walk.doubt):
            assert np.isfinite(part).all()
        assert np.abs(walk.mean).max() <= drift.FARTHEST
        assert (walk.variance >= 0).all()
        assert (walk.doubt >= 0).all()
