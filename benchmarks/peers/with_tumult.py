"""Tumult Analytics on Spark: a session that protects every row with an id, one row of an id, and public keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session

from turns import EPSILON, VALUES, serve

QUERY = (
    QueryBuilder("events")
    .enforce(MaxRowsPerID(1))
    .groupby(KeySet.from_dict({"value": list(range(VALUES))}))
    .count(name="users")
)


def load(path: str) -> DataFrame:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    cores = len(os.sched_getaffinity(0))
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "6g")
    builder = builder.config("spark.sql.shuffle.partitions", cores).config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    events = spark.read.parquet(path).cache()
    events.count()
    return events


def release(events: DataFrame) -> Iterable[float]:
    session = Session.from_dataframe(
        PureDPBudget(EPSILON), "events", events, protected_change=AddRowsWithID(id_column="user")
    )
    return [row["users"] for row in session.evaluate(QUERY, PureDPBudget(EPSILON)).collect()]


if __name__ == "__main__":
    serve(load, release, ["tmlt.analytics", "tmlt.core", "pyspark", "numpy"])
