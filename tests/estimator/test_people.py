"""Heads beside the filter: between bounds that hold whatever people do, and right about their own error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.estimator import (
    HEADS,
    Released,
    difference_scale,
    next_people,
    no_people,
    rose,
    sum_scale,
)
from dpi_research.learn.beginning import draw

NUMBERS = st.floats(0, 25)


def heads(seed):
    """Weights that nobody trained."""
    return draw(HEADS, seed, ())


def released(active, new, rng):
    """A slot with so many active users and newcomers, as logarithms."""
    members = rng.dirichlet(np.ones(4)) * np.exp(active)
    numbers = np.array([active, new, active]), np.full(3, -2.0)
    return Released(*numbers, members, rng.gamma(1, 10, 4), np.float32(0), np.float32(0))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40))
def test_whatever_is_released_what_is_told_of_people_is_possible(seed, slots):
    """Distinct users are no fewer than active ones and no more than all visits; retention is a share; all is finite."""
    rng, weights, state, visits = np.random.default_rng(seed), heads(seed), no_people(), []
    for active, new in slots:
        state, told = next_people(weights, state, released(active, min(new, active), rng))
        visits.append(np.expm1(active) + 0.01)
        assert all(np.isfinite(part).all() for part in (*state, *told))
        for window, distinct in zip((7, 28), told.distinct, strict=True):
            assert distinct >= np.log(visits[-1]) - 1e-3
            assert distinct <= np.log(sum(visits[-window:])) + 2e-3
        assert ((told.retention >= 0) & (told.retention <= 1)).all()
        assert (told.stickiness <= 1e-3).all()


def test_bounds_meet_where_all_users_are_new():
    """Who never comes back is counted once: distinct users are the sum, whatever is learned."""
    rng, weights, state = np.random.default_rng(1), heads(1), no_people()
    for _ in range(10):
        state, told = next_people(weights, state, released(5.0, 5.0, rng))
    assert told.distinct[0] == pytest.approx(np.log(7 * np.expm1(5.0)), abs=0.01)


def test_a_sum_over_all_bins_is_known_and_order_does_not_matter():
    """All shares together are one; a permutation of bins changes no scale."""
    rng, weights = np.random.default_rng(2), heads(2)
    shares, scales = rng.dirichlet(np.ones(30)), rng.normal(-6, 1, 30)
    everything = sum_scale(weights, shares, scales, np.float64(1e4), np.ones(30))
    some = (rng.random(30) < 0.3).astype(float)
    one = sum_scale(weights, shares, scales, np.float64(1e4), some)
    order = rng.permutation(30)
    again = sum_scale(weights, shares[order], scales[order], np.float64(1e4), some[order])
    assert one == pytest.approx(again, abs=1e-5)
    assert everything < one - 5


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5], [1e-9, 1 - 1e-9]])
def test_few_bins_and_empty_ones_have_finite_scales(shares):
    """One bin, two, and one that is nearly empty."""
    shares = np.array(shares)
    scales = np.log(shares * 0.1)
    assert np.isfinite(sum_scale(heads(3), shares, scales, np.float64(0), np.ones(shares.size)))
    change = difference_scale(heads(3), shares, scales, shares, scales, np.float64(7), np.float64(0))
    assert change.shape == shares.shape
    assert np.isfinite(change).all()


def test_the_probability_of_a_rise_is_that_of_a_student_law():
    """Against scipy; one half where nothing changed."""
    from scipy.stats import t

    difference, scale = np.linspace(-3, 3, 13), np.log(0.7)
    assert np.allclose(rose(difference, scale), t.cdf(difference / 0.7, 4))
    assert rose(np.zeros(1), 0.0)[0] == 0.5
