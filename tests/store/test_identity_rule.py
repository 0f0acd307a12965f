"""One id has one account, however tools write it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.budget.account_records import merged
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.errors import OptionError, StateError
from dpi.noise import UnsafeSeededSource
from dpi.store import MemoryStore, Store, open_store
from dpi.stream.options import StreamOptions
from dpi.verification import verify


def stream(store: Store) -> dpi.Stream:
    """A stream whose users can pay two slots."""
    budget = dpi.Ledger(per_slot=0.5)
    return dpi.Stream(
        domain=dpi.Categories(["a"]), epsilon=1, slot="1h", start="2026-01-01", budget=budget, store=store
    )


def left(store: Store) -> list[float]:
    """What the accounts with the names "1" and "1.0" have left."""
    accounts = stream(store)._accounts
    assert accounts is not None
    return [float(rest) for rest in accounts.remaining(pl.Series(["1", "1.0"]), 2)]


def release(store: Store) -> None:
    """Two slots of an id that two tools write differently, the second one live."""
    opened = stream(store)
    opened.release(["1", "1.0", "7"], ["a", "a", "a"])
    opened.append(["1.0", "1"], ["2026-01-01T01:10"] * 2, ["a"] * 2, now="2026-01-01T01:20")
    assert len(list(opened.advance("2026-01-01T02:00"))) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_new_store_takes_a_whole_number_and_its_float_for_one_user(tmp_path: Path, kind: str) -> None:
    """1 and "1.0" share one account, in slots that are given and in live ones, and after the store was opened anew."""
    if kind == "memory":
        first = MemoryStore()
        release(first)
        first.save(tmp_path / "saved")
        again: Store = MemoryStore.load(tmp_path / "saved")
    else:
        with open_store(tmp_path / "store.db") as opened:
            release(opened)
        again = open_store(tmp_path / "store.db")
    assert left(again) == [0, 1]
    again.close()


KEY = bytes(range(32))
COMPOSED, DECOMPOSED = "Zoë", " Zoe\u0308\xa0"
"""Two spellings of one name."""


def spelled(*rows: tuple[str, str], **options: object) -> MemoryStore:
    """A store with one release of rows, under noise that is always the same."""
    store = MemoryStore(KEY)
    given = {"domain": dpi.Categories(["a", "b"]), "epsilon": 1, "budget": dpi.Ledger(per_slot="0.5")}
    stream = dpi.Stream(store=store, unsafe_source=UnsafeSeededSource(1), **(given | options))
    stream.release([user for user, _ in rows], [value for _, value in rows])
    return store


def paid(store: Store) -> tuple[str, list[bytes], list[str]]:
    """What accounts there are, what was measured, and the chain."""
    accounts = merged(store.load_ledger("", store.ledgers()[""])[0]).hex()
    measured = [each.values for each in store.measurements("")]
    return accounts, measured, [link.text for link in store.links()]


def test_a_user_of_two_spellings_pays_once_and_weighs_one():
    """What is measured and paid is that of one spelling, to the bit; told apart, they weigh and pay twice."""
    rows = [(COMPOSED, "a"), (DECOMPOSED, "b"), ("ada", "a")]
    once = [(COMPOSED, "a"), (COMPOSED, "b"), ("ada", "a")]
    assert paid(spelled(*rows)) == paid(spelled(*once))
    assert paid(spelled(*rows, ids="exact"))[:2] != paid(spelled(*once, ids="exact"))[:2]
    store = spelled(*rows)
    stream = dpi.Stream.of(store, "")
    stream.release([COMPOSED], ["a"])
    accounts = stream._accounts
    assert accounts is not None
    left = accounts.remaining(pl.Series([COMPOSED, "ada", "bob"]), 2)
    assert [float(each) for each in left] == [0, 0.5, 1]


OLD = json.loads((Path(__file__).parents[1] / "vectors" / "whole.json").read_text())["entries"][0]["text"]
"""The declaration of a stream that was made before there was a rule of ids."""


def test_a_stream_that_was_declared_without_a_rule_stays_exact():
    """Its text, its names and its chain are as they were; who says another rule is refused."""
    stated = json.loads(OLD)["options"]
    assert "ids" not in stated
    known = DeclaredOptions.from_options(stated)
    domain = dpi.Categories(["a", "b"])
    assert (known.ids, StreamOptions.from_options(stated, domain).text) == ("exact", known.text)
    store = spelled((COMPOSED, "a"), (DECOMPOSED, "b"), ids="exact")
    before = paid(store)
    assert "ids" not in json.loads(store.streams()[""])
    given = {"domain": domain, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.5"), "store": store}
    for opened in (dpi.Stream(**given), dpi.Stream.of(store, ""), dpi.Stream(**given, ids="exact")):
        assert (opened.setting.ids, paid(store)) == ("exact", before)
    with pytest.raises(StateError, match="other options \\(ids\\)"):
        dpi.Stream(**given, ids="nfc-strip")
    with pytest.raises(OptionError, match="another promise"):
        dpi.Stream(**given, ids="nfc-strip", change=True)
    assert paid(store) == before


@pytest.mark.parametrize(("first", "other"), [("exact", "nfc-strip"), ("nfc-strip", "exact")])
def test_streams_that_share_accounts_share_the_rule(first, other):
    """The first one decides; another rule is refused, unless the stream has accounts of its own."""
    store = spelled((COMPOSED, "a"), (DECOMPOSED, "b"), ids=first)
    given = {"domain": dpi.Categories(["x"]), "epsilon": 1, "budget": dpi.Ledger(per_slot="0.5"), "store": store}
    before = store.streams(), store.head()
    quota = given | {"budget": dpi.Ledger(per_slot="0.1", quota="0.5")}
    for refused in (given, quota):
        with pytest.raises(OptionError, match=f"`ids` must be {first}, as of the streams that share the accounts"):
            dpi.Stream(**refused, name="second", ids=other)
    assert (store.streams(), store.head()) == before
    assert dpi.Stream(**given, name="second").setting.ids == first
    assert dpi.Stream(**given, name="apart", separate=True, ids=other).setting.ids == other
    assert dpi.Stream(**given, name="new", separate=True).setting.ids == "nfc-strip"
    assert {name: each.ids for name, each in declared(store.streams()).items()} == {
        "": first, "second": first, "apart": other, "new": "nfc-strip",
    }  # fmt: skip
    assert verify(store).problems == ()


@pytest.mark.parametrize("ids", ["folded", "", "NFC-STRIP", 1])
def test_another_rule_is_refused(ids):
    """With the sentence that names what there is."""
    with pytest.raises(OptionError, match=r"`ids` must be exact or nfc-strip\. Got "):
        spelled(("ada", "a"), ids=ids)


@pytest.mark.parametrize("played", [False, True], ids=["given", "played"])
@pytest.mark.parametrize("kind", ["stream", "discovery"])
def test_spellings_are_one_account_where_values_are_discovered(kind, played):
    """Whether a slot's events are given at once or played from a table: to the bit, as of one spelling."""
    results = []
    for spelling in (COMPOSED, DECOMPOSED):
        store = MemoryStore(KEY)
        rows = [(COMPOSED, "a"), (spelling, "b"), ("ada", "a")]
        given = {"epsilon": 1, "slot": "1h", "store": store, "unsafe_source": UnsafeSeededSource(1)}
        if kind == "stream":
            made = dpi.Stream(domain="discover", start="2026-01-01", budget=dpi.Ledger(per_slot="0.5"), **given)
        else:
            made = dpi.Discovery(texts=dpi.Texts(8), quota="0.5", start="2026-01-01", **given)
        if played:
            table = [{"user": user, "time": "2026-01-01T00:30", "value": value} for user, value in rows]
            list(made.replay(table, start="2026-01-01", end="2026-01-01T01:00"))
        else:
            made.release([user for user, _ in rows], [value for _, value in rows])
        (name,), ((ledger, text),) = store.streams(), store.ledgers().items()
        accounts = merged(store.load_ledger(ledger, text)[0]).hex()
        results.append((accounts, [each.values for each in store.measurements(name)]))
    assert results[0] == results[1]
