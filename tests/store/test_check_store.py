"""What every store must do: the same tests on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import polars as pl
import pytest
from workload import CLOCK, DOMAIN, KEY, close_slot, open_streams, outcome, run

import dpi
from dpi.errors import OptionError, StateError
from dpi.noise import UnsafeSeededSource
from dpi.verification import verify

BUDGET = dpi.Ledger(per_slot="0.4")


def stream(store, **options) -> dpi.Stream:
    """A small stream with a reproducible source."""
    defaults = {"domain": DOMAIN, "epsilon": 1, "budget": BUDGET, "unsafe_source": UnsafeSeededSource(1)}
    return dpi.Stream(store=store, **(defaults | options))


def spent(stream: dpi.Stream, user: str) -> float:
    """What a user has spent."""
    return 1 - float(stream._accounts.remaining(pl.Series([user]), 0)[0])


def test_all_stores_give_the_same_ledger_releases_and_certificates(reopen) -> None:
    """With the test generator a workload ends in the same bytes on every store, stopped after each slot or not."""
    expected = dpi.MemoryStore(KEY)
    releases = [release.to_json() for release in run(expected)]
    store, resumed = reopen(), []
    for slots in (1, 1, 2, 4):
        resumed += [release.to_json() for release in run(store, slots)]
        store = reopen(store)
    assert resumed == releases
    assert outcome(store) == outcome(expected)
    assert outcome(store)["problems"] == []
    store.close()


def test_a_paid_slot_is_released_with_the_bytes_it_would_have_had(reopen, monkeypatch) -> None:
    """A slot that was paid for and not released is released on opening, from the stored measurement."""
    store, whole = reopen(), dpi.MemoryStore(KEY)
    close_slot(open_streams(whole)[1], 0)
    with monkeypatch.context() as patch:
        patch.setattr(store, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            close_slot(open_streams(store)[1], 0)
    assert store.pending("orders").slot == 0
    if not isinstance(store, dpi.MemoryStore):  # what is saved of a store in memory has no interrupted slot
        store = reopen(store)
    open_streams(store)
    assert outcome(store) == outcome(whole)
    store.close()


def test_a_pending_slot_of_one_stream_binds_the_others(reopen, monkeypatch) -> None:
    """Between a payment and its doubtful end no other stream goes on with accounts that lack the payment."""
    store = reopen()
    one, two = (stream(store, name=name, budget=dpi.Ledger(per_slot="0.6")) for name in ("one", "two"))
    with monkeypatch.context() as patch:
        patch.setattr(one._accounts, "apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            one.release(["ada"], ["DE"])
    two.release(["ada"], ["DE"])
    store = reopen(store)
    assert spent(stream(store, name="two", budget=dpi.Ledger(per_slot="0.6")), "ada") == pytest.approx(1, abs=1e-6)
    store.close()


def test_no_account_goes_beyond_epsilon(reopen) -> None:
    """Streams that share a ledger spend one ε, over restarts; an empty slot is released too."""
    store = reopen()
    for _ in range(3):
        for name in ("one", "two"):
            opened = stream(store, name=name)
            opened.release(["ada", "ada", "bob"] if name == "one" else [], ["DE", "FR", "IT"] if name == "one" else [])
            assert opened._accounts.within
        store = reopen(store)
    assert spent(stream(store, name="two"), "ada") == pytest.approx(1, abs=1e-6)
    assert [len([*store.releases(name)]) for name in ("one", "two")] == [3, 3]
    assert verify(store).intact
    store.close()


def test_separate_pools_are_separate(reopen) -> None:
    """A stream with an ε of its own leaves the shared accounts alone, and says the sum."""
    store = reopen()
    shared, alone = stream(store, name="shared"), stream(store, name="alone", separate=True)
    alone.release(["ada"], ["DE"])
    assert spent(shared, "ada") == 0
    assert "sum to 2" in alone.guarantee
    store.close()


def test_appended_events_count_once(reopen) -> None:
    """A batch with a (producer, sequence) that was there is not counted again, also by another process."""
    store, now, later = reopen(), "2026-01-01T00:10", "2026-01-01T01:00"
    for sequence, fresh in ((0, True), (0, False), (1, True), (1, False)):
        opened = stream(store, **CLOCK)
        assert opened.append(["ada"], [now], ["DE"], now=now, producer="p", sequence=sequence) is fresh
        assert opened.append(["ada"], [now], ["DE"], now=now, producer="q", sequence=sequence) is fresh
        store = reopen(store)
    opened = stream(store, **CLOCK)
    assert store.events("", opened.next_slot).counts.tolist() == [4]
    assert len([*opened.advance(now=later)]) == 1
    assert store.events("", opened.next_slot - 1).counts.size == 0
    store.close()


def test_options_change_only_as_a_public_entry(reopen) -> None:
    """Other options are refused, or by name become an entry of the chain; then the old ones are refused."""
    store, wider = reopen(), dpi.Categories(["DE", "FR"])
    opened = stream(store, **CLOCK)
    opened.append(["ada"], ["2026-01-01T00:10"], ["DE"], now="2026-01-01T00:10")
    with pytest.raises(StateError, match="other options"):
        stream(store, domain=wider, **CLOCK)
    changed = stream(store, domain=wider, change=True, **CLOCK)
    assert [link.entry["kind"] for link in store.links()] == ["options", "options"]
    assert store.events("", changed.next_slot).counts.size == 0  # bins of the old domain mean nothing in the new one
    assert len([*changed.advance(now="2026-01-01T01:00")]) == 1
    store = reopen(store)
    with pytest.raises(StateError, match="other options"):
        stream(store, **CLOCK)
    with pytest.raises(OptionError, match="another promise"):
        stream(store, domain=wider, epsilon=2, change=True, **CLOCK)
    assert verify(store).intact
    store.close()


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 2}, {"budget": dpi.Ledger(per_slot="0.4", policy=dpi.fade())}],
    ids=["epsilon", "policy"],
)
def test_a_ledger_of_another_promise_is_refused_before_the_chain_says_anything(reopen, options) -> None:
    """A stream that cannot share the ledger leaves no trace in the store, nor does such a change of a stream."""
    store = reopen()
    stream(store, name="one")
    for wrong in ({"name": "two"}, {"name": "one", "change": True}):
        with pytest.raises(OptionError):
            stream(store, **wrong, **options)
    assert [*store.streams()] == ["one"]
    assert len([*store.links()]) == 1
    store.close()


def test_accounts_with_a_period_serve_one_stream(reopen) -> None:
    """A second stream on accounts with epochs is refused when it is opened."""
    store, budget = reopen(), dpi.Ledger(per_slot="0.4", period=10)
    stream(store, name="one", budget=budget)
    with pytest.raises(OptionError, match="serve one stream"):
        stream(store, name="two", budget=budget)
    assert len([*store.links()]) == 1
    store.close()


def test_a_stream_that_was_opened_twice_releases_a_slot_once(reopen) -> None:
    """Of two objects of one stream the second to close a slot is refused, whatever its budget."""
    store, options = reopen(), {"budget": dpi.Converging(dpi.Zeta(2))}
    one, two = stream(store, **options), stream(store, **options)
    one.release(["ada"], ["DE"])
    with pytest.raises(OSError, match=r"paid for already|cannot be read or written|refused"):
        two.release(["ada"], ["DE"])
    assert two.next_slot == 1
    assert len([*store.releases("")]) == 1
    store.close()
