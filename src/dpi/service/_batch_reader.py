"""Reading a batch: unpacked up to a limit, then read as Arrow IPC stream, columns in JSON, or NDJSON, row by row.

Columns are `user`, `time` and `value`; for a product, `value` has a field for each part. A row that cannot be read is
dropped by itself. A line that is no object is a row without anything, at the end: its producer is told that it was not
understood (`dpi.sources.Understood`). A body that is no batch at all is refused as a whole, by its form: by what its
producer wrote around the rows, never by what is in one. So no user's row decides whether others' are kept.

The limit of gzip and zstd is on what comes out, so that a small body that unpacks to gigabytes costs no more than any
other; and on how many parts the body is packed in, for a part costs time whatever comes out of it.

Lines are decoded by msgspec where it and `dpi.sources.textual` agree, line by line; a line that msgspec refuses, or
that has other fields, is read as lines of files are. So are columns that msgspec refuses: every JSON text is read,
whatever its cells hold.

Sees events; keeps none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np
import polars as pl
import zstandard

from dpi.domain import Domain, Product
from dpi.errors import SchemaError
from dpi.service._problems import Problem
from dpi.sources import Events
from dpi.sources.columnar import count_rows, is_packed, open_stream, refusals, to_columns
from dpi.sources.textual import json_object, not_longer, readable, texts

ARROW, COLUMNS, LINES = "application/vnd.apache.arrow.stream", "application/json", "application/x-ndjson"
KINDS = (ARROW, COLUMNS, LINES)
NAMES = ("user", "time", "value")
UNITS = ("s", "ms", "us", "ns")
MOST_ROWS = 1 << 17
"""Rows of one batch: with the bytes of a request they bound the time that it takes, whatever is in them."""
LONGEST_LINE = 1 << 14
"""Bytes; a longer line is dropped by itself. While a line is decoded no other thread runs, nor the one that closes
slots: one of this length takes two milliseconds at most."""
PACKINGS = ("gzip", "zstd")
_WINDOW = 1 << 27  # bytes that a zstd stream may ask to be remembered
_BLOCK = 256  # bytes that are unpacked at a time: four of a zstd stream can become 128 KiB
MOST_PARTS = 1024
"""Members of gzip, or frames of zstd, that follow each other in one body. Each costs time, an empty one too."""
_NO_COLUMNS = "columns in JSON are an object of `user`, `time` and `value`: lists of the same length, each."


class Columns(msgspec.Struct, forbid_unknown_fields=True):
    user: list[object]
    time: list[object]
    value: list[object] | dict[str, list[object]]


class Row(msgspec.Struct, forbid_unknown_fields=True):
    user: object = None
    time: object = None
    value: object = None


_columns = msgspec.json.Decoder(Columns)
_row = msgspec.json.Decoder(Row)


def parts_of(domain: Domain) -> tuple[str, ...] | None:
    """Return the names of a product's parts, for which a batch has a value each; None if a row has one value."""
    return tuple(domain.parts) if isinstance(domain, Product) else None


def read_batch(
    body: bytes, kind: str, unit: str | None, parts: Sequence[str] | None, packing: str = "", limit: int = 1 << 24
) -> Events:
    """Return the columns of a batch, packed in a way that unpacks to so many bytes."""
    read = {ARROW: _read_arrow, LINES: _read_lines, COLUMNS: _read_columns}[kind]
    return read(unpack(body, packing, limit) if packing else body, unit, parts)


def _read_columns(body: bytes, unit: str | None, parts: Sequence[str] | None) -> Events:
    plain = _empty_cells(body, parts)
    try:
        columns = _columns.decode(plain)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        columns = _read_tolerantly(plain)
    if isinstance(columns.value, dict) != (parts is not None) or (parts and set(parts) != set(columns.value)):
        raise Problem(422, _shape(parts))
    values = [columns.value] if isinstance(columns.value, list) else list(columns.value.values())
    if {len(column) for column in (columns.time, *values)} != {len(columns.user)}:
        raise Problem(422, _NO_COLUMNS)
    _check_rows(len(columns.user))
    return _make_events(columns.user, columns.time, columns.value, unit)


def _read_tolerantly(body: bytes) -> Columns:
    r"""Columns with a cell that msgspec refuses: it is missing by itself, or what the reader of files makes of it.

    Half of a pair of surrogates, bytes that are not UTF-8 inside of a text, a number that no float holds, NaN.

    >>> batch = _read_tolerantly(b'{"user": ["\\ud800", "ada"], "time": [1e400, 5], "value": [[], "a"]}')
    >>> batch.user[1], batch.time, batch.value
    ('ada', [inf, 5], [[], 'a'])
    """
    document = json_object(body.decode(errors="surrogateescape").strip(" \t\r\n"))
    try:
        return msgspec.convert(document, Columns)
    except msgspec.ValidationError:
        raise Problem(422, _NO_COLUMNS) from None


