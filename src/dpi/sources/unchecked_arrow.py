"""An Arrow file whose texts are not all UTF-8: its columns, with texts as the bytes that they are.

As in `unchecked_parquet`: one such row makes polars refuse the whole file. An Arrow file is a stream of messages; each
record batch is given to polars again, after a schema that declares bytes instead of text: texts and bytes differ in
one byte of the schema and in nothing else. Polars knows no dictionary of bytes, so a column of texts with a dictionary
is declared as the numbers that it holds, and the dictionary is read as a column by itself (`_Schema`).
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import polars as pl

_MAGIC = b"ARROW1\0\0"
_CONTINUATION = b"\xff\xff\xff\xff"
_END = _CONTINUATION + bytes(4)
_BYTES = {5: 4, 20: 19, 24: 23}
"""By the type of texts, that of bytes with the same layout: plain, large, views."""
_INT = 2
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
# Numbers of fields in Message.fbs and Schema.fbs.
_HEADER_TYPE, _HEADER, _BODY_SIZE = 1, 2, 3
_FIELDS = 1
_FIELD_NAME, _FIELD_TYPE, _FIELD_TYPE_AT, _FIELD_DICTIONARY, _FIELD_CHILDREN = 0, 2, 3, 4, 5
_DICTIONARY_ID, _INDEX_TYPE = 0, 1
_BATCH_ID, _BATCH_DATA, _BATCH_DELTA = 0, 1, 2
_ROWS, _NODES, _COMPRESSION = 0, 1, 3


def record_batches(path: str, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each record batch; raises `ValueError` or `struct.error` for a file that is damaged."""
    with Path(path).open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("no Arrow file")
        yield from stream_batches(file, names)


