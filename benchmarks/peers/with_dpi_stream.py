"""Ours, a whole slot: the first of a stream in memory, with accounts of all users, estimate and certificate."""

from __future__ import annotations

import numpy as np
import polars as pl

import dpi
from turns import EPSILON, VALUES, serve

DOMAIN = dpi.Categories(range(VALUES), other=None)


def release(events: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    stream = dpi.Stream(domain=DOMAIN, epsilon=EPSILON, slot="1h", origin="2026-01-01", start="2026-01-01")
    released = stream.release(events["user"], events["value"])
    return released.pdf * released.total


if __name__ == "__main__":
    serve(pl.read_parquet, release, ["polars", "numpy"])
