"""Purchases in an online shop (UCI Online Retail I and II). **The user is a customer**; some rows have none.

The publisher has workbooks. They are read if `fastexcel` is installed; otherwise save their sheets as CSV.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

_FIRST = {"CustomerID": "Customer ID", "UnitPrice": "Price", "InvoiceNo": "Invoice"}
"""Columns of the first edition, as the second calls them."""
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%m/%d/%Y %H:%M", "%m/%d/%y %H:%M")


def parse(path: Path) -> pl.DataFrame:
    """`online_retail_II.xlsx` or `Online Retail.xlsx` with all their sheets, or a sheet saved as CSV."""
    import polars as pl

    rows = _workbook(path) if path.suffix == ".xlsx" else pl.read_csv(path, infer_schema=False)
    rows = rows.rename(_FIRST, strict=False)
    moment = pl.col("InvoiceDate")
    if rows.schema["InvoiceDate"] == pl.String:
        moment = pl.coalesce(moment.str.to_datetime(form, strict=False, time_unit="us") for form in _TIMES)
    return rows.select(
        user=pl.col("Customer ID").cast(pl.Float64, strict=False).cast(pl.Int32),
        timestamp=moment.cast(pl.Datetime("us")),
        value=pl.col("Description"),
        quantity=pl.col("Quantity").cast(pl.Int32, strict=False),
        price=pl.col("Price").cast(pl.Float64, strict=False),
        country=pl.col("Country"),
    )


def _workbook(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        sheets = pl.read_excel(path, sheet_id=0, engine="calamine")
    except ImportError:
        raise OptionError(
            "a workbook needs the package fastexcel: `pip install fastexcel`; or save its sheets as CSV files."
        ) from None
    return pl.concat([sheet.rename(_FIRST, strict=False) for sheet in sheets.values()], how="vertical_relaxed")


RETAIL = Dataset(
    name="retail",
    publisher="UCI Machine Learning Repository",
    licence="CC BY 4.0",
    unit="a customer",
    value="product, by its description",
    columns=("user", "timestamp", "value", "quantity", "price", "country"),
    file="online_retail_II.xlsx",
    parse=parse,
    stored="clicks_online_retail.parquet",
    stored_sha256="20a4a748fbd3d8f6243440e2585f34768c44363f8c05f3acb9f9f7e9b6b7ab3c",
)
