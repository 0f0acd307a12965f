"""Accounts that are moved between layouts: nobody is refilled, nothing of an open slot is lost, and checks go on."""

from __future__ import annotations

import shutil
from operator import attrgetter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.budget.account_records import STANDING, to_records
from dpi.budget.account_table import AccountTable
from dpi.engine import BucketEngine
from dpi.engine.executor import Local
from dpi.errors import OptionError, StateError, StoreBusy
from dpi.store import account_log
from dpi.store.account_files import Run, into_file, take_in
from dpi.store.folder import MARK
from dpi.store.ledger_session import stored_accounts
from dpi.testing import workload
from dpi.verification import check_accounts, verify

HERE = "2026-01-01T{:02d}:30"


def left_open(store, slot: int) -> None:
    """Leave events of an open slot."""
    stream = workload.open_streams(store)[0]
    now = HERE.format(slot)
    stream.append(["late", "busy"], [now] * 2, ["DE", "FR"], now=now, producer="other", sequence=slot)


def events_of(store, slot: int):
    """The events of an open slot, in an order of their own."""
    first = workload.open_streams(store)[0].next_slot
    kept = store.events("visits", first)
    return sorted(zip(kept.names[:, 0].tolist(), kept.bins.tolist(), kept.counts.tolist(), strict=True))


def test_moving_changes_no_account_no_event_and_no_release(durable, tmp_path):
    """To buckets, to more of them, to one, and back: between the slots of streams that go on as if never moved."""
    with durable() as store:
        list(workload.run(store, 1))
        left_open(store, 1)
        before, waiting = workload.outcome(store), events_of(store, 1)
        assert len(waiting) == 2
        for where in (("a", 1), ("b", 6), ("c", 0), (), ("d", 2)):
            if where:
                store.lay_out(tmp_path / where[0], where[1])
            else:
                store.embed()
            assert workload.outcome(store) == before
            assert events_of(store, 1) == waiting
            there = [name for name in "abcd" if (tmp_path / name).exists()]
            assert there == [name for name in where if isinstance(name, str)]
            list(workload.open_streams(store))  # streams read the accounts where they are now
        files = {path.name for path in (tmp_path / "d").iterdir()}
        assert files == {MARK} | store._listed_files()
    with durable() as store:
        list(workload.run(store, 2))
        moved = workload.outcome(store)
    assert moved["problems"] == []
    assert len(moved["releases"]["visits"]) == 2


def test_streams_end_alike_in_every_layout(durable, tmp_path):
    """A stream that holds all accounts in memory pays into buckets as well, and ends in the same bytes."""
    with dpi.open_store(tmp_path / "plain.db", key_file=tmp_path / "key") as plain:
        list(workload.run(plain))
        expected = workload.outcome(plain)
    with durable() as store:
        list(workload.run(store, 1))
        store.lay_out(tmp_path / "buckets", 2)
        list(workload.run(store, 2))
    with durable() as store:
        list(workload.run(store, 3, BucketEngine(Local())))
        store.embed()
        list(workload.run(store))
        assert workload.outcome(store) == expected


def test_a_move_is_refused_after_another_process_has_paid(sqlite, key_file, tmp_path):
    """What this process knows of the store is compared in the transaction that moves; nothing of it is left."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        workload.close_slot(workload.open_streams(store)[1], 0)
        store.engine._use.give_up()
        with dpi.open_store(sqlite, key_file=key_file) as other:
            workload.close_slot(workload.open_streams(other)[1], 1)
        with pytest.raises(StoreBusy):
            store.lay_out(tmp_path / "buckets", 2)
        assert store.layout is None
        assert not (tmp_path / "buckets").exists()
        assert check_accounts(store) == ()


def test_a_damaged_ledger_is_not_moved(sqlite, key_file, tmp_path):
    """A seal that does not match is found before anything is written anew and sealed again."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1))
        store.engine.execute("DELETE FROM account_runs WHERE ledger = ''")
        with pytest.raises(StateError, match="damaged"):
            store.lay_out(tmp_path / "buckets", 2)
        assert store.layout is None
        assert not (tmp_path / "buckets").exists()


