"""Bare polars: the same bounding, a user one unit. No noise, so nothing is private: a floor."""

from __future__ import annotations

import polars as pl

from turns import serve

GRAINS = 1 << 30


def bounded(events: pl.DataFrame) -> pl.DataFrame:
    """Columns `value` and `grains`, of which a user has at most 2^30 in all."""
    pairs = events.lazy().group_by("user", "value").len().with_columns(rows=pl.col("len").sum().over("user"))
    grains = (pl.col("len").cast(pl.Int64) * GRAINS // pl.col("rows")).sum().alias("grains")
    return pairs.group_by("value").agg(grains).sort("value").collect(engine="streaming")


def release(events: pl.DataFrame) -> list[float]:
    return [float(grains) / GRAINS for grains in bounded(events)["grains"].to_list()]


if __name__ == "__main__":
    serve(pl.read_parquet, release, ["polars"])
