"""The real streams by name, and how the files of their publishers are read. Each says who its user is.

`datasets.toml` says who the user of each is. The user of the COVID-19 table is a person, who is a case once: `cases`
makes one event of each, with an id of its own. A source address is a user, and so never a value of the domain. There
are no people in USDA PSD: its user is a series, what one reporter says in all years.
"""

from __future__ import annotations

import gzip
import io
import os
import tomllib
import zipfile
from datetime import date, datetime
from importlib.resources import files
from pathlib import Path

import polars as pl

from dpi.errors import OptionError
from dpi_research.datasets._dataset import Dataset

_PLACE = ("Province/State", "Country/Region", "Lat", "Long")


def parse_covid(path: Path) -> pl.DataFrame:
    """`time_series_covid19_confirmed_global.csv`: a row for each region, cumulative counts, a column for each day."""
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


def cases(counts: pl.DataFrame, start: date, end: date, *, value: str = "country") -> pl.DataFrame:
    """One event for each new case from `start` to before `end`: a person of their own, the day, and the `value`.

    Days on which a region took cases back have none.

    >>> day = date(2020, 3, 1)
    >>> counts = pl.DataFrame({"timestamp": [day, day], "value": [2, -1], "country": ["Italy", "Spain"]})
    >>> cases(counts, day, date(2020, 3, 2)).rows()
    [(0, datetime.datetime(2020, 3, 1, 0, 0), 'Italy'), (1, datetime.datetime(2020, 3, 1, 0, 0), 'Italy')]
    """
    first, last = (day.date() if isinstance(day, datetime) else day for day in (start, end))
    chosen = counts.filter(pl.col("timestamp").is_between(first, last, closed="left") & (pl.col("value") > 0))
    each = chosen.select(
        timestamp=pl.col("timestamp").cast(pl.Datetime("us")).repeat_by("value"), value=pl.col(value).repeat_by("value")
    ).explode("timestamp", "value")
    return each.with_row_index("user")


TSHARK = (
    "tshark -r capture.pcap -T fields -E header=y -E separator=, -E quote=d -E occurrence=f "
    "-e frame.time_epoch -e ip.src -e ip.len -e ip.dst -e ip.proto "
    "-e tcp.srcport -e tcp.dstport -e udp.srcport -e udp.dstport > packets.csv"
)
"""Writes the table that `parse_packets` reads."""

_TIMES = ("%Y-%m-%d %H:%M:%S", "%m/%d/%y %H:%M", "%m/%d/%Y %H:%M")
"""How copies of the honeypot file write a time."""


def parse_honeypot(path: Path) -> pl.DataFrame:
    """The "marx" file: a row for each packet, with `srcstr` the source address and `dpt` the destination port."""
    rows = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return rows.select(
        pl.coalesce(pl.col("datetime").str.to_datetime(form, strict=False) for form in _TIMES).alias("timestamp"),
        "host",
        "proto",
        user="srcstr",
        value=pl.col("dpt").cast(pl.Int32, strict=False),
        type=pl.col("type").cast(pl.Int16, strict=False),
        spt=pl.col("spt").cast(pl.Int32, strict=False),
    )


def parse_packets(path: Path) -> pl.DataFrame:
    """The table of `TSHARK`; a packet in a packet counts as the outer one."""
    if path.suffix in (".pcap", ".pcapng", ".cap"):
        raise OptionError(f"a capture is read from the table that tshark writes: {TSHARK}")
    rows = pl.read_csv(path, infer_schema=False)

    def number(*names: str) -> pl.Expr:
        return pl.coalesce(pl.col(name).cast(pl.Int32, strict=False) for name in names)

    return rows.select(
        user="ip.src",
        timestamp=(pl.col("frame.time_epoch").cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Datetime("us")),
        value=number("ip.len"),
        dst="ip.dst",
        proto=number("ip.proto").cast(pl.Int16, strict=False),
        spt=number("tcp.srcport", "udp.srcport"),
        dpt=number("tcp.dstport", "udp.dstport"),
    )