def test_the_fact_of_the_layout_cannot_be_taken_back(sqlite, key_file, tmp_path):
    """A store that is told that its accounts are in the database finds a seal over buckets, and refuses."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1))
        store.lay_out(tmp_path / "buckets", 2)
        store.engine.execute("UPDATE facts SET value = '' WHERE name = 'layout'")
        with pytest.raises(StateError, match="seal"):
            stored_accounts(store, "")
        assert check_accounts(store) != ()


def test_a_folder_of_something_else_is_not_taken(sqlite, key_file, tmp_path):
    """Files of others are left alone, and so are the buckets of another store."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("keep")
    with dpi.open_store(sqlite, key_file=key_file) as store:
        with pytest.raises(OptionError, match="new or empty"):
            store.lay_out(tmp_path / "theirs", 2)
        store.lay_out(tmp_path / "buckets", 2)
        with pytest.raises(OptionError, match="new or empty"):
            store.lay_out(tmp_path / "buckets", 3)
    assert (tmp_path / "theirs" / "file").read_text() == "keep"


@pytest.mark.parametrize("old", ["both", "database"])
def test_an_old_copy_is_charged_for_or_refused(key_file, tmp_path, old, monkeypatch):
    """An old copy of database and folder pays for lost slots as an embedded one does; one without its files cannot."""
    monkeypatch.delitem(workload.STREAMS, "alone")  # a series drawn at random cannot go on
    levies = {}
    for layout in ("embedded", "buckets"):
        folder, path = tmp_path / layout, tmp_path / layout / "visits.db"
        folder.mkdir()
        witness = {"key_file": key_file, "witness": folder / "witness"}
        engine = BucketEngine(Local(), bits=2) if layout == "buckets" else None
        with dpi.open_store(path, **witness) as store:
            list(workload.run(store, 1, engine))
        shutil.copy(path, folder / "old.db")
        if layout == "buckets":
            shutil.copytree(folder / "visits.db.buckets", folder / "old.buckets")
        with dpi.open_store(path, **witness) as store:
            list(workload.run(store, 3, engine))
        for name in ("visits.db", "visits.db-wal", "visits.db-shm"):
            Path(folder / name).unlink(missing_ok=True)
        shutil.copy(folder / "old.db", path)
        if layout == "buckets" and old == "database":
            with pytest.raises(StateError, match="missing"):
                dpi.open_store(path, **witness, charge_lost=True)
            return
        if layout == "buckets":
            shutil.rmtree(folder / "visits.db.buckets")
            shutil.copytree(folder / "old.buckets", folder / "visits.db.buckets")
        with pytest.raises(StateError, match="old copy"):
            dpi.open_store(path, **witness)
        with dpi.open_store(path, **witness, charge_lost=True) as store:
            users = pl.Series(["regular 1", "busy", "nobody"])
            levies[layout] = {
                name: [stored_accounts(store, name).remaining(users, 9), store.load_ledger(name, options)[1]]
                for name, options in store.ledgers().items()
            }
            assert check_accounts(store) == ()
            assert verify(store).problems == ()
    assert levies["embedded"] == levies["buckets"]
    assert any(levy for _, levy in levies["buckets"].values())


def test_what_lies_in_files_of_a_closed_slot_cannot_be_read(sqlite, key_file):
    """Events are ciphertext, their key is in the store alone, and it goes when the slot is paid for."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        options = workload.STREAMS["visits"] | {"domain": workload.DOMAIN, "epsilon": 1, "name": "visits"}
        stream = dpi.Stream(store=store, engine=BucketEngine(Local(), bits=1), **options)
        stream.append(["ada"] * 3, [HERE.format(0)] * 3, ["DE", "FR", "IT"], now=HERE.format(0))
        (section,) = store.sections("visits", stream.next_slot)
        held = (store.folder.path / section.name).read_bytes()
        name = store.events("visits", stream.next_slot).names[0]
        assert name.tobytes() not in held
        assert name[0].tobytes() not in held
        list(stream.advance(now="2026-01-01T01:00"))
        assert not (store.folder.path / section.name).exists()
    for path in Path(sqlite).parent.glob("visits.db*"):
        if path.is_file():
            assert section.key not in path.read_bytes()


def test_names_of_files_tell_nothing(sqlite, key_file):
    """A name is random: neither stream, slot, bucket nor size is in it, and the folder is its owner's."""
    with dpi.open_store(sqlite, key_file=key_file) as store:
        list(workload.run(store, 1, BucketEngine(Local(), bits=1)))
        folder = store.folder.path
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert path.name == MARK or set(path.name) <= set("0123456789abcdef-")


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_a_bucket_take_at_most_48_bytes_an_account(seed):
    """After every payment, whoever pays: and the last record of each account is the one that was written last."""
    rng = np.random.default_rng(seed)
    held, last = list[bytes](), dict[int, int]()
    for slot in range(60):
        users = np.unique(rng.integers(0, 400, int(rng.integers(1, 120 if slot % 7 else 12))))
        names = np.stack([users.astype(np.uint64) << np.uint64(40), users.astype(np.uint64)], axis=1)
        standing = np.zeros(users.size, dtype=STANDING)
        standing["spent"] = slot + 1
        last |= dict.fromkeys(users.tolist(), slot + 1)
        runs = [Run(0, number, "file", len(records), records) for number, records in enumerate(held)]
        kept, data = take_in(runs, to_records(names, standing), attrgetter("seal"), into_file)
        held = [*held[:kept], data]
        assert sum(map(len, held)) <= 48 * len(last)
        assert len(held) <= 6
    found, spent = AccountTable.from_bytes(b"".join(held)).everybody()
    assert dict(zip(found[:, 1].tolist(), spent["spent"].tolist(), strict=True)) == last


