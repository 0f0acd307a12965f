"""A store keeps the rule by which it told one id from another: by another one, users would get new accounts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.files import sealed
from dpi.store import MemoryStore, Store, open_store
from dpi.store.sql import SQLStore


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
        first: Store = MemoryStore()
        release(first)
        assert isinstance(first, MemoryStore)
        first.save(tmp_path / "saved")
        again: Store = MemoryStore.load(tmp_path / "saved")
    else:
        with open_store(tmp_path / "store.db") as opened:
            release(opened)
        again = open_store(tmp_path / "store.db")
    assert again.identity_rule == 2
    assert left(again) == [0, 1]
    again.close()


def test_an_older_store_keeps_its_accounts(tmp_path: Path) -> None:
    """Without a rule it was made by the first one: "1.0" stays the account that has paid, and gets no new one."""
    open_store(tmp_path / "store.db").close()
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("DELETE FROM facts WHERE name = 'identity'")
    database.close()
    with open_store(tmp_path / "store.db") as store:
        assert store.identity_rule == 1
        release(store)
        assert left(store) == [0, 0]


def test_an_older_save_keeps_its_accounts(tmp_path: Path) -> None:
    """The same for a store in memory that was saved before there were rules."""
    MemoryStore().save(tmp_path / "saved")
    head, parts = sealed.read(tmp_path / "saved")
    sealed.write(tmp_path / "saved", {name: value for name, value in head.items() if name != "identity"}, parts)
    store = MemoryStore.load(tmp_path / "saved")
    assert store.identity_rule == 1
    release(store)
    assert left(store) == [0, 0]


def test_a_rule_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """A store of a newer program is not written to by another rule."""
    with open_store(tmp_path / "store.db") as store:
        assert isinstance(store, SQLStore)
        with store.engine.transaction():
            store.engine.execute("UPDATE facts SET value = '3' WHERE name = 'identity'")
        with pytest.raises(dpi.StateError, match="newer version"):
            stream(store).release(["1"], ["a"])
