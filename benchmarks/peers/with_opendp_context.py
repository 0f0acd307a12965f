"""OpenDP by its Context, as its documentation has data with identifiers: one event of each user, and public keys."""

from __future__ import annotations

from collections.abc import Iterable

import opendp.prelude as dp
import polars as pl

from turns import EPSILON, VALUES, serve

dp.enable_features("contrib")
KEYS = pl.LazyFrame({"value": range(VALUES)}, schema={"value": pl.Int64})


def release(events: pl.LazyFrame) -> Iterable[float]:
    context = dp.Context.compositor(
        data=events,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user")),
        privacy_loss=dp.loss_of(epsilon=float(EPSILON)),
        split_evenly_over=1,
    )
    query = context.query().truncate_per_group(1).group_by("value").agg(dp.len()).with_keys(KEYS)
    frame: pl.DataFrame = query.release().collect()
    counts: list[float] = frame["len"].to_list()
    return counts


if __name__ == "__main__":
    serve(lambda path: pl.read_parquet(path).lazy(), release, ["opendp", "polars"])
