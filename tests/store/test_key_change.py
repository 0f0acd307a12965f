"""A ledger's key that is replaced: every user has left what they had, and the old key tells nothing of the store."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dpi
from dpi.budget.account_records import RECORD, merged, split, to_records
from dpi.engine import BucketEngine
from dpi.engine.executor import Local
from dpi.errors import OptionError, StateError, StoreBusy
from dpi.events.identity import digests, rename
from dpi.events.identity import users as canonical_users
from dpi.store import Store
from dpi.store._sqlite import SQLite
from dpi.store.backup import back_up, restore
from dpi.store.folder import Folder
from dpi.store.key_change import replace_key
from dpi.store.ledger_session import stored_accounts
from dpi.testing import workload
from dpi.testing.workload import KEY
from dpi.verification import check_accounts

USERS = canonical_users([
    *(f"regular {number}" for number in range(12)), *(f"{name} {slot} {number}" for name in workload.STREAMS
    for slot in range(workload.SLOTS) for number in range(5)), "busy", "late", "never there",
])  # fmt: skip
NOW = "2026-01-01T01:30"


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest) -> str:
    """Where a store is."""
    return str(request.getfixturevalue(request.param))


def budgets(store: Store) -> dict[str, object]:
    """Exactly what every user has left in each ledger, and how often they have paid in its streams."""
    found: dict[str, object] = {}
    for ledger in store.ledgers():
        accounts = stored_accounts(store, ledger)
        found[ledger] = (accounts.remaining(USERS, 9), {n: accounts.payments(USERS, 9, n) for n in store.streams()})
        found[f"{ledger} accounts"] = len(store.load_ledger(ledger, store.ledgers()[ledger])[0])
    return found


def waiting(store: Store, keys: bytes = b"") -> list[object]:
    """The events of the open slot, under the names that further keys give."""
    slot = workload.open_streams(store)[0].next_slot
    kept = store.events("visits", slot)
    rows = zip(rename(kept.names, keys).tolist(), kept.bins.tolist(), kept.counts.tolist(), strict=True)
    return sorted(rows)


def renamed(records: str, keys: bytes) -> str:
    """Accounts under the names that further keys give."""
    names, standing = split(np.frombuffer(bytes.fromhex(records), dtype=RECORD))
    return merged(to_records(rename(names, keys), standing)).hex()


@pytest.mark.parametrize("layout", ["embedded", "buckets", "engine"])
def test_every_user_has_left_what_they_had(target, key_file, tmp_path, layout):
    """In every ledger and stream, exactly; streams then pay from these accounts, and publish as if nothing happened."""
    engine = BucketEngine(Local(), path=tmp_path / "buckets") if layout == "engine" else None
    with dpi.open_store(target, key_file=key_file) as store:
        list(workload.run(store, 1, engine))
        if layout == "buckets":
            store.lay_out(tmp_path / "buckets", 2)
        visits = workload.open_streams(store, engine)[0]
        visits.append(["late", "busy"], [NOW] * 2, ["DE", "FR"], now=NOW, producer="other", sequence=0)
        before, open_events = budgets(store), waiting(store)
    for number in (2, 3):
        assert replace_key(target, key_file=key_file) == (key_file, number)
        with dpi.open_store(target, key_file=key_file) as store:
            assert len(store.key) == 32 * number
            assert budgets(store) == before
            assert len(waiting(store)) == 2
            assert check_accounts(store) == ()
            further = store.key[32:]
    with dpi.open_store(target, key_file=key_file) as store:
        assert waiting(store) != open_events
        list(workload.run(store, 3, engine))
        after = workload.outcome(store)
        assert budgets(store) != before
    with dpi.open_store(tmp_path / "never.db", key_file=_copy(KEY, tmp_path / "never.key")) as never:
        list(workload.run(never, 1))
        visits = workload.open_streams(never)[0]
        visits.append(["late", "busy"], [NOW] * 2, ["DE", "FR"], now=NOW, producer="other", sequence=0)
        assert waiting(never) == open_events
        list(workload.run(never, 3))
        expected = workload.outcome(never)
    for part in ("ledgers", "payments"):
        assert after.pop(part) == {name: renamed(held, further) for name, held in expected.pop(part).items()}
    assert after == expected


def _copy(key: bytes, path: Path) -> Path:
    path.write_text(key.hex())
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("bits", [None, 2])
def test_no_old_name_is_left_on_disk(sqlite, key_file, tmp_path, bits):
    """Neither in the database and its log, nor in bucket files, of accounts and of open events."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 2))
        if bits is not None:
            store.lay_out(tmp_path / "buckets", bits)
        visits = workload.open_streams(store)[0]
        now = "2026-01-01T02:30"
        visits.append(["late", "busy"], [now] * 2, ["DE", "FR"], now=now, producer="other", sequence=0)
    names = [row.tobytes() for row in digests(USERS, KEY)]

    def found() -> int:
        files = [*tmp_path.glob("visits.db*"), *tmp_path.glob("buckets/*")]
        data = b"".join(path.read_bytes() for path in files if path.is_file())
        return sum(name[:8] in data or name[8:] in data for name in names)

    assert found() > 12
    replace_key(sqlite, key_file=key_file)
    assert found() == 0


