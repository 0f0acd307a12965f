"""Full disks, lost and foreign files, other processes, older and newer schemas: nothing lost, and a clear sentence."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import dpi
from dpi.errors import StateError, StoreBusy, StoreError
from dpi.store import _schema
from dpi.testing.workload import KEY, close_slot, open_streams, outcome, run
from dpi.verification import verify


def expected(slots: int) -> dict[str, object]:
    """The outcome of a run that nothing disturbed."""
    store = dpi.MemoryStore(KEY)
    for _ in run(store, slots):
        pass
    return outcome(store)


def test_a_full_disk_loses_nothing(sqlite, key_file) -> None:
    """Whatever statement finds the disk full, the slot stays open or is replayed, and ends in the same bytes."""
    failures = 0
    with dpi.open_store(sqlite, key_file=key_file) as store:
        connection, room = store.engine._connection, 0
        open_streams(store)
        while True:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + room}")
            try:
                for _ in run(store, 3):
                    pass
                break
            except StoreError as error:
                assert "full" in str(error)  # noqa: PT017 - the loop goes on
                failures, room = failures + 1, room + 1
        assert failures > 2
        assert outcome(store) == expected(3)


@pytest.mark.parametrize("change", ["2026-01-01T01:00", "next"])
def test_a_change_that_fails_at_any_statement_is_whole_or_was_not(durable, monkeypatch, change) -> None:
    """Chain, options and events are those of before or those of after; and it can be made again."""
    wider = dpi.Categories(["FR", "ES"], other="elsewhere")
    options = {"epsilon": 1, "slot": "1h", "start": "2026-01-01"}
    now, failures, failing = "2026-01-01T00:10", 0, True
    with durable() as store:
        first = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), store=store, **options)
        first.append(["ada", "bob"], [now] * 2, ["DE", "FR"], now=now)
        number, engine = first.next_slot, type(store.engine)

        def seen() -> tuple[object, ...]:
            events = store.events("", number)
            return store.head(), store.options("").entries, sorted(events.bins.tolist()), verify(store).problems

        before = seen()
        while failing:
            passed = 0

            def fatal(self, statement, values=(), _execute=engine.execute, _at=failures):
                nonlocal passed
                passed += statement != "ROLLBACK"
                if passed == _at + 1 and statement != "ROLLBACK":
                    raise StoreError("the store is gone.")
                _execute(self, statement, values)

            with monkeypatch.context() as patch:
                patch.setattr(engine, "execute", fatal)
                try:
                    dpi.Stream(domain=wider, store=store, change=change, **options)
                    failing = False
                except StoreError:
                    failures += 1
            if failing and store.head() == before[0]:
                assert seen() == before
        after = seen()
        assert failures > 5
        assert after[2] == ([0, 1] if change != "next" else [0, 2])
        assert after[3] == ()
        assert len(after[1]) == 2


def test_a_file_size_limit_kills_no_slot(sqlite, key_file) -> None:
    """A process that may write no more (RLIMIT_FSIZE) says so; a later one goes on and ends in the same bytes."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        open_streams(store)
    limited = (
        "import sys, resource, signal, dpi\nfrom dpi.testing import workload\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = dpi.open_store(sys.argv[1], key_file=sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "try:\n"
        "    print(len([*workload.run(store, 3)]))\n"
        "except dpi.StoreError as error:\n"
        "    print('StoreError', error)\n"
    )
    said = []
    for limit in (4096 * 8, 4096 * 50, 1 << 30):
        command = [sys.executable, "-c", limited, sqlite, str(key_file), str(limit)]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True, env=_environment()).stdout)
    assert said[0].startswith("StoreError")
    assert not said[-1].startswith("StoreError")
    with dpi.open_store(sqlite, key_file=key_file) as store:
        assert outcome(store) == expected(3)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_written_is_refused(what) -> None:
    """A read-only file or folder gives a `StoreError`, for a user whom permissions bind."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder) / "visits.db"
        with dpi.open_store(path) as store:
            open_streams(store)
        nobody = 65534 if os.geteuid() == 0 else os.geteuid()
        for entry in (Path(folder), *Path(folder).iterdir()):
            os.chown(entry, nobody, -1)
        path.chmod(0o400) if what == "file" else Path(folder).chmod(0o500)
        script = (
            "import os, sys, dpi\n"
            "dpi.Stream(domain=dpi.Bins([0, 1]), epsilon=1).release(['u'], [0.5])  # imports all it needs\n"
            "os.setuid(int(sys.argv[2]))\n"
            "try:\n"
            "    store = dpi.open_store(sys.argv[1])\n"
            "    dpi.Stream(domain=dpi.Bins([0, 1]), epsilon=1, store=store, name='new')\n"
            "except dpi.StoreError as error:\n"
            "    print('StoreError', error)\n"
        )
        command = [sys.executable, "-c", script, str(path), str(nobody)]
        run = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False)
        Path(folder).chmod(0o700)
    assert run.stdout.startswith("StoreError the store"), run.stderr


def test_secrets_are_their_owners_alone(sqlite) -> None:
    """Key, database, log and lock are created for their owner; a key that others may read is refused."""
    with dpi.open_store(sqlite) as store:
        open_streams(store)
        for path in Path(sqlite).parent.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    Path(sqlite + ".key").chmod(0o640)
    with pytest.raises(StateError, match="chmod 600"):
        dpi.open_store(sqlite)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda key: key.unlink(), "is missing"),
        (lambda key: key.write_text("ab" * 32), "not the one this store was made with"),
        (lambda key: key.write_text("ab" * 31), "is damaged"),
        (lambda key: key.write_bytes(b"\xff" * 64), "is damaged"),
    ],
    ids=["lost", "other", "short", "binary"],
)
def test_without_its_key_a_store_is_read_and_not_continued(durable, key_file, damage, sentence) -> None:
    """A lost, other or damaged key stops the writer and not the reader; it is never replaced and never printed."""
    with durable() as store:
        first = outcome(store)
    damage(key_file)
    with pytest.raises(StateError, match=sentence) as refused:
        durable()
    assert "abab" not in str(refused.value)
    assert KEY.hex() not in str(refused.value)
    with durable(read_only=True) as store:
        assert [[link.text, link.digest] for link in store.links()] == first["chain"]


@pytest.mark.parametrize(
    "content", [b"just a text, longer than a header of SQLite would be" * 40, b"SQLite format 3\0"]
)
def test_another_kind_of_file_is_refused(sqlite, content) -> None:
    """A text is no store, and stays as it was."""
    Path(sqlite).write_bytes(content)
    with pytest.raises((StateError, StoreError)):
        dpi.open_store(sqlite)
    assert Path(sqlite).read_bytes() == content
    assert not Path(sqlite + ".key").exists()


def test_a_foreign_database_is_refused_and_left_alone(sqlite) -> None:
    """A database of something else is not turned into a store, nor changed in any byte."""
    with sqlite3.connect(sqlite) as connection:
        connection.execute("CREATE TABLE guests (name TEXT)")
    connection.close()
    before = Path(sqlite).read_bytes()
    with pytest.raises(StateError, match="something else"):
        dpi.open_store(sqlite)
    assert Path(sqlite).read_bytes() == before


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_database_is_noticed(sqlite, key_file, share) -> None:
    """A store whose file was cut is refused on opening, or found by the checks."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        for _ in run(store, 3):
            pass
    whole = Path(sqlite).read_bytes()
    Path(sqlite).write_bytes(whole[: int(len(whole) * share)])
    problems: list[str] = []
    try:
        with dpi.open_store(sqlite, key_file=key_file) as store:
            problems = outcome(store)["problems"]
    except (StateError, StoreError) as error:
        problems.append(str(error))
    assert problems


