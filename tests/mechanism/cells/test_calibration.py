import numpy as np
import pytest

from dpi.mechanism.cells.calibration import LARGEST, SMALLEST, Calibration


def learned(factor, noise=1.0, count=400):
    """After errors whose variance is so many times what was foreseen."""
    rng = np.random.default_rng(7)
    calibration = Calibration()
    for _ in range(20):
        errors = rng.normal(0, (noise + factor * 2.0) ** 0.5, count)
        calibration = calibration.after(errors, np.full(count, 2.0), noise, 1.0)
    return calibration.factor


@pytest.mark.parametrize("factor", [2.0, 3.0, 10.0])
def test_the_factor_is_found(factor):
    """Errors of φ times the foreseen variance give φ. Chance of a false alarm below 1e-6: 2,000 effective errors."""
    assert learned(factor) == pytest.approx(factor, rel=0.3)


def test_good_forecasts_do_not_narrow_intervals():
    """A factor has a least value: forecasts may have been good while they were young."""
    assert learned(0.1) == SMALLEST >= 1


def test_one_outlier_does_not_widen_everything():
    """However large one error is, the factor stays within reason."""
    calibration = Calibration().after(np.r_[1e9, np.zeros(99)], np.full(100, 1.0), 1.0, 1.0)
    assert calibration.factor < 2 < LARGEST
