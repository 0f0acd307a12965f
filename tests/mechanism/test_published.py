"""The published mechanism: what one user changes, outcome by outcome; exact draws; a pure, stored state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.accounts import Accounts
from dpi.budget.epsilon import Epsilon
from dpi.errors import OptionError, StateError
from dpi.events.identity import name_users
from dpi.events.rows import Rows
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import Histogram, count, finish
from dpi.histogram.grouping import Groups
from dpi.mechanism.base import Measurement
from dpi.mechanism.published import Published, PublishedState
from dpi.mechanism.published._published import published_accounting
from dpi.mechanism.published.linear import LinearQueries, Matrix, Ramp, Ranges, dyadic, points
from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial, Pool
from dpi.noise import UnsafeSeededSource
from statistics_ import assert_law
from strategies import events, few, keys

DOMAIN = dpi.Categories(["a", "b", "c", "d"], other=None)
POOLS: tuple[Pool, ...] = (Multinomial(4, 6), DirichletPool(4, 0.5), MixedPool(3, (0.1, 10.0)))
QUERIES: tuple[LinearQueries | None, ...] = (
    Ranges([0, 1], [2, 2], bins=4),
    Matrix([[0, 1, 2, 3], [3, 0, 0, 1], [1, 1, 0, 0]], scale=3),
)
ROUNDING = 1e-9
"""Allowance for the float logarithms of exact probabilities."""


@dataclass(frozen=True)
class Given(Pool):
    """A pool with synopses of one's choice."""

    rows: tuple[tuple[int, ...], ...]
    seed: int = 0

    @property
    def size(self) -> int:  # type: ignore[override]
        """N."""
        return len(self.rows)

    @property
    def precision(self) -> int:  # type: ignore[override]
        """n_p."""
        return sum(self.rows[0])

    def _make(self, index: int, bins: int) -> Integers:
        return np.array(self.rows[index])


mechanisms = st.builds(
    lambda sizes, **options: Published(draws=sizes[0], rounds=sizes[1], **options),
    sizes=st.sampled_from([(1, 1), (1, 2), (2, 1)]),
    pool=st.sampled_from(POOLS),
    queries=st.sampled_from(QUERIES),
    lam=st.sampled_from([0, 0.02, 0.1, 0.3]),
    mu=st.sampled_from([0.05, 0.3, 1]),
    every_slot=st.booleans(),
    accumulative=st.booleans(),
)
epsilons = st.sampled_from(["1e-6", "0.05", "1", "8"]).map(Epsilon.at_most)
floors = st.sampled_from([21, 40, 1000])


def grown(mechanism: Published, slots: int, seed: int) -> PublishedState:
    """A state with a past of choices."""
    state, source = mechanism.initial(DOMAIN), UnsafeSeededSource(seed)
    for slot in range(slots):
        histogram = Histogram(np.array([slot, 1, 0, 2]) * GRAINS, GRAINS)
        state, _ = mechanism.update(state, mechanism.measure(state, histogram, Epsilon.at_most(1), slot, source))
    return state


def losses(
    mechanism: Published, state: PublishedState, one: Histogram, two: Histogram, epsilon: Epsilon
) -> Iterator[tuple[list[int], float, float]]:
    """Every outcome of a slot's choices, with its log-probability under both histograms."""
    choices = 2 * mechanism.draws * (mechanism.rounds if mechanism.every_slot or state.slots == 0 else 1)
    open_: list[tuple[list[int], float, float]] = [([], 0.0, 0.0)]
    while open_:
        prefix, p, q = open_.pop()
        if len(prefix) == choices:
            yield prefix, p, q
            continue
        laws = [mechanism.probabilities(state, h, epsilon, prefix).tolist() for h in (one, two)]
        open_ += [([*prefix, i], p + a, q + b) for i, (a, b) in enumerate(zip(*laws, strict=True))]


def worst(mechanism: Published, state: PublishedState, one: Histogram, two: Histogram, epsilon: Epsilon) -> float:
    """The largest loss over all outcomes, whose probabilities are checked to sum to one."""
    rows = list(losses(mechanism, state, one, two, epsilon))
    for column in (1, 2):
        assert math.fsum(math.exp(row[column]) for row in rows) == pytest.approx(1, abs=1e-9)
    return max(abs(p - q) for _, p, q in rows)


