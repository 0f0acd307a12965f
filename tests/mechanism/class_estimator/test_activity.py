"""Numbers of users by class, from what users of some classes pay together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from clocked_users import play
from dpi.mechanism.class_estimator import _ensemble as ensemble
from dpi.mechanism.class_estimator._activity import ActivityState
from dpi.mechanism.class_estimator._types import HAZARD, STOCK, TYPES, by_type

BINS = 4


def regression(seed, rows, size):
    """A matrix and a target of a least-squares problem, and its weights by scipy."""
    rng = np.random.default_rng(seed)
    design, seen = rng.normal(size=(rows, size)) + 0.5, rng.normal(size=rows)
    return design.T @ design, design.T @ seen, nnls(design, seen)[0]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_solve_positive_is_least_squares_without_negative_weights(seed, size, warm):
    """The same as scipy's, from any start: nothing negative, nothing that could be less."""
    matrix, target, best = regression(seed, 2 * size + 5, size)
    found = ensemble.solve_positive(matrix, target, np.ones(size) if warm else np.zeros(size))
    assert found == pytest.approx(best, abs=1e-6)


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_solve_positive_holds_for_many_more_weights_than_sums(seed):
    """With a pull to a prior, as it is used: slopes are zero where a weight is positive, and positive elsewhere."""
    rng = np.random.default_rng(seed)
    size = 3 * TYPES
    design = rng.exponential(size=(30, size)) * 10.0 ** rng.uniform(-2, 2, size)
    matrix = design.T @ design + np.eye(size)
    target = design.T @ rng.exponential(size=30) * 3 + rng.dirichlet(np.full(size, 0.1))
    found = ensemble.solve_positive(matrix, target, np.ones(size))
    slope = matrix @ found - target
    close = 1e-6 * (1 + np.abs(target))
    assert (found >= 0).all()
    assert (slope >= -close).all()
    assert (np.abs(slope[found > 0]) <= close[found > 0]).all()


def active(rng, users, rate):
    """Those of some users who are active in a slot, each by chance."""
    return users[rng.random(users.size) < rate]


def visits(slots, count, rate, passing=0, seed=0):
    """So many users who stay, active at a rate, and passers-by who come once."""
    rng = np.random.default_rng(seed)
    for slot in range(slots):
        users = np.r_[active(rng, np.arange(count), rate), count + slot * passing + np.arange(passing)]
        yield users, rng.integers(0, BINS, users.size)


@pytest.mark.parametrize("rate", [0.3, 0.65, 1.0])
def test_users_of_one_type_are_counted(rate):
    """3,000 who stay for ever: in the second half of sixty slots the number is off by less than a tenth on average."""
    slots = list(visits(60, 3000, rate))
    totals = np.array([estimate.total for _, estimate in play(slots, BINS)])
    truth = np.array([users.size for users, _ in slots])
    assert np.abs(totals / truth - 1)[30:].mean() < 0.1


def test_where_nobody_returns_nobody_is_expected():
    """1,000 passers-by in every slot: no more than one in twenty of those who are counted is said to have returned."""
    for number, (_, estimate) in enumerate(play(list(visits(40, 0, 0.0, passing=1000)), BINS)):
        if number >= 8:
            assert estimate.total == pytest.approx(1000, rel=0.05)
            assert estimate.carried < 0.05


def test_regulars_among_passers_by_are_not_lost():
    """500 who are always there, among 1,000 passers-by of each slot: they are still counted after sixty slots."""
    totals = [estimate.total for _, estimate in play(list(visits(60, 500, 1.0, passing=1000)), BINS)]
    assert np.mean(totals[30:]) == pytest.approx(1500, rel=0.1)


def test_totals_lie_in_their_intervals():
    """For each of these populations, at least nine of ten numbers within two deviations."""
    for count, rate, passing in ((2000, 0.5, 0), (0, 0.0, 1000), (1000, 0.9, 300)):
        slots = list(visits(60, count, rate, passing, seed=5))
        inside = [
            abs(estimate.total - users.size) <= 2 * estimate.total_variance**0.5 + 0.5
            for (_, estimate), (users, _) in zip(play(slots, BINS), slots, strict=True)
        ]
        assert np.mean(inside) >= 0.9


def test_nobody_is_lost_between_classes():
    """Whoever pays goes on: of one type, users of all classes together leave by its hazard alone."""
    expected, before = np.zeros(TYPES), ActivityState.begun(9)
    for state, _ in play(list(visits(30, 800, 0.8, passing=50)), BINS):
        everybody = by_type(state.activity.users.sum((0, 1)))
        if before.slots:
            entered = np.full(TYPES, state.activity.arrivals)
        else:  # those who are there, met or not; and who comes once
            entered = state.activity.first[0] * np.r_[1.0, by_type(STOCK)[1:]]
        expected = expected * (1 - HAZARD) + entered
        assert everybody == pytest.approx(expected, rel=1e-9)
        assert (state.activity.left <= state.activity.users + 1e-9).all()
        assert state.activity.slots == before.slots + 1
        before = state.activity
    assert before.arrivals > 0


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_newcomers_who_become_fewer_tell_who_was_not_met(rate):
    """800 users who stay, of whom a part comes: nobody arrives, and how many come is said within a tenth."""
    drawn = list(visits(40, 800, rate))
    *_, (state, estimate) = play(drawn, BINS)
    assert state.activity.arrivals < 0.05 * 800 * rate
    assert abs(estimate.total - 800 * rate) < 0.1 * 800 * rate


