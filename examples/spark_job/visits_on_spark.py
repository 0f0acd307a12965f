"""A stream on Spark: visits of a day, a release an hour.

    python examples/spark_job/visits_on_spark.py make FOLDER
    spark-submit examples/spark_job/visits_on_spark.py FOLDER

The first makes events in FOLDER/events; the second releases every hour from them, and goes on where it stopped if it is
called again. On a cluster FOLDER is a path that driver and executors share, and every machine has dpi installed.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from dpi_spark import replay, session, spark

COUNTRIES = ["DE", "ES", "FR", "IT", "PL"]


def make(folder: Path, visits: int = 50_000) -> None:
    """Made-up visits of 2026-01-01."""
    rng = np.random.default_rng(1)
    (folder / "events").mkdir(parents=True, exist_ok=True)
    seconds = rng.integers(0, 86_400, visits)
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, visits // 10, visits),
            "time": pl.Series(np.datetime64("2026-01-01", "us") + seconds.astype("timedelta64[s]")),
            "country": rng.choice(COUNTRIES, visits, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
        }
    )
    frame.write_parquet(folder / "events" / "visits.parquet")


def release(folder: Path) -> None:
    """Every hour that is not released yet."""
    running = session()  # the one that spark-submit asks for, with encryption on and pages off
    events = running.read.parquet(str(folder / "events"))
    with (
        spark(running, folder / "buckets") as engine,
        dpi.Stream(
            domain=dpi.Categories(COUNTRIES),
            epsilon=1,
            slot="1h",
            start="2026-01-01",
            store=folder / "visits.db",
            engine=engine,
        ) as stream,
    ):
        assert stream.slots is not None  # noqa: S101 - it has a clock
        start, end = stream.slots.start(stream.next_slot), datetime(2026, 1, 2, tzinfo=UTC)
        if start < end:
            for made in replay(stream, events, start=start, end=end, value="country"):
                print(made.start, round(made.total), "visitors")
    running.stop()


if __name__ == "__main__":
    make(Path(sys.argv[2])) if sys.argv[1] == "make" else release(Path(sys.argv[1]))
