"""What a slot asks: a function of its number and of what was released before, in shares that accounts can pay."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocked import shares_of
from clocked_users import Users, play
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import level
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import UsersState
from dpi.mechanism.class_estimator import _payments as payments
from dpi.mechanism.class_estimator._hypotheses import GROUP_OF

BINS, CLASSES = 6, 9


def visits(slots, staying, passing, seed=0):
    """So many users who are always there, and passers-by who come once."""
    rng = np.random.default_rng(seed)
    for slot in range(slots):
        users = np.r_[np.arange(staying), staying + slot * passing + np.arange(passing)]
        yield users, rng.integers(0, BINS, users.size)


@pytest.fixture(scope="module")
def state():
    """A state after thirty slots of both."""
    *_, (last, _) = play(visits(30, 400, 100), BINS, classes=CLASSES)
    return last


def test_the_first_slot_asks_newcomers_alone_for_a_half():
    """Whatever its number: nobody has paid before."""
    for slot in (0, 1, 8, 1000):
        assert estimator.request_payments(UsersState.begun(BINS, CLASSES, 0), slot) == (((0, Fraction(1, 2)),),)


def test_classes_are_due_by_the_clock(state):
    """Class m in slots of a level of at least min(m, LONGEST), and in no other: newcomers in every slot."""
    for slot in range(31, 200):
        due = set(shares_of(estimator.request_payments(state, slot)))
        assert due == {m for m in range(CLASSES) if level(slot, 20) >= min(m, payments.LONGEST)}


def test_everybody_is_due_in_one_of_eight_slots(state):
    """In each aligned block of eight slots there is exactly one in which all classes pay."""
    for block in range(8, 20):
        due = [len(shares_of(estimator.request_payments(state, slot))) for slot in range(8 * block, 8 * block + 8)]
        assert due.count(CLASSES) == 1


@settings(max_examples=60)
@given(st.floats(0, 1e9), st.floats(1, 1e6), st.floats(1e-6, 1e4))
def test_no_class_waits_longer_where_bins_have_more_users(users, more, epsilon):
    """At most eight slots, and one from some thousands of users times ε in a bin on."""
    empty = replace(UsersState.begun(BINS, CLASSES, 0), epsilon=epsilon)
    few, many = (payments.longest_wait(replace(empty, users_per_bin=users * times)) for times in (1, more))
    assert payments.LONGEST >= few >= many >= 0
    assert few == payments.LONGEST or users * epsilon > payments.CLEAR
    assert many == 0 or users * more * epsilon < 64 * payments.CLEAR


def test_everybody_pays_in_every_slot_where_bins_have_users_enough(state):
    """All classes, less each time than where they wait for eight slots."""
    crowd = replace(state, users_per_bin=1e5)
    rare = estimator.request_payments(
        replace(crowd, users_per_bin=1.0), next(s for s in range(31, 99) if level(s, 3) == 3)
    )
    for slot in range(31, 60):
        asked = shares_of(estimator.request_payments(crowd, slot))
        assert set(asked) == set(range(CLASSES))
        assert all(asked[m] < shares_of(rare)[m] for m in range(1, CLASSES))


def test_a_group_has_the_classes_of_its_histogram(state):
    """Classes from low to high, newcomers by themselves."""
    asked = estimator.request_payments(state, next(slot for slot in range(31, 99) if level(slot, 3) == 3))
    classes = [[m for m, _ in group] for group in asked]
    assert classes[0] == [0]
    assert [m for group in classes for m in group] == list(range(CLASSES))
    assert [{int(GROUP_OF[m]) for m in group} for group in classes] == [{0}, {1}, {2}]


numbers = st.floats(1e-6, 1e6)


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, st.floats(0, 1), st.integers(0, 10**6), st.integers(1, 200))
def test_shares_are_fractions_that_accounts_can_pay(state, crowd, epsilon, newcomers, seed, slot):
    """Above zero, at most 0.85, in steps of 2^-12, whatever was learned."""
    classes, count = state.activity.types.shape
    types = np.random.default_rng(seed).dirichlet(np.full(count, 0.1), classes)
    known = replace(
        state, users_per_bin=crowd, epsilon=epsilon, newcomers=newcomers, activity=replace(state.activity, types=types)
    )
    for share in shares_of(estimator.request_payments(known, slot)).values():
        assert isinstance(share, Fraction)
        assert 0 < share <= payments.MOST
        assert (share * SHARE_STEPS).denominator == 1


def test_passers_by_pay_most_and_regulars_little():
    """Where nobody returns newcomers pay nearly what they may; where all stay every class keeps most for later."""
    *_, (passing, _) = play(visits(24, 0, 1000), BINS, classes=CLASSES)
    *_, (staying, _) = play(visits(24, 1000, 0), BINS, classes=CLASSES)
    slot = next(slot for slot in range(24, 99) if level(slot, 3) == 3)
    once, always = (shares_of(estimator.request_payments(known, slot)) for known in (passing, staying))
    assert once[0] > 0.8
    assert always[0] < 0.5
    assert all(always[m] < 0.5 for m in range(1, 5))
    assert all(always[m] < once[m] for m in range(5))


def test_more_newcomers_pay_more():
    """Where they are most of all who are active, their law must be known as well as that of the others."""
    *_, (known, _) = play(visits(24, 500, 100), BINS, classes=CLASSES)
    few, many = (payments.class_shares(replace(known, newcomers=part))[0] for part in (0.02, 0.95))
    assert few <= many
    calm = replace(known, users_per_bin=1e7)  # so many that a law is known from little
    assert payments.class_shares(replace(calm, newcomers=0.999))[0] > payments.class_shares(calm)[0]


def test_a_larger_crowd_spreads_its_budget(state):
    """With more users in a bin, or a larger ε, classes pay less at a time: a bin is seen with less."""
    alone, crowd = (payments.class_shares(replace(state, users_per_bin=users)) for users in (10.0, 10_000.0))
    assert (crowd[1:] <= alone[1:]).all()
    assert crowd[1] < alone[1]


def test_what_is_asked_does_not_depend_on_the_slots_own_events():
    """Streams that were alike until this slot ask the same in it, whatever its events are; only later slots differ."""
    crowds = [np.zeros(0, dtype=np.int64), np.arange(50), 10**4 + np.arange(3000)]
    slots = list(visits(next(slot for slot in range(30, 99) if level(slot, 3) == 3), 400, 100))
    asked, later = [], []
    for users in crowds:
        accounts, known = Users(BINS, CLASSES, 0), UsersState.begun(BINS, CLASSES, 0)
        for number, (present, values) in enumerate([*slots, (users, users % BINS)]):
            said = estimator.request_payments(known, number)
            known, _ = estimator.close_slot(known, number, 2.0, accounts.measure(present, values, said))
        asked.append(said)
        later.append(tuple(payments.class_shares(known)))
    assert len(set(asked)) == 1
    assert len(set(later)) == len(crowds)


def test_asking_is_a_function_of_the_state_alone(state):
    """The same again, and from bytes; asking changes nothing."""
    data = estimator.to_bytes(state)
    for slot in range(31, 60):
        assert estimator.request_payments(state, slot) == estimator.request_payments(estimator.from_bytes(data), slot)
    assert estimator.to_bytes(state) == data
