"""Accounts in pages: what is looked up is what was paid, in memory that is bounded, and a changed byte is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.budget.account_records import RECORD, STANDING, newest, to_records
from dpi.budget.account_table import AccountTable
from dpi.cli.commands.ledger import move
from dpi.engine import BucketEngine
from dpi.engine.executor import Local
from dpi.errors import OptionError, StateError
from dpi.store import _paged_table
from dpi.store._paged_table import PagedTable, RecentAccounts, TooMany
from dpi.store.account_files import RunFiles, merge
from dpi.store.folder import Folder
from dpi.testing import workload
from dpi.verification import check_accounts, verify

ATTEMPT = "0" * 16


def accounts(rng, number):
    """Names, and what their accounts hold."""
    names = rng.integers(0, 1 << 64, (number, 2), dtype=np.uint64)
    standing = np.zeros(number, dtype=STANDING)
    standing["spent"], standing["active"] = rng.integers(1, 1 << 40, number), rng.integers(1, 9, number)
    return names, standing


def records_of(names, standing):
    """The same as records, sorted."""
    return np.frombuffer(AccountTable.from_bytes(to_records(names, standing)).to_bytes(), dtype=RECORD)


def written(files, records, size=None):
    """A file of records, which come some at a time."""
    pieces = [records] if size is None else [records[at : at + size] for at in range(0, records.size, size)]
    return files.write(ATTEMPT, 1, 0, pieces, records.size)


@pytest.fixture
def files(tmp_path):
    """Page files in a folder of their own."""
    return RunFiles(Folder.make(tmp_path / "pages", "mark"), "ledger", bytes(32))


@pytest.mark.parametrize("number", [0, 1, 7, 8, 9, 1000])
def test_a_file_gives_back_what_was_written(files, number):
    """All accounts of it, each of them by name, and nothing for any other name."""
    rng = np.random.default_rng(number)
    names, standing = accounts(rng, number)
    run = written(files, records_of(names, standing))
    assert files.read(run) == records_of(names, standing).tobytes()
    edges = np.array([[0, 0], [2**64 - 1, 2**64 - 1]], dtype=np.uint64)
    asked = np.concatenate([names, rng.integers(0, 1 << 64, (500, 2), dtype=np.uint64), edges])
    order = np.argsort(asked[:, 0])
    found, there = files.look_up([(run, slice(0, len(asked)))], asked[order])
    back = np.empty_like(found)
    back[order] = found
    assert (back[:number] == standing).all()
    assert not back[number:]["active"].any()
    assert there.sum() == number


@pytest.mark.parametrize("size", [1, 7, 8, 9, 100])
def test_a_file_that_is_written_by_pieces_is_the_same(files, size):
    """However the pieces lie beside blocks."""
    names, standing = accounts(np.random.default_rng(size), 300)
    records = records_of(names, standing)
    run = written(files, records, size)
    assert files.read(run) == records.tobytes()


def test_names_that_share_a_high_half_are_told_apart(files):
    """Over the edges of blocks too."""
    names = np.array([[5, low] for low in range(0, 60, 2)] + [[9, 1]], dtype=np.uint64)
    standing = np.zeros(len(names), dtype=STANDING)
    standing["spent"], standing["active"] = np.arange(len(names)) + 1, 1
    records = np.empty(len(names), dtype=RECORD)
    records["name"]["high"], records["name"]["low"], records["standing"] = names[:, 0], names[:, 1], standing
    run = written(files, records)
    for name, held in zip(names, standing, strict=True):
        found, _ = files.look_up([(run, slice(0, 1))], name.reshape(1, 2))
        assert found[0] == held
        odd = np.array([[name[0], name[1] + 1 if name[0] == 5 else 0]], dtype=np.uint64)
        assert not files.look_up([(run, slice(0, 1))], odd)[0]["active"].any()
    more = merge(records[::2], records[1::2])
    assert more.tobytes() == records.tobytes()


def test_every_changed_byte_is_refused(files):
    """Of a block that is read, of its seal, and of the names by which it is found: no account is refilled by one."""
    rng = np.random.default_rng(3)
    names, standing = accounts(rng, 24)
    run = written(files, records_of(names, standing))
    path = files.folder.path / run.name
    whole = path.read_bytes()
    order = np.argsort(names[:, 0])
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found, _ = files.look_up([(run, slice(0, 24))], names[order])
        except StateError:
            continue
        assert at >= 3 * 320  # a name to find a block by, that still leads to the right one
        assert (found == standing[order]).all()
        with pytest.raises(StateError):
            files.read(run)
    path.write_bytes(whole[:-8])
    with pytest.raises(StateError):
        files.look_up([(run, slice(0, 24))], names[order])


def test_a_block_of_another_place_is_refused(files):
    """Of another number, another file, another part or another log: all of them are sealed, of another message."""
    rng = np.random.default_rng(4)
    names, standing = accounts(rng, 24)
    run = written(files, records_of(names, standing))
    path = files.folder.path / run.name
    whole = path.read_bytes()
    swapped = whole[320:640] + whole[:320] + whole[640:]
    path.write_bytes(swapped)
    with pytest.raises(StateError):
        files.read(run)
    path.write_bytes(whole)
    other = written(files, records_of(names, standing))
    (files.folder.path / other.name).write_bytes(whole)
    for where, one in ((files, other), (RunFiles(files.folder, "another", bytes(32)), run)):
        with pytest.raises(StateError):
            where.read(one)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_recent_accounts_are_those_that_were_put(seed):
    """Beside a plain dictionary, over puts, looks and emptied parts."""
    rng = np.random.default_rng(seed)
    recent, plain = RecentAccounts(400, np.array([0, 1 << 62, 1 << 63], dtype=np.uint64)), {}
    known, _ = accounts(rng, 200)
    for _ in range(8):
        names = known[rng.choice(200, int(rng.integers(0, 60)), replace=False)]
        _, standing = accounts(rng, len(names))
        recent.put(names, standing)
        plain |= dict(zip(map(tuple, names.tolist()), standing.tolist(), strict=True))
        gone = int(rng.integers(0, 3))
        if rng.random() < 0.3:
            held, what = recent.held(gone)
            here = {tuple(name) for name in known[recent.part(known) == gone].tolist()}
            assert dict(zip(map(tuple, held.tolist()), what.tolist(), strict=True)) == {
                name: value for name, value in plain.items() if name in here
            }
            recent.empty(gone)
            plain = {name: value for name, value in plain.items() if name not in here}
        at = recent.find(known)
        held = [tuple(name) for name in known[at >= 0].tolist()]
        assert dict(zip(held, recent.get(at[at >= 0]).tolist(), strict=True)) == plain
        assert recent.counts.sum() == len(plain)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 90))
def test_a_part_that_is_filled_is_as_one_that_was_put(seed, number):
    """Every account is found, no other, over the end of a region too; more than fit are refused."""
    rng = np.random.default_rng(seed)
    starts = np.array([0, 1 << 62, 1 << 63], dtype=np.uint64)
    names, standing = accounts(rng, number)
    names[:, 0] = (names[:, 0] >> np.uint64(2)) + np.uint64(1 << 62)  # of the second part
    names[number // 2 :, 0] |= np.uint64((1 << 62) - (1 << 60))  # many of them at its end
    order = np.argsort(names[:, 0])
    names, standing = names[order], standing[order]
    filled, put = RecentAccounts(400, starts), RecentAccounts(400, starts)
    if number > 75:
        with pytest.raises(TooMany):
            filled.fill(1, names, standing)
        return
    filled.fill(1, names, standing)
    put.put(names, standing)
    assert filled.counts.tolist() == put.counts.tolist() == [0, number, 0]
    assert (filled.get(filled.find(names)) == standing).all()
    assert (filled.find(accounts(rng, 100)[0]) == -1).all()
    assert [each.tobytes() for each in filled.held(1)] == [each.tobytes() for each in put.held(1)]


NONE = np.empty(0, dtype=RECORD)


@pytest.mark.parametrize("bits", [0, 2, 4])
def test_a_table_in_files_is_as_one_in_memory(files, monkeypatch, bits):
    """Charge after charge, with buckets that are moved, runs of tasks beside them, and a charge larger than memory."""
    monkeypatch.setattr(_paged_table, "LEAST", 16)
    rng, buckets = np.random.default_rng(8), 1 << bits
    known, _ = accounts(rng, 6000)
    table, plain = PagedTable(files, [()] * buckets, [NONE] * buckets, 1000), AccountTable()
    for slot in range(40):
        names = known[rng.choice(6000, 5000 if slot == 20 else 150, replace=False)]
        place = table.find(names)
        assert (table.get(place) == plain.get(plain.find(names))).all()
        _, standing = accounts(rng, len(names))
        if slot % 10 == 5:  # a task has written more files, and the table is opened anew
            changed = [np.frombuffer(to_records(*table._recent.held(at)), dtype=RECORD) for at in range(buckets)]
            charged = records_of(names, standing)
            bucket = np.searchsorted(table._starts, charged["name"]["high"], side="right") - 1
            runs = []
            for at in range(buckets):
                mine = newest([changed[at], charged[bucket == at]])
                runs.append((*table._runs[at], files.write(ATTEMPT, at, 9, [mine], mine.size)))
            table = PagedTable(files, runs, [NONE] * buckets, 1000)
        else:
            table.move(ATTEMPT, place.names, standing[np.argsort(names[:, 0])])
            table.put(place, standing[np.argsort(names[:, 0])])
        plain.put(plain.find(names), standing[np.argsort(names[:, 0])])
        assert table._recent.counts.sum() <= 0.35 * 1000 + 1
    everything = b"".join(to_records(*part) for part in table.parts())
    assert everything == AccountTable.from_bytes(plain.to_bytes()).to_bytes()


def test_buckets_that_are_equally_full_are_moved_one_after_the_other(files):
    """A store that was built has all alike: no slot moves many of them at once, and memory stays as it should."""
    table = PagedTable(files, [()] * 64, [NONE] * 64, 1 << 20)
    recent, more = table._recent, np.full(64, 110)
    moved = []
    for _ in range(400):
        gone = table._fullest(more)
        recent.counts = recent.counts + more
        recent.counts[gone] = 0
        moved.append(len(gone))
        assert recent.counts.sum() <= 0.35 * (1 << 20)
        assert (recent.counts <= 0.75 * recent.sizes).all()
    assert max(moved) <= 4
    assert sum(moved[-100:]) <= 64


# Stores.


@pytest.fixture
def small(monkeypatch):
    """Memory so small that a few accounts are moved."""
    monkeypatch.setattr(_paged_table, "LEAST", 4)
    monkeypatch.setattr("dpi.store.opening.LEAST", 1)
    monkeypatch.setattr("dpi.store.opening.PAGED_BITS", 2)
    return 2 * 37 * 24


def test_streams_end_alike_in_pages(sqlite, key_file, tmp_path, small):
    """In the same bytes as with all accounts in memory, over restarts, slots of an engine, and moves to and fro."""
    with dpi.open_store(tmp_path / "plain.db", key_file=key_file) as plain:
        list(workload.run(plain))
        expected = workload.outcome(plain)
    for slot in range(1, 4):
        with dpi.open_store(sqlite, key_file=key_file, memory=small) as store:
            list(workload.run(store, slot, BucketEngine(Local()) if slot == 2 else None))
            assert store._listed_files()
            assert {path.name for path in store.folder.path.iterdir()} == store._listed_files() | {"dpi-buckets"}
    with dpi.open_store(sqlite, key_file=key_file) as store:
        store.lay_out(tmp_path / "buckets", 3)
        store.embed()
        store.lay_out(tmp_path / "pages", 1)
        list(workload.run(store))
        assert workload.outcome(store) == expected
        assert check_accounts(store) == ()
        assert verify(store).whole


def test_on_postgresql_pages_lie_in_a_folder_that_is_named(postgres, key_file, tmp_path, small):
    """Without one they are refused, with what to do; with one, streams end in the same bytes, over restarts."""
    with pytest.raises(OptionError, match=r"needs a folder .*`dpi ledger --layout buckets --path"):
        dpi.open_store(postgres, key_file=key_file, memory=small)
    with dpi.open_store(tmp_path / "plain.db", key_file=key_file) as plain:
        list(workload.run(plain))
        expected = workload.outcome(plain)
    with dpi.open_store(postgres, key_file=key_file) as store:
        list(workload.run(store, 1))
        move(store, "buckets:2", tmp_path / "pages")
    for slot in (2, None):
        with dpi.open_store(postgres, key_file=key_file, memory=small) as store:
            assert store.layout is not None
            list(workload.run(store, slot) if slot else workload.run(store))
            assert {path.name for path in store.folder.path.iterdir()} == store._listed_files() | {"dpi-buckets"}
    with dpi.open_store(postgres, key_file=key_file, memory=small) as store:
        assert workload.outcome(store) == expected
        assert len(store._listed_files()) > 1
        assert check_accounts(store) == ()
        assert verify(store).whole


def test_memory_that_is_too_little_is_refused(sqlite):
    """With a sentence that says what is expected."""
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match="`memory` must be a whole number of bytes"):
            dpi.open_store(sqlite, memory=wrong)


def test_a_file_that_is_gone_or_put_back_is_refused(sqlite, key_file, small):
    """A missing page is never taken for empty, and the list of an older moment does not match its seal."""
    with dpi.open_store(sqlite, key_file=key_file, memory=small) as store:
        list(workload.run(store, 2))
        folder = store.folder.path
        rows = store.engine.rows("SELECT * FROM account_runs")
        list(workload.run(store, 3))
        last = store.engine.rows("SELECT * FROM account_runs")
        assert rows != last
        store.engine.execute("DELETE FROM account_runs")
        store.engine.execute_many("INSERT INTO account_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        assert check_accounts(store) != ()
        store.engine.execute("DELETE FROM account_runs")
        store.engine.execute_many("INSERT INTO account_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", last)
        assert check_accounts(store) == ()
        (folder / next(row[4] for row in last if row[4])).unlink()
        assert check_accounts(store) != ()
    with pytest.raises(StateError, match="missing"):
        dpi.open_store(sqlite, key_file=key_file)