class Died(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("layout", ["embedded", "buckets"])
def test_interrupted_at_any_step_no_account_is_lost(sqlite, key_file, tmp_path, monkeypatch, layout):
    """Whatever statement or file is the last, each user has left what they had, and the next attempt ends it.

    The short form stops at every third.
    """
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1))
        if layout == "buckets":
            store.lay_out(tmp_path / "visits.db.buckets", 1)
        before = budgets(store)
    (tmp_path / "saved").mkdir()
    _files(tmp_path, tmp_path / "saved", key_file)
    passed = last = 0

    def boundary(owner: type | str, name: str | None = None) -> None:
        def step(function: Callable[..., object]) -> Callable[..., object]:
            def stepped(*values: object, **named: object) -> object:
                nonlocal passed
                passed += 1
                if passed == last:
                    raise Died
                return function(*values, **named)

            return stepped

        if isinstance(owner, str):
            from dpi.store import key_change

            monkeypatch.setattr(key_change, owner, step(getattr(key_change, owner)))
        else:
            monkeypatch.setattr(owner, str(name), step(getattr(owner, str(name))))

    for name in ("write_draft", "put", "open_store"):
        boundary(name)
    for name in ("execute", "execute_many", "rows", "erase"):
        boundary(SQLite, name)
    for name in ("write", "sync", "sweep"):
        boundary(Folder, name)
    ends, stride = {"old": 0, "new": 0}, 1 if os.environ.get("DPI_SLOW") else 3
    while True:
        last, passed = last + stride, 0
        try:
            replace_key(sqlite, key_file=key_file)
        except Died:
            number, last = last, 0
        else:
            break
        with dpi.open_store(sqlite, key_file=key_file) as store:
            ends["old" if len(store.key) == 32 else "new"] += 1
            assert budgets(store) == before, number
        replace_key(sqlite, key_file=key_file)
        with dpi.open_store(sqlite, key_file=key_file) as store:
            assert len(store.key) in (64, 96)  # the interrupted one was over, or was ended
            assert budgets(store) == before
            assert check_accounts(store) == ()
        _files(tmp_path / "saved", tmp_path, key_file)
        last = number
    assert ends["old"] > 20 / stride
    assert ends["new"] > 1 / stride


def _files(source: Path, target: Path, key_file: Path) -> None:
    """Put a store, its folder, its witness and its key back as they were."""
    shutil.rmtree(target / "visits.db.buckets", ignore_errors=True)
    for path in target.glob("visits.db*"):
        path.unlink()
    for path in [*source.glob("visits.db*"), source / key_file.name]:
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, target / path.name)


