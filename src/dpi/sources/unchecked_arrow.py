"""An Arrow file whose texts are not all UTF-8: its columns, with texts as the bytes that they are.

As in `unchecked_parquet`: one such row makes polars refuse the whole file. An Arrow file is a stream of messages; each
record batch is given to polars again, after a schema that declares bytes instead of text: texts and bytes differ in
one byte of the schema and in nothing else. What a dictionary holds stays text: polars knows no dictionary of bytes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import polars as pl

_MAGIC = b"ARROW1\0\0"
_CONTINUATION = b"\xff\xff\xff\xff"
_END = _CONTINUATION + bytes(4)
_BYTES = {5: 4, 20: 19, 24: 23}
"""By the type of texts, that of bytes with the same layout: plain, large, views."""
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
# Numbers of fields in Message.fbs and Schema.fbs.
_HEADER_TYPE, _HEADER, _BODY_SIZE = 1, 2, 3
_FIELDS = 1
_FIELD_TYPE, _FIELD_DICTIONARY = 2, 4


def record_batches(path: str, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each record batch; raises `ValueError` or `struct.error` for a file that is damaged."""
    import polars as pl

    before = b""
    with Path(path).open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("no Arrow file")
        while message := _message(file):
            kind, data = message
            if kind == _BATCH:
                yield pl.read_ipc_stream(io.BytesIO(before + data + _END)).select(names)
            else:
                before += data


def _message(file: BinaryIO) -> tuple[int, bytes] | None:
    """The type of the next message and its bytes, with texts declared as bytes; None at the end."""
    if file.read(4) != _CONTINUATION:
        raise ValueError("no message")
    size = file.read(4)
    head = bytearray(file.read(int.from_bytes(size, "little")))
    if not head:
        return None
    root = _follow(head, 0)
    kind_at, body_at = _field(head, root, _HEADER_TYPE), _field(head, root, _BODY_SIZE)
    kind = head[kind_at] if kind_at else 0
    if kind == _SCHEMA:
        _declare_bytes(head, _follow(head, _field(head, root, _HEADER)))
    body = file.read(struct.unpack_from("<q", head, body_at)[0]) if body_at else b""
    return kind, _CONTINUATION + size + bytes(head) + body


def _declare_bytes(head: bytearray, schema: int) -> None:
    vector = _follow(head, _field(head, schema, _FIELDS))
    for number in range(struct.unpack_from("<I", head, vector)[0]):
        column = _follow(head, vector + 4 + 4 * number)
        at = _field(head, column, _FIELD_TYPE)
        if at and not _field(head, column, _FIELD_DICTIONARY):
            head[at] = _BYTES.get(head[at], head[at])


def _follow(data: bytearray, at: int) -> int:
    """Where the offset at a place leads."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytearray, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table lies; 0 if it is not there."""
    places = table - int(struct.unpack_from("<i", data, table)[0])
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, places)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, places + at)[0])
    return table + offset if offset else 0
