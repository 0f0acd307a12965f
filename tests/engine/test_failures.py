"""The failure table: something real is killed, removed, changed or doubled, and nobody is refilled or counted twice."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import driven
import pytest
from driven import OPTIONS, close
from random_streams import outcome

import dpi
from dpi.engine import BucketEngine
from dpi.engine.executor import Local, Pool
from dpi.errors import OptionError, StateError, StoreBusy, StoreError
from dpi.noise import UnsafeSeededSource
from dpi.store.folder import MARK
from dpi.verification import check_accounts

HERE = Path(__file__).parent
SLOTS = 3
UNSHARE = shutil.which("unshare")


def opened(store, engine=None) -> dpi.Stream:
    """The stream of these tests."""
    return dpi.Stream(store=store, engine=engine, unsafe_source=UnsafeSeededSource(0), **OPTIONS)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a run without any failure ends in, without an engine."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "key").write_text(driven_key())
    (folder / "key").chmod(0o600)
    with dpi.open_store(folder / "visits.db", key_file=folder / "key") as store:
        stream = opened(store)
        for slot in range(SLOTS):
            close(stream, slot)
        return outcome(store)


def driven_key() -> str:
    """The key of all stores of these tests."""
    return bytes(range(32)).hex()


def finished(path: Path, key_file: Path) -> dict[str, object]:
    """What a store ends in when its remaining slots are closed here."""
    with dpi.open_store(path, key_file=key_file, wait=60) as store:
        stream = opened(store, BucketEngine(Local()))
        for slot in range(stream.next_slot, SLOTS):
            close(stream, slot)
        assert check_accounts(store) == ()
        return outcome(store)


def gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition, seconds: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_worker_that_is_killed_is_replaced_and_its_bucket_closed_again(tmp_path, key_file, expected):
    """Kill -9 of a worker while it closes buckets: unique names, one result of each bucket, the same bytes."""
    with dpi.engine.pool(2) as engine, dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        stream = opened(store, engine)
        close(stream, 0)
        before = len(list(store.folder.path.iterdir()))
        killed = list[int]()

        def kill() -> None:
            wait_for(lambda: len(list(store.folder.path.iterdir())) > before + 1)
            killed.append(engine.executor.processes[0])
            os.kill(killed[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        close(stream, 1)
        killer.join()
        assert killed
        close(stream, 2)
        assert killed[0] not in engine.executor.processes
        assert outcome(store) == expected
        listed = store._listed_files()
        assert {path.name for path in store.folder.path.iterdir()} == listed | {MARK}


def _end(_task: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_killed_again_and_again_are_given_up(monkeypatch):
    """A task that ends every process, also the one that replaced the first, is told in one sentence; none is left."""
    monkeypatch.setattr(sys.modules[Pool.__module__], "TRIES", 2)
    pool = Pool(1)
    with pytest.raises(StoreError, match="ended from outside again and again"):
        list(pool.map(_end, [1]))
    pool.close()
    assert pool.processes == []


@pytest.mark.parametrize("moment", ["closing", "paid"])
def test_a_driver_that_is_killed_leaves_a_slot_that_is_open_or_released(tmp_path, key_file, expected, moment):
    """Kill -9 of the driver before or after it pays: its workers end, and the next process ends in the same bytes."""
    path = tmp_path / "visits.db"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    with subprocess.Popen(
        [sys.executable, HERE / "driven.py", path, key_file, "3"], stdout=subprocess.PIPE, text=True, env=environment
    ) as driver:
        assert driver.stdout.readline().startswith("slot 0")
        workers = [int(process) for process in driver.stdout.readline().split()[2:]]
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            if moment == "paid":
                wait_for(lambda: database.execute("SELECT COUNT(*) FROM measurements").fetchone()[0] == 2)
            driver.kill()
        driver.wait()
        driver.stdout.close()
    wait_for(lambda: all(map(gone, workers)))
    assert len(workers) == 1
    assert finished(path, key_file) == expected


def test_of_two_drivers_one_pays(tmp_path, key_file, expected):
    """A driver whose right to write was taken is refused when it pays, and goes on after the slot of the other."""
    path = tmp_path / "visits.db"
    with dpi.open_store(path, key_file=key_file) as first:
        slow = opened(first, BucketEngine(Late(lambda: None)))
        close(slow, 0)
        first.engine._use.give_up()
        with dpi.open_store(path, key_file=key_file) as second:
            quick = opened(second, BucketEngine(Local()))
            slow.driver._executor.meanwhile = lambda: close(quick, 1)
            with pytest.raises(StoreBusy):
                close(slow, 1)
            slow.driver._executor.meanwhile = lambda: None
            assert slow.next_slot == 2
            close(slow, 2)
            assert quick.driver.in_doubt is False
            with pytest.raises(StoreBusy):
                quick.release(*driven.events(2), slot=2)
            assert outcome(second) == expected


class Late(Local):
    """Runs tasks here, and lets another driver go ahead when all are done."""

    def __init__(self, meanwhile) -> None:
        self.meanwhile = meanwhile

    def map(self, function, tasks):
        """All results, after the other's turn."""
        results = [function(task) for task in tasks]
        self.meanwhile()
        return iter(results)


