"""Backups of stores with accounts in files: database and folder of one moment, and nobody above ε."""

from __future__ import annotations

import shutil
import stat
import threading
from pathlib import Path

import pytest
from test_backup import CLOCKED, USERS, rows, stream
from test_witness import Truth

import dpi
from dpi.errors import OptionError, StateError
from dpi.store.backup import BucketCopy, back_up, restore
from dpi.store.folder import MARK
from dpi.testing.workload import outcome
from dpi.verification import check_accounts, verify


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, key_file, tmp_path):
    """Opens a store with four buckets under its witness."""
    target = request.getfixturevalue(request.param)

    class Place:
        address, witness, key, buckets = target, tmp_path / "elsewhere.witness", key_file, tmp_path / "buckets"

        def open(self, address=target, **options):
            return dpi.open_store(address, **({"key_file": key_file, "witness": self.witness} | options))

    place = Place()
    with place.open() as opened:
        opened.lay_out(place.buckets, 2)
    return place


def problems(opened) -> list[str]:
    """What is wrong with a store; its folder has what it lists, and nothing else."""
    assert {path.name for path in opened.folder.path.iterdir()} == opened._listed_files() | {MARK}
    return [*verify(opened).problems, *check_accounts(opened)]


@pytest.mark.parametrize("to", ["sqlite", "postgres"])
def test_a_copy_has_its_own_files_can_be_moved_and_goes_on(store, tmp_path, request, key_file, to) -> None:
    """The store and its folder may be lost: what is restored has the same accounts and the events of open slots."""
    with store.open() as opened:
        live = stream(opened, **CLOCKED)
        live.append(USERS, ["2026-01-01T00:10"] * 4, ["DE"] * 4, now="2026-01-01T00:20")
        list(live.advance(now="2026-01-01T01:00"))
        engine = dpi.engine.local()
        stream(opened, **CLOCKED, engine=engine).append(
            USERS[:3], ["2026-01-01T01:10"] * 3, ["FR"] * 3, now="2026-01-01T01:20", producer="files"
        )
        assert opened.sections("", live.next_slot)
        back_up(store.address, tmp_path / "copy.db")
        before, expected = rows(opened), outcome(opened)
    shutil.rmtree(store.buckets)
    folder = tmp_path / "copy.db.buckets"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "moved").mkdir()
    for path in (tmp_path / "copy.db", folder):
        path.rename(tmp_path / "moved" / path.name)
    place, where = str(tmp_path / "restored.db"), None
    if to == "postgres":
        place, where = request.getfixturevalue("postgres"), tmp_path / "restored"
        if place == store.address:
            place = place.replace("schema=", "schema=again_")
            request.addfinalizer(lambda: _drop(request.getfixturevalue("server"), place.rpartition("=")[2]))
        with pytest.raises(OptionError, match="give `path`"):
            restore(tmp_path / "moved" / "copy.db", place, witness=store.witness, key_file=key_file)
    restore(tmp_path / "moved" / "copy.db", place, witness=store.witness, key_file=key_file, path=where)
    with store.open(place) as again:
        assert {name: found for name, found in rows(again).items() if name != "facts"} == {
            name: found for name, found in before.items() if name != "facts"
        }
        assert outcome(again) == expected
        assert again.folder.path == (where or tmp_path / "restored.db.buckets")
        assert again.folder.mark != Path(tmp_path / "moved" / "copy.db.buckets" / MARK).read_text()
        live = stream(again, **CLOCKED)
        (release,) = live.advance(now="2026-01-01T02:00")
        assert release.slot == live.setting.start + 1
        assert problems(again) == []


