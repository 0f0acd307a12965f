"""The number of newcomers, from noisy measurements of it."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.mechanism.class_estimator._level import PRIOR, STEPS, Level


def follow(seen, variance):
    """The level after some measurements."""
    return reduce(lambda level, one: level.after(float(one), variance), seen, Level.begun())


def test_the_first_measurement_is_all_that_is_known():
    """It is believed as it is, but for a number below zero."""
    level = Level.begun().after(40.0, 9.0)
    assert level.posterior == (40.0, 9.0)
    assert Level.begun().after(-3.0, 9.0).expected == 0
    assert Level.begun().expected == 0


@given(st.lists(st.tuples(st.floats(-1e6, 1e9), st.floats(1e-6, 1e12)), min_size=1, max_size=20))
def test_whatever_is_measured_it_is_a_number(measurements):
    """Neither it nor a variance is negative, weights sum to one, and a forecast is less sure than what is known."""
    level = Level.begun()
    for seen, variance in measurements:
        level = level.after(seen, variance)
        assert level.weights.sum() == pytest.approx(1)
        assert (level.weights > 0).all()
        expected, doubt = level.posterior
        assert np.isfinite(expected)
        assert expected >= 0
        assert 0 <= doubt <= level.spread * (1 + 1e-9)


def test_a_steady_number_is_known_better_than_by_one_measurement():
    """After fifty of them the slowest walk leads, and the variance is less than a third of a measurement's."""
    rng = np.random.default_rng(1)
    level = follow(1000 + rng.normal(0, 50, 50), 2500.0)
    assert level.weights.argmax() == 0
    assert level.posterior[1] < 2500 / 3
    assert abs(level.expected - 1000) < 4 * level.posterior[1] ** 0.5


@pytest.mark.parametrize("kind", range(STEPS.size))
def test_each_walk_is_recognised_by_its_steps(kind):
    """A number that takes the steps of a walk gives the walk more weight than it had at first."""
    rng = np.random.default_rng(2)
    walk = 5000 * np.exp(np.cumsum(rng.normal(0, STEPS[kind], 60)))
    assert follow(walk + rng.normal(0, 10, 60), 100.0).weights[kind] > PRIOR[kind]


@pytest.mark.parametrize("step", [0.01, 0.05, 0.2])
def test_the_number_lies_within_four_deviations(step):
    """Of 400 walks all but the odd one after their last measurement: normal errors would leave one in 16,000 out."""
    rng = np.random.default_rng(3)
    outside = 0
    for _ in range(400):
        walk = 2000 * np.exp(np.cumsum(rng.normal(0, step, 25)))
        expected, doubt = follow(walk + rng.normal(0, 40, 25), 1600.0).posterior
        outside += abs(expected - walk[-1]) > 4 * doubt**0.5
    assert outside <= 4


@pytest.mark.parametrize("before", [0.0, 3.0, 500.0])
def test_a_crowd_that_was_not_expected_is_believed(before):
    """3,000 newcomers, measured within 16, after ten slots with hardly any: off by at most four deviations of those."""
    level = follow([*[before] * 10, 3000.0], 256.0)
    assert abs(level.expected - 3000) < 4 * 16


def test_a_crowd_that_was_not_expected_is_gone_as_soon():
    """After a slot with 3,000 the next is measured as empty, and found so."""
    level = follow([*[10.0] * 10, 3000.0, 10.0], 256.0)
    assert abs(level.expected - 10) < 4 * 16
