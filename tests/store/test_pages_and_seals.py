"""What a store reads in pages is read to its end, and accounts behind an untouched list of seals are checked.

Of a state that has hardly changed, few pages are written.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

import dpi
from dpi.errors import StateError
from dpi.noise import UnsafeSeededSource
from dpi.store import _engine
from dpi.store._sqlite import SQLite
from dpi.testing.class_sums import ClassSums
from dpi.testing.workload import DOMAIN

SLOTS = 19
"""More than two pages of 8."""


@pytest.fixture
def long(sqlite, key_file, monkeypatch):
    """A store with more measurements than a page holds."""
    monkeypatch.setattr(_engine, "PAGE", 8)
    with dpi.open_store(sqlite, key_file=key_file) as store:
        source = UnsafeSeededSource(3)
        stream = dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Ledger(slots=200), store=store, unsafe_source=source)
        for slot in range(SLOTS):
            stream.release([f"u{slot % 7}"], ["DE"])
        yield store


def test_no_slot_is_lost_between_two_pages(long) -> None:
    """Measurements, releases and the chain are read to their end, each once."""
    assert [paid.slot for paid in long.measurements("")] == list(range(SLOTS))
    assert len([*long.releases("")]) == SLOTS
    assert [link.head.sequence for link in long.links()] == list(range(SLOTS + 1))
    assert long.pending("") is None


def test_accounts_that_were_changed_behind_their_seal_are_found(long, sqlite, key_file) -> None:
    """A byte of a run, with the seals left as they were: the run's own seal tells."""
    long.close()
    with sqlite3.connect(sqlite) as database:
        ((row, data),) = database.execute("SELECT rowid, data FROM account_runs ORDER BY run LIMIT 1").fetchall()
        changed = bytes([data[0] ^ 1]) + data[1:]
        database.execute("UPDATE account_runs SET data = ? WHERE rowid = ?", (changed, row))
    database.close()
    with (
        dpi.open_store(sqlite, key_file=key_file) as store,
        pytest.raises(StateError, match="a seal does not match its accounts"),
    ):
        dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Ledger(slots=200), store=store)


@dataclass(frozen=True)
class Large(ClassSums):
    """A mechanism whose state is large, and changes in its first bytes alone."""

    def to_bytes(self, state):
        """Return the state, and what stays."""
        return super().to_bytes(state) + bytes(400_000)

    def from_bytes(self, domain, data):
        """Return the state of `to_bytes`."""
        return super().from_bytes(domain, data.removesuffix(bytes(400_000)))


def test_what_has_not_changed_of_a_large_state_is_not_written_again(sqlite, key_file, monkeypatch) -> None:
    """A row as long as the one before it is written over page by page; and it is read as it was meant."""
    logs, erase = [], SQLite.erase

    def erased(engine: SQLite) -> None:
        logs.append(Path(f"{engine.path}-wal").stat().st_size)
        erase(engine)

    monkeypatch.setattr(SQLite, "erase", erased)
    slots = 12
    with dpi.open_store(sqlite, key_file=key_file) as store:
        stream = dpi.Stream(
            domain=DOMAIN, epsilon=1, mechanism=Large(), store=store, unsafe_source=UnsafeSeededSource(1)
        )
        for slot in range(slots):
            stream.release([f"u{slot % 7}"], ["DE"])
        at = store.progress("")
        assert at is not None
        assert at.allocation.endswith("}")
        assert max(logs[-slots // 2 :]) < len(at.mechanism()) / 2
        written = store.engine.rows("SELECT LENGTH(allocation) FROM progress")
        assert written[0][0] % 2048 == 0
