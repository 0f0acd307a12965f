"""Finding and opening files of events: Parquet, Arrow, CSV, NDJSON, one or many, of any size and in any order.

Only a schema is ever refused: a file that is not there, a column that is missing, a type that cannot be read. That is
looked at in `read`, before any row is. A row that cannot be read is dropped by itself, and nothing tells how many were.

The promise of `dpi.events.columns` begins here: no row changes how another is read. CSV and NDJSON are read as text,
row by row; Parquet and Arrow by the types their schema declares.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import OptionError, SchemaError
from dpi.events.columns import read as read_column
from dpi.events.identity import users as canonical_users
from dpi.sources.columnar import Columnar
from dpi.sources.events import FileEvents, PathLike
from dpi.sources.followed import check_unit
from dpi.sources.inputs import unpacked_name
from dpi.sources.source import EventFile
from dpi.sources.textual import LONGEST_LINE, Textual

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
_FORMS = ("csv", "ndjson", "parquet", "arrow")


def read(
    path: PathLike | Sequence[PathLike],
    *,
    user: str = "user",
    time: str = "time",
    value: str | Mapping[str, str] = "value",
    arrived: str | None = None,
    unit: str | None = None,
    format: str | None = None,
    separator: str | None = None,
    columns: Sequence[str] | None = None,
    longest_line: int = LONGEST_LINE,
) -> FileEvents:
    r"""Events of files: a path, a pattern such as `events-*.parquet`, several of them, or "-" for standard input.

    The format follows from the suffix, or is `format`: "csv", "ndjson", "parquet" or "arrow"; CSV and NDJSON may be
    compressed (`.gz`). `value` names the column of values or, for a Product domain, a column for each part. Times that
    are numbers need their `unit`: "s", "ms", "us" or "ns", since 1970. `arrived` names a column in which whoever
    received an event has written when; it decides in a file that is followed, whatever happened to the program.
    `separator` is "," unless given (a tab in `.tsv`). CSV files without a header need the names of all their `columns`,
    in their order: the first line is then an event like any other. Lines of more than `longest_line` bytes are dropped.

    >>> import tempfile, dpi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "events.csv").write_text("user,at,value\nada,2026-01-01T01:30,DE\nbob,soon,FR\n")
    ...     events = read(folder + "/*.csv", time="at")
    ...     ((number, rows),) = events.slots(dpi.Slots("1h", origin="2026-01-01"), dpi.Categories(["DE", "FR"]), 1, 2)
    >>> rows.users.to_list(), rows.bins.tolist(), rows.counts.tolist()
    (['ada'], [0], [1])
    """
    check_unit(unit)
    if format not in (None, *_FORMS):
        raise OptionError(f"`format` must be one of {', '.join(map(repr, _FORMS))}. Got {format!r}.")
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0'):
        raise OptionError(
            f"`separator` must be one character, and neither a quote nor a line break. Got {separator!r}."
        )
    if columns is not None:
        columns = _columns(columns)
    if longest_line < 1:
        raise OptionError(f"`longest_line` must be a number of bytes above 0. Got {longest_line!r}.")
    asked = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(each) for each in path]
    sources = tuple(_open(found, format, separator, columns, longest_line) for found in named(asked))
    if not sources:
        raise SchemaError("`path` must name at least one file.")
    parts = dict(value) if isinstance(value, Mapping) else {"": value}
    for source in sources:
        columns = [user, time, *parts.values(), *(() if arrived is None else (arrived,))]
        source.check(user, list(dict.fromkeys(columns)))
        _check_kinds(source, user, time, unit)
    kinds = {name: _one_kind(name, sources) for name in parts.values()}
    return FileEvents(", ".join(asked), user, time, value, unit, sources, kinds, arrived)


def named(paths: Sequence[str]) -> list[str]:
    """The files that paths and patterns name; a file that two patterns fit counts once."""
    return list(dict.fromkeys(found for each in paths for found in _found(each)))


def _found(path: str) -> list[str]:
    """The files that a path or a pattern names, in the order of their names."""
    path = os.path.expanduser(path)
    if path == "-" or Path(path).is_file():
        return [path]
    if Path(path).is_dir():
        raise SchemaError(f"{path!r} must be a file; to read a folder's files, name a pattern such as 'folder/*.csv'.")
    found = sorted(each for each in glob.glob(path, recursive=True) if Path(each).is_file())
    if not found:
        raise SchemaError(f"a file of events must be named, or a pattern that fits one. Nothing is there: {path!r}.")
    return found


def _columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The names of columns; one that no option names may be empty, or stand there twice."""
    if isinstance(columns, str) or not columns or not all(isinstance(name, str) for name in columns):
        raise OptionError(f"`columns` must be names, such as ['user', 'time', 'value']. Got {columns!r}.")
    return tuple(name.strip() for name in columns)


def _open(path: str, form: str | None, separator: str | None, columns: Sequence[str] | None, longest: int) -> EventFile:
    plain = unpacked_name(path)
    suffix = Path(plain).suffix.lower()
    form = form or _SUFFIXES.get(suffix)
    if form is None:
        raise OptionError(f"`format` must be named for {path!r}, whose suffix does not tell it.")
    if columns is not None and form != "csv":
        raise OptionError(f"`columns` is for CSV without a header; {path!r} is {form}, which names its columns itself.")
    if form in ("parquet", "arrow"):
        if path == "-" or plain != path:
            raise OptionError(f"a {form} file is read from a file that is not compressed as a whole. Got {path!r}.")
        return Columnar(path, form)
    return Textual(path, form, separator or ("\t" if suffix == ".tsv" else ","), longest, columns)


def _check_kinds(source: EventFile, user: str, time: str, unit: str | None) -> None:
    """Refuse columns whose declared type cannot hold ids, or times."""
    import polars as pl

    kinds = source.kinds()
    if kinds is None:
        return
    canonical_users(pl.Series([], dtype=kinds[user]))
    kind = kinds[time]
    if kind.is_numeric() and unit is None:
        raise SchemaError(f'the column {time!r} holds numbers: name their `unit`, one of "s", "ms", "us", "ns".')
    if not (kind.is_numeric() or isinstance(kind, pl.String | pl.Null | pl.Date | pl.Datetime)):
        raise SchemaError(f"the column {time!r} must hold times, dates or ISO 8601 text. Got a column of {kind}.")
    if kind.is_temporal() and unit is not None:
        raise SchemaError(f"the column {time!r} holds times: leave out `unit`, which is for numbers.")


def _one_kind(name: str, sources: Sequence[EventFile]) -> pl.DataType:
    """The type of a column of values; integers of different sizes are one type, and so are all texts."""
    import polars as pl

    found: list[pl.DataType] = []
    for source in sources:
        kind = (source.kinds() or {}).get(name, pl.String())
        read_column(pl.Series([], dtype=kind), name)  # refuses lists and structures
        text = isinstance(kind, pl.Categorical | pl.Enum)
        found.append(pl.String() if text else kind)
    if all(kind == found[0] for kind in found):
        return found[0]
    if all(kind.is_integer() and kind not in (pl.UInt64, pl.Int128, pl.UInt128) for kind in found):
        return pl.Int64()
    known = ", ".join(sorted({str(kind) for kind in found}))
    raise SchemaError(f"the column {name!r} must have one type in all files. It has: {known}.")
