"""Types of users are Markov chains: nobody is lost but by the hazard, and long-run rates are what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.mechanism.class_estimator import _types as types

OF = np.repeat(np.arange(types.TYPES), np.diff([*types.FIRST, types.STATES]))
"""The type of each state."""


def test_who_does_not_leave_goes_on():
    """Rows of `NEXT` sum to one less the hazard, have nothing negative, and stay within their type."""
    assert types.NEXT.sum(1) == pytest.approx(1 - types.HAZARD[OF], abs=1e-12)
    assert (types.NEXT >= 0).all()
    assert (types.NEXT[OF[:, None] != OF] == 0).all()


@pytest.mark.parametrize("number", range(1, types.TYPES))
def test_long_run_rates(number):
    """A user of each type, left to itself for long and then watched for 70 weeks, is active at the rate of its type."""
    inside = np.flatnonzero(number == OF)
    chain = types.NEXT[np.ix_(inside, inside)] / (1 - types.HAZARD[number])
    at, active = np.eye(inside.size)[0] @ np.linalg.matrix_power(chain, 700), 0.0
    for _ in range(70 * types.WEEK):
        active += float(at @ types.ACTIVE[inside])
        at = at @ chain
    assert active / (70 * types.WEEK) == pytest.approx(types.LONG_RUN[number])


def test_who_comes_once_never_returns():
    """The first type leaves at once."""
    assert types.NEXT[0].sum() == types.ACTIVE[0] == types.LONG_RUN[0] == 0


def test_every_type_is_entered_once():
    """In its first state; and sums by type count each state once."""
    assert (types.by_type(types.ENTER) == 1).all()
    assert types.by_type(np.ones(types.STATES)) == pytest.approx(np.bincount(OF))


def test_no_two_types_are_the_same():
    """Weights of equal types could not be told apart: each has rates, a hazard or moves of its own."""
    said = {
        (types.HAZARD[z], types.ACTIVE[z == OF].tobytes(), types.NEXT[np.ix_(z == OF, z == OF)].tobytes())
        for z in range(types.TYPES)
    }
    assert len(said) == types.TYPES


@given(st.floats(-8, 8))
def test_activity_multiplies_odds(log_odds):
    """Odds are e^x times as large, whatever the rate; who is never or always active stays so."""
    active = types.more_active(log_odds)
    assert ((active >= 0) & (active <= 1)).all()
    assert active * (1 - types.ACTIVE) == pytest.approx(np.exp(log_odds) * types.ACTIVE * (1 - active), abs=1e-12)