def neighbours(
    rows: list[tuple[int, int]], user: int, method: dpi.histogram.compression.Compression, weight: int = GRAINS
) -> tuple[Histogram, Histogram]:
    """The histograms with and without all events of one user, who has the given weight in grains."""
    own = name_users(np.array([user]), bytes(32))[0]

    def histogram(some: list[tuple[int, int]]) -> Histogram:
        values = DOMAIN.encode(["abcd"[b] if 0 <= b < 4 else None for _, b in some])
        groups = Groups(Rows.of(np.array([u for u, _ in some], dtype=np.int64), values, bytes(32)), DOMAIN.size)
        weights = np.where((groups.names == own).all(axis=1), weight, GRAINS)
        return finish(count(groups, DOMAIN.size, method, weights), method)

    return histogram(rows), histogram([row for row in rows if row[0] != user])


# What one user changes


@settings(max_examples=few(25, 500))
@given(mechanisms, events, st.integers(0, 8), epsilons, st.booleans(), st.integers(0, 3))
def test_whole_weights_lose_at_most_epsilon(
    mechanism: Published, rows: list[tuple[int, int]], user: int, epsilon: Epsilon, whole: bool, slots: int
) -> None:
    """Without a floor: over all outcomes, one user of weight one loses at most ε, in one unit and in a whole PDF."""
    method = dpi.histogram.whole_pdf if whole else dpi.histogram.normalise
    assert mechanism.whole_weights
    loss = worst(mechanism, grown(mechanism, slots, 1), *neighbours(rows, user, method), epsilon)
    assert loss <= float(epsilon) * (1 + ROUNDING) + ROUNDING


@settings(max_examples=few(20, 500))
@given(mechanisms, floors, events, st.integers(0, 8), st.integers(0, GRAINS), epsilons, keys, st.integers(0, 3))
def test_fractional_weights_lose_in_proportion(
    mechanism: Published,
    floor: int,
    rows: list[tuple[int, int]],
    user: int,
    weight: int,
    epsilon: Epsilon,
    key: bytes,
    slots: int,
) -> None:
    """With a floor: over all outcomes, one user of weight w loses at most w·ε."""
    mechanism = replace(mechanism, n_min=floor)
    assert not mechanism.whole_weights
    state = grown(mechanism, slots, 2)
    for method in (dpi.histogram.normalise, dpi.histogram.truncate(2, key)):
        loss = worst(mechanism, state, *neighbours(rows, user, method, weight), epsilon)
        assert loss <= float(epsilon) * weight / GRAINS * (1 + ROUNDING) + ROUNDING


@settings(max_examples=40)
@given(floors, st.integers(1, 200), st.data())
def test_loss_follows_the_very_grains_moved(floor: int, moved: int, data: st.DataObject) -> None:
    """A user of a few grains, who sits where rounding can tip, still loses no more than grains/2^24 of ε."""
    mechanism = Published(Multinomial(4, 6), QUERIES[1], lam=0, mu=1, draws=1, n_min=floor)
    crowd = data.draw(st.lists(st.integers(0, 40 * GRAINS), min_size=4, max_size=4))
    own = data.draw(st.permutations([moved, 0, 0, 0]))
    one, two = (Histogram(np.array(g), GRAINS) for g in (crowd, np.add(crowd, own)))
    epsilon = Epsilon.at_most(1000)
    assert worst(mechanism, mechanism.initial(DOMAIN), one, two, epsilon) <= 1000 * moved / GRAINS + 1e-8


