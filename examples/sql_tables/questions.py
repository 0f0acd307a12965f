"""A shop's releases as a table on disk, asked in SQL (DuckDB) and as a data frame (polars).

    python examples/sql_tables/questions.py [FOLDER]

The table has a row for each hour and page. Questions cost no privacy, in whatever language they are asked.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl

import dpi
from dpi import demo

BUSIEST = """
SELECT strftime(start, '%H:%M') AS hour, value, round(share, 3) AS share, round(lower, 3) AS lower,
       round(upper, 3) AS upper
FROM shop QUALIFY row_number() OVER (PARTITION BY slot ORDER BY share DESC) = 1
ORDER BY lower DESC LIMIT 3
"""
"""The hours in which one page was surely the largest: by the lower end of its interval."""

DAILY = """
SELECT day, value, avg(share) AS share, avg(lower) AS lower, avg(upper) AS upper
FROM shop WHERE value = 'search' GROUP BY ALL ORDER BY day
"""
"""An average over slots: the ends are averaged as well, never divided by a root."""


def export(folder: Path, days: int) -> Path:
    """Release the days that are not in the store yet, and add them to the table."""
    store, table = folder / "shop.db", folder / "shop-table"
    with dpi.Stream(domain=dpi.Categories(demo.PAGES), epsilon=1, slot="1h", start=demo.START, store=store) as stream:
        assert stream.slots is not None  # noqa: S101 - it has a clock
        first = stream.slots.number(demo.START)
        for hour, visits in enumerate(demo.hourly(24 * days)):
            if first + hour >= stream.next_slot:
                stream.release(visits["user"], visits["page"])
    command = [sys.executable, "-m", "dpi", "export", str(store), str(table), "--as", "parquet"]
    subprocess.run(command, check=True)  # noqa: S603 - our own words
    return table


def ask_duckdb(table: Path) -> list[pl.DataFrame]:
    """Ask in SQL; a table of a group, which SQL cannot sum up by itself, comes from the releases."""
    import duckdb

    with duckdb.connect() as base, dpi.open(table.with_name("shop.db")) as stored:
        base.execute("SET TimeZone = 'UTC'")
        base.execute(f"CREATE VIEW shop AS FROM read_parquet('{table}/*/*.parquet')")
        base.register("clothes", stored.table({"clothes": ["shoes", "coats"]}).to_arrow())
        newest = "SELECT value, share, lower, upper FROM clothes ORDER BY slot DESC LIMIT 1"
        return [base.sql(question).pl() for question in (BUSIEST, DAILY, newest)]


def ask_polars(table: Path) -> pl.DataFrame:
    """The same average, as a query of polars on the same files."""
    shop = pl.scan_parquet(table, hive_partitioning=True)
    daily = shop.filter(pl.col("value") == "search").group_by("day").agg(pl.mean("share", "lower", "upper"))
    return daily.sort("day").collect()


def main(folder: Path, days: int = 2) -> list[pl.DataFrame]:
    """Make the table, ask both, and print what they say."""
    folder.mkdir(parents=True, exist_ok=True)
    table = export(folder, days)
    answers = [ask_polars(table)]
    try:
        answers += ask_duckdb(table)
    except ModuleNotFoundError:
        print("DuckDB is missing: pip install duckdb")
    for answer in answers:
        print(answer)
    return answers


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/sql_tables"))
