"""Parquet and Arrow: columns with a declared type, read some rows at a time.

The footer is schema. A file whose footer or pages are damaged is refused as a whole; no row can cause that. A text
column declares UTF-8, but many writers do not check it, and polars refuses the whole file for one such row. Then one
user would decide whether anything is released. So what polars refuses is read again by pyarrow, with texts as the bytes
that they are; a text that is not UTF-8 is missing by itself. Without pyarrow no such file is opened, whatever is in it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpi._version import how_to_install
from dpi.errors import OptionError, SchemaError, StateError
from dpi.events.columns import LONGEST_NUMBER, bounded
from dpi.exact.silence import silence
from dpi.sources._source import EventFile, Progress, missing

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 18
"""Rows at a time."""
Data = bytes | bytearray | mmap.mmap
_MAGIC = b"ARROW1\0\0"
_BYTES = {5: 4, 20: 19, 24: 23}
"""By the number of a type of texts, that of bytes with the same layout: plain, large, views."""
_TEXTS = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
"""The same by the names of types."""
# Numbers of fields in Message.fbs and Schema.fbs.
_HEADER, _FIELDS, _TYPE, _CHILDREN, _DATA, _COMPRESSION = 2, 1, 2, 5, 1, 3


class Columnar(EventFile):
    """A Parquet file, or an Arrow (IPC, Feather) file; with `rows`, as many of them from a first one on."""

    def __init__(self, path: str, form: str, rows: tuple[int, int] | None = None) -> None:
        if find_spec("pyarrow") is None:  # before the file is looked at: what is in it must not decide
            raise OptionError(f"events in Parquet and Arrow files need pyarrow: {how_to_install('parquet')}.")
        self.path = path
        self.size = Path(path).stat().st_size
        self._form, self._rows = form, rows

    def _scan(self) -> pl.LazyFrame:
        import polars as pl

        if self._form == "parquet":
            whole = pl.scan_parquet(self.path, glob=False, hive_partitioning=False)
            return whole if self._rows is None else whole.slice(*self._rows)
        return pl.scan_ipc(self.path, glob=False, hive_partitioning=False)

    def kinds(self) -> dict[str, pl.DataType]:
        """Return the declared types."""
        import polars as pl

        try:
            return dict(self._scan().collect_schema())
        except (pl.exceptions.PolarsError, OSError):
            raise SchemaError(f"{self.path!r} must be a {self._form} file. It is another, or is damaged.") from None

    def check(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""
        kinds = self.kinds()
        for name in names:
            if name not in kinds:
                raise missing(self.path, name, kinds)

    def frames(self, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """Return the columns, with dictionaries of texts as texts; a text that is not UTF-8 is missing, by itself."""
        import polars as pl

        text = pl.selectors.categorical() | pl.selectors.enum()
        done = 0
        try:
            rows = int(self._scan().select(pl.len()).collect().item())
            batches = self._scan().select(names).with_columns(text.cast(pl.String)).collect_batches(chunk_size=_ROWS)
            for frame in batches:
                done += frame.height
                yield frame
                progress(self.size * done // max(1, rows))
            if done < rows:  # a thread of polars that fails can end the batches without a word
                raise OSError("not all rows were read")
        except refusals():
            yield from self._unchecked(names, done)
            progress(self.size)

    def _unchecked(self, names: Sequence[str], done: int) -> Iterator[pl.DataFrame]:
        """Return the rows after `done` ones, of a file that polars refuses; raise if that is not for its texts."""
        import polars as pl
        import pyarrow as pa
        import pyarrow.parquet as pq

        start, size = (0, None) if self._rows is None else self._rows
        at = -start - done
        try:
            if self._form == "parquet":
                file = pq.ParquetFile(self.path)
                schema, batches = file.schema_arrow, file.iter_batches(_ROWS, columns=list(names))
            else:
                with Path(self.path).open("rb") as mapped:
                    data = mmap.mmap(mapped.fileno(), 0, access=mmap.ACCESS_COPY)
                if data[: len(_MAGIC)] != _MAGIC:
                    raise OSError("no Arrow file")
                schema, batches = open_stream(data, len(_MAGIC))
            for batch in batches:
                rest = None if size is None else max(0, size - done - max(0, at))
                frame = pl.DataFrame(to_columns(pa.Table.from_batches([batch]), schema, names))
                yield frame[max(0, -at) :][:rest]
                at += batch.num_rows
        except refusals():
            # The cause may quote what was read.
            raise StateError(f"{self.path!r} is damaged, or its layout is unknown; write it again.") from None

    def pieces(self) -> Sequence[EventFile]:
        """Return some row groups each: whole ones, since a part of one takes as long to read."""
        import pyarrow.parquet as pq

        if self._form != "parquet":
            return ()
        try:
            footer = pq.read_metadata(self.path)
        except refusals():
            return ()
        pieces, start, size = [], 0, 0
        for number in range(footer.num_row_groups):
            size += footer.row_group(number).num_rows
            if size >= _ROWS or (number == footer.num_row_groups - 1 and size):
                pieces.append(Columnar(self.path, self._form, (start, size)))
                start, size = start + size, 0
        return pieces


def refusals() -> tuple[type[BaseException], ...]:
    """Return what polars and pyarrow raise for bytes that they do not read; some damage makes polars panic."""
    import polars as pl
    import pyarrow as pa

    known = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException)
    return *known, OSError, LookupError, ValueError, TypeError, struct.error


def open_stream(data: bytearray | mmap.mmap, at: int = 0) -> tuple[Any, Any]:
    """Return the schema of an Arrow IPC stream, and a reader of its batches that takes texts for bytes.

    Texts and bytes differ in one byte of the schema, which is changed in `data`, and in nothing else. The schema is
    walked through after pyarrow has found it sound.
    """
    import pyarrow as pa

    stream = pa.BufferReader(pa.py_buffer(data))
    stream.seek(at)
    schema = pa.ipc.read_schema(stream)
    for column in _nested(data, _header(data, at + 8), _FIELDS):
        if place := _field(data, column, _TYPE):
            data[place] = _BYTES.get(data[place], data[place])
    stream.seek(at)
    return schema, pa.ipc.open_stream(stream)


def is_packed(body: bytes) -> bool:
    """Return whether a buffer of an Arrow IPC stream is packed: what it would take is not known before."""
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(body):
        head = message.metadata.to_pybytes()
        batch = _header(head, 0)
        if message.type == "dictionary":
            batch = _follow(head, _field(head, batch, _DATA))
        if message.type != "schema" and _field(head, batch, _COMPRESSION):
            return True
    return False


def count_rows(table: Any, names: Sequence[str]) -> int:
    """Return how many rows a table has or, if that is more, the longest dictionary of these columns."""
    import pyarrow as pa

    arrays = [chunk for name in names for chunk in table.column(name).chunks]
    rows = int(table.num_rows)
    while arrays:
        array = arrays.pop()
        if hasattr(array, "dictionary"):
            array.dictionary.validate()  # refuses one that says it has less than none
            rows = max(rows, len(array.dictionary))
        elif isinstance(array, pa.StructArray):
            array.validate()
            arrays += array.flatten()
    return rows


@silence()
def to_columns(table: Any, schema: Any, names: Sequence[str]) -> list[pl.Series]:
    """Return columns that nobody has checked, by their types; a text that is not UTF-8 is missing, by itself."""
    import polars as pl
    import pyarrow as pa

    columns = []
    for name in names:
        kind, column = schema.field(name).type, table.column(name)
        shared = dict[object, pl.Series]()
        chunks = [_series(name, kind, chunk, shared) for chunk in column.chunks or [pa.array([], column.type)]]
        columns.append(chunks[0] if len(chunks) == 1 else pl.concat(chunks, rechunk=True))
    return columns


def _series(name: str, kind: Any, array: Any, shared: dict[object, pl.Series]) -> pl.Series:
    """Return a column of plain values, with a dictionary or without, or of structures of such.

    No text is one before it was found to be UTF-8, and no number leads out of a dictionary or a buffer. A dictionary
    that batches have in common is read once (`shared`).
    """
    import polars as pl
    import pyarrow as pa

    if pa.types.is_dictionary(kind):  # a text that many rows share stays one
        texts = array.dictionary
        buffers = ((each.address, each.size) for each in texts.buffers() if each is not None)
        at = (kind, texts.offset, len(texts), *buffers)
        if at not in shared:
            shared[at] = bounded(_series(name, kind.value_type, texts, shared), LONGEST_NUMBER)
        return shared[at].gather(_series(name, kind.index_type, array.indices, shared))
    if pa.types.is_struct(kind):
        array.validate()
        fields = zip(kind, array.flatten(), strict=True)
        return pl.DataFrame({field.name: _series(name, field.type, each, shared) for field, each in fields}).to_struct(
            name
        )
    if pa.types.is_nested(kind):
        raise SchemaError(f"the column {name!r} must hold plain values. Got a column of {kind}.")
    if str(kind) not in _TEXTS:  # the sizes of buffers alone: a value that is odd is its row's own matter
        array.validate(full=pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or str(kind) == "binary_view")
        return pl.Series(name, array)
    if array.null_count == 0 and not pa.types.is_string_view(kind):  # what lies below a null may be anything
        with suppress(pa.ArrowInvalid):
            text = array.view(kind)
            text.validate(full=True)
            return pl.Series(name, text)
    array = array.view(_TEXTS[str(kind)])
    array.validate(full=True)
    series = pl.Series(name, array)
    try:
        return series.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series(name, map(_text, series), dtype=pl.String)


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeError:
        return None


# Flatbuffers, which pyarrow has found sound.


def _header(data: Data, at: int) -> int:
    """Return what a message begins with."""
    return _follow(data, _field(data, _follow(data, at), _HEADER))


def _follow(data: Data, at: int) -> int:
    """Return where the offset at a place leads."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: Data, table: int, number: int) -> int:
    """Return where a field of a table lies; 0 if it is not there."""
    places = table - int(struct.unpack_from("<i", data, table)[0])
    if 4 + 2 * number >= struct.unpack_from("<H", data, places)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, places + 4 + 2 * number)[0])
    return table + offset if offset else 0


def _nested(data: Data, table: int, number: int) -> Iterator[int]:
    """Return where the columns of a table lie, and all that is inside of them."""
    if at := _field(data, table, number):
        vector = _follow(data, at)
        for place in range(vector + 4, vector + 4 + 4 * struct.unpack_from("<I", data, vector)[0], 4):
            column = _follow(data, place)
            yield column
            yield from _nested(data, column, _CHILDREN)