def test_the_old_key_alone_opens_nothing(sqlite, key_file, tmp_path):
    """A copy of the key file from before, or the new key without the old one, is refused, and nothing is changed."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1))
    replace_key(sqlite, key_file=key_file)
    old, new = (bytes.fromhex(line) for line in key_file.read_text().split())
    assert old == KEY
    assert key_file.stat().st_mode & 0o777 == 0o600
    for wrong in (old, new, old[::-1]):
        for options in ({}, {"read_only": True, "curator": True}):
            with pytest.raises(StateError, match="or lacks one that replaced it"):
                dpi.open_store(sqlite, key_file=_copy(wrong, tmp_path / "wrong"), **options)
    with dpi.open_store(sqlite, key_file=key_file) as store:  # a store that is said to have its old key is damaged
        store.engine.execute("UPDATE facts SET value = ? WHERE name = 'key'", (dpi.store._schema.fingerprint(KEY),))
    with dpi.open_store(sqlite, key_file=key_file) as store, pytest.raises(StateError, match="damaged"):
        stored_accounts(store, "")


def test_a_store_that_is_written_to_is_refused(target, key_file):
    """Also one that lost its lock: the next write of the process that has the old key is refused."""
    now = "2026-01-01T00:30"
    with dpi.open_store(target, key_file=key_file) as store:
        visits = workload.open_streams(store)[0]
        visits.append(["late"], [now], ["DE"], now=now, producer="other", sequence=0)
        with pytest.raises(StoreBusy):
            replace_key(target, key_file=key_file)
        with pytest.raises(StateError, match="streams are open"):
            store.change_key(KEY + bytes(32))
        assert key_file.read_text() == KEY.hex()
        store.engine.give_up()
        replace_key(target, key_file=key_file)
        with pytest.raises(StoreBusy):
            visits.append(["late"], [now], ["DE"], now=now, producer="other", sequence=1)
        with pytest.raises((StateError, StoreBusy)):
            visits.append(["late"], [now], ["DE"], now=now, producer="other", sequence=1)
    with dpi.open_store(target, key_file=key_file) as store:
        assert waiting(store)[0][2] == 1


def test_a_key_is_only_added_to(sqlite, key_file):
    """Another key in place of the store's own would find no account."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        with pytest.raises(StateError, match="added"):
            store.change_key(bytes(64))
        with pytest.raises(OptionError, match="32 random bytes"):
            store.change_key(KEY + b"short")
        assert store.key == KEY


def test_stores_that_share_a_key_file_go_over_one_by_one(tmp_path, key_file):
    """The second goes over to the key that the first has added, also at the same moment: no key leaves the file."""
    places, left = [str(tmp_path / name) for name in ("one.db", "two.db")], []
    for place in places:
        with dpi.open_store(place, key_file=key_file) as store:
            list(workload.run(store, 1))
            left.append(budgets(store))
    threads = [threading.Thread(target=replace_key, args=(place,), kwargs={"key_file": key_file}) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(key_file.read_text().split()) == 2
    for place, before in zip(places, left, strict=True):
        with dpi.open_store(place, key_file=key_file) as store:
            assert len(store.key) == 64
            assert budgets(store) == before


def test_a_copy_from_before_is_put_back_and_goes_over(sqlite, key_file, tmp_path):
    """A backup has its old names: the file's first key opens it, and the command names it by all of them."""
    witness = tmp_path / "witness"
    with dpi.open_store(sqlite, key_file=key_file, witness=witness) as store:
        list(workload.run(store, 1))
        before = budgets(store)
    back_up(sqlite, tmp_path / "monday.db")
    replace_key(sqlite, key_file=key_file, witness=witness)
    Path(sqlite).unlink()
    restore(tmp_path / "monday.db", sqlite, witness=witness, key_file=key_file)
    with dpi.open_store(sqlite, key_file=key_file, witness=witness) as store:
        assert store.key == KEY
        assert budgets(store) == before
    assert replace_key(sqlite, key_file=key_file, witness=witness).number == 2
    with dpi.open_store(sqlite, key_file=key_file, witness=witness) as store:
        assert len(store.key) == 64
        assert budgets(store) == before


def test_a_key_file_behind_a_link_keeps_its_place(sqlite, key_file, tmp_path):
    """The file that the link leads to has the new key; one that cannot be written changes nothing."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1))
    link = tmp_path / "link"
    link.symlink_to(key_file)
    replace_key(sqlite, key_file=link)
    assert link.is_symlink()
    assert len(key_file.read_text().split()) == 2
    assert not (tmp_path / "key.new").exists()


def test_there_must_be_a_store(tmp_path, key_file):
    """None is made for it."""
    with pytest.raises(OptionError, match="there is no store"):
        replace_key(tmp_path / "none.db", key_file=key_file)
    assert [*tmp_path.iterdir()] == [key_file]
