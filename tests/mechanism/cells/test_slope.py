import numpy as np
import pytest

from dpi.mechanism.cells import slope
from dpi.mechanism.cells.calibration import LARGEST, PRIOR
from dpi.mechanism.cells.slope import Slope

RNG = np.random.default_rng(12)


def learned(factors, noise=1.0, bins=200, rounds=12):
    """After errors of each class whose variance is so many times what was foreseen."""
    found = Slope.begun(len(factors))
    for _ in range(rounds):
        for m, factor in enumerate(factors):
            if factor is not None:
                errors = RNG.normal(0, (noise + factor * 2.0) ** 0.5, bins)
                found = found.after(m, errors, np.full(bins, 2.0), noise)
    return found


def test_before_anything_is_seen_higher_classes_are_a_little_less_sure():
    """The prior of the slope."""
    factors = Slope.begun(8).factors
    assert factors == sorted(factors)
    assert factors[0] == slope.SMALLEST
    assert factors[7] == pytest.approx(np.exp(6 * slope.SLOPE))


def test_one_factor_for_all_is_found():
    """Classes that are off alike have the same factor. False alarm below 1e-6: 10,000 effective errors."""
    assert learned([None, 3.0, 3.0, 3.0, 3.0]).factors[1:] == pytest.approx([3.0] * 4, rel=0.25)


def test_what_grows_in_low_classes_goes_on_in_high_ones():
    """Where each class is off by half more than the one below, one that was never seen is expected to be."""
    factors = learned([None, 1.5, 2.25, 3.375, None, None]).factors
    assert factors[1:4] == pytest.approx([1.5, 2.25, 3.375], rel=0.25)
    assert factors[5] == pytest.approx(1.5**5, rel=0.4)


def test_good_forecasts_do_not_narrow_intervals():
    """A factor has a least value and a largest one."""
    assert set(learned([None, 0.1, 0.1, 0.1]).factors) == {slope.SMALLEST}
    assert max(learned([None, 90.0, 90.0, 90.0]).factors) <= LARGEST


def test_one_outlier_does_not_widen_everything():
    """However large one error is, the factors stay within reason."""
    found = Slope.begun(4).after(1, np.r_[1e9, np.zeros(99)], np.ones(100), 1.0)
    assert max(found.factors) < 3


def test_the_fit_is_the_minimum():
    """Newton's steps end where the gradient of all squares and priors is zero."""
    found = learned([None, 1.3, 2.0, 2.2, 3.0])
    level, steep = found._fitted()
    height = np.arange(5) - 1
    off = np.where(found.foreseen > 0, found.seen * np.exp(-level - steep * height) - found.foreseen, 0.0)
    assert off.sum() - PRIOR * level == pytest.approx(0, abs=1e-3 * found.foreseen.sum())
    rest = (off * height).sum() - slope.SLOPE_PRIOR * (steep - slope.SLOPE)
    assert rest == pytest.approx(0, abs=1e-3 * found.foreseen.sum())