def test_a_driver_that_only_opens_the_store_takes_no_file_that_is_then_paid_with(tmp_path, key_file):
    """What the other removes as unlisted cannot be listed any more: refused, and not a ledger without its files."""
    path = tmp_path / "visits.db"
    with dpi.open_store(path, key_file=key_file) as store:
        slow = opened(store, BucketEngine(Late(lambda: None)))
        close(slow, 0)
        store.engine._use.give_up()
        slow.driver._executor.meanwhile = lambda: dpi.open_store(path, key_file=key_file).close()
        with pytest.raises(StoreBusy):
            close(slow, 1)
        slow.driver._executor.meanwhile = lambda: None
        close(slow, 1)
        assert check_accounts(store) == ()


# Buckets.


def run_of(store) -> Path:
    """The file of a run of the ledger."""
    return store.folder.path / next(iter(store.hold_ledger("", store.ledgers()[""]).runs.values()))[0].name


def missing(store, old: bytes) -> None:
    """A file is gone."""
    run_of(store).unlink()


def damaged(store, old: bytes) -> None:
    """A bit is flipped."""
    data = bytearray(run_of(store).read_bytes())
    data[-1] ^= 1
    run_of(store).write_bytes(data)


def cut(store, old: bytes) -> None:
    """The last account is cut off."""
    run_of(store).write_bytes(run_of(store).read_bytes()[:-36])


def foreign(store, old: bytes) -> None:
    """Another bucket's file is in its place."""
    runs = [each[0] for each in store.hold_ledger("", store.ledgers()[""]).runs.values()]
    shutil.copy(store.folder.path / runs[1].name, store.folder.path / runs[0].name)


def put_back(store, old: bytes) -> None:
    """The bucket as it was a slot ago is in its place."""
    run_of(store).write_bytes(old)


def unlisted(store, old: bytes) -> None:
    """The manifest has lost a bucket: only that it is sealed tells it from an empty one."""
    store.engine.execute("DELETE FROM account_runs WHERE ledger = '' AND bucket = 0")


@pytest.mark.parametrize("change", [missing, damaged, cut, foreign, put_back, unlisted], ids=lambda f: f.__name__)
def test_a_bucket_that_is_not_as_it_was_sealed_is_refused_and_never_taken_for_empty(tmp_path, key_file, change):
    """Nothing is drawn or paid from a ledger with a bucket that is missing, damaged, another's or older."""
    with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        stream = opened(store, BucketEngine(Local(), bits=2))
        close(stream, 0)
        old = run_of(store).read_bytes()
        close(stream, 1)
        change(store, old)
        with pytest.raises(StateError):
            close(stream, 2)
        assert [paid.slot for paid in store.measurements("")] == [0, 1]
        assert len(check_accounts(store)) == 1


def test_a_store_whose_bucket_is_missing_is_not_opened_for_writing(tmp_path, key_file):
    """Also an old copy of the database, whose files were removed since: it says what to do, and removes nothing."""
    path = tmp_path / "visits.db"
    with dpi.open_store(path, key_file=key_file, witness=False) as store:
        stream = opened(store, BucketEngine(Local()))
        close(stream, 0)
        folder = store.folder.path
    shutil.copy(path, tmp_path / "copy.db")
    with dpi.open_store(path, key_file=key_file) as store:
        stream = opened(store, BucketEngine(Local()))
        close(stream, 1)
        close(stream, 2)
    there = sorted(folder.iterdir())
    with pytest.raises(StateError, match="missing"):
        dpi.open_store(tmp_path / "copy.db", key_file=key_file)
    assert sorted(folder.iterdir()) == there


