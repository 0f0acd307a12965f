"""An Arrow file whose texts are not all UTF-8: its columns, with texts as the bytes that they are.

As in `unchecked_parquet`: one such row makes polars refuse the whole file. An Arrow file is a stream of messages, as it
is sent over a network, between two marks; each record batch is given to polars again, after a schema that declares
bytes instead of text: texts and bytes differ in one byte of the schema and in nothing else. What a dictionary holds
stays text: polars knows no dictionary of bytes.
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
_BATCH_ROWS, _BATCH_COMPRESSION = 0, 3
_DICTIONARY_BATCH = 1


def record_batches(path: str, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each record batch; raises `ValueError` or `struct.error` for a file that is damaged."""
    with Path(path).open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("no Arrow file")
        yield from stream_batches(file, names)


def stream_batches(file: BinaryIO, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each record batch of a stream."""
    import polars as pl

    before = b""
    while message := _message(file):
        kind, data, _ = message
        if kind == _BATCH:
            yield pl.read_ipc_stream(io.BytesIO(before + data + _END)).select(names)
        else:
            before += data


def is_plain(file: BinaryIO, most: int) -> bool:
    """Whether no part of a stream is packed, or says that it has more rows than `most`: what it takes is what it is.

    Raises `ValueError` or `struct.error` for a stream that is damaged.
    """
    while message := _message(file):
        kind, _, head = message
        batch = _follow(head, _field(head, _follow(head, 0), _HEADER))
        if kind == _DICTIONARY:
            batch = _follow(head, _field(head, batch, _DICTIONARY_BATCH))
        if kind in (_DICTIONARY, _BATCH):
            rows = _field(head, batch, _BATCH_ROWS)
            if _field(head, batch, _BATCH_COMPRESSION) or (rows and struct.unpack_from("<q", head, rows)[0] > most):
                return False
    return True


def _message(file: BinaryIO) -> tuple[int, bytes, bytearray] | None:
    """The type of the next message, its bytes with texts declared as bytes, and its head; None at the end."""
    mark = file.read(4)
    if not mark:
        return None
    if mark != _CONTINUATION:
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
    return kind, _CONTINUATION + size + bytes(head) + body, head


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
