"""The most that one user can have lost, by one stream and by the store: as accounts of one who was always there say."""

from __future__ import annotations

import polars as pl
import pytest

import dpi
from dpi.budget.epsilon import UNITS
from dpi.budget.odds import odds
from dpi.reader import Releases
from dpi.report.deployment import describe_deployment, write_annex
from dpi.service._budgets import find_budget
from dpi.service.operations import store_operations
from dpi.store.ledger_session import stored_accounts
from dpi.store.spent import rounded_up, sentences, spent_in
from dpi.verification import verify

DOMAIN = dpi.Categories(["a", "b"])


def opened(store, name, per_slot="0.1", **options):
    """A stream of a store; a slot costs a tenth."""
    known = {key: options.pop(key) for key in ("quota", "period") if key in options}
    budget = options.pop("budget", dpi.Ledger(per_slot=per_slot, **known))
    return dpi.Stream(domain=DOMAIN, epsilon=1, store=store, name=name, budget=budget, **options)


def paid(store, user="ada"):
    """What a user has paid from all accounts of the store together: private."""
    total = 0
    for name in store.ledgers():
        accounts = stored_accounts(store, name)
        (left,) = accounts.remaining(pl.Series([user]), 10)
        total += accounts.held.fraction - left
    return float(total)


@pytest.fixture
def shared():
    """A store whose ε is shared by two quotas and a rest, each closed some times with one user in every slot."""
    store = dpi.MemoryStore()
    for name, quota, slots in (("one", "0.3", 2), ("two", "0.2", 4), ("rest", None, 3)):
        stream = opened(store, name, quota=quota)
        for _ in range(slots):
            stream.release(["ada"], ["a"])
    return store


def test_the_sum_of_a_store_is_what_one_who_was_always_there_has_paid(shared):
    """With quotas each stream has lost a part, and the store the sum of them, to the unit: in every way it is said."""
    by_all = spent_in(shared)
    assert by_all == pytest.approx(paid(shared), abs=8 / UNITS)
    assert by_all == pytest.approx(0.7, abs=8 / UNITS)  # 0.2 of a quota of 0.3, all of one of 0.2, and 0.3
    assert verify(shared).spent_by_all == by_all
    words = "By this stream no user can have lost more than 0.2 so far; by all 3 streams of this store together, 0.7."
    assert words in write_annex(describe_deployment(shared, "one"), "review")
    assert words in find_budget(Releases(shared, "one"), by_all).sentences
    assert words in store_operations(shared, ("one",), 0).streams[0].budget


def test_a_ledger_loses_its_epsilon_once_and_others_add_to_it():
    """Streams of one ledger lose ε together at most, whatever each can have lost; ledgers and series apart add."""
    store = dpi.MemoryStore()
    for name in ("one", "two"):
        stream = opened(store, name, per_slot="0.4")
        for _ in range(4):
            stream.release(["ada"], ["a"])
    assert spent_in(store) == 1 == pytest.approx(paid(store), abs=8 / UNITS)
    apart = opened(store, "apart", separate=True, per_slot="0.4")
    apart.release(["ada"], ["a"])
    series = opened(store, "series", separate=True, budget=dpi.Converging(dpi.budget.Geometric("0.5")))
    release = series.release(["ada"], ["a"])
    assert spent_in(store) == pytest.approx(1.4 + release.epsilon_spent, abs=1e-9)
    assert verify(store).spent_by_all == spent_in(store)


def test_every_epoch_that_was_entered_counts():
    """Of accounts that are refilled the store has lost ε for each epoch, beside what other streams have lost."""
    store = dpi.MemoryStore()
    for name, options in (("often", {"per_slot": "0.8", "period": 2}), ("once", {})):
        stream = opened(store, name, separate=True, **options)
        for _ in range(3):
            stream.release(["ada"], ["a"])
    assert spent_in(store) == pytest.approx(2.3, abs=8 / UNITS)
    assert verify(store).spent_by_all == spent_in(store)


def test_of_a_service_only_what_is_seen_counts(shared):
    """The sum is a function of releases up to the slots that are seen: none at first, all of it at the end."""
    assert spent_in(shared, dict.fromkeys(shared.streams())) == 0
    assert spent_in(shared, {"one": 0, "two": None, "rest": None}) == pytest.approx(0.1, abs=2 / UNITS)
    assert spent_in(shared, {"one": 1, "two": 3, "rest": 2}) == spent_in(shared)


def test_words_are_rounded_up_and_one_stream_has_no_sum():
    """No number is below the amount it stands for; a store of one stream says one number."""
    assert sentences(0.34, 0.34, 1) == "By this stream no user can have lost more than 0.34 so far."
    assert rounded_up(1 / 3) == "0.3334"
    assert all(float(rounded_up(k / 7919)) >= k / 7919 for k in range(200))


def test_a_guarantee_names_what_it_holds_for_and_the_sum_of_all_streams():
    """In these words, whichever way its ε is kept."""
    store = dpi.MemoryStore()
    series = dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0))
    streams = {
        "the streams of the shared ledger together; An account of each user": opened(store, "visits"),
        "this stream alone; A converging series of budgets": opened(store, "series", budget=series, separate=True),
        "this stream alone; An account of each user": opened(store, "plain", separate=True),
    }
    for said, stream in streams.items():
        scope, kept = said.split("; ")
        assert stream.release(["ada"], ["a"]).guarantee == (
            f"Pure differential privacy, ε = 1 per user for ever, for {scope}; neighbours differ in all events of one "
            f"user. {odds(1, epochs=False)} {kept} enforces it. All streams of this store sum to 3 per user for ever."
        )