def test_one_process_writes(durable) -> None:
    """A second writer is refused until the first has closed; readers work meanwhile and see whole slots."""
    store = durable()
    close_slot(open_streams(store)[1], 0)
    with pytest.raises(StoreBusy, match="another process writes"):
        durable()
    with durable(read_only=True) as reader:
        assert verify(reader).intact
        assert len([*reader.releases("orders")]) == 1
    store.close()
    with durable() as second:
        assert open_streams(second)[1].next_slot == 1


def test_a_writer_waits_for_another_process(sqlite) -> None:
    """`wait` succeeds as soon as the other process has ended, however it ended."""
    script = "import signal, sys, dpi\nstore = dpi.open_store(sys.argv[1])\nprint('open', flush=True)\nsignal.pause()\n"
    other = subprocess.Popen(
        [sys.executable, "-c", script, sqlite],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
    )  # fmt: skip
    assert other.stdout.readline() == "open\n"
    with pytest.raises(StoreBusy):
        dpi.open_store(sqlite, wait=0.2)
    threading.Timer(0.5, other.send_signal, [signal.SIGKILL]).start()
    with dpi.open_store(sqlite, wait=30) as store:
        assert store.streams() == {}
    other.communicate()


def test_two_names_of_one_file_are_one_store(sqlite, tmp_path) -> None:
    """The right to write belongs to the file, also when it is reached by a link."""
    with dpi.open_store(sqlite):
        (tmp_path / "link.db").symlink_to(sqlite)
        with pytest.raises(StoreBusy):
            dpi.open_store(tmp_path / "link.db")


def test_a_reader_never_delays_a_release(sqlite, key_file) -> None:
    """While a reader looks at one moment of the store, slots go on, and what it saw stays whole."""
    with dpi.open_store(sqlite, key_file=key_file) as store, dpi.open_store(sqlite, read_only=True) as reader:
        stream = open_streams(store)[1]
        close_slot(stream, 0)
        with reader.snapshot():
            assert len([*reader.releases("orders")]) == 1
            began = time.monotonic()
            close_slot(stream, 1)
            assert time.monotonic() - began < 10
            assert len([*reader.releases("orders")]) == 1
        assert len([*reader.releases("orders")]) == 2


def test_a_store_of_another_format_is_refused(durable) -> None:
    """An older program does not touch a store of a newer one, and says which version can read it."""
    with durable() as store:
        _schema.set_fact(store.engine, "schema", "99")
        _schema.set_fact(store.engine, "version", "7.5.3")
    for options in ({}, {"read_only": True}):
        with pytest.raises(StateError, match=r"newer version of dpi \(7.5.3\): its format is 99, .* reads 1"):
            durable(**options)
