"""One id has one account, however tools write it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.store import MemoryStore, Store, open_store


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
