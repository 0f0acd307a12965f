"""The random streams as Spark is fed with them: files that come into a folder, each row with its arrival."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from random_streams import SLOTS, batches, opened, run

import dpi
from dpi.sources import Columns
from dpi.store.sql import SQLStore
from dpi_spark import SparkExecutor
from dpi_spark.following import Follower

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user string, time string, value string, arrived string"
COLUMNS = Columns(arrived="arrived")
HOUR = 3_600_000_000
FIRST = dpi.Slots("1h").instant("2026-01-01T00:00", "start")


def rows_of(seed: int, slot: int) -> Iterable[list[dict[str, object]]]:
    """The batches of an hour as rows, each batch once."""
    seen = set()
    for users, times, values, now, sequence in batches(seed, slot):
        if sequence not in seen:
            seen.add(sequence)
            yield [
                {"user": None if user is None else str(user), "time": time, "value": value, "arrived": now}
                for user, time, value in zip(users, times, values, strict=True)
            ]


def put(folder: Path, name: str, rows: Iterable[dict[str, object]]) -> None:
    """A file that appears whole."""
    folder.mkdir(exist_ok=True)
    draft = folder / f".{name}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / f"{name}.json")


def watched(running: SparkSession, folder: Path) -> DataFrame:
    """The files of a folder as they come."""
    folder.mkdir(exist_ok=True)
    return running.readStream.schema(SCHEMA).json(str(folder))


def moment(slot: int) -> int:
    """Twelve minutes after an hour ends: with ten minutes of lateness it is closed by then."""
    return FIRST + (slot + 1) * HOUR + HOUR // 5


def follower(stream: dpi.Stream, frame: DataFrame, checkpoint: Path, slot: int, **options: bool) -> Follower:
    """Follows a folder at a time of our own."""
    return Follower(stream, frame, COLUMNS, str(checkpoint), clock=partial(moment, slot), **options)


def hour(running: SparkSession, stream: dpi.Stream, seed: int, slot: int, folder: Path) -> None:
    """What comes in an hour, and the release that closes it; a hand-over to a follower that knows nothing before."""
    for number, rows in enumerate(rows_of(seed, slot)):
        put(folder / "in", f"{slot}-{number}", rows)
    reach(running, stream, slot, folder)


def hours(running: SparkSession, stream: dpi.Stream, seed: int, slots: int, folder: Path) -> None:
    """Some hours with one follower."""
    now = [moment(0)]
    frame = watched(running, folder / "in")
    following = Follower(stream, frame, COLUMNS, str(folder / "checkpoint"), clock=lambda: now[0])
    for slot in range(slots):
        for number, rows in enumerate(rows_of(seed, slot)):
            put(folder / "in", f"{slot}-{number}", rows)
        now[0] = moment(slot)
        assert len(list(following.reach(now[0]))) == 1


def reach(running: SparkSession, stream: dpi.Stream, slot: int, folder: Path, **options: bool) -> None:
    """Read what is there, and release what has closed."""
    following = follower(stream, watched(running, folder / "in"), folder / "checkpoint", slot, **options)
    released = list(following.reach(moment(slot)))
    assert [release.slot for release in released][-1:] in ([], [stream.next_slot - 1])


def embedded(kind: str, seed: int, folder: Path, key_file: Path, slots: int = SLOTS) -> SQLStore:
    """The same stream in one process, closed and to be looked at."""
    store = dpi.open_store(folder / "embedded.db", key_file=key_file)
    run(opened(kind, seed, store), seed, range(slots))
    return store


def on_spark(running: SparkSession, **options: int) -> dpi.engine.BucketEngine:
    """Four buckets, with the session of the tests."""
    return dpi.engine.BucketEngine(SparkExecutor(running), bits=2)


def forget(folder: Path) -> None:
    """Lose a checkpoint."""
    shutil.rmtree(folder)
