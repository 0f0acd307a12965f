"""OpenDP by its constructors: they bound no users, so bare polars does, and the exact Laplace noise is OpenDP's."""

from __future__ import annotations

from collections.abc import Iterable

import opendp.prelude as dp
import polars as pl

from turns import EPSILON, serve
from with_polars import GRAINS, bounded

dp.enable_features("contrib")
SPACE = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
LAPLACE = dp.m.make_laplace(*SPACE, scale=float(GRAINS) / EPSILON)


def release(events: pl.DataFrame) -> Iterable[float]:
    return [noisy / GRAINS for noisy in LAPLACE(bounded(events)["grains"].to_list())]


if __name__ == "__main__":
    serve(pl.read_parquet, release, ["opendp", "polars"])