def stream_batches(file: BinaryIO, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each record batch of a stream: what a file holds between its marks, or what was sent."""
    schema, others = _Schema(bytearray()), b""
    dictionaries: dict[int, pl.Series] = {}
    while message := _message(file):
        head, body = message
        root = _follow(head, 0)
        kind, number = head[_field(head, root, _HEADER_TYPE)], -1
        if kind == _DICTIONARY:
            number = _long(head, _follow(head, _field(head, root, _HEADER)), _BATCH_ID)
        if kind == _SCHEMA:
            schema = _Schema(head)
        elif kind == _DICTIONARY and number in schema.values:
            values, delta = _dictionary(head, body, schema.values[number])
            dictionaries[number] = dictionaries[number].append(values) if delta else values
        elif kind == _DICTIONARY and number not in schema.unread:
            others += _written(head) + body
        elif kind == _BATCH:
            # Columns that nobody asked for are left unread: a text inside one of them need not be UTF-8 either.
            frame = _read(schema.head, others, _written(head) + body, names)
            encoded = {name: dictionaries[number] for name, number in schema.encoded.items() if name in names}
            yield frame.with_columns(texts.gather(frame[name]).alias(name) for name, texts in encoded.items())


def plain_rows(file: BinaryIO, names: Sequence[str]) -> int | None:
    """How many rows a stream says that it has, in all its parts together; None if a part of it is packed.

    Of its record batches, or of one of its dictionaries, whichever has most. The bytes of a part do not bound its rows:
    columns of nothing take none, and neither do lists and structures of nothing. So a part has as many rows as it says
    or, if that is more, as the longest of these columns has, inner ones too. Raises `ValueError` or `struct.error` for
    a stream that is damaged.
    """
    rows: Counter[int | None] = Counter({None: 0})  # by dictionary; None for batches
    read, dictionaries = list[bool](), set[int]()
    while message := _message(file):
        head, _ = message
        root = _follow(head, 0)
        kind, batch = head[_field(head, root, _HEADER_TYPE)], _follow(head, _field(head, root, _HEADER))
        if kind == _SCHEMA:
            read, dictionaries = _layout(head, batch, names)
        if kind not in (_DICTIONARY, _BATCH):
            continue
        number, asked = None, read
        if kind == _DICTIONARY:
            number = _long(head, batch, _BATCH_ID)
            batch = _follow(head, _field(head, batch, _BATCH_DATA))
            asked = [number in dictionaries] * len(_lengths(head, batch))
        if _field(head, batch, _COMPRESSION):
            return None
        inner = [size for size, each in zip(_lengths(head, batch), asked, strict=True) if each]
        sizes = [_long(head, batch, _ROWS), *inner]
        if min(sizes) < 0:
            raise ValueError("a negative number of rows")
        rows[number] += max(sizes)
    return max(rows.values())


def _layout(head: bytearray, schema: int, names: Sequence[str]) -> tuple[list[bool], set[int]]:
    """Of each column in a batch, inner ones too, whether it is, or is in, one of these; and their dictionaries."""
    read, dictionaries = list[bool](), set[int]()
    for column in _tables(head, schema, _FIELDS):
        wanted = _text(head, column, _FIELD_NAME) in names
        encoding = _field(head, column, _FIELD_DICTIONARY)
        read += [wanted] * _columns(head, column)
        if encoding and wanted:
            dictionaries.add(_long(head, _follow(head, encoding), _DICTIONARY_ID))
    return read, dictionaries


def _columns(head: bytearray, column: int) -> int:
    """How many columns a batch holds for one: itself and all inside of it, unless a dictionary has those."""
    if _field(head, column, _FIELD_DICTIONARY):
        return 1
    return 1 + sum(_columns(head, inner) for inner in _tables(head, column, _FIELD_CHILDREN))


def _lengths(head: bytearray, batch: int) -> list[int]:
    """The lengths of all columns of a batch, inner ones too."""
    at = _field(head, batch, _NODES)
    vector = _follow(head, at) if at else 0
    number = struct.unpack_from("<I", head, vector)[0] if at else 0
    return [struct.unpack_from("<q", head, vector + 4 + 16 * n)[0] for n in range(number)]


def has_inner_dictionary(file: BinaryIO, names: Sequence[str]) -> bool:
    """Whether something inside of one of these columns has a dictionary: by the schema, whatever the rows hold."""
    message = _message(file)
    if message is None:
        return False
    head = message[0]
    columns = _tables(head, _follow(head, _field(head, _follow(head, 0), _HEADER)), _FIELDS)
    nested = [_tables(head, column, _FIELD_CHILDREN) for column in columns if _text(head, column, _FIELD_NAME) in names]
    return any(_field(head, inner, _FIELD_DICTIONARY) for within in nested for inner in _nested(head, within))


class _Schema:
    """A schema with bytes in place of text, and with numbers in place of texts that have a dictionary."""

    def __init__(self, head: bytearray) -> None:
        self.encoded: dict[str, int] = {}
        """Columns of such numbers, and the dictionary of each."""
        self.values: dict[int, bytes] = {}
        """For each of these dictionaries a schema with one column: what it holds, as bytes."""
        self.unread: set[int] = set()
        """Dictionaries inside of nested columns: whoever reads such columns refuses those (`has_inner_dictionary`)."""
        self.head = b""
        if head:
            self._declare(head)

    def _declare(self, head: bytearray) -> None:
        schema = _follow(head, _field(head, _follow(head, 0), _HEADER))
        vector, columns = _follow(head, _field(head, schema, _FIELDS)), [*_tables(head, schema, _FIELDS)]
        encoded = [column for column in _nested(head, columns) if _declare_bytes(head, column)]
        alone = bytearray(head)
        for column in encoded:
            _without_dictionary(alone, column)
        for column in encoded:
            encoding = _follow(head, _field(head, column, _FIELD_DICTIONARY))
            number = _long(head, encoding, _DICTIONARY_ID)
            if column in columns:
                self.encoded[_text(head, column, _FIELD_NAME)] = number
                struct.pack_into("<II", alone, vector, 1, column - vector - 4)
                self.values[number] = _written(alone)
            else:
                self.unread.add(number)
            index, at = _field(head, encoding, _INDEX_TYPE), _field(head, column, _FIELD_TYPE_AT)
            if not index:
                raise ValueError("no type of numbers")
            head[_field(head, column, _FIELD_TYPE)] = _INT
            struct.pack_into("<I", head, at, _follow(head, index) - at)
            _without_dictionary(head, column)
        self.head = _written(head)


def _nested(head: bytearray, columns: Iterable[int]) -> Iterator[int]:
    """The columns, and all that is inside of them."""
    for column in columns:
        yield column
        yield from _nested(head, _tables(head, column, _FIELD_CHILDREN))


def _declare_bytes(head: bytearray, column: int) -> bool:
    """Let a column of texts be one of bytes; whether it is one that has a dictionary."""
    at = _field(head, column, _FIELD_TYPE)
    text = bool(at) and head[at] in _BYTES
    if text:
        head[at] = _BYTES[head[at]]
    return text and _field(head, column, _FIELD_DICTIONARY) > 0


def _without_dictionary(head: bytearray, column: int) -> None:
    """Let a column have none: by a table of its fields' places that is its own, for columns may share one."""
    places = column - struct.unpack_from("<i", head, column)[0]
    size = struct.unpack_from("<H", head, places)[0]
    struct.pack_into("<i", head, column, column - len(head))
    own = head[places : places + size]
    struct.pack_into("<H", own, 4 + 2 * _FIELD_DICTIONARY, 0)
    head += own + bytes(-size % 8)


def _dictionary(head: bytearray, body: bytes, schema: bytes) -> tuple[pl.Series, bool]:
    """What a dictionary holds, and whether that comes after what it held before."""
    root = _follow(head, 0)
    batch = _follow(head, _field(head, root, _HEADER))
    delta = _field(head, batch, _BATCH_DELTA)
    added = bool(delta and head[delta])
    at = _field(head, root, _HEADER)
    head[_field(head, root, _HEADER_TYPE)] = _BATCH
    struct.pack_into("<I", head, at, _follow(head, _field(head, batch, _BATCH_DATA)) - at)
    return _read(schema, b"", _written(head) + body).to_series(), added


def _read(schema: bytes, dictionaries: bytes, batch: bytes, names: Sequence[str] | None = None) -> pl.DataFrame:
    import polars as pl

    stream = io.BytesIO(schema + dictionaries + batch + _END)
    return pl.read_ipc_stream(stream, columns=None if names is None else list(names))


def _message(file: BinaryIO) -> tuple[bytearray, bytes] | None:
    """The head of the next message and its body; None at the end."""
    mark = file.read(4)
    if not mark:  # a stream may end without a word
        return None
    if mark != _CONTINUATION:
        raise ValueError("no message")
    head = bytearray(file.read(int.from_bytes(file.read(4), "little")))
    if not head:
        return None
    return head, file.read(_long(head, _follow(head, 0), _BODY_SIZE))


def _written(head: bytearray) -> bytes:
    """The head of a message as it stands in a stream."""
    return _CONTINUATION + len(head).to_bytes(4, "little") + bytes(head)


def _follow(data: bytearray, at: int) -> int:
    """Where the offset at a place leads."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _tables(data: bytearray, table: int, number: int) -> Iterator[int]:
    """Where the tables of a vector lie that is a field of another."""
    at = _field(data, table, number)
    vector = _follow(data, at) if at else 0
    for n in range(struct.unpack_from("<I", data, vector)[0] if at else 0):
        yield _follow(data, vector + 4 + 4 * n)


def _long(data: bytearray, table: int, number: int) -> int:
    """A field of 64 bits, which is 0 if it is not there."""
    at = _field(data, table, number)
    return int(struct.unpack_from("<q", data, at)[0]) if at else 0


def _text(data: bytearray, table: int, number: int) -> str:
    at = _follow(data, _field(data, table, number))
    return bytes(data[at + 4 : at + 4 + struct.unpack_from("<I", data, at)[0]]).decode()


def _field(data: bytearray, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table lies; 0 if it is not there."""
    places = table - int(struct.unpack_from("<i", data, table)[0])
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, places)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, places + at)[0])
    return table + offset if offset else 0
