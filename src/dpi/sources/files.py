"""Files of events: Parquet, Arrow, CSV, NDJSON, one or many, of any size and in any order, or as they grow.

Only a schema is ever refused: a file that is not there, a column that is missing, a type that cannot be read. That is
looked at in `read`, before any row is. A row that cannot be read is dropped by itself, and nothing tells how many were.

The promise of `dpi.events.columns` begins here: no row changes how another is read. CSV and NDJSON are read as text,
row by row; Parquet and Arrow by the types their schema declares.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.domain.overlap import by_slot
from dpi.errors import OptionError, SchemaError
from dpi.events.columns import read as read_column
from dpi.events.identity import users as canonical_users
from dpi.sources._growing import GrowingFile, input_name
from dpi.sources._inputs import unpacked_name
from dpi.sources._slot_sorter import SlotSorter, Spill
from dpi.sources._source import Columns, EventFile, FollowedEvents, PlayedSlots, Progress
from dpi.sources._spool import Spool
from dpi.sources.admission import Admission, Events
from dpi.sources.columnar import Columnar
from dpi.sources.live import Done, Known, LiveInput
from dpi.sources.textual import LONGEST_LINE, Textual

if TYPE_CHECKING:
    import polars as pl

PathLike = str | os.PathLike[str]
_SUFFIXES = {
    "csv": (".csv", ".tsv"),
    "ndjson": (".ndjson", ".jsonl"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
"""Formats, and by which suffixes they are told."""


@dataclass(frozen=True, repr=False, kw_only=True)
class FileEvents(FollowedEvents):
    """The events in some files. Made by `read`; holds no event itself."""

    path: str
    """What was asked for."""
    sources: tuple[EventFile, ...] = field(compare=False)
    kinds: Mapping[str, pl.DataType] = field(compare=False)
    """The type of each column of values, the same in all files."""

    def __repr__(self) -> str:
        return f"FileEvents({self.path!r}, user={self.user!r}, time={self.time!r}, value={self.value!r})"

    @property
    def size(self) -> int:
        """Bytes of all files; 0 for standard input, whose end is not known."""
        return sum(source.size for source in self.sources)

    def pieces(self) -> list[FileEvents]:
        """Return the same events in pieces for several processes; none, if a file is read from its beginning."""
        pieces = [source.pieces() for source in self.sources]
        return [replace(self, sources=(piece,)) for each in pieces for piece in each] if all(pieces) else []

    def batches(self, *, progress: Progress | None = None) -> Iterator[Events]:
        """Return all events in the order of the files, some at a time. `progress` is told the bytes read so far."""
        before = 0

        def tell(done: int) -> None:
            if progress is not None:
                progress(before + done)

        for source in self.sources:
            for frame in source.frames(self.names, tell):
                yield self.events(frame.rechunk())  # what follows is many times slower on columns in pieces
            before += source.size

    def slots(
        self,
        admission: Admission,
        *,
        memory: int = 1 << 30,
        spill: PathLike | None = None,
        progress: Progress | None = None,
    ) -> PlayedSlots:
        """Return number and rows of every slot of the admission's period, also of one without events.

        The files may be in any order and larger than memory: about `memory` bytes of rows are held, the others lie
        encrypted in a temporary file (inside `spill`, if given), which is gone when the iteration ends or is left.
        The different (account, bin) pairs of one slot have to fit in memory; equal ones are made one row, so that no
        user takes more of it than the domain has bins, however many events they send. Events outside the period, with
        a time that cannot be read, without a user or a bin are dropped, each by itself. All files are read before the
        first slot is given, so that a damaged one refuses before anything is released.
        """
        import polars as pl

        first, last = admission.first, admission.last
        if last is None or last <= first:
            raise OptionError("`last` must be above `first`.")
        if memory < 1:
            raise OptionError(f"`memory` must be a number of bytes above 0. Got {memory!r}.")
        domains = by_slot(admission.domain).since(first, last)
        for _, each in domains.entries:  # refuses a type that it cannot take, before any row is read
            each.encode(self.values(pl.DataFrame(schema=dict(self.kinds))))
        bins = max(domain.row_codes for _, domain in domains.entries)

        def play() -> PlayedSlots:
            with closing(Spill(spill)) as file:
                sorter = SlotSorter(first, last, bins, memory, file)
                for batch in self.batches(progress=progress):
                    sorter.add(admission.admit(batch))
                yield from sorter.slots()

        return play()

    def live(self, done: Done, known: Known) -> list[LiveInput]:
        """Return the files as inputs that grow: CSV or NDJSON, not compressed; or standard input, by itself."""
        inputs: list[LiveInput] = []
        seen = set[str]()  # a file and a link to it are one input
        for source in self.sources:
            if not isinstance(source, Textual) or unpacked_name(source.path) != source.path:
                raise OptionError("only CSV and NDJSON files that are not compressed can be followed.")
            if source.input is not None:
                if len(self.sources) > 1:
                    raise OptionError("standard input is followed by itself, without files.")
                inputs.append(Spool(source, source.input, self.names, done))
            elif os.path.realpath(source.path) not in seen:
                seen.add(os.path.realpath(source.path))
                inputs.append(GrowingFile(source, self.names, done, known.get(input_name(source.path), ())))
        return inputs


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
    r"""Return events of files: a path, a pattern such as `events-*.parquet`, several, or "-" for standard input.

    The format follows from the suffix, or is `format`: "csv", "ndjson", "parquet" or "arrow"; CSV and NDJSON may be
    compressed (`.gz`). `value` names the column of values or, for a Product domain, a column for each part. Times that
    are numbers need their `unit`: "s", "ms", "us" or "ns", since 1970. `arrived` names a column in which the receiver
    of an event has written when; it decides in a file that is followed, whatever happened to the program.
    `separator` is "," unless given (a tab in `.tsv`). CSV files without a header need the names of all their `columns`,
    in their order: the first line is then an event like any other. Lines of more than `longest_line` bytes are dropped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "events.csv").write_text("user,at,value\nada,2026-01-01T01:30,DE\nbob,soon,FR\n")
    ...     events = read(folder + "/*.csv", time="at")
    ...     events.size, [batch.values.to_list() for batch in events.batches()]
    (50, [['DE', 'FR']])
    """
    wanted = Columns(user, time, value, unit, arrived)
    if format not in (None, *_SUFFIXES):
        raise OptionError(f"`format` must be one of {', '.join(map(repr, _SUFFIXES))}. Got {format!r}.")
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0'):
        raise OptionError(
            f"`separator` must be one character, and neither a quote nor a line break. Got {separator!r}."
        )
    if columns is not None:  # one that no option names may be empty, or stand there twice
        if isinstance(columns, str) or not columns or not all(isinstance(name, str) for name in columns):
            raise OptionError(f"`columns` must be names, such as ['user', 'time', 'value']. Got {columns!r}.")
        columns = tuple(name.strip() for name in columns)
    if longest_line < 1:
        raise OptionError(f"`longest_line` must be a number of bytes above 0. Got {longest_line!r}.")
    asked = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(each) for each in path]
    sources = tuple(_open(each, format, separator, columns, longest_line) for each in find_files(asked))
    if not sources:
        raise SchemaError("`path` must name at least one file.")
    for source in sources:
        source.check(wanted.names)
        _check_kinds(source, user, time, unit)
    kinds = {name: _find_kind(name, sources) for name in wanted.parts.values()}
    return FileEvents(user, time, value, unit, arrived, path=", ".join(asked), sources=sources, kinds=kinds)


def find_files(paths: Sequence[str]) -> list[str]:
    """Return the files that paths and patterns name, in the order of their names; one that two patterns fit is once."""
    files = list[str]()
    for each in map(os.path.expanduser, paths):
        if each == "-" or Path(each).is_file():
            files.append(each)
            continue
        if Path(each).is_dir():
            raise SchemaError(
                f"{each!r} must be a file; to read a folder's files, name a pattern such as 'folder/*.csv'."
            )
        fitting = sorted(fit for fit in glob.glob(each, recursive=True) if Path(fit).is_file())
        if not fitting:
            raise SchemaError(
                f"a file of events must be named, or a pattern that fits one. Nothing is there: {each!r}."
            )
        files += fitting
    return list(dict.fromkeys(files))


def _open(path: str, form: str | None, separator: str | None, columns: Sequence[str] | None, longest: int) -> EventFile:
    plain = unpacked_name(path)
    suffix = Path(plain).suffix.lower()
    form = form or next((name for name, suffixes in _SUFFIXES.items() if suffix in suffixes), None)
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


def _find_kind(name: str, sources: Sequence[EventFile]) -> pl.DataType:
    """Return the type of a column of values; integers of different sizes are one type, and so are all texts."""
    import polars as pl

    kinds = [(source.kinds() or {}).get(name, pl.String()) for source in sources]
    for kind in kinds:
        read_column(pl.Series([], dtype=kind), name)  # refuses lists and structures
    kinds = [pl.String() if isinstance(kind, pl.Categorical | pl.Enum) else kind for kind in kinds]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(kind.is_integer() and kind not in (pl.UInt64, pl.Int128, pl.UInt128) for kind in kinds):
        return pl.Int64()
    known = ", ".join(sorted({str(kind) for kind in kinds}))
    raise SchemaError(f"the column {name!r} must have one type in all files. It has: {known}.")
