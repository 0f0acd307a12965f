"""Upgrading a store: in place, after a backup, whole or not at all; what was spent, released and waits is the same.

There is one format so far. These tests make a second one: its program has a table more.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

import dpi
from dpi.errors import NewerVersion, OptionError, StateError, StoreBusy
from dpi.store import _schema, upgrade
from dpi.store.backup import back_up, restore
from dpi.store.export import export
from dpi.testing.workload import close_slot, open_streams


def with_notes(engine):
    """What makes format 2 of format 1."""
    engine.execute("CREATE TABLE notes (stream TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (stream))")


@pytest.fixture
def later(monkeypatch):
    """Makes this program one of a later version, with another format."""

    def begin(step=with_notes):
        monkeypatch.setattr(_schema, "FORMAT", 2)
        monkeypatch.setattr(_schema, "TABLES", _schema.TABLES | {"notes": ("stream TEXT, note TEXT", 1)})
        monkeypatch.setattr(upgrade, "STEPS", {1: step})

    return begin


@pytest.fixture(params=["sqlite", "postgres", "buckets"])
def used(request, key_file, tmp_path):
    """A store with two slots and its backup: its address, what opens it, the copy, and what it must keep."""
    target = request.getfixturevalue("sqlite" if request.param == "buckets" else request.param)
    memory = {"memory": 1 << 20} if request.param == "buckets" else {}

    def reopen(**options):
        return dpi.open_store(target, key_file=key_file, witness=tmp_path / "witness", **options)

    with reopen(**memory) as store:
        for stream in open_streams(store):
            close_slot(stream, 0)
    back_up(target, tmp_path / "copy.db")
    with reopen() as store:
        kept = said(store)
    return target, reopen, tmp_path / "copy.db", kept


def said(store):
    """Accounts, bounds, releases and chain of a store."""
    ledgers = {name: store.load_ledger(name, options) for name, options in store.ledgers().items()}
    streams = {
        name: (store.reached(name), store.bounds(name), store.payments(name), [*store.releases(name)])
        for name in store.streams()
    }
    return ledgers, streams, [*store.links()]


def test_every_format_has_a_step_from_the_one_before():
    """From the first one on: accounts are readable for ever."""
    assert sorted(upgrade.STEPS) == [*range(1, _schema.FORMAT)]


def test_a_store_is_upgraded_and_goes_on(used, later):
    """Refused before, and the sentence names the command; afterwards accounts are as they were, and slots go on."""
    target, reopen, copy, kept = used
    later()
    for options in ({}, {"read_only": True}):
        with pytest.raises(StateError, match=r"has format 1, of dpi .*dpi backup upgrade STORE FILE.*Nothing"):
            reopen(**options) if options == {} else dpi.open_store(target, **options)
    assert upgrade.upgrade(target, copy) == (1, 2)
    with reopen() as store:
        assert said(store) == kept
        for stream in open_streams(store):
            close_slot(stream, 1)
    assert upgrade.upgrade(target, copy) == (2, 2)


def test_an_older_program_refuses_it(used, later, monkeypatch):
    """It is never taken back; the copy that was made before is put back instead."""
    target, reopen, copy, _ = used
    with monkeypatch.context():
        later()
        upgrade.upgrade(target, copy)
        monkeypatch.undo()
    with pytest.raises(NewerVersion, match=r"newer version of dpi .*format is 2, and this program reads 1. Install"):
        reopen()
    with pytest.raises(NewerVersion):
        upgrade.upgrade(target, copy)


def test_without_a_copy_of_this_moment_nothing_is_changed(used, later, tmp_path):
    """None, an export, and a copy that lacks a slot."""
    target, reopen, copy, _ = used
    with reopen() as store:
        export(store, tmp_path / "public.db")
        close_slot(open_streams(store)[0], 1)
        kept = said(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_schema, "FORMAT", 2)
        patch.setattr(upgrade, "STEPS", {1: with_notes})
        for named, match in (
            (copy, "not of this moment"),
            (tmp_path / "no.db", "`backup` must be a backup"),
            (tmp_path / "public.db", "`backup` must be a backup"),
        ):
            with pytest.raises((StateError, OptionError), match=match):
                upgrade.upgrade(target, named)
        with pytest.raises(StateError, match="an export"):
            upgrade.upgrade(tmp_path / "public.db", copy)
    with reopen() as store:
        assert said(store) == kept


@pytest.mark.parametrize("fault", ["loses a payment", "ends in the middle"])
def test_a_step_that_fails_leaves_the_old_store(used, later, fault, monkeypatch):
    """All of it happens or nothing; accounts that would have less spent are noticed."""
    target, reopen, copy, kept = used

    def step(engine):
        with_notes(engine)
        engine.execute("DELETE FROM account_runs")
        if fault == "ends in the middle":
            raise OSError("gone")

    with monkeypatch.context():
        later(step)
        with pytest.raises((StateError, OSError), match=r"would have changed what was spent|gone"):
            upgrade.upgrade(target, copy)
        monkeypatch.undo()
    with reopen() as store:
        assert said(store) == kept


def test_it_is_refused_while_another_process_writes(used, later):
    """The right to write is asked for first."""
    target, reopen, copy, _ = used
    with reopen():
        later()
        with pytest.raises(StoreBusy):
            upgrade.upgrade(target, copy)


def test_the_copy_is_put_back_where_the_new_version_is_given_up(used, later, monkeypatch, key_file, tmp_path):
    """By the rules of old copies: nothing was released since, so nobody is charged."""
    target, _, copy, kept = used
    with monkeypatch.context():
        later()
        upgrade.upgrade(target, copy)
        monkeypatch.undo()
    back = tmp_path / "back.db"
    restore(copy, back, witness=tmp_path / "witness", key_file=key_file)
    with dpi.open_store(back, key_file=key_file, witness=tmp_path / "witness") as store:
        assert said(store) == kept


def test_the_command_says_what_it_did(sqlite, key_file, tmp_path):
    """A store of this version's format is left as it is."""
    with dpi.open_store(sqlite, key_file=key_file):
        pass
    words = [sys.executable, "-m", "dpi", "backup", "upgrade", sqlite, str(tmp_path / "copy.db")]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert f"has format {_schema.FORMAT}, which is this version's: nothing was changed." in told


def test_a_copy_of_an_earlier_format_is_upgraded_and_put_back(used, later, key_file, tmp_path):
    """The store is lost, and so is its version: a copy of the copy is upgraded first."""
    _, _, copy, kept = used
    again = tmp_path / "again.db"
    shutil.copy(copy, again)
    if copy.with_name("copy.db.buckets").exists():
        shutil.copytree(copy.with_name("copy.db.buckets"), tmp_path / "again.db.buckets")
    later()
    upgrade.upgrade(again, copy)
    restore(again, tmp_path / "back.db", witness=tmp_path / "witness", key_file=key_file)
    with dpi.open_store(tmp_path / "back.db", key_file=key_file, witness=tmp_path / "witness") as store:
        assert said(store) == kept
