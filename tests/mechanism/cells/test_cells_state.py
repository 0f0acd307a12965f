from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clocked_users import play
from dpi.budget.billing import SHARE_STEPS
from dpi.errors import StateError
from dpi.mechanism import cells


@pytest.fixture(scope="module")
def state():
    """A state after a few slots."""
    rng = np.random.default_rng(1)
    *_, (last, _) = play([(np.arange(200), rng.integers(0, 7, 200)) for _ in range(10)], 7, classes=4)
    return last


def test_bytes_come_back_bit_for_bit(state):
    """A state and the state of its bytes have the same bytes."""
    data = cells.to_bytes(state)
    assert cells.to_bytes(cells.from_bytes(data)) == data


def test_a_fresh_state_has_bytes_too():
    """Also before the first slot."""
    data = cells.to_bytes(cells.initial(5, 3))
    assert cells.to_bytes(cells.from_bytes(data)) == data


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:-1] + bytes([d[-1] ^ 1]), lambda d: b"x" + d])
def test_damage_is_noticed(state, damage):
    """A byte that is missing, changed or added is refused."""
    with pytest.raises(StateError):
        cells.from_bytes(damage(cells.to_bytes(state)))


def test_arrays_are_read_only(state):
    """What a state holds cannot be changed."""
    for array in (state.cells.mean, state.pool.messages.mean, state.moments, state.absent.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_its_size_is_classes_times_bins():
    """Some ten numbers for each class and bin, and the messages of four laws."""
    small, large = (len(cells.to_bytes(cells.initial(1000, classes))) for classes in (2, 12))
    assert (large - small) / (10 * 1000 * 8) == pytest.approx(8, abs=0.5)


@pytest.mark.parametrize("bins", [2, 1000, 20_000])
def test_the_classes_of_a_domain_keep_the_state_small(bins):
    """Below 18 megabytes, where messages of the laws alone are not more."""
    assert len(cells.to_bytes(cells.initial(bins, cells.classes_of(bins)))) < 18e6


numbers = st.floats(0, 1e9)


@settings(max_examples=50, deadline=None)
@given(arrays(float, (5, 2), elements=numbers), arrays(float, (5, 2), elements=numbers), st.integers(1, 5))
def test_shares_are_fractions_that_accounts_can_pay(known, evidence, due):
    """Above zero, below one, in steps of 2^-12, one for each due class, whatever was learned."""
    state = replace(cells.initial(3, 5), precision=np.array([np.diag(row) for row in known]), evidence=evidence)
    shares = cells.shares(state, due)
    assert len(shares) == due
    for share in shares:
        assert isinstance(share, Fraction)
        assert 0 < share < 1
        assert (share * SHARE_STEPS).denominator == 1


def test_newcomers_pay_about_half_at_first():
    """Before anything is known of who returns."""
    newcomers, others = cells.shares(cells.initial(3, 5), 2)
    assert 0.5 <= newcomers < 0.6
    assert 0.25 <= others < 0.4
