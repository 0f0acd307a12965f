"""One rule for all readers: a row is the same account, slot and bin, whatever it is written in.

What a format cannot say is left out of its file:
CSV cannot tell a number from its text: NaN, infinities and floats from 2^53 on, which are nobody's id, are texts there.
Nor has it NUL bytes, line breaks, lone surrogates, or a difference of an empty field and a missing one.
Parquet, Arrow and polars have one type in a column: rows of each type stand in a file of their own, and integers beyond
128 bits are texts. None of them has lone surrogates. pandas is given objects.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpi
from dpi.events.columns import Table
from dpi.events.identity import users as canonical_users
from dpi.events.rows import Rows
from dpi.sources import Admission, TableEvents

Row = tuple[object, object, object]
SLOTS = dpi.Slots("1h")
KEY = bytes(32)
DOMAINS = (
    dpi.Categories(["1", "2.0", "true", "DE", "1.5"]),
    dpi.Bins([0, 1, 10]),
    dpi.Hashed(1 << 30, key=KEY),
    dpi.Amounts("0.01"),
)

HOUR = 3_600 * 10**9
BEYOND = 2**63 // HOUR - 1
"""The slot before the one in which nanoseconds leave 63 bits."""
wholes = [0, 1, 7, -7, 10**7, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, 10**5000, -(10**5000)]
floats = [0.0, -0.0, 1.0, 7.0, 1.5, 1e7, 1e15, 2.0**53, 1e300, 5e-324, math.inf, -math.inf, math.nan]
texts = [
    "ada", "DE", "ß", "1", "1.0", "1.00", "7.0", "1.0E7", "1e+15", "1.5", "007", "+7", " 7", "7e0", "-0", "-0.0", "0x7",
    "true", "", "nan", "inf", "1e400", "1e-400", "1e+400", "9007199254740993.0", "9" * 400, "9" * 5000, "x" * 1025,
    "a,b", 'q"q', "\ud800", "nul\0",
]  # fmt: skip
cells = [*wholes, *floats, *texts, True, False, None]
odd = st.sampled_from(cells)
instants = [
    0, 1, HOUR, 3 * HOUR - 1, 2**63 - 1, 2**63, 2**63 + 1, 2**63 + 12345, 2**64, 2**65 + 7, -1, 10**5000, float(HOUR),
    1.5 * HOUR, 2.0**63, 1e300, math.nan, math.inf, f"{2**63 + 1}", f"{HOUR}", f"{HOUR}.5", "1e400", "soon", "", None,
    True, "007",
]  # fmt: skip
rows = st.lists(st.tuples(odd, st.sampled_from(instants), odd), max_size=6)


def csv_text(cell: object) -> str:
    """The cell as programs export it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int):
        return long_text(cell)
    return str(cell)


def long_text(number: int) -> str:
    """Digits of an integer, also of one that Python does not write."""
    head, tail = divmod(abs(number), 10**4000)
    return ("-" if number < 0 else "") + (f"{head}{tail:04000d}" if head else str(tail))


def json_text(row: Row) -> str:
    """A line of NDJSON."""
    cells = (long_text(c) if type(c) is int else json.dumps(c) for c in row)
    return (
        "{" + ", ".join(f'"{name}": {cell}' for name, cell in zip(("user", "time", "value"), cells, strict=True)) + "}"
    )


