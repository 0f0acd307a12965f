"""Measurements of old slots are dropped by a public rule: releases, the chain and the promise stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dpi
from dpi.errors import OptionError, StoreBusy
from dpi.verification import check_accounts, verify

WORDS = dpi.Categories(["a", "b"])


def stream_in(store, name="", **options):
    """A stream of the store."""
    return dpi.Stream(domain=WORDS, epsilon=1, budget=dpi.Ledger(per_slot="0.01"), store=store, name=name, **options)


def released(store, slots, name=""):
    """The store with so many more slots of a stream."""
    stream = stream_in(store, name)
    for _ in range(slots):
        stream.release(["ada", "bob"], ["a", "b"])
    return stream


def kept(store, name=""):
    """The slots whose measurements are there."""
    return [paid.slot for paid in store.measurements(name)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_old_measurements_go_and_the_chain_holds(kind, request):
    """The last ones stay, all releases are there, both checks hold, and the stream goes on; twice changes nothing."""
    target, key_file = request.getfixturevalue(kind), request.getfixturevalue("key_file")
    with dpi.open_store(target, key_file=key_file) as store:
        released(store, 12)
        released(store, 3, "short")
        assert store.thin(5) == {"": 7, "short": 0}
        assert kept(store) == [7, 8, 9, 10, 11]
        assert kept(store, "short") == [0, 1, 2]
        assert store.thinned() == {"": 7}
        assert store.thin(5) == {"": 0, "short": 0}
        found = verify(store)
        assert found.problems == ()
        assert found.thinned == {"": 7}
        assert len(dpi.open(store, "")) == 12
        assert check_accounts(store) == ()
    with dpi.open_store(target, key_file=key_file) as store:
        released(store, 2)
        assert store.thin(100) == {"": 0, "short": 0}
        assert store.thinned() == {"": 7}
        assert verify(store).intact


def test_what_the_rule_keeps_is_still_checked(tmp_path):
    """One that is missing above the rule's slot, or does not fit its certificate, is found."""
    with dpi.open_store(tmp_path / "s.db") as store:
        released(store, 10)
        store.thin(4)
        store.engine.execute("DELETE FROM measurements WHERE slot = 7")
        assert verify(store).problems == (
            "the measurement of slot 7 of the stream without a name is not the one its certificate states",
        )


def test_one_that_is_paid_for_stays(tmp_path, monkeypatch):
    """A slot that is paid for and not released is released after it as if nothing had happened."""
    with dpi.open_store(tmp_path / "s.db") as store:
        stream = released(store, 5)
        monkeypatch.setattr(type(store), "publish", lambda *_: (_ for _ in ()).throw(OSError("cut off")))
        with pytest.raises(OSError, match="cut off"):
            stream.release(["ada"], ["a"])
        monkeypatch.undo()
        store.thin(1)
        assert kept(store) == [4, 5]
    with dpi.open_store(tmp_path / "s.db") as store:
        stream_in(store)
        assert len(dpi.open(store)) == 6
        assert verify(store).intact


def test_an_export_and_a_back_up_know_of_it(tmp_path):
    """What analysts get, and what is put back, can be verified too."""
    from dpi.store.backup import back_up
    from dpi.store.export import export

    with dpi.open_store(tmp_path / "s.db", witness=tmp_path / "seen") as store:
        released(store, 6)
        store.thin(2)
        export(store, tmp_path / "public.db")
    back_up(tmp_path / "s.db", tmp_path / "copy.db")
    for path in ("public.db", "copy.db"):
        with dpi.open_store(tmp_path / path, read_only=True) as store:
            assert kept(store) == [4, 5]
            assert verify(store).intact
            assert verify(store).thinned == {"": 4}


@pytest.mark.parametrize("keep", [0, -1, True, 1.5])
def test_a_rule_that_is_none(tmp_path, keep):
    """At least one slot is kept."""
    with dpi.open_store(tmp_path / "s.db") as store, pytest.raises(OptionError, match="`keep_measurements` must be"):
        store.thin(keep)


def test_a_store_that_is_written_to_is_left_alone(tmp_path):
    """Another process that has the store open is told of, in one sentence."""
    path = tmp_path / "s.db"
    with dpi.open_store(path) as store:
        released(store, 3)
        words = [sys.executable, "-m", "dpi.cli", "ledger", "compact", str(path), "--keep-measurements", "1"]
        environment = {**os.environ, "PYTHONPATH": str(Path(dpi.__file__).parents[1])}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
        assert "another process writes to the store" in done.stderr
        assert kept(store) == [0, 1, 2]


