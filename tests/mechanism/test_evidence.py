"""Log scores of experts are fair: neither jumps nor sizes make one win a little in every slot."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.mechanism.boosted._experts import Jumps, log_odds
from dpi.mechanism.boosted._size import SURPRISE, Size, marginal_scores, size_by_sum
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts


@given(st.floats(-30, 5), st.floats(-60, 5), st.floats(-60, 5))
def test_a_bin_that_may_jump_has_the_exact_density(before, density, stays):
    """(1 - P)·stays + P·jumped, whatever the odds: also where the chance of a jump is small, in many bins at once."""
    jump = Jumps(np.array([before]), np.array([density]), np.array([False]))
    either, jumped = jump.either(np.array([[stays]]), trust=1.0)
    probability = 1 / (1 + math.exp(-before))
    exact = np.logaddexp(math.log1p(-probability) + stays, math.log(probability) + density)
    assert either[0, 0] == pytest.approx(exact, abs=1e-6)
    assert jumped[0, 0] == pytest.approx(1 / (1 + math.exp(-(before + density - stays))), abs=1e-9)


def test_a_drowned_slot_moves_no_weight():
    """Where a jump and no jump are equally likely, 100,000 bins leave an expert's score within 1e-6 of what it was."""
    bins = 100_000
    jump = Jumps(np.full(bins, math.log(1e-4)), np.full(bins, -3.0), np.zeros(bins, dtype=bool))
    either, _ = jump.either(np.full((1, bins), -3.0), trust=1.0)
    assert float(either.sum()) == pytest.approx(-3.0 * bins, abs=1e-3)


def test_jumps_are_told_apart_by_expert():
    """A count that one expert expects and another does not is a jump for the other alone."""
    jump = Jumps(np.array([-9.0]), np.array([-5.0]), np.array([False]))
    _, jumped = jump.either(np.array([[-4.0], [-100.0]]), trust=1.0)
    assert jumped[0, 0] < 1e-3
    assert jumped[1, 0] > 1 - 1e-9


@given(st.floats(1e-30, 1 - 1e-12))
def test_log_odds_of_a_probability(probability):
    """They are finite and bounded."""
    assert log_odds(np.array([probability]))[0] == pytest.approx(
        min(max(math.log(probability) - math.log1p(-probability), -40), 40), abs=1e-3
    )


@given(st.floats(-3, 3), st.floats(0.1, 50), st.floats(-0.2, 0.2), st.floats(0.02, 0.25))
def test_scores_are_averaged_over_sizes(pull, hold, away, variance):
    """The average of a parabola over the sizes that were expected is that of numerical integration."""
    reach = 2 * variance**0.5
    if abs((pull + away / variance) / (hold + 1 / variance)) > reach or abs(away) > reach:
        return
    sizes = np.linspace(-12, 12, 200_001)
    log = pull * sizes - 0.5 * hold * sizes**2 - 0.5 * (sizes - away) ** 2 / variance
    exact = math.log(np.exp(log).sum() * (sizes[1] - sizes[0]) / math.sqrt(2 * math.pi * variance))
    found = marginal_scores(np.zeros(1), np.array([pull]), np.array([hold]), np.array([away]), variance, nobody=-1e9)
    assert found[0] == pytest.approx(exact, abs=1e-6)


def test_where_nobody_is_all_experts_are_right():
    """No expert loses more than the surprise by a slot that is noise alone."""
    scores = np.array([-100.0, -900.0])
    found = marginal_scores(scores, np.zeros(2), np.ones(2), np.zeros(2), 0.1, nobody=-90.0)
    assert found.min() == pytest.approx(-90 - SURPRISE)
    assert found.max() - found.min() < 1e-3


def test_a_crowd_in_one_bin_is_seen_in_the_noise_of_the_sum():
    """Beside what was expected; but the largest of the draws of noise is no crowd."""
    values = np.zeros(1000)
    values[3] = 450_000.0
    expected = Size(50_000.0, 0.04, 0.01)
    assert size_by_sum(NoisyCounts(values, 4000.0), expected, jump=math.log(1e-4)).scale == pytest.approx(5e5, rel=0.05)
    values[3] = 60_000.0  # as the largest of a thousand draws is in one slot of four hundred
    assert size_by_sum(NoisyCounts(values, 4000.0), expected, jump=math.log(1e-4)).scale < 6e4
