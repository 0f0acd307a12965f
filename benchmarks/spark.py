"""The slot job on Spark next to a plain group-by of the same data, to the local engine, and to bare polars.

    python benchmarks/spark.py [events in millions, 10 unless said] [rounds, 3]

One slot of 10 million events, 1 million users, 100 bins, 64 buckets. Seconds are processor seconds of driver, JVM and
Python workers together, so that other work on the machine does not count; contenders take turns in one session, and the
first round warms it up. The group-by makes what the slot job makes, without bounding users, accounts or noise: users by
(user, value), then by value.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import dpi
from dpi.engine import BucketEngine, local
from dpi.engine.spark import SparkExecutor, replay, session
from measure import interleaved, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS, BITS, FILES = 100, 6, 8
START, END = "2026-01-01T00:00", "2026-01-01T01:00"


def processor() -> float:
    """Processor seconds of this process and all that it has started, also of those that have ended."""
    stats: dict[int, tuple[int, int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue  # it has ended
        fields = text.rpartition(")")[2].split()
        stats[int(entry)] = int(fields[1]), sum(map(int, fields[11:15]))
    ours, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {process for process, (parent, _) in stats.items() if parent in ours} - ours
        ours |= found
    return sum(stats[process][1] for process in ours) / os.sysconf("SC_CLK_TCK")


def write(events: int, folder: Path) -> None:
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    start = np.datetime64("2026-01-01T00:00", "us")
    for number in range(FILES):
        size = events // FILES
        times = pl.Series(start + rng.integers(0, 3_600_000_000, size).astype("timedelta64[us]"))
        values = pl.Series(rng.integers(0, BINS, size)).cast(pl.String)
        users = pl.Series(rng.integers(0, events // 10, size))
        frame = pl.DataFrame({"user": users, "time": times.dt.replace_time_zone("UTC"), "value": values})
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


def group_by(running: SparkSession, files: Path) -> None:
    pairs = running.read.parquet(str(files)).groupBy("user", "value").count()
    assert len(pairs.groupBy("value").count().collect()) == BINS


def locally(files: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, stream(Path(folder), local(bits=BITS)) as opened:
        assert len(list(opened.replay(dpi.read(f"{files}/*.parquet"), start=START, end=END))) == 1


def bare(files: Path) -> None:
    pairs = pl.scan_parquet(f"{files}/*.parquet").group_by("user", "value").len().group_by("value").len()
    assert pairs.collect().height == BINS


def main() -> None:
    events = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 10_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    running = session("local[2,4]", spark_driver_memory="4g")
    running.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        write(events, files)
        contenders = {
            "slot job on Spark": partial(on_spark, running, files),
            "plain Spark group-by": partial(group_by, running, files),
            "local engine": partial(locally, files),
            "bare polars group-by": partial(bare, files),
        }
        seconds = interleaved(contenders, rounds, processor)
    base = seconds["plain Spark group-by"]
    row(f"{events:,} events, {BINS} bins, {1 << BITS} buckets", "cpu s", "Mevents/cpu s", "× group-by")
    for name, taken in seconds.items():
        row(name, taken, events / taken / 1e6, taken / base)
    running.stop()


if __name__ == "__main__":
    main()