def _drop(server: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def test_nobody_is_above_epsilon_after_a_restore(store, tmp_path, monkeypatch) -> None:
    """Copy, go on, lose the store, put the copy back and charge, twice: what each user truly lost is at most ε."""
    truth = Truth(monkeypatch)
    with store.open() as opened:
        live = stream(opened)
        live.release(USERS, ["DE"] * 4)
        back_up(store.address, tmp_path / "copy.db")
        live.release(USERS[:2], ["DE"] * 2)
        live.release(USERS[:3], ["FR"] * 3)
    for turn in range(2):
        place = str(tmp_path / f"restored {turn}.db")
        with pytest.raises(StateError, match="old copy"):
            restore(tmp_path / "copy.db", place, witness=store.witness, key_file=store.key)
        assert not list(tmp_path.glob(f"*restored {turn}*"))
        restore(tmp_path / "copy.db", place, witness=store.witness, key_file=store.key, charge_lost=True)
        with store.open(place) as opened:
            live = stream(opened)
            assert live.next_slot == 3 + 2 * turn
            for _ in range(2):
                live.release([*USERS, f"new {turn}"], ["DE"] * 5)
            assert problems(opened) == []
    assert max(truth.units.values()) <= 2**40
    assert max(truth.units.values()) > 0.85 * 2**40  # the charge leaves what was not spent


def test_copies_of_a_store_in_use_are_each_of_one_moment(store, tmp_path) -> None:
    """While slots close, and replace and remove files, every copy verifies whole."""
    with store.open() as opened:
        live = stream(opened, budget=dpi.Ledger(per_slot="0.01"), engine=dpi.engine.local())
        live.release(["first"], ["DE"])
        done = threading.Event()

        def write() -> None:
            for slot in range(12):
                live.release([f"user {slot} {number}" for number in range(200)], ["DE"] * 200)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        copies = 0
        while not done.is_set() and copies < 4:
            try:
                back_up(store.address, tmp_path / f"copy {copies}.db")
            except StateError as error:
                assert "close so fast" in str(error)  # noqa: PT017 - the other outcome there is
                assert not list(tmp_path.glob(f"*copy {copies}*"))
                continue
            copies += 1
        writer.join()
        back_up(store.address, tmp_path / f"copy {copies}.db")
    heads = []
    for number in range(copies + 1):
        with dpi.open_store(tmp_path / f"copy {number}.db", key_file=store.key, read_only=True, curator=True) as copy:
            assert problems(copy) == []
            heads.append(copy.head().sequence)
    assert heads == sorted(heads)


def test_a_file_that_is_replaced_while_it_is_copied_begins_a_later_moment(store, tmp_path, monkeypatch) -> None:
    """A slot is paid for between the list and the copies: the copy is that of the store afterwards."""
    take, turns = BucketCopy.take, iter(range(100))
    with store.open() as opened:
        live = stream(opened, engine=dpi.engine.local())
        live.release(USERS, ["DE"] * 4)

        def late(copy, source, names):
            if next(turns) in (0, 1):
                live.release(USERS, ["DE"] * 4)
            return take(copy, source, names)

        monkeypatch.setattr(BucketCopy, "take", late)
        back_up(store.address, tmp_path / "copy.db")
        assert opened.head().sequence == 3
    assert next(turns) > 3
    with dpi.open_store(tmp_path / "copy.db", key_file=store.key, read_only=True, curator=True) as copy:
        assert problems(copy) == []
        assert copy.head().sequence == 3


def there(folder: Path) -> set[str]:
    """What lies in a folder, but for what SQLite keeps beside a database that was read."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


def test_what_is_there_or_missing_is_refused_and_nothing_is_left(store, tmp_path) -> None:
    """A folder that is there, a store that has lost a file, a copy that has: one sentence, and nothing half-done."""
    with store.open() as opened:
        stream(opened, engine=dpi.engine.local()).release(USERS, ["DE"] * 4)
        lost = store.buckets / sorted(opened._listed_files())[0]
    back_up(store.address, tmp_path / "copy.db")
    (tmp_path / "second.db.buckets").mkdir()
    before = there(tmp_path)
    with pytest.raises(OptionError, match="exists already"):
        back_up(store.address, tmp_path / "second.db")
    with pytest.raises(OptionError, match="exists already"):
        back_up(store.address, tmp_path / "copy.db")
    lost.unlink()
    with pytest.raises(StateError, match="the folder has lost files"):
        back_up(store.address, tmp_path / "third.db")
    (tmp_path / "copy.db.buckets" / lost.name).unlink()
    with pytest.raises(StateError, match="missing"):
        restore(tmp_path / "copy.db", tmp_path / "new.db", witness=store.witness, key_file=store.key)
    shutil.rmtree(tmp_path / "copy.db.buckets")
    with pytest.raises(StateError, match="cannot be read here"):
        restore(tmp_path / "copy.db", tmp_path / "new.db", witness=store.witness, key_file=store.key)
    assert there(tmp_path) == before - {"copy.db.buckets"}


def test_a_path_for_buckets_that_are_not_there_is_refused(sqlite, tmp_path, key_file) -> None:
    """A backup with its accounts in the database has no files."""
    with dpi.open_store(sqlite, key_file=key_file, witness=tmp_path / "witness") as opened:
        stream(opened).release(USERS, ["DE"] * 4)
    back_up(sqlite, tmp_path / "copy.db")
    with pytest.raises(OptionError, match="leave it out"):
        restore(tmp_path / "copy.db", tmp_path / "new.db", witness=tmp_path / "witness", path=tmp_path / "b")
    assert not (tmp_path / "new.db").exists()
