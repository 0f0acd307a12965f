"""Events in any order, slot by slot, in bounded memory, whatever one user sends."""

from __future__ import annotations

import os
import random
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.errors import StateError
from dpi.events.rows import Rows
from dpi.exact.integers import MOST
from dpi.histogram.grouping import Groups
from dpi.sources._slot_sorter import SlotSorter, Spill
from played_rows import KEY, grains, name, play, row_of
from strategies import few

SLOTS = dpi.Slots("1m", origin="2026-01-01")
START = 1767225600
DOMAIN = dpi.Categories(["DE", "FR", "D", "F"])
Slot = tuple[int, list[tuple[object, object]]]

rows = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "7", "", "x" * 1025, None]),
        st.one_of(st.integers(-3, 70), st.just(10**12)),
        st.sampled_from(["DE", "FR", None]),
    ),
    max_size=40,
)


def events(table: list[tuple[object, ...]], folder: Path, suffix: str = "parquet") -> dpi.sources.FileEvents:
    """A file of (user, minute, value)."""
    schema = {"user": pl.String, "time": pl.Int64, "value": pl.String}
    frame = pl.DataFrame(table, schema=schema, orient="row").with_columns(pl.col("time") * 60 + START)
    path = folder / f"events.{suffix}"
    frame.write_parquet(path) if suffix == "parquet" else frame.write_csv(path)
    return dpi.read(path, unit="s")


def slots(source: dpi.sources.FileEvents, last: int = 600, **options: object) -> list[Slot]:
    """Each slot with its events (user, bin), in an order of their own."""
    found = play(source, SLOTS, DOMAIN, 0, last, **options)
    return [(number, sorted(events_of(rows), key=repr)) for number, rows in found]


@cache
def known() -> dict[tuple[int, int], str]:
    """Users by the names of their accounts."""
    users = ["ada", "bob", "eve", *map(str, range(50)), *(f"secret-user-{i}" for i in range(2000))]
    return {name(user): user for user in users}


def events_of(rows: Rows) -> list[tuple[object, object]]:
    """A (user, bin) for each event that the rows stand for."""
    users = [known()[high, low] for high, low in rows.names.tolist()]
    pairs = zip(users, rows.bins.tolist(), rows.counts.tolist(), strict=True)
    return [(user, code) for user, code, count in pairs for _ in range(count)]


@settings(max_examples=few(15, 2000))
@given(table=rows, seed=st.randoms(use_true_random=False), suffix=st.sampled_from(["parquet", "csv"]))
def test_the_order_of_rows_does_not_matter(table: list[tuple[object, ...]], seed: random.Random, suffix: str) -> None:
    """Any permutation of the rows gives the same slots, in memory and on disk; every slot comes once, in order."""
    mixed = seed.sample(table, len(table))
    expected: dict[int, list[tuple[object, object]]] = {number: [] for number in range(60)}
    for user, minute, value in table:
        if isinstance(minute, int) and 0 <= minute < 60 and user in ("ada", "bob", "7"):
            expected[minute].append((user, DOMAIN.index(value)))
    with tempfile.TemporaryDirectory() as folder:
        first = slots(events(table, Path(folder), suffix), 60)
        assert first == [(number, sorted(found, key=repr)) for number, found in expected.items()]
        assert slots(events(mixed, Path(folder), suffix), 60, memory=1) == first


def test_a_far_future_event_changes_no_other(tmp_path: Path) -> None:
    """Events outside the public period are dropped by their own time; the slots of others stay as they were."""
    table: list[tuple[object, ...]] = [("ada", 1, "DE"), ("bob", 5, "FR")]
    alone = slots(events(table, tmp_path))
    assert slots(events([*table, ("eve", 10**9, "IT"), ("eve", -5, "IT"), ("eve", None, "IT")], tmp_path)) == alone


def big(folder: Path, users: int = 2000) -> dpi.sources.FileEvents:
    """A file of 20,000 events in no order."""
    draw = random.Random(1)
    names = [f"secret-user-{i}" for i in range(users)]
    return events([(draw.choice(names), draw.randrange(900), draw.choice("DF")) for _ in range(20_000)], folder)


def test_spilled_slots_are_the_same_and_nothing_stays(tmp_path: Path) -> None:
    """What lay on the disk comes back as it was, and nothing stays."""
    source, folder = big(tmp_path), tmp_path / "spill"
    folder.mkdir()
    assert slots(source, memory=100_000, spill=folder) == slots(source)
    assert list(folder.iterdir()) == []


