"""Bare duckdb: the same bounding, a user one unit, from a table of its own in memory. No noise: a floor."""

from __future__ import annotations

import duckdb

from turns import serve

QUERY = """
    with pairs as (select "user", value, count(*) n from events group by all),
         users as (select "user", count(*) r from events group by all)
    select value, sum(n / r) from pairs join users using ("user") group by all order by 1
"""


def load(path: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("create table events as select * from read_parquet(?)", [path])
    return connection


def release(connection: duckdb.DuckDBPyConnection) -> list[float]:
    return [count for _, count in connection.execute(QUERY).fetchall()]


if __name__ == "__main__":
    serve(load, release, ["duckdb"])
