"""Parquet and Arrow: a text that is not UTF-8 costs its row, not the file; pieces together are the file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import dpi
from dpi.sources import columnar
from played_rows import play, users_of

# Parquet and Arrow files in which a writer has put text that is not UTF-8: a row, not the file, pays for it.


SLOTS = dpi.Slots("1h", origin="2026-01-01")
DOMAIN = dpi.Categories(["DE", "FR"])
IDS = [b"ada", b"\xff\xfe", b"bob", b"half \xe2\x82", "ß".encode(), None, b"secret"]
VALUES = [b"DE", b"DE", b"FR", b"DE", b"\xc3", b"DE", b"FR"]
EXPECTED = [("ada", 0), ("bob", 1), ("secret", 1), ("ß", 2)]
"""What is no text is missing: nobody's event, or a value outside the domain."""


def texts(rows: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """A column of texts that nobody has checked."""
    binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    column = pa.array(rows, binary)
    return pa.Array.from_buffers(kind, len(rows), column.buffers(), column.null_count)


def encoded(
    rows: list[bytes | None], kind: pa.DataType, index: pa.DataType, known: list[bytes] | None = None
) -> pa.Array:
    """The same as numbers and a dictionary, which begins with what is known."""
    held = [*dict.fromkeys([*(known or []), *(row for row in rows if row is not None)])]
    numbers = pa.array([None if row is None else held.index(row) for row in rows], index)
    return pa.DictionaryArray.from_arrays(numbers, texts(held, kind), safe=False)


def written(path: Path, *batches: pa.RecordBatch, **options: object) -> Path:
    """An Arrow file."""
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as out,
    ):
        for batch in batches:
            out.write_batch(batch)
    return path


def table(times: int, kind: pa.DataType | None = None) -> pa.Table:
    """Events with columns before, between and after, one of them nested, of many types."""
    kind = kind or pa.string()
    count = times * len(IDS)
    nested = pa.array([{"a": 1, "b": {"c": "x", "d": [1, 2]}}] * count)
    return pa.table(
        {
            "nested": nested,
            "user": texts(IDS * times, kind),
            "flag": pa.array([True, None] * count)[:count],
            "time": pa.array([1767225600_000] * count, pa.timestamp("ms", "UTC")),
            "amount": pa.array([0.5] * count),
            "value": texts(VALUES * times, kind),
            "label": pa.array(["x", "y"] * count)[:count].dictionary_encode(),
        }
    )


def found(path: Path) -> list[tuple[str, int]]:
    """The events of the first slot, (user, bin)."""
    ((_, rows),) = play(dpi.read(path), SLOTS, DOMAIN, 0, 1)
    users = users_of(rows, ["eve", *(user for user, _ in EXPECTED)])
    return sorted(
        (str(user), code)
        for user, code, count in zip(users, rows.bins.tolist(), rows.counts.tolist(), strict=True)
        for _ in range(count)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"store_schema": False},
        {"version": "1.0"},
        {"data_page_version": "2.0", "compression": "zstd"},
        {"compression": "none", "write_page_index": True, "write_statistics": False},
        {"row_group_size": 3},
        {"row_group_size": 100_000, "data_page_size": 1000},
    ],
    ids=str,
)
def test_a_parquet_text_that_is_not_utf_8_costs_its_row(tmp_path: Path, options: dict[str, object]) -> None:
    """However the file is laid out, the other rows are read as they are."""
    times = 20_000 if "data_page_size" in options else 3
    pq.write_table(table(times), tmp_path / "events.parquet", **options)
    assert found(tmp_path / "events.parquet") == sorted(EXPECTED * times)


LAYOUTS = [
    (kind, compression)
    for kind in (pa.string(), pa.large_string(), pa.string_view())
    for compression in (None, "lz4", "zstd")
]


@pytest.mark.parametrize(("kind", "compression"), LAYOUTS, ids=str)
def test_an_arrow_text_that_is_not_utf_8_costs_its_row(
    tmp_path: Path, kind: pa.DataType, compression: str | None
) -> None:
    """In texts of every layout, and in each of several record batches."""
    written(tmp_path / "events.arrow", *table(3, kind).to_batches(max_chunksize=4), compression=compression)
    assert found(tmp_path / "events.arrow") == sorted(EXPECTED * 3)


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint16(), pa.int64()], ids=str)
@pytest.mark.parametrize(
    ("kind", "compression"),
    [(pa.string(), None), (pa.string(), "zstd"), (pa.large_string(), "lz4"), (pa.string_view(), None)],
    ids=str,
)
def test_a_dictionary_with_a_text_that_is_not_utf_8_costs_its_rows(
    tmp_path: Path, kind: pa.DataType, compression: str | None, index: pa.DataType
) -> None:
    """In dictionaries of texts of every layout, beside one of clean texts and columns without."""
    events = table(3)
    for at, name, rows in ((1, "user", IDS), (5, "value", VALUES)):
        events = events.set_column(at, name, encoded(rows * 3, kind, index))
    path = written(tmp_path / "events.arrow", *events.to_batches(max_chunksize=4), compression=compression)
    assert found(path) == sorted(EXPECTED * 3)