def test_what_lies_on_the_disk_is_private_and_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no name, is open to its owner only, and no name of an account can be read in it."""
    source, made, temporary = big(tmp_path), [], tempfile.TemporaryFile

    def watched(**options: object) -> IO[bytes]:
        made.append(temporary(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    folder = tmp_path / "spill"
    folder.mkdir()
    found = play(source, SLOTS, DOMAIN, 0, 600, memory=100_000, spill=folder)
    next(found)
    (file,) = made
    assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert list(folder.iterdir()) == []
    file.flush()
    data = os.pread(file.fileno(), 1 << 30, 0)
    assert len(data) > 100_000
    accounts = [name(f"secret-user-{number}")[0].to_bytes(8, sys.byteorder) for number in range(0, 2000, 20)]
    assert not any(account in data for account in accounts)
    found.close()
    assert file.closed


def test_nothing_stays_after_an_error(tmp_path: Path) -> None:
    """A consumer that fails, and a file that turns out to be damaged, leave no folder behind."""
    source, folder = big(tmp_path), tmp_path / "spill"
    folder.mkdir()

    def failing(_: int) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        list(play(source, SLOTS, DOMAIN, 0, 600, memory=1, spill=folder, progress=failing))
    assert list(folder.iterdir()) == []


def test_a_crowded_range_is_cut_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If almost all events of a long period lie in a few slots, these are cut apart, not loaded at once."""
    finer, cut = SlotSorter._finer, []
    monkeypatch.setattr(SlotSorter, "_finer", lambda own, *given: cut.append(given[:2]) or finer(own, *given))
    table: list[tuple[object, ...]] = [(str(i % 50), i % 40, "DE") for i in range(5000)]
    source = events(table, tmp_path)
    expected = slots(source, last=20_000)
    assert not cut
    assert slots(source, last=20_000, memory=5_000) == expected
    assert len(expected) == 20_000
    assert cut
    assert all(first < 40 and last < 200 for first, last in cut)


def test_spilled_events_that_were_changed_are_refused() -> None:
    """A changed byte on the disk is noticed."""
    spill = Spill()
    piece = spill.write(np.zeros(9, dtype=[("name", "u8")]))
    assert spill.read(piece) == bytes(72)
    spill._file.seek(40)  # type: ignore[union-attr]
    spill._file.write(b"x")  # type: ignore[union-attr]
    with pytest.raises(dpi.StateError):
        spill.read(piece)
    spill.close()


