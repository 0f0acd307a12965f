import numpy as np
import pytest

from clocked_users import Users, divergence, play
from dpi.budget.classes import level
from dpi.mechanism import cells
from dpi.mechanism.cells import _season as season
from dpi.mechanism.cells import _state as phases
from dpi.mechanism.cells._sizes import Measured, Sized
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

PERIOD, BINS = 6, 8
LAWS = np.random.default_rng(8).dirichlet(np.full(BINS, 1.5), PERIOD)
EVEN = Gaussians(np.full(BINS, 1 / BINS), np.full(BINS, 1e-6))


def visits(slots, laws, churn=0.05, users=800, seed=2):
    """Users who are replaced at times, each with a draw from the phase's law; in odd phases a third of them come."""
    rng = np.random.default_rng(seed)
    names, newest = np.arange(users), users
    for slot in range(slots):
        names, newest = np.where(rng.random(users) < churn, newest + np.arange(users), names), newest + users
        here = names[rng.random(users) < (0.3 if slot % 2 else 0.9)]
        yield here, rng.choice(BINS, here.size, p=laws[slot % len(laws)])


def errors(laws, period, slots=72):
    """Divergences after the first quarter of the slots."""
    drawn = list(visits(slots, laws))
    estimates = [estimate for _, estimate in play(drawn, BINS, classes=6, season=period)]
    truths = [np.bincount(values, minlength=BINS) for _, values in drawn]
    return [divergence(t, e.pdf) for t, e in zip(truths, estimates, strict=True)][slots // 4 :]


def part(counts, expected, noise=0.1):
    """A part that was measured with little noise."""
    total = float(counts.sum())
    return Measured(expected, 1.0, EVEN, NoisyCounts(counts, noise), Sized(total, 1.0, total, 1.0), EVEN, 1.0)


def taught(rounds=6):
    """A season that saw every phase a few times: many users, of whom twice as many come in odd phases."""
    known = season.Season.begun(PERIOD, BINS, 4)
    for slot in range(rounds * PERIOD):
        phase = slot % PERIOD
        users = 20_000.0 if phase % 2 else 10_000.0
        expected = 15_000.0 * season.phase_activity(known, phase)
        known = season.learn_phase(known, phase, part(1e4 * LAWS[phase], 1e4), [part(users * LAWS[phase], expected)])
    return known


def test_a_declared_season_is_used():
    """Where phases have laws of their own, releases are at least twice as near; classes are measured as ever."""
    assert np.mean(errors(LAWS, PERIOD)) < 0.5 * np.mean(errors(LAWS, 0))


def test_a_season_that_is_not_there_costs_little():
    """Where all phases are alike, a declared season makes releases worse by less than a quarter."""
    assert np.mean(errors(LAWS[:1], PERIOD)) < 1.25 * np.mean(errors(LAWS[:1], 0))


def test_profiles_are_ratios_of_laws():
    """Profiles of well-measured phases differ as their laws do, so that a law is taken from phase to phase."""
    found = season.phase_profiles(taught(), np.arange(PERIOD))
    ratio = found.mean[1] / found.mean[4]
    np.testing.assert_allclose(ratio, LAWS[1] / LAWS[4], rtol=0.1)
    assert (found.variance < 0.03).all()


def test_activity_is_a_ratio_too():
    """Twice as many in odd phases."""
    known = taught()
    assert season.phase_activity(known, 1) / season.phase_activity(known, 2) == pytest.approx(2, rel=0.1)


def test_of_what_was_not_seen_nothing_is_known():
    """Before anything was measured profiles and activities are one; and noise leaves them there."""
    known = season.Season.begun(PERIOD, BINS, 4)
    assert (season.phase_profiles(known, np.arange(PERIOD)).mean == 1).all()
    rng = np.random.default_rng(1)
    for slot in range(10 * PERIOD):
        nobody = part(rng.laplace(0, 50.0, BINS), 5.0, noise=50.0)
        known = season.learn_phase(known, slot % PERIOD, nobody, [])
    np.testing.assert_allclose(season.phase_profiles(known, np.arange(PERIOD)).mean, 1, atol=0.2)
    assert season.phase_activity(known, 0) == pytest.approx(1)


def test_cells_are_kept_as_they_were_learned():
    """A slot changes the cells of classes that were due, or were joined by those; all others stay, bit for bit."""
    accounts, state = Users(BINS, 6, seed=4), cells.initial(BINS, 6, PERIOD)
    for number, (users, values) in enumerate(visits(40, LAWS)):
        due = level(number, 5) + 1
        before = state
        state, _ = cells.measured(state, number, accounts.measure(users, values, cells.shares(state, due)))
        untouched = np.ones((2, 6), dtype=bool)
        untouched[:, 1:due] = untouched[0, 1 : due + 1] = False
        assert (state.cells.mean[untouched] == before.cells.mean[untouched]).all()
        assert (state.season.cells[untouched] == before.season.cells[untouched]).all()
        assert (state.season.cells[0, 1 : due + 1] == number % PERIOD).all()


def test_there_and_back():
    """Laws that were taken to another phase and told nothing there are what they were; cells are PDFs in any phase."""
    *_, (state, _) = play(visits(40, LAWS), BINS, classes=6, season=PERIOD)
    there, steps = phases.enter_phase(state, state.slot + 1)
    np.testing.assert_allclose(there.cells.mean.sum(-1), 1)
    assert not np.allclose(there.everybody.messages.mean, state.everybody.messages.mean)
    back = phases.leave_phase(state, there, 0, (False,) * 4, steps)
    for law, was in zip(phases.all_laws(back), phases.all_laws(state), strict=True):
        np.testing.assert_allclose(law.messages.mean, was.messages.mean)
        np.testing.assert_allclose(law.messages.variance, was.messages.variance)


def test_an_unmeasured_slot_is_forecast_by_its_phase():
    """Without a measurement the release is that of the phase, and cells stay as they are."""
    *_, (state, _) = play(visits(60, LAWS), BINS, classes=6, season=PERIOD)
    for ahead in range(1, 4):
        after, estimate = cells.unmeasured(state, 59 + ahead)
        right, wrong = (divergence(LAWS[(59 + ahead + off) % PERIOD], estimate.pdf) for off in (0, 3))
        assert right < 0.5 * wrong
        assert after.cells.mean.tobytes() == state.cells.mean.tobytes()


def test_bytes_come_back_bit_for_bit():
    """The season is part of the state."""
    *_, (state, _) = play(visits(20, LAWS), BINS, classes=6, season=PERIOD)
    data = cells.to_bytes(state)
    assert cells.to_bytes(cells.from_bytes(data)) == data
    assert cells.from_bytes(data).season.period == PERIOD