def _empty_cells(body: bytes, parts: Sequence[str] | None) -> bytes:
    r"""Columns in JSON with nothing inside of cells that are lists or objects: these are no value, whatever they hold.

    Refuses more columns than there should be, and more rows than a batch has, before any of them is made. Looks at all
    bytes at a time, so that neither a bracket nor a comma takes longer than any other byte.

    >>> _empty_cells(rb'{"user": [[[], 1], "\"[", 2], "value": {"a": [{"x": 3}]}}', ["a"])
    b'{"user": [[     ], "\\"[", 2], "value": {"a": [{      }]}}'
    """
    columns = 2 + (1 if parts is None else len(parts))
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= columns + (1 if parts is None else 2) and body.count(b",") <= columns * MOST_ROWS:
        return body  # there is nothing in cells, and there are not too many of them
    marks = np.frombuffer(body.replace(rb"\\", b"  ").replace(rb"\"", b"  "), dtype=np.uint8)
    outside = ~np.logical_xor.accumulate(marks == ord('"'))
    opens = outside & ((marks == ord("[")) | (marks == ord("{")))
    closes = outside & ((marks == ord("]")) | (marks == ord("}")))
    depth = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    second = opens & (depth == 2)
    # The columns of a product's parts lie in an object, one deeper than others: the object is not counted.
    objects = np.concatenate(([False], marks[second] == ord("{")))
    depth -= objects[np.cumsum(second, dtype=np.int32)]
    if np.count_nonzero(opens & (depth == 2)) > columns:
        raise Problem(422, _shape(parts) if objects.any() else _NO_COLUMNS)
    _check_rows(int(np.count_nonzero(outside & (marks == ord(",")) & (depth == 2))) // columns)
    content = np.frombuffer(body, dtype=np.uint8).copy()
    content[(depth > 2) & ~(opens & (depth == 3))] = ord(" ")
    return content.tobytes()


def _read_lines(body: bytes, unit: str | None, parts: Sequence[str] | None) -> Events:
    _check_rows(body.count(b"\n", 0, -1) + 1)
    lines = body.removeprefix("\ufeff".encode()) + b"\n"  # a byte order mark
    text = readable(not_longer(lines, LONGEST_LINE))
    rows = [row for row in map(_read_line, text.split(b"\n")) if row is not None]
    written = sum(map(bool, map(bytes.strip, lines.split(b"\n"))))  # without empty lines
    rows += [Row()] * (written - len(rows))
    values: list[object] | dict[str, list[object]] = [row.value for row in rows]
    if parts is not None:
        values = {part: [v.get(part) if isinstance(v, dict) else None for v in values] for part in parts}
    return _make_events([row.user for row in rows], [row.time for row in rows], values, unit)


def _read_line(line: bytes) -> Row | None:
    try:
        return _row.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        row = json_object(line.decode())
        return None if row is None else Row(row.get("user"), row.get("time"), row.get("value"))


def _make_events(
    users: list[object], times: list[object], values: list[object] | dict[str, list[object]], unit: str | None
) -> Events:
    value: object
    if isinstance(values, dict):
        value = {part: texts(column, "value", exact=False) for part, column in values.items()}
    else:
        value = texts(values, "value", exact=False)
    return Events(texts(users, "user", exact=True), texts(times, "time", exact=False), value, unit)


def _read_arrow(body: bytes, unit: str | None, parts: Sequence[str] | None) -> Events:
    try:
        if is_packed(body):
            raise Problem(415, "buffers of an Arrow stream must not be packed by themselves: use Content-Encoding.")
        schema, batches = open_stream(bytearray(body))
        table = batches.read_all()  # it lies in the body, however many rows it says it has
        _check_rows(count_rows(table, NAMES))
        users, times, values = to_columns(table, schema, NAMES)
    except SchemaError:
        raise
    except refusals():
        raise Problem(400, "the body is not an Arrow IPC stream.") from None
    if isinstance(values.dtype, pl.Struct) != (parts is not None):
        raise Problem(422, _shape(parts))
    if parts is None:
        return Events(users, times, values, unit)
    if not set(parts) <= set(values.struct.fields):
        raise Problem(422, _shape(parts))
    return Events(users, times, {part: values.struct.field(part) for part in parts}, unit)


def _check_rows(rows: int) -> None:
    """Refuse a batch by how many rows its producer put into it, readable or not, of any user."""
    if rows > MOST_ROWS:
        raise Problem(413, f"a batch has at most {MOST_ROWS} rows: split it, and send its parts.")


def _shape(parts: Sequence[str] | None) -> str:
    if parts is None:
        return "`value` must hold one plain value a row: the stream's domain is no product."
    return f"`value` must have a field for each part of the stream's domain: {', '.join(parts)}."


def unpack(body: bytes, packing: str, limit: int) -> bytes:
    """Return the body before it was packed; refuses more than `limit` bytes, and what is damaged or cut off."""
    match packing.strip().lower():
        case "" | "identity":
            content = body
        case "gzip" | "x-gzip":
            content = _join(body, limit, lambda: zlib.decompressobj(wbits=31))
        case "zstd":
            unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
            content = _join(body, limit, lambda: unpacker.decompressobj(read_across_frames=False))
        case _:
            raise Problem(415, f"`Content-Encoding` must be one of {', '.join(PACKINGS)}, or be left out.")
    if len(content) > limit:
        raise Problem(413, f"a batch has at most {limit} bytes unpacked: split it, and send its parts.")
    return content


class _Part(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: memoryview, /) -> bytes: ...


def _join(body: bytes, limit: int, begin: Callable[[], _Part]) -> bytes:
    """Return what all parts of a body hold, up to a little more than the limit.

    Takes time in proportion to the body and to what comes out: of what follows a part, no more than a block is copied.
    """
    content, rest, at = bytearray(), memoryview(body), 0
    for _ in range(MOST_PARTS):
        if at == len(body) or len(content) > limit:
            return bytes(content)
        part = begin()
        while not part.eof and at < len(body) and len(content) <= limit:
            piece = rest[at : at + _BLOCK]
            try:
                content += part.decompress(piece)
            except (zlib.error, zstandard.ZstdError):
                raise _damaged() from None
            at += len(piece) - len(part.unused_data)
        if not part.eof and len(content) <= limit:
            raise _damaged()
    if at < len(body):
        raise Problem(413, f"a packed body has at most {MOST_PARTS} members or frames: pack it in one.")
    return bytes(content)


def _damaged() -> Problem:
    return Problem(400, "the packed body is damaged, or cut off.")