def parse_psd(path: Path) -> pl.DataFrame:
    """`psd_alldata.csv`, or the ZIP file that holds it, or one of the publisher's files of fewer goods."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            rows = pl.read_csv(io.BytesIO(archive.read(archive.namelist()[0])), infer_schema=False)
    else:
        rows = pl.read_csv(path, infer_schema=False)
    return rows.select(
        pl.format("{}|{}|{}", "Country_Name", "Commodity_Description", "Attribute_Description").alias("user"),
        timestamp=pl.col("Market_Year").cast(pl.Int32, strict=False),
        value=pl.col("Value").cast(pl.Float64, strict=False),
        country="Country_Name",
        commodity="Commodity_Description",
        attribute="Attribute_Description",
        unit="Unit_Description",
    )


_NUMBERS = ("dep_delay", "arr_delay", "distance", "air_time")


def parse_flights(path: Path) -> pl.DataFrame:
    """`flights.csv`: a row for each flight; the time is the scheduled one."""
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


_FIRST = {"CustomerID": "Customer ID", "UnitPrice": "Price", "InvoiceNo": "Invoice"}
"""Columns of the first edition, as the second calls them."""
_SHOP_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%m/%d/%Y %H:%M", "%m/%d/%y %H:%M")


def parse_retail(path: Path) -> pl.DataFrame:
    """`online_retail_II.xlsx` or `Online Retail.xlsx` with all their sheets, or a sheet saved as CSV."""
    rows = _workbook(path) if path.suffix == ".xlsx" else pl.read_csv(path, infer_schema=False)
    rows = rows.rename(_FIRST, strict=False)
    moment = pl.col("InvoiceDate")
    if rows.schema["InvoiceDate"] == pl.String:
        moment = pl.coalesce(moment.str.to_datetime(form, strict=False, time_unit="us") for form in _SHOP_TIMES)
    return rows.select(
        user=pl.col("Customer ID").cast(pl.Float64, strict=False).cast(pl.Int32),
        timestamp=moment.cast(pl.Datetime("us")),
        value=pl.col("Description"),
        quantity=pl.col("Quantity").cast(pl.Int32, strict=False),
        price=pl.col("Price").cast(pl.Float64, strict=False),
        country=pl.col("Country"),
    )


def _workbook(path: Path) -> pl.DataFrame:
    try:
        sheets = pl.read_excel(path, sheet_id=0, engine="calamine")
    except ImportError:
        raise OptionError(
            "a workbook needs the package fastexcel: `pip install fastexcel`; or save its sheets as CSV files."
        ) from None
    return pl.concat([sheet.rename(_FIRST, strict=False) for sheet in sheets.values()], how="vertical_relaxed")


def parse_wikiticker(path: Path) -> pl.DataFrame:
    """`wikiticker-2015-09-12-sampled.json.gz`, packed or not: a JSON object in each line."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    texts = ("time", "channel", "page", "namespace", "countryIsoCode", "user")
    schema: dict[str, pl.DataType] = dict.fromkeys(texts, pl.String())
    schema |= dict.fromkeys(("added", "deleted", "delta"), pl.Int64())
    schema |= dict.fromkeys(("isRobot", "isAnonymous"), pl.Boolean())
    rows = pl.read_ndjson(content, schema=schema)
    return rows.select(
        "user",
        "page",
        "namespace",
        "added",
        "deleted",
        "delta",
        timestamp=pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ms"),
        value="channel",
        is_robot="isRobot",
        is_anonymous="isAnonymous",
        country="countryIsoCode",
    )


_PARSERS = {
    "covid19": parse_covid,
    "honeypot": parse_honeypot,
    "packets": parse_packets,
    "psd": parse_psd,
    "flights": parse_flights,
    "retail": parse_retail,
    "wikiticker": parse_wikiticker,
}
_FACTS = tomllib.loads((files(__package__) / "datasets.toml").read_text(encoding="utf-8"))

DATASETS = {name: Dataset(name=name, parse=parse, **_FACTS[name]) for name, parse in _PARSERS.items()}
"""Real streams by name; each says who its user is."""


def load(
    name: str, path: str | os.PathLike[str] | None = None, *, download: bool = False, sha256: str | None = None
) -> pl.DataFrame:
    """A real stream as a table: `user`, `timestamp`, `value`, and what else it has.

    `path` is the publisher's own file; without it the stream is looked for in the folder that DPI_DATA names. Nothing
    is downloaded unless `download=True`, and then only a file whose `sha256` you state.

    >>> load("taxi")
    Traceback (most recent call last):
    dpi.errors.OptionError: there is no data set 'taxi'; known are covid19, honeypot, packets, psd, flights, ...
    """
    if name not in DATASETS:
        raise OptionError(f"there is no data set {name!r}; known are {', '.join(DATASETS)}.")
    return DATASETS[name].load(path, download=download, sha256=sha256)
