"""Edits of Wikipedia on 12 September 2015, the sample of Druid's tutorial. **The user is an editor.**"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl


def parse(path: Path) -> pl.DataFrame:
    """`wikiticker-2015-09-12-sampled.json.gz`, packed or not: a JSON object in each line."""
    import gzip

    import polars as pl

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


WIKITICKER = Dataset(
    name="wikiticker",
    publisher="Apache Druid",
    licence="Apache-2.0",
    unit="an editor, by name or address",
    value="channel: the wiki that was edited",
    columns=(
        "user", "timestamp", "value", "page", "namespace", "added", "deleted", "delta", "is_robot", "is_anonymous",
        "country",
    ),
    file="wikiticker-2015-09-12-sampled.json.gz",
    parse=parse,
    stored="web_wikiticker_20150912.parquet",
    stored_sha256="971c8c21906dfb3f778c906c8e5b3bf9e886f18ebf9169c3ecc7a6005cb77908",
    address="https://github.com/apache/druid/raw/master/examples/quickstart/tutorial/"
    "wikiticker-2015-09-12-sampled.json.gz",
)  # fmt: skip
