"""The slot job on Spark next to a plain group-by of the same data, to the local engine, and to bare polars.

    python benchmarks/spark.py [events in millions, 10 unless said] [rounds, 5] [rounds to warm up, 2] [spark]

One slot, ten events a user, 100 bins, 64 buckets; with the word `spark`, the two ways on Spark alone. Seconds are
processor seconds of driver, JVM and Python workers together, so that other work on the machine does not count. The ways
take turns in one session, which encrypts what any of them shuffles, and the first rounds warm it up: Java compiles for
some time. Shown are medians, and the ratio to the group-by of the same round: median, least and largest. The group-by
makes what the slot job makes, without bounding users, accounts or noise: users by (user, value), then by value.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

import dpi
from dpi.engine import BucketEngine, local
from dpi_spark import SparkExecutor, replay, session
from measure import row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = "plain Spark group-by"
BINS, BITS, FILES = 100, 6, 8
START, END = "2026-01-01T00:00", "2026-01-01T01:00"


class Processor(NamedTuple):
    """Processor seconds of Java, and of Python: driver and workers."""

    java: float
    python: float


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
    ours, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {process for process, (parent, *_) in stats.items() if parent in ours} - ours
        ours |= found
    return {(process, stats[process][1]): stats[process][2] / os.sysconf("SC_CLK_TCK") for process in ours}


def spent(run: Callable[[], object]) -> Processor:
    """What a run takes. Workers that Spark ends, since they were idle for a minute, take nothing away from it."""
    before = processes()
    run()
    taken = {key: seconds - before.get(key, 0.0) for key, seconds in processes().items()}
    return Processor(*(sum(each for (_, java), each in taken.items() if java == asked) for asked in (True, False)))


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
    numbers = [word for word in sys.argv[1:] if word != "spark"]
    events = int(float(numbers[0]) * 1e6) if numbers else 10_000_000
    rounds, warm = (int(number) for number in (*numbers[1:3], *("5", "2")[len(numbers[1:3]) :]))
    running = session("local[2,4]", spark_driver_memory="4g")
    running.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        write(events, files)
        contenders: dict[str, Callable[[], object]] = {
            "slot job on Spark": partial(on_spark, running, files),
            BASE: partial(group_by, running, files),
        }
        if "spark" not in sys.argv:
            contenders |= {"local engine": partial(locally, files), "bare polars group-by": partial(bare, files)}
        taken: dict[str, list[Processor]] = {name: [] for name in contenders}
        for number in range(warm + rounds):
            for name, run in contenders.items():
                taken[name].append(spent(run))
                row(f"round {number}: {name}", sum(taken[name][-1]), *taken[name][-1])
    row(f"{events:,} events, {BINS} bins, {1 << BITS} buckets", "cpu s", "Java", "Python", "Mevents/s", "× group-by")
    for name, each in taken.items():
        seconds = [sum(one) for one in each[warm:]]
        ratios = sorted(mine / sum(base) for mine, base in zip(seconds, taken[BASE][warm:], strict=True))
        parts = (median(one[part] for one in each[warm:]) for part in (0, 1))
        shown = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        row(name, median(seconds), *parts, events / median(seconds) / 1e6, shown)
    running.stop()


if __name__ == "__main__":
    main()
