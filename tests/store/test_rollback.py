"""What a store that is older than its witness is charged, and ranges of slots over more than one page of rows."""

from __future__ import annotations

import pytest

import dpi
from dpi.errors import OptionError, StateError
from dpi.store import _engine
from dpi.store._rollback import charge
from dpi.store.witness import Seen

DOMAIN = dpi.Categories(["a", "b"], other=None)
UNIT = 1 << 40


def stream(store, name="", slots=3, **options):
    """A stream with some slots released."""
    default = {"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.0625"), "store": store, "name": name}
    made = dpi.Stream(**(default | options))
    for slot in range(slots):
        made.release(["ada", f"new {slot}"], ["a", "b"])
    return made


def seen(store, sequence, **streams):
    """A witness that saw that entry, and of each stream so many slots and units more than the store knows."""
    known = {name: store.reached(name) for name in streams}
    return Seen(
        sequence,
        "digest of the head that was lost",
        {name: known[name][0] + slots for name, (slots, _) in streams.items()},
        {name: known[name][1] + units for name, (_, units) in streams.items()},
    )


def test_a_store_lacks_what_its_witness_saw_if_the_entry_is_missing_or_another():
    """Of every number from the first on; what nobody saw, and what is there, is not lost."""
    store = dpi.MemoryStore()
    stream(store)
    head = store.head()
    assert not store.lacks(Seen(-1, "nothing seen"))
    for number in range(head.sequence + 1):
        assert not store.lacks(Seen(number, store.link(number).digest))
        assert store.lacks(Seen(number, "another"))
    assert store.lacks(Seen(head.sequence + 1, head.digest))


@pytest.mark.parametrize("behind", [0, 1])
def test_a_store_that_went_another_way_is_never_charged(behind):
    """As long as its witness or longer, with other entries: what was spent in both is not known."""
    store = dpi.MemoryStore()
    stream(store)
    before = store.head()
    with pytest.raises(StateError, match="different histories"):
        charge(store, seen(store, before.sequence - behind))
    assert store.head() == before


def test_lost_slots_of_all_streams_of_a_ledger_are_charged_together(reopen):
    """Every account pays the sum; streams go on after the lost slots; the chain says what was charged, once."""
    store = reopen()
    stream(store, "one"), stream(store, "two", slots=2)
    spent = {name: store.reached(name)[1] for name in ("one", "two")}
    told = seen(store, store.head().sequence + 5, one=(4, UNIT // 4), two=(3, UNIT // 8))
    assert told.last == {"one": 2 + 4, "two": 1 + 3}
    charge(store, told)
    entry = store.link(store.head().sequence).entry
    assert (entry["kind"], entry["format"], entry["lost_sequence"]) == ("restored", 1, told.sequence)
    assert entry["charged_units"] == {"": UNIT // 4 + UNIT // 8}
    assert not store.lacks(told)
    assert store.reached("one") == (6, spent["one"] + UNIT // 4)
    assert store.reached("two") == (4, spent["two"] + UNIT // 8)
    store = reopen(store)
    assert [stream(store, name, slots=0).next_slot for name in ("one", "two")] == [7, 5]
    options = next(iter(store.ledgers().values()))
    assert [levy.units for levy in store.load_ledger("", options)[1]] == [UNIT // 4 + UNIT // 8]
    store.close()


def test_slots_of_a_store_are_read_over_many_pages(reopen, monkeypatch):
    """More slots than one query returns: each release once, in order, in any range."""
    monkeypatch.setattr(_engine, "PAGE", 4)
    store = reopen()
    made = stream(store, slots=0)
    for _ in range(10):
        made.release(["ada"], ["a"])
    assert [made.released(slot).slot for slot in (0, 3, 4, 5, 8, 9)] == [0, 3, 4, 5, 8, 9]
    whole = [content for content, _ in store.releases("")]
    assert len(whole) == 10
    for first, last in ((None, None), (0, 9), (5, 5), (2, 6), (4, None), (None, 3), (8, 20), (10, 14)):
        low, high = first or 0, 9 if last is None else last
        assert [content for content, _ in store.releases("", first, last)] == whole[low : high + 1]
    slots = [paid.slot for paid in store.measurements("")]
    assert slots == (list(range(10)) if store.keeps_measurements else [9])
    monkeypatch.setattr(_engine, "PAGE", 0.25)
    assert [link.entry["sequence"] for link in store.links()] == list(range(11))
    store.close()


def test_a_secret_of_a_store_in_memory_is_a_key():
    """It names accounts as a key on disk does."""
    with pytest.raises(OptionError, match="32 random bytes"):
        dpi.MemoryStore(b"short")
