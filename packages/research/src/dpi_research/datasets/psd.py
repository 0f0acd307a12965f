"""USDA PSD: production, supply and distribution of farm goods by country and market year.

There are no people in it. The `user` is a series, country | commodity | attribute: what one reporter says in all years.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl


def parse(path: Path) -> pl.DataFrame:
    """`psd_alldata.csv`, or the ZIP file that holds it, or one of the publisher's files of fewer goods."""
    import io
    import zipfile

    import polars as pl

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


PSD = Dataset(
    name="psd",
    publisher="USDA Foreign Agricultural Service",
    licence="US federal work",
    unit="a series: country, commodity and attribute",
    value="amount, in `unit`; `timestamp` is the market year",
    columns=("user", "timestamp", "value", "country", "commodity", "attribute", "unit"),
    file="psd_alldata.csv",
    parse=parse,
    stored="usda_psd.parquet",
    stored_sha256="420d98bf1cea0a0436ef3b2f22e5a043d847e9e1cdcf51fe2601a579d5cb6855",
    address="https://apps.fas.usda.gov/psdonline/downloads/psd_alldata_csv.zip",
)