def test_events_of_an_open_slot_that_are_missing_are_refused(tmp_path, key_file):
    """A section whose file is gone, or another's, closes nothing: its users would be left out unseen."""
    clock = {"slot": "1h", "start": "2026-01-01T00:00"}
    with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        stream = dpi.Stream(store=store, engine=BucketEngine(Local()), **OPTIONS, **clock)
        for sequence, user in enumerate(["ada", "bob"]):
            stream.append([user], ["2026-01-01T00:10"], ["v1"], now="2026-01-01T00:20", sequence=sequence)
        files = [store.folder.path / section.name for section in store.sections("", stream.next_slot)]
        saved = [file.read_bytes() for file in files]
        files[0].write_bytes(saved[1])
        with pytest.raises(StateError, match="missing or was changed"):
            list(stream.advance(now="2026-01-01T01:00"))
        files[0].unlink()
        with pytest.raises(StateError, match="missing or was changed"):
            list(stream.advance(now="2026-01-01T01:00"))
        files[0].write_bytes(saved[0])
        assert len(list(stream.advance(now="2026-01-01T01:00"))) == 1
        assert not any(file.exists() for file in files)


def test_a_batch_that_is_delivered_again_is_refused(tmp_path, key_file):
    """Over a restart, too: (producer, sequence) is listed in the transaction that lists the files."""
    clock = {"slot": "1h", "start": "2026-01-01T00:00"}
    told = []
    for _ in range(2):
        with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
            stream = dpi.Stream(store=store, engine=BucketEngine(Local()), **OPTIONS, **clock)
            batch = ["ada"], ["2026-01-01T00:10"], ["v1"]
            told += [stream.append(*batch, now="2026-01-01T00:20", sequence=sequence) for sequence in (0, 1, 1)]
            assert len(store.sections("", stream.next_slot)) == 2
    assert told == [True, True, False, False, False, False]


# The folder.


class Elsewhere(Local):
    """Runs tasks in a process that sees another file system in the place of a folder, as another machine would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, function, tasks):
        """Each task in a process of its own."""
        run = "import pickle, sys; f, t = pickle.load(sys.stdin.buffer); pickle.dump(f(t), sys.stdout.buffer)"
        command = 'mount -t tmpfs none "$1" && exec "$2" -c "$3"'
        for task in tasks:
            done = subprocess.run(
                [UNSHARE, "--mount", "sh", "-c", command, "sh", self.folder, sys.executable, run],
                input=pickle.dumps((function, task)),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                check=True,
            )
            yield pickle.loads(done.stdout)  # noqa: S301 - from our own process


@pytest.mark.skipif(
    UNSHARE is None or subprocess.run([UNSHARE, "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="needs the right to mount a file system",
)
def test_a_folder_that_workers_do_not_share_is_refused_in_one_sentence(tmp_path, key_file):
    """A worker that sees another file system under the folder's path is found out before anything is done."""
    folder = tmp_path / "buckets"
    with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        with pytest.raises(StateError, match="is not shared"):
            opened(store, BucketEngine(Elsewhere(folder), folder))
        assert not list(store.measurements(""))


def test_a_folder_that_is_gone_or_of_another_store_is_refused_in_one_sentence(tmp_path, key_file):
    """Moved, or mixed up with the folder of another store: nothing is opened, and nothing is removed."""
    for name in ("one", "two"):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            close(opened(store, BucketEngine(Local())), 0)
    folders = [tmp_path / f"{name}.db.buckets" for name in ("one", "two")]
    folders[0].rename(tmp_path / "away")
    with pytest.raises(StateError, match="cannot be read here"):
        dpi.open_store(tmp_path / "one.db", key_file=key_file)
    shutil.copytree(folders[1], folders[0])
    with pytest.raises(StateError, match="of another store"):
        dpi.open_store(tmp_path / "one.db", key_file=key_file)
    assert sorted(path.name for path in folders[0].iterdir()) == sorted(path.name for path in folders[1].iterdir())


@pytest.mark.parametrize("path", ["no/such/folder", "full"])
def test_a_new_store_whose_folder_cannot_be_made_has_nothing_half_done(tmp_path, key_file, path):
    """The sentence names the folder; what is in one that was there stays."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").write_text("keep")
    with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        with pytest.raises((OptionError, StoreError), match=path):
            opened(store, BucketEngine(Local(), tmp_path / path))
        assert store.layout is None
    assert (tmp_path / "full" / "theirs").read_text() == "keep"


def test_an_engine_needs_a_store_on_disk():
    """A stream in memory is refused, with what to give."""
    with pytest.raises(OptionError, match="needs a store on disk"):
        opened(dpi.MemoryStore(), BucketEngine(Local()))


def test_an_engine_refuses_accounts_in_the_database(tmp_path, key_file):
    """They are moved by a command, by name, and not by the way."""
    with dpi.open_store(tmp_path / "visits.db", key_file=key_file) as store:
        close(opened(store), 0)
        with pytest.raises(StateError, match="dpi ledger STORE --layout buckets"):
            opened(store, BucketEngine(Local()))
        assert not (tmp_path / "visits.db.buckets").exists()


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    """Processes are counted."""
    with pytest.raises(OptionError, match="workers"):
        Pool(workers)
