"""The slot job on Spark next to a plain group-by of the same events, in a batch and in a micro-batch.

    python benchmarks/spark.py [--events 3,10 (millions)] [--rounds 4] [--warm 3]

One slot, ten events a user, 100 bins, 64 buckets. A batch is a DataFrame that `replay` reads; a micro-batch is a
streaming DataFrame that `follow` reads, beside the same group-by in `foreachBatch`. Seconds are processor seconds of
driver, JVM and Python workers together, so that other work on the machine does not count, and those on the wall beside
them. All take turns in one session, which encrypts what any of them shuffles, and the first rounds warm it up: Java
compiles for some time. Shown are medians, and the ratio to the group-by of the same round: median, least and largest.
The group-by makes what the slot job makes, without bounding users, accounts or noise: users by (user, value), then by
value. In a micro-batch Spark does not adapt the number of its partitions to the data, and would be far slower with its
default: the group-by is given as many as there are files. The local engine, without Spark, is beside them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

import dpi
from dpi.engine import BucketEngine, local
from dpi_spark import SparkExecutor, follow, replay, session
from measure import SLOT, Cell, record
from results import AT_MOST, Goal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BINS, BITS, FILES = 100, 6, 8
START, END = "2026-01-01T00:00", "2026-01-01T01:00"
KINDS = "user long, time timestamp, value string, received timestamp"
MOST = 1.0
"""The goal: at most so much of the processor time of the group-by."""


class Taken(NamedTuple):
    """Processor seconds of Java and of Python (driver and workers), and seconds on the wall."""

    java: float
    python: float
    wall: float

    @property
    def processor(self) -> float:
        """Of all processes."""
        return self.java + self.python


def processes() -> dict[tuple[int, bool], float]:
    """The processor seconds of this process and all that it has started, and whether each of them is Java."""
    stats: dict[int, tuple[int, bool, int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue  # it has ended
        name, _, rest = text.rpartition(")")
        fields = rest.split()
        stats[int(entry)] = int(fields[1]), name.endswith("(java"), sum(map(int, fields[11:13]))
    ours, children = {os.getpid()}, {os.getpid()}
    while children:
        children = {process for process, (parent, *_) in stats.items() if parent in ours} - ours
        ours |= children
    return {(process, stats[process][1]): stats[process][2] / os.sysconf("SC_CLK_TCK") for process in ours}


def spent(run: Callable[[], object]) -> Taken:
    """What a run takes. Workers that Spark ends, since they were idle for a minute, take nothing away from it."""
    before, began = processes(), time.perf_counter()
    run()
    wall = time.perf_counter() - began
    used = {key: seconds - before.get(key, 0.0) for key, seconds in processes().items()}
    java, python = (sum(each for (_, kind), each in used.items() if kind == asked) for asked in (True, False))
    return Taken(java, python, wall)


def write(events: int, folder: Path) -> None:
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    start = np.datetime64("2026-01-01T00:00", "us")
    for number in range(FILES):
        size = events // FILES
        times = pl.Series(start + rng.integers(0, 3_600_000_000, size).astype("timedelta64[us]"))
        values = pl.Series(rng.integers(0, BINS, size)).cast(pl.String)
        users = pl.Series(rng.integers(0, events // 10, size))
        columns = {"user": users, "time": times.dt.replace_time_zone("UTC"), "value": values}
        frame = pl.DataFrame(columns).with_columns(received="time")
        frame.write_parquet(folder / f"{number}.parquet")


def stream(folder: Path, engine: BucketEngine) -> dpi.Stream:
    return dpi.Stream(
        domain=dpi.Categories([str(value) for value in range(BINS)]),
        epsilon=1,
        slot="1h",
        start=START,
        budget=dpi.Ledger(per_slot=0.05),
        store=folder / "store.db",
        engine=engine,
    )


def on_spark(running: SparkSession, files: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = BucketEngine(SparkExecutor(running), bits=BITS)
        with stream(Path(folder), engine) as opened:
            assert len(list(replay(opened, running.read.parquet(str(files)), start=START, end=END))) == 1


def grouped(frame: DataFrame) -> None:
    pairs = frame.groupBy("user", "value").count()
    assert len(pairs.groupBy("value").count().collect()) == BINS


def group_by(running: SparkSession, files: Path) -> None:
    grouped(running.read.parquet(str(files)))


def followed(running: SparkSession, files: Path) -> None:
    frame = running.readStream.schema(KINDS).parquet(str(files))
    with tempfile.TemporaryDirectory() as folder:
        engine = BucketEngine(SparkExecutor(running), bits=BITS)
        with stream(Path(folder), engine) as opened:
            checkpoint = f"{folder}/checkpoint"
            assert len(list(follow(opened, frame, checkpoint=checkpoint, arrived="received", end=END))) == 1


def for_each_batch(running: SparkSession, files: Path) -> None:
    frame, seen = running.readStream.schema(KINDS).parquet(str(files)), list[int]()

    def work(batch: DataFrame, number: int) -> None:
        batch.sparkSession.conf.set("spark.sql.shuffle.partitions", str(FILES))
        grouped(batch)
        seen.append(number)

    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.foreachBatch(work).option("checkpointLocation", folder)
        query.trigger(availableNow=True).start().awaitTermination()
    assert len(seen) == 1


def locally(files: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, stream(Path(folder), local(bits=BITS)) as opened:
        assert len(list(opened.replay(dpi.read(f"{files}/*.parquet"), start=START, end=END))) == 1


PAIRS = {"batch": ("batch", "batch group-by"), "micro-batch": ("micro-batch", "micro-batch group-by"),
         "local engine, without Spark": ("local", "batch group-by")}  # fmt: skip
"""What is compared with what, by the name of the row."""


def turns(running: SparkSession, files: Path, rounds: int, warm: int) -> dict[str, list[Taken]]:
    """What every contender takes in the rounds after those that warm up."""
    contenders: dict[str, Callable[[], object]] = {
        "batch": partial(on_spark, running, files),
        "batch group-by": partial(group_by, running, files),
        "micro-batch": partial(followed, running, files),
        "micro-batch group-by": partial(for_each_batch, running, files),
        "local": partial(locally, files),
    }
    taken: dict[str, list[Taken]] = {name: [] for name in contenders}
    for number in range(warm + rounds):
        for name, run in contenders.items():
            taken[name].append(spent(run))
            print(f"round {number}, {name}: {taken[name][-1]}", flush=True)
    return {name: each[warm:] for name, each in taken.items()}


def compared(events: int, taken: dict[str, list[Taken]]) -> Iterator[list[Cell]]:
    """A row for each pair."""
    for name, (ours, theirs) in PAIRS.items():
        pairs = list(zip(taken[ours], taken[theirs], strict=True))
        ratios = sorted(mine.processor / base.processor for mine, base in pairs)
        yield [
            f"{name}, {events:,} events",
            median(mine.processor for mine, _ in pairs),
            median(base.processor for _, base in pairs),
            [median(ratios), ratios[0], ratios[-1]],
            median(mine.wall for mine, _ in pairs),
            median(base.wall for _, base in pairs),
        ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", default="3,10")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--warm", type=int, default=3)
    options = parser.parse_args()
    running = session("local[2,4]", spark_driver_memory="4g")
    running.sparkContext.setLogLevel("ERROR")
    rows, goals = list[list[Cell]](), list[Goal]()
    for millions in options.events.split(","):
        events = int(float(millions) * 1e6)
        with tempfile.TemporaryDirectory() as folder:
            write(events, Path(folder))
            compared_rows = list(compared(events, turns(running, Path(folder), options.rounds, options.warm)))
        for row in compared_rows[:2]:
            assert isinstance(row[3], list)
            goals.append((f"processor time / group-by, {row[0]}:", row[3][0], AT_MOST, MOST))
        rows += compared_rows
    record(
        "spark",
        parts=(*SLOT, "engine", "spark"),
        about=f"One slot of {BINS} bins, ten events a user, {1 << BITS} buckets.",
        columns=["", "slot, processor s", "group-by, processor s", "ratio", "slot, wall s", "group-by, wall s"],
        rows=rows,
        spread=f"least and largest of {options.rounds} rounds, after {options.warm} that warm up",
        goals=goals,
    )
    running.stop()


if __name__ == "__main__":
    main()
