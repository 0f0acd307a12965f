"""Retention, stickiness and further activity: priors by simulation, intervals that hold, and what is not offered."""

import os

import numpy as np
import pytest

from clocked_users import play
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.base import AFTER, ENGAGEMENT, HORIZON, WINDOWS
from dpi.mechanism.class_estimator import PRIOR_DEVIATIONS
from dpi.mechanism.class_estimator._ensemble import HYPOTHESES, NOBODY, PRIOR
from dpi.mechanism.class_estimator._types import ACTIVE, FIRST, NEXT, STATES, TYPES

BINS, SLOTS, EPSILON = 8, 45, 2.0


def simulate(rng, kind, users, slots):
    """Whether each of some users of a type is active in each slot after one in which they are, from their state."""
    state = np.full(users, FIRST[kind])
    found, here = [], np.ones(users, dtype=bool)
    ends = np.cumsum(NEXT, axis=1)
    for _ in range(slots):
        drawn = rng.random(users)
        state = np.array([np.searchsorted(ends[each], at) for each, at in zip(state, drawn, strict=True)])
        here &= state < STATES
        state = np.where(here, state, 0)
        found.append(here & (rng.random(users) < ACTIVE[state]))
    return np.array(found)


@pytest.fixture(scope="module")
def lives():
    """Active slots of 400 users of each type."""
    rng = np.random.default_rng(3)
    return [simulate(rng, kind, 400, HORIZON) for kind in range(TYPES)]


def test_prior_deviations_are_those_of_random_weights(lives):
    """The closed forms and the constants, within 8 %: users are few, and those of a weekday begin on it here."""
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(PRIOR, 20_000)
    returns = rng.random(20_000) >= np.exp(HYPOTHESES[NOBODY])
    found = {"further_activity": weights @ [each.sum(0).mean() / HORIZON for each in lives]}
    for n in AFTER:
        found[f"retention_{n}"] = weights @ [each[n - 1].mean() for each in lives] * returns
    for window in WINDOWS:
        quiet = [1 + sum((~each[:k].any(0)).mean() for k in range(1, window)) for each in lives]
        found[f"stickiness_{window}"] = 1 / (weights @ quiet)
    for name, values in found.items():
        assert values.std() == pytest.approx(PRIOR_DEVIATIONS[name], rel=0.08), name
    assert set(PRIOR_DEVIATIONS) == set(ENGAGEMENT)


def world(seed):
    """Users of whom some come once, some by chance at a rate, and some leave soon."""
    rng = np.random.default_rng([7, seed])
    size, rate = int(rng.uniform(500, 4000)), rng.uniform(0.1, 1.0)
    leave, come, once = rng.choice([0, 0.02, 0.1]), rng.choice([0.02, 0.1, 0.3]), rng.choice([0, 0.2])
    users, newest = np.arange(size), size
    for _ in range(SLOTS + HORIZON):
        active = users[rng.random(users.size) < rate]
        passing = newest + np.arange(int(once * size))
        newest += passing.size
        here = np.r_[active, passing]
        yield here, here % BINS
        more = rng.poisson(come * size * leave / 0.1) if leave else 0
        users = np.r_[users[rng.random(users.size) >= leave], newest + np.arange(more)]
        newest += more


def told(estimate):
    """What is offered: numbers and variances by name."""
    rows = zip(ENGAGEMENT, estimate.engagement.tolist(), strict=True)
    return {name: row for name, row in rows if not np.isnan(row[0])}


def test_intervals_hold_and_are_narrower_than_the_prior():
    """Of 12 worlds (5 in the short form) and 45 slots each, at least 90 % of every number; and most are offered."""
    inside, offered = {name: [] for name in ENGAGEMENT}, []
    for seed in range(12 if os.environ.get("DPI_SLOW") else 5):
        slots = list(world(seed))
        active = [set(users.tolist()) for users, _ in slots]
        seen = set()
        for slot, (_, estimate) in enumerate(play(slots[:SLOTS], BINS, seed=seed)):
            new, here = active[slot] - seen, active[slot]
            seen |= here
            truth = {"further_activity": sum(len(here & later) for later in active[slot + 1 : slot + 31]) / len(here)}
            for n in AFTER:
                truth[f"first_retention_{n}"] = len(active[0] & active[n]) / len(active[0])
                if len(new) >= 10:
                    truth[f"retention_{n}"] = len(new & active[slot + n]) / len(new)
            for n in WINDOWS:
                truth[f"stickiness_{n}"] = len(here) / len(set().union(*active[max(slot - n + 1, 0) : slot + 1]))
            found = told(estimate)
            offered.append(len(found))
            for name in set(truth) & set(found):
                value, deviation = found[name][0], found[name][1] ** 0.5
                assert deviation < PRIOR_DEVIATIONS[name] * (HORIZON if name == "further_activity" else 1)
                inside[name].append(abs(value - truth[name]) <= 1.96 * deviation)
    assert min(np.mean(each) for each in inside.values()) >= 0.9
    assert np.mean(offered[10:]) > 0.5 * len(ENGAGEMENT)


def test_first_slots_say_nothing_and_a_gap_begins_windows_anew():
    """A window needs all of its slots; the first slot says nothing of who returns."""
    states, estimates = zip(*play(list(world(1))[:40], BINS), strict=True)
    assert not told(estimates[0])
    assert all("stickiness_7" not in told(estimate) for estimate in estimates[:6])
    assert "stickiness_7" in told(estimates[-1])
    assert states[-1].activity.known == max(WINDOWS) - 1
    after, estimate = estimator.close_slot(states[-1], 45, EPSILON, ())
    assert not any(name.startswith("stickiness") for name in told(estimate))
    assert after.activity.known == 1