PROGRAM = """
import os, sys, dpi
from dpi.store._sqlite import SQLite
execute, left = SQLite.execute, [int(sys.argv[2])]
def dying(self, statement, values=()):
    if statement.startswith(("DELETE FROM measurements", "INSERT INTO facts", "COMMIT", "BEGIN")):
        if left[0] == 0:
            os.kill(os.getpid(), 9)
        left[0] -= 1
    execute(self, statement, values)
store = dpi.open_store(sys.argv[1])
SQLite.execute = dying
store.thin(2)
"""


def test_a_kill_leaves_all_of_it_or_nothing(tmp_path):
    """Killed before each statement that matters: before the commit nothing is gone, and the next try does it all."""
    path = tmp_path / "s.db"
    with dpi.open_store(path) as store:
        released(store, 6)
    environment = {**os.environ, "PYTHONPATH": str(Path(dpi.__file__).parents[1])}
    for statement in range(4):
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(path), str(statement)], check=False, env=environment)
        assert done.returncode == -signal.SIGKILL
        with dpi.open_store(path, read_only=True) as store:
            assert kept(store) == [0, 1, 2, 3, 4, 5]
            assert store.thinned() == {}
            assert verify(store).intact
    with dpi.open_store(path) as store:
        store.thin(2)
        assert kept(store) == [4, 5]


def test_two_threads_of_one_process(tmp_path):
    """Events are kept by another thread while measurements go, as in a service."""
    with dpi.open_store(tmp_path / "s.db") as store:
        stream = stream_in(store, slot="1h", start="2026-01-01")
        for _ in range(30):
            stream.release(["ada"], ["a"])
        failed = []

        def appending():
            try:
                for _ in range(50):
                    stream.append(["bob"], ["2026-01-02T06:30:00"], ["b"])
            except StoreBusy as error:
                failed.append(error)

        thread = threading.Thread(target=appending)
        thread.start()
        for keep in range(29, 9, -1):
            store.thin(keep)
        thread.join()
        assert failed == []
        assert len(kept(store)) == 10


def test_what_is_freed_is_used_again(tmp_path):
    """The file stops growing by measurements: slots after it fit into what the dropped ones have left."""
    path, wide = tmp_path / "s.db", dpi.Categories([f"v{i}" for i in range(2000)])
    with dpi.open_store(path) as store:
        stream = dpi.Stream(domain=wide, epsilon=1, budget=dpi.Ledger(per_slot="0.001"), store=store)
        for _ in range(20):
            stream.release(["ada"], ["v1"])
        store.thin(1)
        free = store.engine.rows("PRAGMA freelist_count")[0][0]
        for _ in range(5):
            stream.release(["ada"], ["v1"])
        assert store.engine.rows("PRAGMA freelist_count")[0][0] < free


def test_the_command(tmp_path, monkeypatch, capsys):
    """It says what it dropped, as text and as JSON; a store that is not there is not made."""
    from typer.testing import CliRunner

    from dpi.cli.app import app

    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    with dpi.open_store("s.db") as store:
        released(store, 5)
    found = json.loads(run.invoke(app, ["ledger", "compact", "s.db", "--keep-measurements", "2", "--json"]).stdout)
    assert found == {"store": "s.db", "keep": 2, "dropped": {"": 3}, "thinned": {"": 3}}
    assert json.loads(run.invoke(app, ["verify", "s.db", "--json"]).stdout)["thinned"] == {"": 3}
    assert "of slots before 3 dropped by a rule" in " ".join(run.invoke(app, ["verify", "s.db"]).stdout.split())
    said = run.invoke(app, ["ledger", "compact", "s.db"])
    assert said.exit_code == 0
    assert "0 measurements dropped" in said.stdout
    missing = run.invoke(app, ["ledger", "compact", "none.db"])
    assert missing.exit_code == 2
    assert "there is no store at none.db" in missing.stderr
    assert not Path("none.db").exists()
    assert run.invoke(app, ["ledger", "compact", "s.db", "--keep-measurements", "0"]).exit_code == 2
