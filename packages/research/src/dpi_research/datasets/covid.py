"""COVID-19: new confirmed cases of a region and day, by Johns Hopkins University.

The table has counts, not people: its column `user` names a region, which nobody means to protect. **The privacy unit
is a person, who is a case once.** `cases` makes one event of each case, with an id of its own, so that a ledger gives
each person the whole of ε on the one day they appear. (Somebody who falls ill twice counts as two; the source cannot
tell.) Counts may also be released as they are, by `dpi.histogram.counts(…, per_user=1, seen="once")` and a converging
budget.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

_PLACE = ("Province/State", "Country/Region", "Lat", "Long")


def parse(path: Path) -> pl.DataFrame:
    """`time_series_covid19_confirmed_global.csv`: a row for each region, cumulative counts, a column for each day."""
    import polars as pl

    wide = pl.read_csv(path, infer_schema=False)
    cumulative = pl.col("confirmed").cast(pl.Float64).cast(pl.Int64)
    return (
        wide.unpivot(index=list(_PLACE), variable_name="day", value_name="confirmed")
        .with_columns(
            cumulative,
            timestamp=pl.col("day").str.to_date("%m/%d/%y"),
            country=pl.col("Country/Region"),
            province=pl.col("Province/State").fill_null(""),
        )
        .with_columns(
            user=pl.when(pl.col("province") == "").then("country").otherwise(pl.format("{}/{}", "country", "province"))
        )
        .sort("timestamp", "user")
        .with_columns(value=pl.col("confirmed").diff().over("user").fill_null(pl.col("confirmed")))
    )


COVID19 = Dataset(
    name="covid19",
    publisher="JHU CSSE",
    licence="CC BY 4.0",
    unit="a person, who is a case once (`user` names a region: see `cases`)",
    value="new confirmed cases of the day; below zero where the publisher took some back",
    columns=("user", "timestamp", "value", "confirmed", "country", "province"),
    file="time_series_covid19_confirmed_global.csv",
    parse=parse,
    stored="covid19_jhu_global_daily.parquet",
    stored_sha256="6da5c5f9ec0412dcd2030ee3ed5d5e5d8e3161c0747d9fd2d22c34afeec36a52",
    address="https://raw.githubusercontent.com/CSSEGISandData/COVID-19/master/csse_covid_19_data/"
    "csse_covid_19_time_series/time_series_covid19_confirmed_global.csv",
)


def cases(counts: pl.DataFrame, start: date, end: date, *, value: str = "country") -> pl.DataFrame:
    """One event for each new case from `start` to before `end`: a person of their own, the day, and the `value`.

    Days on which a region took cases back have none.

    >>> import polars as pl
    >>> day = date(2020, 3, 1)
    >>> counts = pl.DataFrame({"timestamp": [day, day], "value": [2, -1], "country": ["Italy", "Spain"]})
    >>> cases(counts, day, date(2020, 3, 2)).rows()
    [(0, datetime.datetime(2020, 3, 1, 0, 0), 'Italy'), (1, datetime.datetime(2020, 3, 1, 0, 0), 'Italy')]
    """
    import polars as pl

    first, last = (day.date() if isinstance(day, datetime) else day for day in (start, end))
    chosen = counts.filter(pl.col("timestamp").is_between(first, last, closed="left") & (pl.col("value") > 0))
    each = chosen.select(
        timestamp=pl.col("timestamp").cast(pl.Datetime("us")).repeat_by("value"),
        value=pl.col(value).repeat_by("value"),
    ).explode("timestamp", "value")
    return each.with_row_index("user")
