"""Newcomers, those who returned, and all who ever came: sums that are exact, intervals that hold."""

import numpy as np
import pytest

from clocked_users import EPSILON, Users, play
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import UsersState, from_bytes, to_bytes

BINS, SLOTS = 8, 40
NAMES = ("newcomers", "returning", "reach")


def world(seed):
    """Users who come by chance, leave and are followed by others; some worlds have no newcomers, or none who leave."""
    rng = np.random.default_rng(seed)
    size, rate = int(np.exp(rng.uniform(np.log(300), np.log(5000)))), rng.uniform(0.1, 1.0)
    leave, come = rng.choice([0, 0.01, 0.05, 0.2]), rng.choice([0, 0.02, 0.1, 0.3])
    law, users = rng.dirichlet(np.ones(BINS)), np.arange(size)
    newest, values = size, rng.choice(BINS, size, p=law)
    for _ in range(SLOTS):
        active = rng.random(users.size) < rate
        yield users[active], values[active]
        stay, more = rng.random(users.size) >= leave, rng.poisson(come * size)
        users = np.r_[users[stay], newest + np.arange(more)]
        values, newest = np.r_[values[stay], rng.choice(BINS, more, p=law)], newest + more


def truths(slots):
    """Newcomers, those who returned, and all who came, after every slot."""
    seen = set()
    for users, _ in slots:
        here = set(users.tolist())
        seen, new = seen | here, len(here - seen)
        yield new, len(here) - new, len(seen)


def test_intervals_hold_in_worlds_where_users_come_return_and_leave():
    """Of 16 worlds and 40 slots each: at least 90 % of newcomers and of those who returned, and 75 % of reach.

    Errors of reach last: of 16 worlds, each of which is inside with .95, fewer than 75 % are in one case of a thousand.
    Reach deviates by what the noise says: its error over its stated deviation has a deviation near one.
    """
    inside, errors = {name: [] for name in NAMES}, []
    for seed in range(16):
        slots = list(world(seed))
        for truth, (_, estimate) in zip(truths(slots), play(slots, BINS, seed=seed), strict=True):
            told = estimate.people._asdict()
            for name, true in zip(NAMES, truth, strict=True):
                half = 1.96 * told[f"{name}_variance"] ** 0.5
                inside[name].append(abs(told[name] - true) <= half + 1e-6)
            errors.append((estimate.people.reach - truth[-1]) / estimate.people.reach_variance**0.5)
    held = {name: np.mean(each) for name, each in inside.items()}
    assert min(held["newcomers"], held["returning"]) >= 0.9
    assert held["reach"] >= 0.75
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) < 1.3


def test_a_number_of_returning_users_is_never_known_better_than_the_grid_of_types():
    """Where noise hides nothing, all members agree; real rates lie between those of the grid."""
    rng = np.random.default_rng(4)
    rates = rng.beta(0.5, 1.2, 60_000)
    slots = [
        (here := np.flatnonzero(rng.random(rates.size) < rates), rng.integers(0, BINS, here.size)) for _ in range(60)
    ]
    for (users, _), (_, estimate) in list(zip(slots, play(slots, BINS, epsilon=20), strict=True))[5:]:
        half = 1.96 * estimate.total_variance**0.5
        assert half >= 1.96 * 0.15 * estimate.people.returning * (1 - 1e-9)
        assert abs(estimate.total - users.size) <= half


def test_numbers_add_up_and_reach_is_the_sum_of_what_newcomers_paid():
    """Newcomers and those who returned are all; reach is what was measured over what was asked, and so its variance."""
    accounts, state = Users(BINS, 9, 1), UsersState.begun(BINS, 9, 0)
    reach = variance = 0.0
    for number, (users, values) in enumerate(world(3)):
        groups = accounts.measure(users, values, estimator.request_payments(state, number))
        state, estimate = estimator.close_slot(state, number, EPSILON, groups)
        pay = EPSILON * groups[0].shares[0]
        reach, variance = reach + groups[0].values.sum() / pay, variance + 2 * BINS / pay**2
        told = estimate.people
        assert (told.reach, told.reach_variance) == pytest.approx((reach, variance))
        assert told.newcomers + told.returning == pytest.approx(estimate.total)
        assert told.newcomers_variance + told.returning_variance >= estimate.total_variance * (1 - 1e-9)
        assert estimate.since == 0
    assert to_bytes(from_bytes(to_bytes(state))) == to_bytes(state)
    assert from_bytes(to_bytes(state)).reach.tolist() == pytest.approx([reach, variance])


def test_a_slot_that_is_not_measured_widens_reach():
    """Nobody was counted, and as many may have come as usual: the number stays, and its deviation grows by them."""
    state, before = list(play(list(world(3))[:12], BINS))[-1]
    after, estimate = estimator.close_slot(state, 12, EPSILON, ())
    assert estimate.people.reach == before.people.reach
    grown = estimate.people.reach_variance - before.people.reach_variance
    assert grown == pytest.approx(estimate.people.newcomers**2 + estimate.people.newcomers_variance)
    assert after.first == 0


def test_newcomers_who_are_misread_by_a_law_have_wider_intervals():
    """By how much the law's number differs from the measured one, on average over slots, is in its variance."""
    state, estimate = list(play(list(world(3))[:12], BINS))[-1]
    apart = state.apart[0] / state.apart[1]
    assert estimate.people.newcomers_variance >= apart**2 > 0
    assert 1 < state.apart[1] < 12