def test_a_dictionary_that_grows_between_batches_is_read_as_it_is_then(tmp_path: Path) -> None:
    """A later batch adds texts to the dictionary of an earlier one."""
    known: list[bytes] = []
    batches = []
    for rows in (slice(0, 3), slice(3, 7)):
        user = encoded(IDS[rows], pa.string(), pa.int32(), known)
        known = [bytes(text) for text in user.dictionary.view(pa.binary()).to_pylist()]
        times = ["2026-01-01"] * len(user)
        value = encoded(VALUES[rows], pa.string(), pa.int32(), [b"DE", b"FR", b"\xc3"])
        batches.append(pa.record_batch({"user": user, "time": times, "value": value}))
    assert found(written(tmp_path / "events.arrow", *batches, emit_dictionary_deltas=True)) == EXPECTED


def test_broken_texts_in_columns_that_nobody_asked_for_cost_nothing(tmp_path: Path) -> None:
    """Nested or plain, with a dictionary or without: what is not read refuses nothing, beside texts that are broken."""
    broken, offsets = texts(IDS, pa.string()), pa.array(range(len(IDS) + 1), pa.int32())
    numbers = encoded(IDS, pa.string(), pa.int32())
    others = {
        "struct": pa.StructArray.from_arrays([broken], ["x"]),
        "list": pa.ListArray.from_arrays(offsets, broken),
        "numbers in a list": pa.ListArray.from_arrays(offsets, numbers),
        "numbers": numbers,
    }
    events = table(1)
    for name, column in others.items():
        events = events.append_column(name, column)
    assert found(written(tmp_path / "events.arrow", *events.to_batches())) == EXPECTED


def test_rows_before_the_broken_one_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before polars refused is not read again."""
    monkeypatch.setattr(columnar, "_ROWS", 10_000)
    good = pa.table({"user": ["eve"] * 60_000, "time": ["2026-01-01"] * 60_000, "value": ["DE"] * 60_000})
    bad = pa.table({"user": texts(IDS, pa.string()), "time": ["2026-01-01"] * 7, "value": texts(VALUES, pa.string())})
    with pq.ParquetWriter(tmp_path / "events.parquet", good.schema) as writer:
        writer.write_table(good, row_group_size=10_000)
        writer.write_table(bad)
    assert found(tmp_path / "events.parquet") == sorted([*EXPECTED, *[("eve", 0)] * 60_000])


def test_a_damaged_file_stays_refused_and_shows_nothing(tmp_path: Path) -> None:
    """Pages that cannot be read refuse the file as a whole, and the text holds nothing of it."""
    pq.write_table(table(500), tmp_path / "events.parquet", compression="none")
    data = bytearray((tmp_path / "events.parquet").read_bytes())
    events = dpi.read(tmp_path / "events.parquet")
    size = int.from_bytes(data[-8:-4], "little")
    data[4 : -8 - size] = bytes(len(data) - 12 - size)
    (tmp_path / "events.parquet").write_bytes(data)
    with pytest.raises(dpi.StateError, match="damaged") as error:
        next(play(events, SLOTS, DOMAIN, 0, 1))
    assert "secret" not in str(error.value)


# Files in pieces for several readers: together they are the file, whatever its row groups are.


@pytest.fixture
def pieces_table() -> pl.DataFrame:
    """A pieces_table of a few hundred rows."""
    return pl.DataFrame({"user": range(700), "time": range(700), "value": [f"v{n % 7}" for n in range(700)]})


@pytest.mark.parametrize("groups", [7, 100, 10_000])
@pytest.mark.parametrize("least", [1, 64, 1 << 18])
def test_pieces_of_parquet_files_are_all_rows_once(tmp_path, pieces_table, monkeypatch, groups, least):
    """In their order, over several files, and each of whole row groups."""
    monkeypatch.setattr(columnar, "_ROWS", least)
    for number, part in enumerate((pieces_table[:300], pieces_table[300:])):
        part.write_parquet(tmp_path / f"{number}.parquet", row_group_size=groups)
    events = dpi.read(tmp_path / "*.parquet", user="user", time="time", value="value", unit="s")
    pieces = events.pieces()
    assert (len(pieces) > 2) == (groups < 300 and least < 300)
    found = [pl.DataFrame(list(batch[:3])) for piece in pieces for batch in piece.batches()]
    assert pl.concat(found).rows() == pieces_table.rows()


@pytest.mark.parametrize("least", [1, 150, 1 << 18])
def test_pieces_with_a_text_that_is_not_unicode_are_all_rows_once(tmp_path, pieces_table, monkeypatch, least):
    """The reader of such files begins anew: a piece takes what is its own, and what was not read before."""
    monkeypatch.setattr(columnar, "_ROWS", least)
    events = pieces_table.to_arrow()
    raw = [text.encode() for text in pieces_table["value"]]
    raw[410] = b"\xff"
    texts = pa.array(raw, pa.binary()).view(pa.string())
    pq.write_table(events.set_column(2, "value", texts), tmp_path / "events.parquet", row_group_size=100)
    read = dpi.read(tmp_path / "events.parquet", unit="s")
    found = pl.concat(pl.DataFrame(list(batch[:3])) for piece in read.pieces() for batch in piece.batches())
    values = [*pieces_table["value"][:410], None, *pieces_table["value"][411:]]
    assert found.rows() == pieces_table.with_columns(value=pl.Series(values)).rows()


def test_files_that_are_read_from_their_beginning_have_no_pieces(tmp_path, pieces_table):
    """Text, and a pieces_table in memory: whoever reads them hands the rows on."""
    pieces_table.write_csv(tmp_path / "events.csv")
    pieces_table.write_parquet(tmp_path / "events.parquet")
    for pattern, number in (("*.csv", 0), ("*.parquet", 1), ("*", 0)):
        events = dpi.read(tmp_path / pattern, user="user", time="time", value="value", unit="s")
        assert len(events.pieces()) == number
