import numpy as np
import pytest

from dpi.mechanism.cells import _estimate as release
from dpi.mechanism.cells._estimate import Doubt
from dpi.mechanism.cells._law import Counts
from dpi.mechanism.cells._sizes import Carried, Measured, Sized
from dpi.mechanism.filtering.gaussians import Gaussians

PDF = np.array([0.1, 0.2, 0.3, 0.4])


def newcomers(size, noise, variance=1e-4):
    """So many of them, as they were measured."""
    law = Gaussians(PDF, np.full(4, variance))
    return Measured(size, 1.0, law, Counts(size * PDF, noise), Sized(size, 1e-9, size, 1e-9), law, 1.0)


def carried(users, laws, alike=0.0, factor=1.0):
    """Cells of so many users each, beside hardly any newcomers, and the released variance of users in each bin."""
    each, many = np.ones(laws), np.full(laws, users)
    law = Gaussians(np.tile(PDF, (laws, 1)), np.full((laws, 4), 1e-4))
    kept = Carried(many, 0 * each, law, each, np.zeros((laws, 4)), factor * each, each)
    doubt = Doubt(np.zeros(1), alike, 0.0)
    estimate, _ = release.release_parts(newcomers(1e-3, 1e-3), [], kept, np.zeros(4), doubt, 0.0, [])
    return estimate.variance * estimate.total**2


def test_what_was_measured_is_no_less_certain_than_the_noise():
    """However little was foreseen of it: ten thousand newcomers under noise of scale two."""
    doubt = Doubt(np.zeros(1), 0.0, 0.0)
    estimate, _ = release.release_parts(newcomers(1e4, 2.0), [], Carried.nobody(4), np.zeros(4), doubt, 0.0, [])
    assert estimate.variance * 1e8 == pytest.approx(np.full(4, 8.0), rel=1e-3)


def test_a_release_that_is_not_heard_may_be_anywhere():
    """A user under noise of scale a thousand: the release is uniform, and its deviation as large as itself."""
    doubt = Doubt(np.zeros(1), 0.0, 0.0)
    estimate, heard = release.release_parts(newcomers(1.0, 1e3), [], Carried.nobody(4), np.zeros(4), doubt, 0.0, [])
    assert heard < 0.02
    assert estimate.pdf == pytest.approx(np.full(4, 0.25), abs=0.01)
    assert (estimate.variance > 0.9 / 16).all()


def test_variances_add_up_and_so_do_deviations_that_are_shared():
    """Four cells that are off each on its own have four times the variance of one; off together, sixteen times."""
    one = carried(1e3, 1)
    assert carried(1e3, 4) == pytest.approx(4 * one, rel=1e-3)
    assert carried(1e3, 4, alike=1.0) == pytest.approx(16 * one, rel=1e-3)
    assert carried(1e3, 4, alike=0.25) == pytest.approx(7 * one, rel=1e-3)


def test_a_factor_scales_what_is_carried():
    """Half the variance, if forecasts were so much better than they said."""
    assert carried(1e3, 2, factor=0.5) == pytest.approx(0.5 * carried(1e3, 2), rel=1e-3)


@pytest.mark.parametrize(("share", "times"), [(0.0, 4), (0.25, 7), (1.0, 16)])
def test_sizes_that_are_off_together_add_up(share, times):
    """Four classes of which a hundred may have returned unheard: each on its own, or all if one has."""
    doubt = Doubt(np.full(4, 100.0**2), 0.0, share)
    estimate, _ = release.release_parts(newcomers(1e4, 2.0), [], Carried.nobody(4), np.zeros(4), doubt, 0.0, [])
    assert estimate.total_variance == pytest.approx(times * 100.0**2)
