"""A declared season: what phases have of their own, for all users alike."""

from dataclasses import replace

import numpy as np
import pytest

from clocked_users import divergence, play
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import _season as season
from dpi.mechanism.class_estimator._season import Season

PERIOD, BINS, COMMON = 6, 8, 0.04**2
LAWS = np.random.default_rng(8).dirichlet(np.full(BINS, 1.5), PERIOD)


def visits(slots, laws, churn=0.05, users=800, seed=2):
    """Users who are replaced at times, each with a draw from the phase's law; in odd phases a third of them come."""
    rng = np.random.default_rng(seed)
    names, newest = np.arange(users), users
    for slot in range(slots):
        names, newest = np.where(rng.random(users) < churn, newest + np.arange(users), names), newest + users
        here = names[rng.random(users) < (0.3 if slot % 2 else 0.9)]
        yield here, rng.choice(BINS, here.size, p=laws[slot % len(laws)])


def errors(laws, period, slots=72):
    """The mean divergence, after the first third of the slots."""
    drawn = list(visits(slots, laws))
    estimates = [estimate for _, estimate in play(drawn, BINS, classes=6, season=period)]
    apart = [divergence(np.bincount(v, minlength=BINS), e.pdf) for (_, v), e in zip(drawn, estimates, strict=True)]
    return np.mean(apart[slots // 3 :])


def taught(rounds=6):
    """A season that saw every phase a few times: many users, of whom twice as many come in odd phases."""
    known = Season.begun(PERIOD, BINS)
    for slot in range(rounds * PERIOD):
        phase = slot % PERIOD
        often = 4 / 3 if phase % 2 else 2 / 3
        known = season.learn_phase(known, phase, 1e4 * LAWS[phase], 1e4, 1.0, np.array([often, 1.0]))
    return known


def test_a_declared_season_is_used():
    """Where phases have laws of their own, releases are at least twice as near."""
    assert errors(LAWS, PERIOD) < 0.5 * errors(LAWS, 0)


def test_a_season_that_is_not_there_costs_little():
    """Where all phases are alike, a declared season makes releases worse by less than a quarter."""
    assert errors(LAWS[:1], PERIOD) < 1.25 * errors(LAWS[:1], 0)


def test_profiles_are_ratios_of_laws():
    """Profiles of well-measured phases differ as their laws do, so that a law is taken from phase to phase."""
    one, other = (season.phase_profile(taught(), phase) for phase in (1, 4))
    np.testing.assert_allclose(one.mean / other.mean, LAWS[1] / LAWS[4], rtol=0.1)
    assert (one.variance < 0.03).all()


def test_a_profile_keeps_the_whole():
    """Under the PDF of all phases it sums to one."""
    known = taught()
    for phase in range(PERIOD):
        assert season.phase_profile(known, phase).mean @ known.base == pytest.approx(known.base.sum())


def test_activity_is_a_ratio_too():
    """Twice as many in odd phases."""
    known = taught()
    assert season.activities(known, COMMON)[1] / season.activities(known, COMMON)[2] == pytest.approx(2, rel=0.1)


def test_activity_is_shrunk_by_what_phases_say():
    """Phases that are alike but for chance are taken for alike; one that differs stays apart, seen once or often."""
    rng, known = np.random.default_rng(4), Season.begun(7, BINS)
    for slot in range(70):
        told = 1 + COMMON**0.5 * rng.normal()
        known = season.learn_phase(known, slot % 7, np.ones(BINS), 8.0, 1.0, np.array([told, 1.0]))
        if slot == 20:
            alike = season.activities(known, COMMON)
    own = known.activity[0] / known.activity[1]
    assert np.ptp(season.activities(known, COMMON)) < 0.5 * np.ptp(own)
    np.testing.assert_allclose(alike, 1, atol=2 * COMMON**0.5)
    for _ in range(3):
        known = season.learn_phase(known, 6, np.ones(BINS), 8.0, 1.0, np.array([0.5, 1.0]))
    weekend = season.activities(known, COMMON)
    assert weekend[6] < 0.95 * weekend[:6].min()


def test_ten_slots_of_a_phase_count_at_most():
    """Whatever sums an earlier version left: they are scaled once, and then a phase that changed is learned anew."""
    known = Season.begun(2, BINS)
    known = replace(known, activity=np.array([[500.0, 300.0], [400.0, 400.0]]))
    for slot in range(60):
        told = 0.8 if slot % 2 else 1.2
        known = season.learn_phase(known, slot % 2, np.ones(BINS), 8.0, 1.0, np.array([told, 1.0]))
        assert (known.activity[1] < 10 + 1e-9).all()
    assert season.activities(known, COMMON) == pytest.approx([1.2, 0.8], abs=0.01)


def test_of_what_was_not_seen_nothing_is_known():
    """Before anything was measured profiles and activities are one; and noise leaves them there."""
    known = Season.begun(PERIOD, BINS)
    assert season.phase_profile(known, 2).mean == pytest.approx(np.ones(BINS))
    assert season.activities(known, COMMON)[2] == 1
    rng = np.random.default_rng(1)
    for slot in range(10 * PERIOD):
        known = season.learn_phase(known, slot % PERIOD, rng.laplace(0, 50.0, BINS), 5.0, 5000.0, np.zeros(2))
    for phase in range(PERIOD):
        np.testing.assert_allclose(season.phase_profile(known, phase).mean, 1, atol=0.2)
        assert season.activities(known, COMMON)[phase] == pytest.approx(1)


def test_neighbouring_phases_are_used_where_they_are_alike():
    """Phases that turn slowly and are hardly measured are known better together than each by itself."""
    period, turn = 24, np.linspace(0, 2 * np.pi, 24, endpoint=False)
    laws = np.exp(0.8 * np.cos(turn[:, None] - np.linspace(0, 2 * np.pi, BINS, endpoint=False)))
    laws /= laws.sum(1, keepdims=True)
    rng, known = np.random.default_rng(5), Season.begun(period, BINS)
    for slot in range(6 * period):
        counts = 60 * laws[slot % period] + rng.laplace(0, 8, BINS)
        known = season.learn_phase(known, slot % period, counts, 60.0, 128.0, np.zeros(2))
    weights = np.exp(known.log_weights)
    assert weights[0] < weights[1:3].sum()
    profiles = np.array([season.phase_profile(known, phase).mean for phase in range(period)])
    alone = known.counts / np.maximum(known.users[:, None] * known.base, 1e-9)
    truth = laws / known.base
    assert ((profiles - truth) ** 2).mean() < 0.5 * ((alone - truth) ** 2).mean()


def test_a_phase_that_was_not_seen_is_no_less_known_than_before():
    """Its variance is at most that of a profile of which nothing is known, whatever was seen of other phases."""
    known = Season.begun(PERIOD, BINS)
    for phase in (0, 3):
        assert (season.phase_profile(known, phase).variance <= season.SPREAD + 1e-9).all()
        known = season.learn_phase(known, 0, 1e4 * LAWS[0], 1e4, 1.0, np.zeros(2))


def test_unmeasured_slots_are_forecast_by_their_phases():
    """Over four periods without a measurement releases stay those of their phases: laws are taken there and back."""
    *_, (state, _) = play(visits(60, LAWS), BINS, classes=6, season=PERIOD)
    for slot in range(60, 60 + 4 * PERIOD):
        state, estimate = estimator.close_slot(state, slot, state.epsilon, ())
        right, wrong = (divergence(LAWS[(slot + off) % PERIOD], estimate.pdf) for off in (0, 3))
        assert right < 0.5 * wrong
