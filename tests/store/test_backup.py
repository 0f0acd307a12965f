"""Backups: one moment of a store in use, and nobody above ε when one is put back."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from test_witness import Truth

import dpi
from dpi.errors import OptionError, StateError
from dpi.store import backup
from dpi.store._schema import TABLES
from dpi.store.backup import back_up, restore
from dpi.testing.workload import DOMAIN
from dpi.verification import check_accounts, verify

USERS = ["ada", "bob", "cem", "dora"]
CLOCKED = {"slot": "1h", "start": "2026-01-01"}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, key_file, tmp_path):
    """Opens the store under its witness."""
    target = request.getfixturevalue(request.param)

    class Place:
        address, witness, key = target, tmp_path / "elsewhere.witness", key_file

        def open(self, address=target, **options):
            return dpi.open_store(address, **({"key_file": key_file, "witness": self.witness} | options))

    return Place()


def stream(opened, **options):
    """A stream that takes 0.3 of an account of 1."""
    default = {"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.3")}
    return dpi.Stream(store=opened, **(default | options))


def rows(opened):
    """All that a store holds."""
    read = {table: opened.engine.rows(f"SELECT * FROM {table}") for table in TABLES}  # noqa: S608 - our own names
    return {
        table: sorted(
            [[bytes(cell) if isinstance(cell, memoryview) else cell for cell in row] for row in found], key=repr
        )
        for table, found in read.items()
    }


@pytest.mark.parametrize("to", ["sqlite", "postgres"])
def test_a_copy_is_the_store_to_the_last_byte_and_goes_on(store, tmp_path, request, key_file, to) -> None:
    """From one database to another, with open events, a tree and accounts; for its owner only; the key is not in it."""
    with store.open() as opened:
        live = stream(opened, **CLOCKED, accumulate=dpi.stream.PrefixTree(per_slot="0.1", arity=2, levels=2))
        live.append(USERS, ["2026-01-01T00:10"] * 4, ["DE"] * 4, now="2026-01-01T00:20")
        list(live.advance(now="2026-01-01T01:00"))
        live.append(USERS[:3], ["2026-01-01T01:10"] * 3, ["FR"] * 3, now="2026-01-01T01:20")
        back_up(store.address, tmp_path / "copy.db")
        before = rows(opened)
    copy = tmp_path / "copy.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert key_file.read_text().strip().encode() not in copy.read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".copy")]
    with dpi.open_store(copy, read_only=True) as read:
        assert read.head().sequence >= 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy.db")] == [
        "copy.db"
    ]  # no -wal, no -shm
    elsewhere = str(tmp_path / "restored.db")
    if to == "postgres":
        elsewhere = f"{request.getfixturevalue('server')}?schema={backup_schema(request)}"
    restore(copy, elsewhere, witness=store.witness, key_file=key_file)
    with store.open(elsewhere) as again:
        assert rows(again) == before
        live = stream(again, **CLOCKED, accumulate=dpi.stream.PrefixTree(per_slot="0.1", arity=2, levels=2))
        (release,) = live.advance(now="2026-01-01T02:00")
        assert release.slot == live.setting.start + 1
        assert [*verify(again).problems, *check_accounts(again)] == []


def backup_schema(request) -> str:
    """A schema that is dropped afterwards."""
    import psycopg

    name, server = "dpi_test_restored", request.getfixturevalue("server")

    def drop() -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    drop()
    request.addfinalizer(drop)
    return name


@pytest.mark.parametrize("moment", ["between slots", "paid and not released", "released and not witnessed"])
def test_nobody_is_above_epsilon_after_a_restore(store, tmp_path, monkeypatch, moment) -> None:
    """Copy, go on, lose the store, put the copy back and charge, twice: what each user truly lost is at most ε.

    A copy of the moment between keeping a release and telling the witness is refused.
    """
    truth = Truth(monkeypatch)

    def copied(*_: object) -> None:
        back_up(store.address, tmp_path / "copy.db")

    with store.open() as opened:
        live = stream(opened)
        live.release(USERS, ["DE"] * 4)
        if moment == "between slots":
            copied()
        else:
            step = "publish" if moment.startswith("paid") else "testify"
            true = getattr(opened, step)
            setattr(opened, step, lambda *values: (copied(), true(*values)))
        live.release(USERS[:2], ["DE"] * 2)
        for step in ("publish", "testify"):
            vars(opened).pop(step, None)
        live.release(USERS[:3], ["FR"] * 3)
    for turn in range(2):
        place = str(tmp_path / f"restored {turn}.db")
        with pytest.raises(StateError, match="old copy"):
            restore(tmp_path / "copy.db", place, witness=store.witness, key_file=store.key)
        assert not Path(place).exists()
        if moment == "released and not witnessed":  # a slot that another file may have released, as far as it knows
            with pytest.raises(StateError, match="not known to have seen"):
                restore(tmp_path / "copy.db", place, witness=store.witness, key_file=store.key, charge_lost=True)
            return
        restore(tmp_path / "copy.db", place, witness=store.witness, key_file=store.key, charge_lost=True)
        with store.open(place) as opened:
            live = stream(opened)
            assert live.next_slot == 3 + 2 * turn
            for _ in range(2):
                live.release([*USERS, f"new {turn}"], ["DE"] * 5)
            assert [*verify(opened).problems, *check_accounts(opened)] == []
    assert max(truth.units.values()) <= 2**40
    assert max(truth.units.values()) > 0.85 * 2**40  # the charge leaves what was not spent


def test_a_copy_that_goes_on_beside_its_store_lets_nothing_out(store, tmp_path) -> None:
    """Whichever of the two comes second to the witness is refused before its release is handed to anyone."""
    with store.open() as opened:
        live = stream(opened)
        live.release(USERS, ["DE"] * 4)
        back_up(store.address, tmp_path / "copy.db")
        restore(tmp_path / "copy.db", tmp_path / "twin.db", witness=store.witness, key_file=store.key)
        with store.open(tmp_path / "twin.db") as twin:
            beside = stream(twin)
            live.release(USERS, ["DE"] * 4)
            for _ in range(2):
                with pytest.raises(StateError, match="another copy of the store goes on"):
                    beside.release(USERS, ["DE"] * 4)
        live.release(USERS, ["DE"] * 4)
    with pytest.raises(StateError, match=r"different histories|old copy"):
        store.open(tmp_path / "twin.db")


def test_a_store_without_a_witness_has_no_back_up(store, tmp_path) -> None:
    """Nobody could tell what was spent since; and a copy is not put back under another witness, or none."""
    with store.open(witness=False) as opened:
        stream(opened).release(USERS, ["DE"] * 4)
        with pytest.raises(StateError, match="has no witness"):
            back_up(store.address, tmp_path / "copy.db")
    with store.open() as opened:
        back_up(store.address, tmp_path / "copy.db")
    dpi.open_store(tmp_path / "other.db", witness=tmp_path / "other.witness").close()
    for witness in ("other.witness", "nothing"):
        with pytest.raises(StateError, match="missing, or not the one"):
            restore(tmp_path / "copy.db", tmp_path / "new.db", witness=tmp_path / witness, key_file=store.key)
    with pytest.raises(StateError, match="name it"):
        dpi.open_store(tmp_path / "copy.db", key_file=store.key)


def test_nothing_is_replaced_and_nothing_half_done_is_left(store, tmp_path, monkeypatch, key_file) -> None:
    """A target that is there stays; a copy or a restoration that fails half-way leaves no file and no store."""
    with store.open() as opened:
        stream(opened).release(USERS, ["DE"] * 4)
    back_up(store.address, tmp_path / "copy.db")
    with pytest.raises(OptionError, match="exists already"):
        back_up(store.address, tmp_path / "copy.db")
    with pytest.raises(OptionError, match=r"exists already|there is a store"):
        restore(tmp_path / "copy.db", store.address, witness=store.witness, key_file=key_file)
    true = backup._rows

    def failing(engine, table):
        if table == "account_runs":
            raise OSError(28, "No space left on device")
        return true(engine, table)

    monkeypatch.setattr(backup, "_rows", failing)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(dpi.StoreError, match="No space left"):
        back_up(store.address, tmp_path / "second.db")
    with pytest.raises(dpi.StoreError, match="No space left"):
        restore(tmp_path / "copy.db", tmp_path / "new.db", witness=store.witness, key_file=key_file)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_copies_of_a_store_in_use_are_each_of_one_moment(store, tmp_path) -> None:
    """While slots close in another thread, every copy verifies whole, accounts included, and delays no release."""
    with store.open() as opened:
        live = stream(opened, budget=dpi.Ledger(per_slot="0.01"))
        done = threading.Event()

        def write() -> None:
            for slot in range(25):
                live.release([f"user {slot} {number}" for number in range(200)], ["DE"] * 200)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        copies = 0
        while not done.is_set() and copies < 6:
            back_up(store.address, tmp_path / f"copy {copies}.db")
            copies += 1
        writer.join()
    assert done.is_set()
    heads = []
    for number in range(copies):
        with dpi.open_store(tmp_path / f"copy {number}.db", key_file=store.key, read_only=True, curator=True) as copy:
            assert [*verify(copy).problems, *check_accounts(copy)] == []
            heads.append(copy.head().sequence)
    assert heads == sorted(heads)
