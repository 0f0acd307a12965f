"""Files in pieces for several readers: together they are the file, whatever its row groups are."""

from __future__ import annotations

import polars as pl
import pytest

import dpi
from dpi.sources import columnar
from dpi.sources.columnar import Columnar


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
    found = [pl.DataFrame(list(batch)) for piece in pieces for batch in piece.batches()]
    assert pl.concat(found).rows() == table.rows()


def test_a_piece_whose_texts_are_not_unicode_has_its_own_rows(table):
    """The slower reader of such files gives whole row groups: a piece takes what is its own of them."""
    frames = [table[:100], table[100:110], table[110:400], table[400:]]
    for start, size in ((0, 700), (0, 50), (90, 25), (105, 400), (650, 50)):
        piece = Columnar.__new__(Columnar)
        piece._rows = (start, size)
        assert pl.concat(piece._within(iter(frames))).rows() == table[start : start + size].rows()


def test_files_that_are_read_from_their_beginning_have_no_pieces(tmp_path, table):
    """Text, and a table in memory: whoever reads them hands the rows on."""
    table.write_csv(tmp_path / "events.csv")
    table.write_parquet(tmp_path / "events.parquet")
    for pattern, number in (("*.csv", 0), ("*.parquet", 1), ("*", 0)):
        events = dpi.read(tmp_path / pattern, user="user", time="time", value="value", unit="s")
        assert len(events.pieces()) == number