@pytest.mark.parametrize("bits", [None, 1])
def test_many_small_payments_leave_few_rows_and_every_debit(bits, sqlite, key_file, tmp_path, monkeypatch):
    """Runs in the database are merged, beside files as well, and those that take several rows are read whole."""
    monkeypatch.setattr(account_log, "PART", 100)
    budget = dpi.Ledger(per_slot="0.01", policy=dpi.budget.spend_first)
    users = [[f"user {(slot + number) % 40}" for number in range(9)] for slot in range(3 * account_log.MANY)]
    with dpi.open_store(sqlite, key_file=key_file) as store:
        if bits is not None:
            store.lay_out(tmp_path / "buckets", bits)
        stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=budget, store=store)
        for active in users:
            stream.release(active, ["a"] * len(active))
        runs = store._accounts.runs("").values()
        assert max(map(len, runs)) <= account_log.MANY
        assert store.engine.rows("SELECT MAX(part) FROM account_runs")[0][0] > 0
    with dpi.open_store(sqlite, key_file=key_file) as store:
        everybody = pl.Series([f"user {number}" for number in range(40)])
        paid = [float(1 - left) for left in stored_accounts(store, "").remaining(everybody, 99)]
        assert paid == pytest.approx([sum(user in active for active in users) / 100 for user in everybody])
        assert check_accounts(store) == ()


def in_buckets(store) -> dpi.Stream:
    """A stream whose accounts lie in one bucket, so that a small payment adds a file and replaces none."""
    budget = dpi.Ledger(per_slot=0.3, policy=dpi.budget.spend_first)
    return dpi.Stream(
        domain=dpi.Categories(["a", "b"]), epsilon=1, budget=budget, store=store, engine=dpi.engine.local(bits=0)
    )


def test_an_old_copy_is_refused_before_it_removes_what_the_newest_one_lists(tmp_path):
    """It finds all of its own files, for payments added some and replaced none; the newest one opens afterwards."""
    path, witness = tmp_path / "s.db", tmp_path / "witness"
    with dpi.open_store(path, witness=witness) as store:
        in_buckets(store).release([f"user {n}" for n in range(1000)], ["a"] * 1000)
        before = store._listed_files()
    shutil.copy(path, tmp_path / "old.db")
    with dpi.open_store(path, witness=witness) as store:
        in_buckets(store).release(["user 1", "user 2"], ["a", "b"])
        after = store._listed_files()
    assert before < after
    path.rename(tmp_path / "newest.db")
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(StateError, match="newest copy"):
        dpi.open_store(path, witness=witness)
    (tmp_path / "newest.db").rename(path)
    with dpi.open_store(path, witness=witness) as store:
        in_buckets(store).release(["user 1"], ["a"])
        assert check_accounts(store) == ()


def test_who_lost_the_right_to_write_removes_no_file_of_who_has_it(tmp_path, monkeypatch):
    """Stopped between reading its list and removing files, or before both, until another process has paid."""
    former = dpi.open_store(tmp_path / "s.db")
    in_buckets(former).release([f"user {n}" for n in range(1000)], ["a"] * 1000)
    listed = former._listed_files

    def stopped():
        found = listed()
        former.engine._use.give_up()
        with dpi.open_store(tmp_path / "s.db") as store:
            in_buckets(store).release(["user 1"], ["a"])
        return found

    monkeypatch.setattr(former, "_listed_files", stopped)
    former.remove_unlisted()
    with dpi.open_store(tmp_path / "s.db") as store:
        assert check_accounts(store) == ()
    monkeypatch.setattr(former, "_listed_files", listed)
    with pytest.raises(StoreBusy):
        former.remove_unlisted()
