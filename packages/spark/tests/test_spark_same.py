"""The same bytes from Spark as from one process: releases, measurements, ledgers and chains."""

from __future__ import annotations

import os

import pytest
from random_streams import SLOTS, STREAMS, opened, outcome, run

import dpi
from dpi_spark import replay
from dpi_spark.reading import Reader, read
from spark_feeding import COLUMNS, embedded, follower, hours, moment, on_spark, put, reach, rows_of, watched

KINDS = list(enumerate(STREAMS)) if os.environ.get("DPI_SLOW") else [(0, "clocked"), (4, "refilled"), (8, "truncate")]


@pytest.mark.parametrize(("seed", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_random_streams_end_in_the_same_bytes(seed, kind, running, tmp_path, key_file, workers):
    """Late, doubled and disordered events, through one process, a pool and Spark."""
    results = []
    with embedded(kind, seed, tmp_path, key_file) as store:
        results.append(outcome(store))
    for name in ("local", "pool"):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            used = dpi.engine.BucketEngine(workers if name == "pool" else dpi.engine.executor.Local(), bits=2)
            run(opened(kind, seed, store, engine=used), seed)
            results.append(outcome(store))
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened(kind, seed, store, engine=on_spark(running))
        hours(running, stream, seed, SLOTS, tmp_path)
        results.append(outcome(store))
    assert results[0]["problems"] == []
    assert len(results[0]["releases"][""]) == SLOTS
    assert all(result == results[0] for result in results[1:])


def table(seed: int) -> list[dict[str, object]]:
    """The rows of all hours."""
    return [row for slot in range(SLOTS) for rows in rows_of(seed, slot) for row in rows]


def test_a_played_dataframe_ends_in_the_same_bytes_whatever_its_partitions(running, tmp_path, key_file):
    """Nobody's rows depend on which others share a partition, nor on a user that is most of one."""
    rows = table(1) + [{"user": "giant", "time": "2026-01-01T01:30", "value": "v1", "arrived": None}] * 3000
    results = []
    for name, partitions in (("embedded", 0), ("one", 1), ("five", 5)):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            period = {"start": "2026-01-01", "end": "2026-01-01T03:00"}
            if partitions:
                stream = opened("default", 3, store, engine=on_spark(running))
                frame = running.createDataFrame(rows, "user string, time string, value string, arrived string")
                released = list(replay(stream, frame.repartition(partitions), **period))
            else:
                stream = opened("default", 3, store)
                released = list(stream.replay(rows, **period))
            assert len(released) == 3
            results.append(outcome(store))
    assert results[0]["problems"] == []
    assert results[1] == results[2] == results[0]


def test_spellings_of_one_name_are_one_account(running, tmp_path, key_file):
    """Workers name users by the stream's rule of ids: the bytes are those of one process."""
    rows = [(user, "2026-01-01T00:30", f"v{n}") for n, user in enumerate(["Zoë", "Zoe\u0308", " Zoë", "ada", "\u3000"])]
    period, results = {"start": "2026-01-01", "end": "2026-01-01T01:00"}, []
    with dpi.open_store(tmp_path / "embedded.db", key_file=key_file) as store:
        table = [dict(zip(("user", "time", "value"), row, strict=True)) for row in rows]
        list(opened("per slot", 3, store).replay(table, **period))
        results.append(outcome(store))
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        frame = running.createDataFrame(rows, "user string, time string, value string")
        list(replay(opened("per slot", 3, store, engine=on_spark(running)), frame.repartition(2), **period))
        results.append(outcome(store))
    assert results[0]["problems"] == []
    assert results[0] == results[1]


def test_rows_without_a_user_are_dropped_by_themselves(running, tmp_path, key_file):
    """Null, empty, and a column of nothing but nulls: the others count as they would alone."""
    kinds, period = "user string, time string, value string", {"start": "2026-01-01", "end": "2026-01-01T01:00"}
    good = [(f"user {n}", "2026-01-01T00:30", f"v{n}") for n in range(5)]
    bad = [(user, "2026-01-01T00:30", "v1") for user in (None, "")]
    results = []
    for name, rows in (("alone", good), ("mixed", [*bad, *good, *bad]), ("nobody", [])):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            stream = opened("per slot", 3, store, engine=on_spark(running))
            frame = running.createDataFrame(rows, kinds)
            if not rows:
                frame = running.sql("SELECT NULL AS user, '2026-01-01T00:30' AS time, 'v1' AS value")
            assert len(list(replay(stream, frame, **period))) == 1
            results.append(outcome(store))
    assert results[0]["problems"] == results[2]["problems"] == []
    assert results[1] == results[0]
    assert results[0]["ledgers"][""]
    assert not results[2]["ledgers"].get("")


def test_a_giant_user_is_one_row_of_a_piece(running, tmp_path, key_file):
    """Equal events are summed where they are read: what a flood takes in files is a row for each piece."""
    with dpi.open_store(tmp_path / "store.db", key_file=key_file) as store:
        stream = opened("default", 3, store, engine=on_spark(running))
        rows = [("giant", "2026-01-01T00:30", "v1")] * 20_000
        frame = running.createDataFrame(rows, "user string, time string, value string").repartition(2)
        driver = stream.driver
        with driver.folder.attempt() as attempt:
            how = driver.ingest(stream.slots, attempt, durable=False)
            sections = read(frame, Reader(type(COLUMNS)(), how))
        assert sum(section.events for section in sections) == 20_000
        assert sum(section.rows for section in sections) == len(sections) == 2


def test_a_large_domain_is_sent_once(running, tmp_path, key_file):
    """100,000 values make a function above the size from which Spark broadcasts it; results are the same."""
    domain = dpi.Categories([f"v{number}" for number in range(100_000)], other="else")
    results = []
    for name in ("embedded", "spark"):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            engine = on_spark(running) if name == "spark" else None
            stream = opened("converging", 3, store, engine=engine, domain=domain)
            rows, period = table(2), {"start": "2026-01-01", "end": "2026-01-01T01:00"}
            if engine is None:
                list(stream.replay(rows, **period))
            else:
                list(replay(stream, running.createDataFrame(rows, "user string, time string, value string"), **period))
            results.append([each.values for each in store.measurements("")])
    assert results[0] == results[1]


def test_an_event_from_the_far_future_changes_nobody_elses_slot(running, tmp_path, key_file):
    """An attacker's times move no clock: no watermark follows them, and no slot closes earlier or later."""
    attack = [
        {"user": "eve", "time": time, "value": "v1", "arrived": arrived}
        for time in ("9999-12-31T23:59", "2026-01-01T09:00", "2262-04-12T00:00", "never", "-9999-01-01")
        for arrived in ("2026-01-01T00:20", "9999-12-31T23:59", None, "now")
    ]
    results = []
    for name in ("without", "with"):
        folder = tmp_path / name
        folder.mkdir()
        with dpi.open_store(folder / "store.db", key_file=key_file) as store:
            stream = opened("default", 3, store, engine=on_spark(running))
            if name == "with":
                put(folder / "in", "attack", attack)
            hours(running, stream, 1, 2, folder)
            results.append(outcome(store))
            assert stream.next_slot == stream.setting.start + 2
    assert results[0] == results[1]


def test_a_slot_that_the_clock_has_not_closed_stays_open(running, tmp_path, key_file):
    """Events of the next hour do not close this one."""
    with dpi.open_store(tmp_path / "store.db", key_file=key_file) as store:
        stream = opened("default", 3, store, engine=on_spark(running))
        put(tmp_path / "in", "later", [row for rows in rows_of(1, 1) for row in rows])
        following = follower(stream, watched(running, tmp_path / "in"), tmp_path / "checkpoint", 1)
        assert list(following.reach(moment(-1))) == []
        assert stream.next_slot == stream.setting.start
        reach(running, stream, 0, tmp_path)
        assert stream.next_slot == stream.setting.start + 1