def test_a_stream_releases_what_files_hold(tmp_path: Path) -> None:
    """Slots of a file and slots of a table give the same histogram of the same events."""
    source = big(tmp_path)
    table = pl.read_parquet(tmp_path / "events.parquet").with_columns(minute=(pl.col("time") - START) // 60)
    for number, rows in play(source, SLOTS, DOMAIN, 0, 20, memory=50_000):
        here = table.filter(pl.col("minute") == number)
        expected = dpi.histogram.compress(here["user"], here["value"], DOMAIN).grains
        assert grains(rows, DOMAIN.size) == expected.tolist()


# What one user's flood of events can take: memory that the public domain bounds, and nothing of the others.


FLOOD_SLOTS = dpi.Slots("1m", origin="1970-01-01")
FLOOD_DOMAIN = dpi.Categories(["DE", "FR"])
METHODS = (dpi.histogram.normalise, dpi.histogram.truncate(3, KEY), dpi.histogram.whole_pdf)


def write(path: Path, flood: int) -> Path:
    """Events of 1,000 users in three slots, and of one more who sends `flood` different values in the second."""
    others = pl.DataFrame({"user": np.arange(3000) % 1000, "time": np.arange(3000) // 1000 * 60, "value": "DE"})
    values = pl.format("a value of its own that is in no domain, number {}", pl.int_range(flood, eager=True))
    more = pl.select(user=pl.lit(5000), time=pl.lit(60), value=values) if flood else others.clear()
    pl.concat([others, more.cast(others.schema)]).write_csv(path)
    return path


def test_a_flood_of_different_values_takes_no_more_memory_than_the_domain_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many different values of one user in one slot fall to `other`, and are one row: nothing spills."""
    held, add = [], SlotSorter.add

    def watched(sorter: SlotSorter, rows: Rows) -> None:
        add(sorter, rows)
        held.append(sum(part.nbytes for part in sorter._held))

    monkeypatch.setattr(SlotSorter, "add", watched)
    monkeypatch.setattr(Spill, "write", None)
    file = dpi.read(write(tmp_path / "flood.csv", 200_000), unit="s")
    assert len(list(play(file, FLOOD_SLOTS, FLOOD_DOMAIN, 0, 3, memory=1 << 19))) == 3
    assert len(held) > 3
    assert max(held) <= 1 << 18  # all rows would take 4 MiB


def test_a_flood_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    """One user's flood adds that user's one unit, and no grain of anybody else moves."""
    alone, flooded = (
        [grains(rows, FLOOD_DOMAIN.size) for _, rows in play(file, FLOOD_SLOTS, FLOOD_DOMAIN, 0, 3, memory=1 << 16)]
        for file in (dpi.read(write(tmp_path / f"{flood}.csv", flood), unit="s") for flood in (0, 100_000))
    )
    assert flooded == [alone[0], [*alone[1][:2], alone[1][2] + (1 << 24)], alone[2]]


def test_equal_rows_stay_few_however_often_they_are_written(tmp_path: Path) -> None:
    """A slot that was written in many pieces comes back with a few rows for each user and bin, and all flood_events."""
    frame = pl.DataFrame({"user": ["ada", "bob"] * 50_000, "time": [60] * 100_000, "value": ["DE", "FR"] * 50_000})
    for number in range(8):
        frame.write_parquet(tmp_path / f"{number}.parquet")
    found = dict(play(dpi.read(tmp_path / "*.parquet", unit="s"), FLOOD_SLOTS, FLOOD_DOMAIN, 0, 3, memory=1))
    rows = found[1]
    assert rows.bins.size <= 8
    assert np.bincount(rows.bins, rows.counts).tolist() == [400_000, 400_000]


flood_events = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "7", "8", None]),
        st.integers(0, 599),
        st.sampled_from(["DE", "FR", "IT", "ES", None]),
    ),
    max_size=60,
)


@settings(max_examples=few(15, 2000))
@given(table=flood_events, times=st.integers(1, 5), memory=st.sampled_from([1, 400, 1 << 30]))
def test_merged_rows_give_the_histogram_of_all_rows(table: list[tuple[object, ...]], times: int, memory: int) -> None:
    """Whatever was merged or written, every compression gives the grains that it gives all rows at once."""
    schema = {"user": pl.String, "time": pl.Int64, "value": pl.String}
    frame = pl.DataFrame(table * times, schema=schema, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            frame.write_parquet(f"{folder}/{number}.parquet")
        slots = list(play(dpi.read(f"{folder}/*.parquet", unit="s"), FLOOD_SLOTS, FLOOD_DOMAIN, 0, 10, memory=memory))
    for number, rows in slots:
        here = pl.concat([frame.filter(pl.col("time") // 60 == number)] * 3)
        for method in METHODS:
            expected = dpi.histogram.compress(here["user"], here["value"], FLOOD_DOMAIN, method=method).grains.tolist()
            assert grains(rows, FLOOD_DOMAIN.size, method) == expected


def test_counts_are_cut_and_do_not_overflow() -> None:
    """A number of equal flood_events beyond what is kept is the user's own matter: it adds at most one unit."""
    rows = row_of(["ada", "ada", "ada", "bob"], np.array([0, 0, 1, 1]), np.array([MOST, MOST, MOST, 1]))
    assert grains(rows, 3) == [1 << 23, (1 << 23) + (1 << 24), 0]
    ((_, pairs),) = Groups(row_of(["ada", "ada"], np.array([0, 0]), np.array([MOST, 5])), 1).pairs()
    assert pairs.counts.tolist() == [MOST]


def test_equal_pieces_are_not_equal_on_the_disk(tmp_path: Path) -> None:
    """No nonce is used twice: whoever reads the file cannot tell that pieces are equal, nor put one in another's place.

    Two texts under one nonce of AES-GCM give away their difference, and with it the key of the tag.
    """
    spill, records = Spill(tmp_path), np.zeros(4, dtype=np.uint64)
    first, second = spill.write(records), spill.write(records)
    assert spill._file is not None
    spill._file.seek(0)
    one, other = spill._file.read(first.size), spill._file.read(second.size)
    assert one != other
    assert spill.read(first) == spill.read(second) == records.tobytes()
    spill._file.seek(second.start)
    spill._file.write(one)
    with pytest.raises(StateError, match="was changed while it was in use"):
        spill.read(second)
    spill.close()