def test_weights_are_shares_of_types():
    """Of every member and cohort: nothing negative, a sum of one; and so are the types of each class."""
    *_, (state, _) = play(list(visits(40, 800, 0.8, passing=100)), BINS)
    weights = state.activity.ensemble.weights[:, 1:].reshape(ensemble.MEMBERS, -1, TYPES)
    assert (weights >= 0).all()
    assert weights.sum(2) == pytest.approx(np.ones(weights.shape[:2]), abs=1e-2)
    assert state.activity.types.sum(1) == pytest.approx(np.ones(9))


def test_hypotheses_are_told_apart():
    """Where nobody returns that hypothesis leads; where all do it has lost."""
    *_, (passing, _) = play(list(visits(30, 0, 0.0, passing=1000)), BINS)
    *_, (staying, _) = play(list(visits(30, 1000, 0.9)), BINS)
    assert passing.activity.ensemble.log_hypotheses.argmax() == ensemble.NOBODY
    assert staying.activity.ensemble.log_hypotheses.argmin() == ensemble.NOBODY


def test_whoever_returns_to_an_empty_class_does_not_come_once():
    """Where nobody was seen to return, what a returning user pays goes by types that return."""
    *_, (passing, _) = play(list(visits(30, 0, 0.0, passing=1000)), BINS)
    assert passing.activity.types[0, 0] > 0.8
    assert (passing.activity.types[1:, 0] < 1e-6).all()


def test_members_that_nobody_returns_differ_as_the_others_do():
    """Of the first slot's users each has its own belief, so that being sure of newcomers is not being sure of all."""
    *_, (state, _) = play(list(visits(40, 800, 0.8, passing=800)), BINS)
    everyone = state.activity.ensemble.everyone.reshape(2, ensemble.MEMBERS, -1, TYPES)
    assert np.array_equal(everyone[0, :, 0], everyone[1, :, 0])
    assert (everyone[1, :, 1:, 0] == 1).all()
    assert everyone[1, :, 0].std(0).max() > 0
    assert state.activity.ensemble.shares.sum() == pytest.approx(1)


def test_evidence_is_forgotten_by_as_much_as_is_heard_anew():
    """A total that drowns in noise leaves what was known as it was; a clear one takes three thousandths of it away."""
    *_, (state, _) = play(list(visits(20, 800, 0.8)), BINS)
    known = state.activity.ensemble
    row = np.zeros(known.weights.shape[1] - 1)  # all but arrivals
    row[1] = 1.0
    said = known.everyone @ row + 1.0
    for variance, left in ((1e12, 1.0), (1e-6, ensemble.MEMORY)):
        regression = ensemble.Regression(known, np.random.default_rng(1))
        regression.tell(row, 1.0, variance, said, (variance, 0.0, 0.0))
        found = regression.sealed().information
        assert found[3:, 3:] == pytest.approx(left * known.information[3:, 3:], rel=1e-9)


def weeks(days, people, seed):
    """People who come with a rate of their own, and of whom a quarter less comes at weekends; some are replaced."""
    rng = np.random.default_rng(seed)
    rate, names, newest = rng.beta(0.5, 1.2, people), np.arange(people), people
    for day in range(days):
        gone = np.flatnonzero(rng.random(people) < 0.004)
        names[gone], newest = np.arange(newest, newest + gone.size), newest + gone.size
        rate[gone] = rng.beta(0.5, 1.2, gone.size)
        users = names[rng.random(people) < rate * (0.75 if day % 7 >= 5 else 1.0)]
        yield users, rng.integers(0, BINS, users.size)


def test_large_numbers_are_never_sure_and_wrong():
    """Where noise hides nothing, what one user pays on average is not known: a total of payments is not taken for sure.

    No weekday is worse than others: its activity is learned.
    """
    inside, apart = [], []
    for seed in range(2):
        drawn = list(weeks(105, 60_000, seed))
        played = play(drawn, BINS, classes=21, epsilon=1.0, season=7)
        for (users, _), (_, estimate) in zip(drawn, played, strict=True):
            off, deviation = estimate.total - users.size, estimate.total_variance**0.5
            inside.append(abs(off) < 1.96 * deviation + 0.5)
            apart.append(off / users.size)
    by_weekday = np.reshape(inside, (2, -1, 7)).mean((0, 1))
    assert np.mean(inside) > 0.93
    assert by_weekday.min() > 0.85
    assert np.abs(np.median(np.reshape(apart, (2, -1, 7))[:, 5:], axis=(0, 1))).max() < 0.2
