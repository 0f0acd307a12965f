"""A Parquet file whose texts are not all UTF-8: its columns, with texts as the bytes that they are.

A text column declares UTF-8, but many writers do not check it, and polars refuses the whole file for one such row. Then
one user would decide whether anything is released. So each row group is given to polars again, as a file of its own
in memory whose footer declares bytes instead of text; it is decoded row by row after that.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from dpi.sources.compact import BINARY, INTEGER, LIST, LONG, STRUCT, Items, Reader, Struct, write

if TYPE_CHECKING:
    import polars as pl

_MAGIC = b"PAR1"
# Numbers of fields in parquet.thrift.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_NAME, _CHILDREN, _CONVERTED, _LOGICAL = 4, 5, 6, 10
_CHUNKS, _GROUP_ROWS = 1, 3
_CHUNK = 3
_SIZE, _DATA, _DICTIONARY = 7, 9, 11
_KEPT = (1, 2, 3, 4, 5, 6, _SIZE, _DATA, _DICTIONARY)
_TEXT_CONVERTED, _TEXT_LOGICAL = (0, 4, 19), (1, 4, 12)
"""UTF8, ENUM and JSON."""


def row_groups(path: str, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The columns of each row group; raises `ValueError`, `KeyError` or `IndexError` for a footer that is damaged."""
    import polars as pl

    with Path(path).open("rb") as file:
        footer = _footer(file)
        elements, leaves = _leaves(_structs(footer, _SCHEMA), names)
        root: Struct = {_NAME: (BINARY, b"schema"), _CHILDREN: (INTEGER, len(elements))}
        for group in _structs(footer, _GROUPS):
            chunks = _structs(group, _CHUNKS)
            data, moved = [_MAGIC], []
            for leaf in leaves:
                content, chunk = _moved(file, chunks[leaf], sum(map(len, data)))
                data.append(content)
                moved.append(chunk)
            rows = group[_GROUP_ROWS]
            alone: Struct = {_CHUNKS: _list(moved), 2: (LONG, sum(map(len, data))), _GROUP_ROWS: rows}
            whole: Struct = {1: footer[1], _SCHEMA: _list([root, *elements]), _ROWS: rows, _GROUPS: _list([alone])}
            end = write(whole)
            yield pl.read_parquet(io.BytesIO(b"".join([*data, end, len(end).to_bytes(4, "little"), _MAGIC])))


def group_rows(path: str) -> list[int]:
    """How many rows each row group has; raises as `row_groups` does."""
    with Path(path).open("rb") as file:
        return [_number(group, _GROUP_ROWS, 0) for group in _structs(_footer(file), _GROUPS)]


def _footer(file: BinaryIO) -> Struct:
    file.seek(-8, io.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    file.seek(-8 - size, io.SEEK_END)
    return Reader(file.read(size)).struct()


def _structs(fields: Struct, number: int) -> list[Struct]:
    return cast("list[Struct]", cast("Items", fields[number][1])[1])


def _list(structs: list[Struct]) -> tuple[int, Items]:
    return LIST, (STRUCT, [*structs])


def _number(fields: Struct, number: int, default: int) -> int:
    return cast("int", fields[number][1]) if number in fields else default


def _leaves(schema: list[Struct], names: Sequence[str]) -> tuple[list[Struct], list[int]]:
    """The declarations of the columns, with bytes in place of text, and which of the file's leaves they are."""
    elements: dict[str, tuple[Struct, int]] = {}
    leaf, inside = 0, 0  # `inside` counts the elements that are still to come within a top-level group
    for element in schema[1:]:
        children = _number(element, _CHILDREN, 0)
        if inside == 0 and not children:
            elements[cast("bytes", element[_NAME][1]).decode()] = (_as_bytes(element), leaf)
        inside = max(0, inside - 1) + children
        leaf += not children
    return [elements[name][0] for name in names], [elements[name][1] for name in names]


def _as_bytes(element: Struct) -> Struct:
    logical = cast("Struct", element[_LOGICAL][1]) if _LOGICAL in element else {}
    if _number(element, _CONVERTED, -1) in _TEXT_CONVERTED or any(kind in logical for kind in _TEXT_LOGICAL):
        return {number: field for number, field in element.items() if number not in (_CONVERTED, _LOGICAL)}
    return element


def _moved(file: BinaryIO, chunk: Struct, to: int) -> tuple[bytes, Struct]:
    """The pages of a column in a row group, and their description if they begin at the byte `to`."""
    old = cast("Struct", chunk[_CHUNK][1])
    start = _number(old, _DATA, 0)
    start = min(start, _number(old, _DICTIONARY, 0) or start)
    file.seek(start)
    content = file.read(_number(old, _SIZE, 0))
    new: Struct = {number: field for number, field in old.items() if number in _KEPT}
    for offset in (_DATA, _DICTIONARY):
        if _number(new, offset, 0):
            new[offset] = (LONG, _number(new, offset, 0) - start + to)
    return content, {2: (LONG, 0), _CHUNK: (STRUCT, new)}
