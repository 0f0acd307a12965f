import numpy as np
import pytest

from dpi.mechanism.cells import _sizes as activity
from dpi.mechanism.cells._law import Counts
from dpi.mechanism.cells._sizes import Activity, Measured, Sized
from dpi.mechanism.filtering.gaussians import Gaussians

EVEN = Gaussians(np.full(4, 0.25), np.full(4, 1e-6))


def due(expected, seen, noise):
    """A class that was measured with noise of that variance."""
    sized = Sized(seen, noise, seen, noise)
    return Measured(expected, 100.0, EVEN, Counts(seen * EVEN.mean, 1.0), sized, EVEN, 0.0)


def test_days_on_which_all_are_more_active_are_told_by_those_who_were_measured():
    """Two classes with half as many again as expected: so have the others, nearly, and for this slot only."""
    after, now = activity.learn_activity(
        Activity(deviation=0.3**2), [due(1000.0, 1500.0, 100.0), due(500.0, 750.0, 100.0)]
    )
    assert now == pytest.approx(1.5, abs=0.02)
    assert after.level < 0.1


def test_rates_that_are_off_for_long_are_made_up_for():
    """Where twice as many as expected are seen in every slot, that becomes the level, and the deviations small."""
    one = Activity()
    for _ in range(200):
        one, now = activity.learn_activity(activity.age_activity(one, 1), [due(1000.0, 2000.0, 100.0)])
    assert one.level == pytest.approx(1.0, abs=0.05)
    assert now == pytest.approx(2.0, abs=0.05)
    assert one.deviation < 0.1**2


def test_noise_teaches_nothing():
    """Classes that drown in noise leave the factor where it is, and as uncertain as it was."""
    one = Activity()
    after, now = activity.learn_activity(one, [due(5.0, 500.0, 1e8)])
    assert now == pytest.approx(1.0, abs=1e-3)
    assert after.variance == pytest.approx(one.variance, rel=1e-3)
    assert after.deviation == pytest.approx(one.deviation, rel=1e-3)


def test_deviations_are_learned():
    """Activity that varies by 40 % from slot to slot is known to do so; a slot without measurement is as ever."""
    rng = np.random.default_rng(1)
    one, spread = Activity(), []
    for step in range(400):
        one, _ = activity.learn_activity(
            activity.age_activity(one, 1), [due(1000.0, 1000 * (1 + 0.4 * rng.normal()), 100.0)]
        )
        if step >= 200:
            spread.append((one.variance + one.deviation) ** 0.5)
    assert np.mean(spread) == pytest.approx(0.4, rel=0.3)
    assert activity.learn_activity(one, []) == (one, 1 + one.level)
