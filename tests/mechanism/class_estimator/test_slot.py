"""One slot of users by class: a PDF whatever was measured, near the truth where it can be, and no worse than stored."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from clocked_streams import STORED, STREAMS, measured
from clocked_users import Users, divergence, play
from dpi.budget.classes import level
from dpi.demo import PAGES, hourly
from dpi.errors import StateError
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import GroupSums, UsersState
from dpi.release.interval import interval

ZIPF = (np.arange(30) + 1.0) ** -1.1
ZIPF /= ZIPF.sum()


def crowd(count, slots, churn=0.0, seed=0, law=ZIPF):
    """Users with a bin for life, some of whom are replaced in every slot."""
    rng = np.random.default_rng(seed)
    users, newest = np.arange(count), count
    values = rng.choice(law.size, count, p=law)
    for _ in range(slots):
        new = rng.random(count) < churn
        users, newest = np.where(new, newest + np.arange(count), users), newest + count
        values = np.where(new, rng.choice(law.size, count, p=law), values)
        yield users, values


def check(estimate):
    """A PDF without zeros, variances of at most p(1 - p), a number of users, and shares that are shares."""
    assert estimate.pdf.sum() == pytest.approx(1)
    assert (estimate.pdf > 0).all()
    assert ((estimate.variance >= 0) & (estimate.variance <= estimate.pdf * (1 - estimate.pdf) + 1e-12)).all()
    assert 0 <= estimate.total < np.inf
    assert 0 <= estimate.total_variance < np.inf
    assert 0 <= estimate.carried <= 1
    assert 0 <= estimate.age < np.inf


@pytest.mark.parametrize("bins", [1, 2, 30])
@pytest.mark.parametrize("season", [0, 3])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_every_population_gives_an_estimate(bins, season, count):
    """Nobody at all, one user, some; one bin, two, many."""
    for _, estimate in play(list(crowd(count, 20, churn=0.1, law=np.full(bins, 1 / bins))), bins, season=season):
        check(estimate)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 50.0, 1e4])
@pytest.mark.parametrize("count", [1, 300])
def test_every_budget_gives_an_estimate(epsilon, count):
    """A tiny ε and a huge one."""
    for _, estimate in play(list(crowd(count, 20, churn=0.1)), 30, epsilon=epsilon):
        check(estimate)


sums_of_slots = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 100.0, 1e9]), st.integers(1, 40)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.sampled_from([0, 3]), st.sampled_from([0.01, 1.0, 100.0]), sums_of_slots)
def test_every_measurement_gives_an_estimate(bins, season, epsilon, slots):
    """Sums that nobody could have paid, below zero or huge; slots that were skipped or not measured in between."""
    state, slot = UsersState.begun(bins, 4, season), 0
    for seed, size, apart in slots:
        rng = np.random.default_rng(seed)
        groups = [
            GroupSums(
                rng.laplace(0, 1, bins) + size * rng.choice([-1, 0, 1], bins),
                np.array([m for m, _ in group]),
                np.array([float(share) for _, share in group]),
                1.0,
            )
            for group in estimator.request_payments(state, slot)
        ]
        state, estimate = estimator.close_slot(state, slot, epsilon, groups)
        check(estimate)
        if seed % 2:
            state, estimate = estimator.close_slot(state, slot + 1, epsilon, ())
            check(estimate)
        slot += apart + 1


def test_huge_crowds_are_counted():
    """Ten million users, of whom all are new: the PDF is theirs within half a per cent, and so is their number."""
    state = UsersState.begun(30, 5, 0)
    for slot in range(10):
        asked = estimator.request_payments(state, slot)
        rng = np.random.default_rng(slot)
        groups = [
            GroupSums(
                (1e7 * ZIPF * 2.0 * float(group[0][1]) if group[0][0] == 0 else 0.0) + rng.laplace(0, 1, 30),
                np.array([m for m, _ in group]),
                np.array([float(share) for _, share in group]),
                1.0,
            )
            for group in asked
        ]
        state, estimate = estimator.close_slot(state, slot, 2.0, groups)
        check(estimate)
        assert np.abs(estimate.pdf - ZIPF).sum() < 5e-3
    assert estimate.total == pytest.approx(1e7, rel=5e-3)


def test_before_anything_was_measured_nothing_is_known():
    """A first slot without a measurement is uniform, of nobody knows how many, and leaves the state as it was."""
    state, unknown = estimator.close_slot(UsersState.begun(30, 5, 0), 4, 2.0, ())
    assert np.isnan(unknown.total)
    assert (unknown.pdf == 1 / 30).all()
    assert unknown.carried == 1
    assert not state.known


def test_unmeasured_slots_hold_the_picture():
    """What was released is repeated, older by each slot; intervals grow, over some slots those of nearly every bin."""
    *_, (state, last) = play(list(crowd(2000, 12)), 30, classes=5)
    widths, age = [last.variance], 0.0
    for slot in range(12, 44):
        state, held = estimator.close_slot(state, slot, state.epsilon, ())
        check(held)
        assert divergence(last.pdf, held.pdf) < 0.01
        assert held.carried == 1
        assert held.age > age
        age = held.age
        widths.append(held.variance)
    assert all((later > before).mean() > 0.9 for before, later in zip(widths[::16], widths[16::16], strict=False))


def test_skipped_slots_age_like_unmeasured_ones():
    """A slot that comes after a gap has wider intervals than the same one without."""
    *_, (state, _) = play(list(crowd(2000, 12)), 30, classes=5)
    near, far = (estimator.close_slot(state, slot, state.epsilon, ())[1] for slot in (12, 60))
    assert (far.variance > near.variance).all()
    assert far.age > near.age


def test_measurements_of_another_shape_are_refused():
    """Of more classes than there are, or of another number of bins."""
    state, share = UsersState.begun(30, 2, 0), np.array([0.5])
    for sums in (
        GroupSums(np.zeros(30), np.array([2]), share, 1.0),
        GroupSums(np.zeros(29), np.array([0]), share, 1.0),
    ):
        with pytest.raises(StateError, match="another number of classes or bins"):
            estimator.close_slot(state, 0, 2.0, [sums])


def test_a_part_of_the_price_is_told():
    """A histogram that got half of what users paid, as beside a tree of sums, is read as such: users are not halved."""
    accounts, state = Users(30, 5, seed=2), UsersState.begun(30, 5, 0)
    for number, (users, values) in enumerate(crowd(3000, 12)):
        groups = [
            GroupSums(one.values / 2, one.classes, one.shares, 0.5)
            for one in accounts.measure(users, values, estimator.request_payments(state, number))
        ]
        state, estimate = estimator.close_slot(state, number, 2.0, groups)
        if estimate.carried < 0.5:
            assert estimate.total == pytest.approx(3000, rel=0.2)


def test_a_fixed_population_stays_known():
    """Users who are all there in every slot are distinguished from few payments, long after the first."""
    slots = list(crowd(3000, 150))
    truth = np.bincount(slots[0][1], minlength=30).astype(float)
    estimates = [estimate for _, estimate in play(slots, 30)]
    assert max(divergence(truth, estimate.pdf) for estimate in estimates) < 0.02
    assert estimates[-1].total == pytest.approx(3000, rel=0.2)


def test_what_is_carried_is_told_with_its_age():
    """A slot in which hardly anybody is measured says so, and for how long."""
    aged = [estimate for _, estimate in play(list(crowd(2000, 12)), 30)]
    assert aged[0].carried == 0
    quiet = [estimate for slot, estimate in enumerate(aged) if slot and level(slot, 8) == 0]
    assert all(estimate.carried > 0.8 for estimate in quiet)
    assert all(estimate.age > 0.9 for estimate in quiet)


def test_intervals_cover():
    """At least nine of ten bins lie in their intervals of 95 %, over populations that hardly change or change fast."""
    covered = []
    for churn in (0.02, 0.1):
        slots = list(crowd(3000, 60, churn=churn, seed=7))
        for (_, estimate), (_, drawn) in zip(play(slots, 30, seed=8), slots, strict=True):
            truth = np.bincount(drawn, minlength=30) / drawn.size
            lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
            covered.append(((truth >= lower) & (truth <= upper)).mean())
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize(("bins", "users"), [(10_000, 3), (10_000, 0), (200, 1)])
def test_next_to_nobody_is_next_to_uniform(bins, users):
    """Where nothing stands out from noise, the release is hardly worse than a uniform guess."""
    rng = np.random.default_rng(9)
    slots = [(np.arange(users), rng.integers(0, bins, users)) for _ in range(12)]
    excess = []
    for (_, estimate), (_, drawn) in zip(play(slots, bins, seed=10), slots, strict=True):
        truth = np.bincount(drawn, minlength=bins).astype(float)
        if users:
            excess.append(divergence(truth, estimate.pdf) - divergence(truth, np.full(bins, 1 / bins)))
        else:
            assert estimate.pdf.max() < 50 / bins
    assert np.mean(excess or [0.0]) < 0.05


def test_the_top_class_takes_all_further_payments():
    """With two classes veterans stay in the second for ever, and the state does not grow."""
    states = [state for state, _ in play(list(crowd(1000, 40)), 30, classes=2)]
    sizes = [len(estimator.to_bytes(state)) for state in states[20:]]
    assert max(sizes) - min(sizes) < 200  # printed floats differ in length
    *_, (_, last) = play(list(crowd(1000, 40)), 30, classes=2)
    assert last.total == pytest.approx(1000, rel=0.3)


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


PORTS = dpi.Categories(["22", "80", "445", "5060"])


@pytest.mark.parametrize("returning", [False, True], ids=["all are new", "the others return"])
def test_a_crowd_of_newcomers_is_seen_at_once(returning):
    """900 users of a value that nobody had, among 1,400 others; then they are gone."""
    rng, shares = np.random.default_rng(1), []
    stream = dpi.Stream(domain=PORTS, epsilon=2, slot="1d", start="2026-01-01")
    for day in range(14):
        values = rng.choice(["22", "80", "445"], 1400).tolist() + ["5060"] * (900 if day == 12 else 0)
        names = [f"{0 if returning and number < 1400 else day}-{number}" for number in range(len(values))]
        shares.append(stream.release(names, values).probability("5060").value)
    assert max(shares[:12]) < 0.01
    assert abs(shares[12] - 900 / 2300) < (0.1 if returning else 0.01)
    # Whether they return, nobody can know yet: where the others do, at most half of them are expected.
    assert shares[13] < (0.5 * shares[12] if returning else 0.02)


WORSE = 1.1
"""A divergence may grow by this factor before the guard says so: rounding moves long runs by a few per cent."""

OFF = 0.02
"""A coverage of bins may fall by this much; that of totals, of which a slot has one, by three binomial deviations."""


@pytest.mark.parametrize("name", STREAMS)
def test_nothing_gets_worse(name):
    """Divergence and coverage are those stored by `clocked_streams.py --write`, within `WORSE` and `OFF`."""
    stored, now = json.loads(STORED.read_text("utf-8"))[name], measured(STREAMS[name])
    assert now["divergence"] <= WORSE * stored["divergence"] + 1e-5
    assert now["divergence"] <= now["uniform"] + 0.01
    assert now["bins"] >= stored["bins"] - OFF
    assert now["total"] >= stored["total"] - 3 * (0.95 * 0.05 / now["slots"]) ** 0.5


def test_no_picture_is_older_than_its_stream():
    """By the slots since the first one, though a class may have users before it was ever measured."""
    pages, seasonal = dpi.Categories(PAGES), dpi.Boosted(season=24)
    stream = dpi.Stream(domain=pages, epsilon=1, slot="1h", start="2026-03-02", mechanism=seasonal)
    for slot, hour in enumerate(hourly(6)):
        assert 0 <= stream.release(hour["user"], hour["page"]).age <= slot
