"""Files in pieces for several readers: together they are the file, whatever its row groups are."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpi
from dpi.sources import columnar


@pytest.fixture
def table() -> pl.DataFrame:
    """A table of a few hundred rows."""
    return pl.DataFrame({"user": range(700), "time": range(700), "value": [f"v{n % 7}" for n in range(700)]})


@pytest.mark.parametrize("groups", [7, 100, 10_000])
@pytest.mark.parametrize("least", [1, 64, 1 << 18])
def test_pieces_of_parquet_files_are_all_rows_once(tmp_path, table, monkeypatch, groups, least):
    """In their order, over several files, and each of whole row groups."""
    monkeypatch.setattr(columnar, "_ROWS", least)
    for number, part in enumerate((table[:300], table[300:])):
        part.write_parquet(tmp_path / f"{number}.parquet", row_group_size=groups)
    events = dpi.read(tmp_path / "*.parquet", user="user", time="time", value="value", unit="s")
    pieces = events.pieces()
    assert (len(pieces) > 2) == (groups < 300 and least < 300)
    found = [pl.DataFrame(list(batch[:3])) for piece in pieces for batch in piece.batches()]
    assert pl.concat(found).rows() == table.rows()


@pytest.mark.parametrize("least", [1, 150, 1 << 18])
def test_pieces_with_a_text_that_is_not_unicode_are_all_rows_once(tmp_path, table, monkeypatch, least):
    """The reader of such files begins anew: a piece takes what is its own, and what was not read before."""
    monkeypatch.setattr(columnar, "_ROWS", least)
    events = table.to_arrow()
    raw = [text.encode() for text in table["value"]]
    raw[410] = b"\xff"
    texts = pa.array(raw, pa.binary()).view(pa.string())
    pq.write_table(events.set_column(2, "value", texts), tmp_path / "events.parquet", row_group_size=100)
    read = dpi.read(tmp_path / "events.parquet", unit="s")
    found = pl.concat(pl.DataFrame(list(batch[:3])) for piece in read.pieces() for batch in piece.batches())
    assert (
        found.rows() == table.with_columns(value=pl.Series([*table["value"][:410], None, *table["value"][411:]])).rows()
    )


def test_files_that_are_read_from_their_beginning_have_no_pieces(tmp_path, table):
    """Text, and a table in memory: whoever reads them hands the rows on."""
    table.write_csv(tmp_path / "events.csv")
    table.write_parquet(tmp_path / "events.parquet")
    for pattern, number in (("*.csv", 0), ("*.parquet", 1), ("*", 0)):
        events = dpi.read(tmp_path / pattern, user="user", time="time", value="value", unit="s")
        assert len(events.pieces()) == number
