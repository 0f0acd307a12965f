"""Streams of amounts: one user, one bin; the grid moves by releases alone."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.domain.file import from_description
from dpi.engine import local
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import compress, totals
from dpi.noise import UnsafeSeededSource
from dpi.stream.slot_closer import SlotCloser

STEPS = st.integers(-(10**12), 10**12)


@given(
    others=st.lists(st.tuples(st.integers(0, 5), STEPS), max_size=30),
    mine=st.lists(STEPS, max_size=20),
    scale=st.integers(0, 40),
)
def test_a_user_moves_one_bin_by_one_unit(others, mine, scale):
    """With and without all amounts of a user: one bin differs, by the user's unit, whatever the amounts are."""
    domain = dpi.Amounts(1)
    mine = [amount * 2**scale for amount in mine]
    users, amounts = [user for user, _ in others], [amount for _, amount in others]
    without = compress(users, amounts, domain, method=totals).grains
    with_user = compress([*users, *["me"] * len(mine)], [*amounts, *mine], domain, method=totals).grains
    moved = (with_user - without).tolist()
    assert sorted(moved, reverse=True)[:1] == [GRAINS if mine else 0]
    assert sum(map(abs, moved)) == (GRAINS if mine else 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**33), 2**33)), min_size=1), st.randoms())
def test_the_sum_is_exact_in_any_order(rows, chance):
    """Each user is in the bin of their sum, where both signs stay below 2^31 steps; the order decides nothing."""
    domain = dpi.Amounts(1)
    expected = np.zeros(domain.size, dtype=np.int64)
    for user in {user for user, _ in rows}:
        most = (1 << 31) - 1
        plus = min(sum(max(amount, 0) for who, amount in rows if who == user), most)
        minus = min(sum(max(-amount, 0) for who, amount in rows if who == user), most)
        expected[domain.index(plus - minus)] += GRAINS
    chance.shuffle(rows)
    found = compress([user for user, _ in rows], [amount for _, amount in rows], domain, method=totals)
    assert found.grains.tolist() == expected.tolist()


def orders(days=6, people=400, seed=3):
    """Rows of a few days: amounts of a few tens, several for some users."""
    chance = np.random.default_rng(seed)
    size = days * people
    times = [f"2026-01-{1 + at % days:02d}T10:00" for at in range(size)]
    return {"user": chance.integers(0, people, size), "time": times, "value": chance.lognormal(3, 1, size).round(2)}


def opened(store=None, seed=1, **options):
    """A stream of amounts."""
    defaults = {"domain": dpi.Amounts("0.01"), "epsilon": 1, "slot": "1d", "start": "2026-01-01"}
    return dpi.Stream(**(defaults | options), store=store, unsafe_source=UnsafeSeededSource(seed))


PERIOD = {"start": "2026-01-01", "end": "2026-01-07"}


def test_a_slot_has_the_grid_that_earlier_releases_give(tmp_path):
    """Each release's domain is what the release before it makes of its own: nothing else enters."""
    store = dpi.MemoryStore()
    releases = list(opened(store).replay(orders(), **PERIOD))
    assert len({release.domain for release in releases}) > 1
    for before, after in pairwise(releases):
        assert before.domain.refined(before.pdf, before.variance) == after.domain
    entered = [json.loads(store.domain(json.loads(text)["domain"])) for _, text in store.options("").entries]
    assert {from_description(each) for each in entered} >= {release.domain for release in releases}


def test_fed_as_events_arrive_or_played_it_is_the_same():
    """A live stream keeps sums, so that events that came before a grid was known are in its bins."""
    rows = orders()
    played = [release.to_json() for release in opened(dpi.MemoryStore(secret=bytes(32))).replay(rows, **PERIOD)]
    live = opened(dpi.MemoryStore(secret=bytes(32)))
    day = np.array([int(text[8:10]) for text in rows["time"]])
    for number in range(1, 7):
        here = np.flatnonzero(day == number)
        for part in np.array_split(here, 3):
            times = [rows["time"][at] for at in part]
            live.append(rows["user"][part], times, rows["value"][part], now=f"2026-01-{number:02d}T12:00")
    assert [release.to_json() for release in live.advance("2026-01-07")] == played


