"""diffprivlib's histogram: it knows no users, so bare polars keeps one event of each."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from diffprivlib.tools import histogram

from turns import EPSILON, VALUES, serve


def release(events: pl.DataFrame) -> Iterable[float]:
    kept = events.lazy().group_by("user").agg(pl.col("value").first()).collect(engine="streaming")["value"]
    counts: Iterable[float]
    counts, _ = histogram(kept.to_numpy(), epsilon=float(EPSILON), bins=VALUES, range=(0, VALUES))
    return counts


if __name__ == "__main__":
    serve(pl.read_parquet, release, ["diffprivlib", "polars", "numpy"])