@settings(max_examples=few(4, 50))
@given(st.lists(events, min_size=24, max_size=24), st.sampled_from([None, 25]), st.integers(0, 2**32))
def test_a_user_in_all_slots_loses_at_most_the_account(
    slots: list[list[tuple[int, int]]], floor: int | None, seed: int
) -> None:
    """Over 24 slots on one path of states, with weights as a ledger gives them, worst outcomes add up to at most ε."""
    mechanism = Published(Multinomial(4, 6), QUERIES[0], mu=0.1, draws=1, rounds=2, accumulative=True, n_min=floor)
    budget, per_slot = Fraction(2), [Fraction(2, 5), Fraction(1, 5), Fraction(1, 20)]
    accounts = Accounts(Epsilon.at_most(budget), key=bytes(32))
    state, source = mechanism.initial(DOMAIN), UnsafeSeededSource(seed)
    charged, spent = Fraction(0), 0.0
    for slot, rows in enumerate(slots):
        epsilon = Epsilon.at_most(per_slot[slot % 3])
        bill = accounts.bill(pl.Series(["u"]), epsilon, slot, whole=mechanism.whole_weights)
        accounts.debit(bill)
        weight = int(bill.weights[0])
        charged += epsilon.fraction * weight / GRAINS
        one, two = neighbours([*rows, (3, 1)], 3, dpi.histogram.normalise, weight)
        spent += worst(mechanism, state, one, two, epsilon)
        state, _ = mechanism.update(state, mechanism.measure(state, one, epsilon, slot, source))
    assert charged <= budget
    assert spent <= float(budget) * (1 + ROUNDING)


def test_the_bound_is_nearly_reached_without_a_floor() -> None:
    """A synopsis that answers well with the user alone, among many that answer well without: 99 % of ε."""
    pool = Given(rows=((4, 0), *[(2, 2)] * 1500))
    mechanism = Published(pool, Ranges([0], [1], bins=2), draws=1)
    domain = dpi.Categories(["a", "b"], other=None)
    one, two = Histogram(np.array([GRAINS, 0]), GRAINS), Histogram(np.array([0, 0]), GRAINS)
    epsilon = Epsilon.at_most(1)
    assert 0.99 < worst(mechanism, mechanism.initial(domain), one, two, epsilon) <= 1


