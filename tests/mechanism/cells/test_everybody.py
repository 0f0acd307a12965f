from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocked_users import play
from dpi.mechanism.cells import _classes as everybody
from dpi.mechanism.cells import _law as law
from dpi.mechanism.cells._classes import Common
from dpi.mechanism.cells._law import Law


def common(moments):
    """Known laws with a regression."""
    law = replace(Law.unknown(3), known=True)
    return Common(law, law, np.array(moments, dtype=float))


def regression(seed, size):
    """A regression of random changes."""
    rng = np.random.default_rng(seed)
    away = rng.normal(0, size, (3, 40))
    missed = rng.normal(0, 1, 3) @ away + rng.normal(0, 1, 40)
    return common(np.column_stack([away @ missed, away @ away.T]))


@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]))
def test_weights_are_the_best_that_are_shares(seed, size):
    """None is negative, together they are at most one, and up to that no subset of the laws does better."""
    one = regression(seed, size)
    weights = everybody.common_weights(one)
    assert (weights >= 0).all()
    assert weights.sum() <= 1 + 1e-12
    precision = one.moments[:, 1:] + np.diag(everybody.PRECISIONS)
    along = one.moments[:, 0] + np.multiply(everybody.PRECISIONS, everybody.WEIGHTS)
    best = 0.0
    for count in (1, 2, 3):
        for some in map(list, combinations(range(3), count)):
            alone = np.linalg.solve(precision[np.ix_(some, some)], along[some])
            if (alone >= 0).all():
                best = max(best, float(along[some] @ alone) / 2)
    if weights.sum() < 1 - 1e-9:
        assert float(along @ weights - weights @ precision @ weights / 2) == pytest.approx(best, rel=1e-3, abs=1e-6)


def test_a_law_that_explains_all_that_was_missed_has_all_the_weight():
    """What the cells missed is what the first law would have changed."""
    weights = everybody.common_weights(common([[1e4, 1e4, 0, 0], [0, 0, 1e4, 0], [0, 0, 0, 1e4]]))
    assert weights == pytest.approx([1, 0, 0], abs=0.01)


def test_an_unknown_law_has_no_weight():
    """Before its first poll."""
    unknown = Law.unknown(3)
    assert (everybody.common_weights(Common(unknown, unknown, np.zeros((3, 4)))) == 0).all()


def test_bursts_of_others_leave_the_veterans_alone():
    """One-time users of another law, in every fourth slot, do not enter the law of veterans."""
    rng = np.random.default_rng(8)
    base, newest, slots = rng.integers(0, 3, 1000), 1000, []
    for slot in range(40):
        users, values = np.arange(1000), base
        if slot % 4 == 3:
            users = np.r_[users, newest + np.arange(2000)]
            values, newest = np.r_[values, rng.integers(3, 6, 2000)], newest + 2000
        slots.append((users, values))
    *_, (_, last) = play(slots[:39], 6)
    assert last.pdf[:3].sum() > 0.9


def test_veterans_begin_as_everybody_was():
    """What was measured of all while they were new is worth more than the first poll of those who came back."""
    rng = np.random.default_rng(3)
    base = rng.choice(16, 1000, p=np.arange(1, 17) / 136)
    truth = np.bincount(base, minlength=16) / 1000
    users = [np.arange(1000), *(rng.choice(1000, 250, replace=False) for _ in range(7))]
    states = [state for state, _ in play([(some, base[some]) for some in users], 16)]
    before, after = next((a, b) for a, b in pairwise(states) if b.veterans.known and not a.veterans.known)
    assert before.everybody.known
    found = law.leading_messages(after.veterans)
    assert np.abs(found.mean - truth).sum() < 0.08
    assert (found.variance <= law.leading_messages(before.everybody).variance + 1e-3 * truth).all()