def as_csv(table: list[Row], folder: Path) -> Iterator[dpi.sources.FileEvents]:
    """A file of text."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([("user", "time", "value"), *(map(csv_text, r) for r in table)])
    (folder / "events.csv").write_bytes(lines.getvalue().encode())
    yield dpi.read(folder / "events.csv", unit="ns")


def as_ndjson(table: list[Row], folder: Path) -> Iterator[dpi.sources.FileEvents]:
    """A file of scalars with a type of their own."""
    (folder / "events.ndjson").write_text("\n".join(map(json_text, table)))
    yield dpi.read(folder / "events.ndjson", unit="ns")


def frames(table: list[Row]) -> Iterator[pl.DataFrame]:
    """Frames of typed columns: one for each combination of types."""
    kinds: dict[tuple[pl.DataType, ...], list[Row]] = {}
    for row in table:
        kinds.setdefault(tuple(kind(cell) for cell in row), []).append(row)
    for types, members in kinds.items():
        cells = [
            [csv_text(c) if t == pl.String and c is not None else c for c, t in zip(r, types, strict=True)]
            for r in members
        ]
        schema = dict(zip(("user", "time", "value"), types, strict=True))
        yield pl.DataFrame(cells, schema=schema, orient="row")


def kind(cell: object) -> pl.DataType:
    """The type of the column that a cell stands in."""
    if isinstance(cell, bool):
        return pl.Boolean()
    if isinstance(cell, int):
        return pl.Int64() if -(2**63) <= cell < 2**63 else pl.UInt64() if 0 < cell < 2**64 else pl.String()
    return pl.Float64() if isinstance(cell, float) else pl.String()


def as_columnar(suffix: str) -> Callable[[list[Row], Path], Iterator[dpi.sources.FileEvents]]:
    """Files with a declared type for each column."""

    def write(table: list[Row], folder: Path) -> Iterator[dpi.sources.FileEvents]:
        for number, frame in enumerate(frames(table)):
            path = folder / f"{number}.{suffix}"
            frame.write_parquet(path) if suffix == "parquet" else frame.write_ipc(path)
            numeric = frame.schema["time"].is_numeric() or frame.schema["time"] == pl.String
            if numeric:  # a column of booleans is no column of times, by its schema
                yield dpi.read(path, unit="ns")

    return write


def in_memory(make: Callable[[list[Row]], Iterator[object]]) -> Callable[[list[Row], Path], Iterator[TableEvents]]:
    """Tables of a library."""

    def wrap(table: list[Row], folder: Path) -> Iterator[TableEvents]:
        for each in make(table):
            yield TableEvents(unit="ns", table=Table(each))

    return wrap


def columns(table: list[Row]) -> dict[str, list[object]]:
    """Columns by name."""
    return {name: [row[at] for row in table] for at, name in enumerate(("user", "time", "value"))}


READERS = {
    "csv": as_csv,
    "ndjson": as_ndjson,
    "parquet": as_columnar("parquet"),
    "arrow": as_columnar("arrow"),
    "polars": in_memory(frames),
    "pandas": in_memory(lambda table: iter([pd.DataFrame(columns(table), dtype=object)])),
    "lists": in_memory(lambda table: iter([columns(table)])),
    "mappings": in_memory(lambda table: iter([[dict(zip(("user", "time", "value"), r, strict=True)) for r in table]])),
}


def sayable(row: Row, reader: str) -> bool:
    """Whether a format can say what stands in a row."""
    user, time, value = row
    strange = any(isinstance(cell, str) and ("\ud800" in cell or "\0" in cell) for cell in row)
    if reader == "csv":
        no_id = isinstance(user, float) and (not math.isfinite(user) or abs(user) >= 2**53)
        return (
            not strange
            and not no_id
            and value not in ("", None)
            and not (isinstance(value, float) and math.isnan(value))
        )
    if reader in ("parquet", "arrow", "polars"):
        return not any(isinstance(cell, str) and "\ud800" in cell for cell in row) and not isinstance(time, bool)
    return True


def found(rows: Rows, number: int) -> Counter[tuple[str, int, int]]:
    """How often each (account, slot, bin) is there."""
    result: Counter[tuple[str, int, int]] = Counter()
    for name, code, count in zip(rows.names, rows.bins.tolist(), rows.counts.tolist(), strict=True):
        result[name.tobytes().hex(), number, code] += count
    return result


def read(table: list[Row], reader: str, domain: dpi.Domain) -> Counter[tuple[str, int, int]]:
    """All events of a table, by a reader."""
    total: Counter[tuple[str, int, int]] = Counter()
    with TemporaryDirectory() as folder:
        for events in READERS[reader](table, Path(folder)):
            for first in (0, BEYOND):
                for number, slot in events.slots(Admission(SLOTS, domain, KEY, first, first + 3)):
                    total += found(slot, number)
    return total


_ALONE: dict[tuple[str, dpi.Domain], Counter[tuple[str, int, int]]] = {}


def alone(row: Row, domain: dpi.Domain) -> Counter[tuple[str, int, int]]:
    """What a list of one row gives; kept, because rows come again and again."""
    key = repr([(long_text(cell), int) if type(cell) is int else cell for cell in row]), domain
    if key not in _ALONE:
        _ALONE[key] = read([row], "lists", domain)
    return _ALONE[key]


def agree(table: list[Row], reader: str) -> None:
    """Accounts, slots and bins of all rows together are those that a list of each row by itself gives."""
    table = [row for row in table if sayable(row, reader)]
    for domain in DOMAINS:
        expected: Counter[tuple[str, int, int]] = Counter()
        for row in table:
            expected += alone(row, domain)
        assert read(table, reader, domain) == expected


@pytest.mark.parametrize("reader", READERS)
def test_every_odd_cell_is_the_same_in_every_format(reader: str) -> None:
    """Odd ids, times and values, each in a row that is plain otherwise."""
    agree([(cell, HOUR, "DE") for cell in cells], reader)
    agree([("ada", cell, "DE") for cell in instants], reader)
    agree([("ada", HOUR, cell) for cell in cells], reader)


@settings(max_examples=200 if os.environ.get("DPI_SLOW") else 5)
@pytest.mark.parametrize("reader", READERS)
@given(table=rows)
def test_odd_rows_are_the_same_in_every_format(reader: str, table: list[Row]) -> None:
    """Any mixture of odd ids, times and values."""
    agree(table, reader)


def test_one_person_is_one_account_however_the_id_is_exported() -> None:
    """An integer, a float, their texts, and floats as C and Java write them; zeros in front are another name."""
    ids = canonical_users([12345678, 12345678.0, "12345678", "12345678.0", "1.2345678E7", "1.2345678e+07"])
    assert set(ids) == {"12345678"}
    kept = ["012345678", "12345678e0", "1.10", "12e4", "1.2345678E400", "1." + "0" * 40]
    assert canonical_users(kept).to_list() == kept


def test_nothing_is_printed_of_an_integer_that_cannot_be_written(capfd: pytest.CaptureFixture[str]) -> None:
    """An id of more digits than Python writes is dropped by itself, and no log shows that it was there."""
    assert canonical_users([1, 10**5000, 2]).to_list() == ["1", None, "2"]
    assert canonical_users([10**5000]).to_list() == [None]
    dpi.Stream(domain=dpi.Bins([0]), epsilon=1).release([10**5000, 1], [10**5000, -(10**5000)])
    assert capfd.readouterr() == ("", "")


def test_nanoseconds_are_exact_in_every_column() -> None:
    """Whole numbers from 2^53 and from 2^63 on keep every nanosecond: the same slot of a microsecond."""
    slots = dpi.Slots("1us")
    for number in (2**53 + 1, 1767225600 * 10**9 + 999, 2**63 - 1, 2**63, 2**63 + 12345, 2**64 - 1):
        columns = ([number], [str(number)], [number, "x"], [str(number), None], pl.Series([number], dtype=pl.UInt64))
        wide = pl.Series([number], dtype=pl.Int128)
        assert {int(slots.numbers(column, "ns")[0]) for column in (*columns, wide)} == {number // 1000}