@pytest.mark.parametrize("weight", [GRAINS, GRAINS // 3, 12345])
def test_the_bound_is_nearly_reached_with_a_floor(weight: int) -> None:
    """A synopsis above the data's answer among many below, on the ramp's slope: 98 % of w·ε at any weight."""
    pool = Given(rows=((20, 980), *[(0, 1000)] * 1500))
    mechanism = Published(pool, Ranges([0], [1], bins=2), lam=0, mu=0.5, draws=1, n_min=1000)
    crowd = np.array([5, 995]) * GRAINS
    one, two = Histogram(crowd, GRAINS), Histogram(crowd + np.array([weight, 0]), GRAINS)
    loss = worst(mechanism, mechanism.initial(dpi.Categories(["a", "b"], other=None)), one, two, Epsilon.at_most(1))
    assert 0.98 < loss / (weight / GRAINS) <= 1


def test_a_small_weight_without_a_floor_would_lose_more_than_its_share() -> None:
    """Why weights must be whole there: alone in a slot, a hundredth of a user moves scores over their whole range."""
    pool = Given(rows=((4, 0), *[(2, 2)] * 1500))
    mechanism = Published(pool, Ranges([0], [1], bins=2), draws=1)
    one, two = Histogram(np.array([GRAINS // 100, 0]), GRAINS), Histogram(np.array([0, 0]), GRAINS)
    state = mechanism.initial(dpi.Categories(["a", "b"], other=None))
    assert worst(mechanism, state, one, two, Epsilon.at_most(1)) > 0.9


# The ramp


@given(
    st.lists(st.integers(0, 2**44), min_size=1, max_size=5),
    st.data(),
    st.sampled_from([21, 100, 4097, 1 << 20]),
    st.sampled_from(["0.05", "0.5", "1"]),
)
def test_ramp_moves_by_no_more_than_is_proved(grains: list[int], data: st.DataObject, floor: int, mu: str) -> None:
    """The exact answer is the floor of the rational formula, and it and the scores move as the module claims."""
    bins = len(grains)
    steps = data.draw(st.lists(st.integers(-(2**26), 2**26), min_size=bins, max_size=bins))
    other = [max(0, g + s) for g, s in zip(grains, steps, strict=True)]
    moved = sum(abs(a - b) for a, b in zip(grains, other, strict=True))
    row = data.draw(st.lists(st.integers(0, 7), min_size=bins, max_size=bins))
    ramp, queries = Ramp.of(Fraction(1, 10), Fraction(mu), floor), Matrix([row], scale=7)
    answers = []
    for h in (grains, other):
        missing, whole = max(0, floor * GRAINS - sum(h)), max(floor * GRAINS, sum(h))
        exact = sum(Fraction(q, 7) * (g + Fraction(missing, bins)) for q, g in zip(row, h, strict=True)) / whole
        answers.append(int(ramp.truth(queries, np.array(h))[0]))
        assert answers[-1] == math.floor(exact * 2**ramp.bits)
    assert abs(answers[0] - answers[1]) <= moved * (Fraction(2**ramp.bits, floor * GRAINS) + 1)
    candidates = np.array(data.draw(st.lists(st.integers(0, 2**ramp.bits), min_size=1, max_size=4)))
    change = np.abs(ramp.score(candidates, answers[0]) - ramp.score(candidates, answers[1])).max()
    assert int(change) <= min(2 * ramp.mu, 2 * moved * (Fraction(2**ramp.bits, floor * GRAINS) + 1))


def test_ramp_has_its_levels_at_lambda_and_lambda_plus_mu() -> None:
    """+1 up to an error of λ, -1 from λ + μ on, 0 in the middle, and nothing flips one unit beside."""
    ramp = Ramp.of(Fraction(1, 8), Fraction(1, 4), None)
    errors = np.array([0, ramp.lam, ramp.lam + ramp.mu // 2, ramp.lam + ramp.mu, 1 << ramp.bits])
    for sign in (1, -1):
        assert (ramp.score(sign * errors, 0) / ramp.mu).tolist() == [1, 1, 0, -1, -1]
    assert ramp.score(np.array([ramp.lam + 1, ramp.lam + ramp.mu - 1]), 0).tolist() == [ramp.mu - 2, 2 - ramp.mu]


def test_rounding_wastes_less_than_a_hundredth() -> None:
    """With a floor, the calibrated step is within 2^-7 of (2/μ)/n_min on the published ramp's scale."""
    for floor in (21, 1000, 1 << 20):
        ramp = Ramp.of(Fraction(1, 10), Fraction(1, 20), floor)
        assert 1 <= float(ramp.sensitivity(GRAINS) / ramp.mu) / (40 / floor) < 1 + 2**-7


# Draws


@pytest.mark.parametrize("floor", [None, 30])
def test_draws_follow_the_stated_probabilities(floor: int | None) -> None:
    """1,500 measurements against all 64 outcomes of two draws of queries and of synopses (false alarm 10^-7)."""
    mechanism = Published(Multinomial(4, 6), Ranges([0, 1], [2, 4], bins=4), mu=0.5, draws=2, n_min=floor)
    histogram = Histogram(np.array([30, 2, 5, 1]) * GRAINS, GRAINS)
    state, epsilon, source = grown(mechanism, 2, 5), Epsilon.at_most(30), UnsafeSeededSource(7)
    law = {tuple(values): p for values, p, _ in losses(mechanism, state, histogram, histogram, epsilon)}
    counts = dict.fromkeys(law, 0)
    for _ in range(few(1500, 10_000)):
        counts[tuple(mechanism.measure(state, histogram, epsilon, 0, source).values.tolist())] += 1
    assert_law(list(counts.values()), [math.exp(p) for p in law.values()])


def test_likelihood_of_a_measurement_is_that_of_its_choices_and_its_total() -> None:
    """The log-likelihood adds up the choices' and the total's; the total alone loses its share of w·ε, exactly."""
    mechanism = Published(Multinomial(4, 6), QUERIES[0], draws=2, rounds=2, n_min=25, total_share="0.25")
    state, epsilon = mechanism.initial(DOMAIN), Epsilon.at_most(2)
    crowd = np.array([30, 2, 5, 1]) * GRAINS
    one, two = Histogram(crowd, GRAINS), Histogram(crowd + np.array([0, GRAINS // 2, 0, 0]), GRAINS)
    measurement = mechanism.measure(state, one, epsilon, 0, UnsafeSeededSource(3))
    assert measurement.values.size == 9
    choices = sum(
        mechanism.probabilities(state, one, epsilon, measurement.values[:i].tolist())[measurement.values[i]]
        for i in range(8)
    )
    far = replace(measurement, values=np.append(measurement.values[:8], 10**12))
    near = replace(measurement, values=np.append(measurement.values[:8], int(crowd.sum())))
    step = 0.5 / GRAINS
    assert mechanism.log_likelihood(state, one, near) == pytest.approx(choices + math.log(math.tanh(step / 2)))
    gap = [mechanism.log_likelihood(state, h, far) - mechanism.log_likelihood(state, h, near) for h in (one, two)]
    # From `far` the second histogram is half a unit nearer, from `near` half a unit farther: 2 · ½ · ε/4.
    assert gap[1] - gap[0] == pytest.approx(2 * 0.5 * 0.5, rel=1e-6)
    loss = mechanism.log_likelihood(state, two, far) - mechanism.log_likelihood(state, one, far)
    assert abs(loss) <= 2 * 0.5


def test_a_total_is_estimated_with_its_variance() -> None:
    """The total's errors have the stated variance (mean square of 400 within 60 %, beyond 10^-7)."""
    mechanism = Published(Multinomial(2, 4), QUERIES[0], draws=1, total_share=0.5)
    histogram, source, errors = Histogram(np.array([30, 2, 5, 1]) * GRAINS, GRAINS), UnsafeSeededSource(1), []
    for slot in range(400):
        state = mechanism.initial(DOMAIN)
        _, estimate = mechanism.update(state, mechanism.measure(state, histogram, Epsilon.at_most(2), slot, source))
        errors.append((estimate.total - 38) ** 2 / estimate.total_variance)
        assert estimate.total_variance == 2
    assert 0.4 < np.mean(errors) < 1.6


def test_a_large_budget_chooses_badly_answered_queries_and_good_synopses() -> None:
    """Both reweightings point the way they should: away from the release so far, towards the data."""
    pool = Given(rows=((8, 0, 0, 0), (0, 8, 0, 0), (2, 2, 2, 2)))
    mechanism = Published(pool, points(4), draws=3)
    histogram = Histogram(np.array([0, 50, 0, 0]) * GRAINS, GRAINS)
    state = mechanism.initial(DOMAIN)
    measurement = mechanism.measure(state, histogram, Epsilon.at_most(1000), 0, UnsafeSeededSource(0))
    # Uniform answers 1/4 to all points: off by 3/4 on the second, by 1/4 on the others, which is beyond λ + μ too.
    assert measurement.values[3:].tolist() == [1, 1, 1]
    state, estimate = mechanism.update(state, measurement)
    assert estimate.pdf.argmax() == 1
    law = mechanism.probabilities(state, histogram, Epsilon.at_most(1000))
    assert np.ptp(law) == 0  # all queries are answered well now
    turned = Histogram(np.array([50, 0, 0, 0]) * GRAINS, GRAINS)
    law = mechanism.probabilities(state, turned, Epsilon.at_most(1000))
    assert law[:2].min() - law[2:].max() == pytest.approx(2 * 1000 / 6 / 4)


# State, replay and edges


@pytest.mark.parametrize("accumulative", [False, True])
def test_only_accumulative_scores_remember_a_past(accumulative: bool) -> None:
    """A state counts its slots; sums of scores are kept where they are asked for (the rest is one of the checks)."""
    state = grown(Published(Multinomial(40, 30), draws=5, rounds=2, accumulative=accumulative), 3, 4)
    assert state.slots == 3
    assert bool(state.synopsis_past.any()) is accumulative


def test_damaged_or_foreign_state_is_refused() -> None:
    """A flipped bit, a cut, other options and another domain are all StateErrors; so is a foreign measurement."""
    mechanism = Published(Multinomial(5, 10), draws=2)
    state = grown(mechanism, 2, 0)
    data = mechanism.to_bytes(state)
    flipped = bytearray(data)
    flipped[40] ^= 1
    for bad in (bytes(flipped), data[:-8], b""):
        with pytest.raises(StateError):
            mechanism.from_bytes(DOMAIN, bad)
    with pytest.raises(StateError):
        replace(mechanism, mu=0.06).from_bytes(DOMAIN, data)
    with pytest.raises(StateError):
        mechanism.from_bytes(dpi.Categories(["a"]), data)
    for values in ([0, 0, 0], [0, 0, 5, 0], [9, 0, 0, 0], [0, 0, -1, 0]):
        with pytest.raises(StateError):
            mechanism.update(state, Measurement(2, Epsilon.at_most(1), np.array(values)))


def test_no_budget_no_look() -> None:
    """With ε = 0 nothing is measured, whatever the histogram, and the last release stands (uniform at first)."""
    mechanism = Published(Multinomial(5, 10), draws=2, total_share=0.5)
    state = mechanism.initial(DOMAIN)
    poison = Histogram(np.array(["not", "to", "be", "seen"], dtype=object), GRAINS)
    measurement = mechanism.measure(state, poison, Epsilon(0), 0, UnsafeSeededSource(0))
    assert measurement.values.size == 0
    same, estimate = mechanism.update(state, measurement)
    assert mechanism.to_bytes(same) == mechanism.to_bytes(state)
    np.testing.assert_allclose(estimate.pdf, 0.25)
    assert math.isnan(estimate.total)
    state = grown(mechanism, 1, 0)
    _, before = mechanism.update(state, measurement)
    assert mechanism.log_likelihood(state, poison, measurement) == 0
    assert np.ptp(before.pdf) > 0


@pytest.mark.parametrize("floor", [None, 30])
def test_an_empty_slot_is_a_uniform_one(floor: int | None) -> None:
    """Nobody came: the laws are those of a uniform histogram, and the slot is released like any other."""
    mechanism = Published(Multinomial(5, 10), draws=2, n_min=floor)
    state = mechanism.initial(DOMAIN)
    empty, flat = (Histogram(np.full(4, g), GRAINS) for g in (0, 30 * GRAINS))
    for so_far in ([], [1, 2]):
        laws = [mechanism.probabilities(state, h, Epsilon.at_most(1), so_far) for h in (empty, flat)]
        np.testing.assert_array_equal(*laws)
    assert mechanism.measure(state, empty, Epsilon.at_most(1), 0, UnsafeSeededSource(0)).values.size == 4


def test_a_domain_of_one_bin() -> None:
    """There is one query and one PDF; the release is certain."""
    domain = dpi.Categories(["a"], other=None)
    mechanism = Published(Multinomial(3, 10), draws=2)
    state = mechanism.initial(domain)
    histogram = Histogram(np.array([7 * GRAINS]), GRAINS)
    state, estimate = mechanism.update(
        state, mechanism.measure(state, histogram, Epsilon.at_most(1), 0, UnsafeSeededSource(0))
    )
    assert estimate.pdf.tolist() == [1.0]
    assert mechanism.from_bytes(domain, mechanism.to_bytes(state)).slots == 1


def test_rounds_are_made_in_the_first_slot_or_in_every_one() -> None:
    """The number of choices is public: `rounds` in slot one, then one round, unless `every_slot`."""
    for every_slot, later in ((False, 4), (True, 12)):
        mechanism = Published(Multinomial(5, 10), draws=2, rounds=3, every_slot=every_slot)
        state, histogram = mechanism.initial(DOMAIN), Histogram(np.ones(4, dtype=np.int64), GRAINS)
        sizes = []
        for slot in range(2):
            measurement = mechanism.measure(state, histogram, Epsilon.at_most(1), slot, UnsafeSeededSource(slot))
            state, _ = mechanism.update(state, measurement)
            sizes.append(measurement.values.size)
        assert sizes == [12, later]
        assert state.chosen.size == later // 2


def test_queries_change_publicly_between_slots() -> None:
    """New queries are asked from the next slot on, with fresh weights; the synopses' weights stay."""
    mechanism = Published(Multinomial(5, 10), QUERIES[0], draws=2, accumulative=True)
    state = grown(mechanism, 3, 0)
    changed = mechanism.with_queries(state, points(4))
    assert changed.query_slots == 0
    assert not changed.query_past.any()
    np.testing.assert_array_equal(changed.synopsis_past, state.synopsis_past)
    assert (
        mechanism.probabilities(changed, Histogram(np.zeros(4, dtype=np.int64), GRAINS), Epsilon.at_most(1)).size == 4
    )
    assert mechanism.from_bytes(DOMAIN, mechanism.to_bytes(changed)).queries == points(4)
    with pytest.raises(OptionError):
        mechanism.with_queries(state, points(5))


def test_accumulated_scores_weigh_in_publicly() -> None:
    """With accumulative scores the past tilts the law of a choice; the tilt is the same for all histograms."""
    plain = Published(Multinomial(4, 6), QUERIES[0], draws=1, mu=1)
    state = grown(replace(plain, accumulative=True), 4, 0)
    tilts = []
    for grains in ([0, 0, 0, 0], [9, 1, 0, 3]):
        histogram = Histogram(np.array(grains) * GRAINS, GRAINS)
        for so_far in ([], [1]):
            with_past = plain.probabilities(state, histogram, Epsilon.at_most(1), so_far)
            forgotten = replace(state, query_past=state.query_past * 0, synopsis_past=state.synopsis_past * 0)
            without = plain.probabilities(forgotten, histogram, Epsilon.at_most(1), so_far)
            tilts.append(np.diff(with_past - without))
    np.testing.assert_allclose(tilts[0], tilts[2], atol=1e-9)
    np.testing.assert_allclose(tilts[1], tilts[3], atol=1e-9)
    assert np.abs(tilts[1]).max() > 0


@pytest.mark.parametrize(
    "options",
    [
        {"lam": -0.1},
        {"lam": 1},
        {"mu": 0},
        {"mu": 1.5},
        {"mu": math.nan},
        {"draws": 0},
        {"draws": 129},
        {"rounds": True},
        {"n_min": 0},
        {"n_min": 1.5},
        {"n_min": 20, "mu": 0.05},
        {"n_min": 1 << 21},
        {"total_share": 1},
        {"total_share": Fraction(1, (1 << 16) + 1)},
    ],
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    """Each bad option is an OptionError, a floor that does not limit anybody among them."""
    with pytest.raises(OptionError):
        Published(Multinomial(3, 4), **options)  # type: ignore[arg-type]


def test_what_a_whole_pdf_cannot_have_is_refused() -> None:
    """A private total and a floor that is too low for a move of two units are refused by public facts."""
    histogram = Histogram(np.array([GRAINS, 0, 0, 0]), 2 * GRAINS)
    for options in ({"total_share": 0.1}, {"n_min": 30}):
        mechanism = Published(Multinomial(3, 4), draws=1, **options)  # type: ignore[arg-type]
        with pytest.raises(OptionError):
            mechanism.measure(mechanism.initial(DOMAIN), histogram, Epsilon.at_most(1), 0, UnsafeSeededSource(0))
    with pytest.raises(OptionError):
        Published(queries=points(3)).initial(DOMAIN)
    mechanism = Published(Multinomial(3, 4), draws=1)
    with pytest.raises(OptionError):
        mechanism.probabilities(
            mechanism.initial(DOMAIN), Histogram(histogram.grains, GRAINS), Epsilon.at_most(1), [0, 0]
        )


def test_default_queries_are_dyadic() -> None:
    """Without queries of one's own, halves, quarters … of the domain are asked."""
    assert Published(Multinomial(3, 4)).initial(DOMAIN).queries == dyadic(4)


@pytest.mark.parametrize(("slots", "draws"), [(10, 1), (10, 20), (1000, 1), (1000, 20)])
def test_accounting_shows_both_losses(slots: int, draws: int) -> None:
    """Theorem 1's claim stays below ε; the true loss grows with the draws and passes it."""
    bound = published_accounting(slots, 1, 0.1, 0.1, draws)
    assert bound.printed < 1
    assert bound.corrected == pytest.approx(draws * published_accounting(slots, 1, 0.1, 0.1, 1).corrected)
    assert (bound.corrected > bound.printed) == (slots * draws > 100)