def test_interrupted_anywhere_it_goes_on_with_the_same_grid(tmp_path, monkeypatch):
    """Killed between a release and the entry of its grid: the next to open the store enters that grid."""
    rows = orders()
    whole = [r.domain for r in opened(dpi.MemoryStore(secret=bytes(32))).replay(rows, **PERIOD)]
    store, found = dpi.MemoryStore(secret=bytes(32)), []
    refine = SlotCloser._refine
    for number in range(6):
        stream, mine = opened(store, seed=1), [f"2026-01-{1 + number:02d}T10:00" == text for text in rows["time"]]
        monkeypatch.setattr(SlotCloser, "_refine", lambda *_: None)
        found.append(stream.release(rows["user"][mine], rows["value"][mine]).domain)
        monkeypatch.setattr(SlotCloser, "_refine", refine)
    assert found[0] == whole[0]
    assert found[1] == whole[1] != found[0]
    newest = dpi.open(store).newest
    assert opened(store).domain == newest.domain.refined(newest.pdf, newest.variance)


def test_by_buckets_it_is_the_same(tmp_path):
    """An engine adds up amounts of an account in its bucket, as one process does."""
    results = []
    for name, engine in (("plain", None), ("buckets", local())):
        with dpi.open_store(tmp_path / f"{name}.db", witness=False) as store:
            options = {"mechanism": dpi.Boosted(), "budget": dpi.Ledger(per_slot="0.1")}
            stream = opened(store, engine=engine, **options)
            results.append([release.domain.digest for release in stream.replay(orders(), **PERIOD)])
            results.append(stream.release([], []).pdf.tolist())
    assert results[0] == results[2]
    assert results[1] == results[3]


def test_who_opens_it_again_names_its_step_alone(tmp_path):
    """The grid that a stream has reached is kept; another step is another stream."""
    path = tmp_path / "orders.db"
    with opened(path) as stream:
        list(stream.replay(orders(), **PERIOD))
        reached = stream.domain
    with opened(path) as stream:
        assert stream.domain == reached
    with pytest.raises(dpi.StateError, match="other options"):
        opened(path, domain=dpi.Amounts(1))
    for other in (dpi.Amounts(1), dpi.Bins([0, 1]), "discover"):
        with pytest.raises(dpi.OptionError, match="another `name`"):
            opened(path, domain=other, change="next")
    with opened(path, mechanism=dpi.Boosted(season=7), change="next") as stream:
        assert stream.domain == reached
        assert stream.release([1], [5]).domain == reached


def test_totals_are_for_amounts_alone():
    """A rule for events is refused of amounts, and sums of any other domain."""
    with pytest.raises(dpi.OptionError, match="summed by user"):
        opened(compression=dpi.histogram.truncate(3, bytes(32)))
    with pytest.raises(dpi.OptionError, match="summed by user"):
        opened(domain=dpi.Bins([0, 1]), compression=totals)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_intervals_hold_the_width_of_the_bins(seed):
    """Where noise is next to nothing beside the bins, sum, mean and quantiles of the clipped sums are inside, always.

    On the first grid, of a cap of millions, even a hundredth of a user counts: there quantiles alone are asked for.
    They lie between two users: one that is at an edge is in either bin, as noise has it.
    """
    chance = np.random.default_rng(seed)
    stream = opened(seed=seed, slot=None, start=None, epsilon=1000, budget=dpi.Ledger(per_slot=300))
    for slot in range(3):
        domain, amounts = stream.domain, chance.lognormal(2, 1.5, 500).round(2)
        release = stream.release(np.arange(500), amounts)
        clipped = np.clip(amounts, domain.edges[0], domain.edges[-1])
        answers = {
            release.quantile(q): np.quantile(clipped, q, method="inverted_cdf") for q in (0.101, 0.501, 0.901, 0.989)
        }
        if slot > 0:
            answers |= {release.sum(): clipped.sum(), release.mean(): clipped.mean()}
        for answer, truth in answers.items():
            lower, upper = answer.interval()
            assert lower - 0.01 <= truth <= upper + 0.01


def test_the_first_total_is_no_nonsense():
    """On the first grid, whose cap is millions, empty levels far out are not taken for users (100 runs of noise)."""
    amounts = np.random.default_rng(5).lognormal(3, 1, 1500).round(2)
    for seed in range(100):
        release = opened(seed=seed, slot=None, start=None).release(np.arange(1500), amounts)
        assert 0.5 < release.mean().value / amounts.mean() < 2
        lower, upper = release.mean().interval()
        assert lower <= release.mean().value <= upper
        assert lower <= amounts.mean() <= upper
