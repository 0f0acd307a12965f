"""What is left of a closed slot's events on disk: nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import dpi
from dpi.events.identity import digests
from dpi.events.identity import users as canonical_users
from dpi.testing.workload import CLOCK, KEY

USERS = [f"somebody-{number:05d}@example" for number in range(1500)]
NAMES = [row.tobytes() for row in digests(canonical_users(USERS), KEY)]
HALVES = [(name[:8], name[8:]) for name in NAMES]
"""Pages cut rows: of a name that is cut in two, one half is whole."""
NOW, LATER = "2026-01-01T00:30", "2026-01-01T01:00"
DOMAIN = dpi.Categories(["north-by-northwest", "vertigo-in-june"])


def on_disk(path: str) -> bytes:
    """Every byte of the database, its log and its index."""
    return b"".join(file.read_bytes() for file in sorted(Path(path).parent.glob(Path(path).name + "*")))


def filled(path: str, key_file: Path, budget: object, order: int) -> tuple[dpi.Stream, dpi.store.Store]:
    """A stream with events of an open slot, in an order that splits and joins pages of the file."""
    store = dpi.open_store(path, key_file=key_file)
    stream = dpi.Stream(domain=DOMAIN, epsilon=1, budget=budget, store=store, **CLOCK)
    for part in range(6):
        users = USERS[part::6][::order]
        values = [["north-by-northwest", "vertigo-in-june", "elsewhere"][len(user) % 2] for user in users]
        stream.append(users, [NOW] * len(users), values, now=NOW, producer="gate", sequence=part)
    return stream, store


@pytest.mark.parametrize("order", [1, -1])
def test_events_are_gone_when_their_slot_is_closed(sqlite, key_file, order) -> None:
    """While a slot is open its accounts' names are on disk, and never an id; after it not a single one is."""
    stream, store = filled(sqlite, key_file, dpi.Converging(dpi.budget.Zeta(2)), order)
    before = on_disk(sqlite)
    assert all(one in before or other in before for one, other in HALVES)
    assert not any(user.encode() in before for user in USERS)
    list(stream.advance(now=LATER))
    after = on_disk(sqlite)
    assert [one.hex() for one, other in HALVES if one in after or other in after] == []
    assert not Path(sqlite + "-wal").read_bytes()
    store.close()
    assert not any(name in on_disk(sqlite) for name in NAMES)


def test_of_a_ledger_only_the_account_is_left(sqlite, key_file) -> None:
    """With a ledger a name is on disk once, in its account, and no longer beside a bin."""
    stream, store = filled(sqlite, key_file, dpi.Ledger(per_slot="0.1"), 1)
    list(stream.advance(now=LATER))
    after = on_disk(sqlite)
    assert max(after.count(name) for name in NAMES) == 1
    assert store.engine.rows("SELECT COUNT(*) FROM events") == [(0,)]
    list(stream.advance(now="2026-01-01T02:00"))
    stream.release(USERS, ["north-by-northwest"] * len(USERS))
    after = on_disk(sqlite)
    assert max(after.count(name) for name in NAMES) == 1  # a merged run leaves no old one behind
    store.close()


def test_what_a_crash_left_is_erased_on_opening(sqlite, key_file, monkeypatch) -> None:
    """A process that dies after a commit and before it erases leaves that to the next one, which does it at once."""
    stream, store = filled(sqlite, key_file, dpi.Converging(dpi.budget.Zeta(2)), 1)
    monkeypatch.setattr(type(store.engine), "erase", lambda _: None)
    list(stream.advance(now=LATER))
    assert any(name in on_disk(sqlite) for name in NAMES)
    copy = Path(sqlite).with_name("copy.db")  # the files as a crash leaves them
    for suffix in ("", "-wal", ".witness"):
        Path(f"{copy}{suffix}").write_bytes(Path(sqlite + suffix).read_bytes())
    store.close()
    monkeypatch.undo()
    with dpi.open_store(copy, key_file=key_file):
        assert not any(name in on_disk(str(copy)) for name in NAMES)


def test_events_that_a_change_tells_by_other_bins_leave_no_old_rows(sqlite, key_file) -> None:
    """Of an open slot that has another domain at once, the rows are replaced; those of no bin are gone from disk."""
    _, store = filled(sqlite, key_file, dpi.Ledger(per_slot="0.1"), 1)
    other = dpi.Categories(["elsewhere"], other=None)
    dpi.Stream(domain=other, epsilon=1, budget=dpi.Ledger(per_slot="0.1"), store=store, change="next", **CLOCK)
    assert not any(name in on_disk(sqlite) for name in NAMES)
    store.close()


def test_postgresql_lets_the_space_be_used_again(postgres, key_file) -> None:
    """On PostgreSQL the rows of a closed slot are deleted and vacuumed."""
    stream, store = filled(postgres, key_file, dpi.Converging(dpi.budget.Zeta(2)), 1)
    list(stream.advance(now=LATER))
    assert store.engine.rows("SELECT COUNT(*) FROM events") == [(0,)]
    vacuumed, dead = _vacuumed(store)
    assert vacuumed > 0
    deadline = time.monotonic() + 60
    while dead and time.monotonic() < deadline:  # rows that anybody's older transaction may see wait for the next slot
        store.engine.erase()
        _, dead = _vacuumed(store)
    assert dead == 0
    store.close()


def _vacuumed(store):
    """How often the table of events was vacuumed, and how many rows of it are dead."""
    with store.engine.snapshot():
        query = "SELECT vacuum_count, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = ? AND relname = 'events'"
        return store.engine.rows(query, (store.engine.schema,))[0]
