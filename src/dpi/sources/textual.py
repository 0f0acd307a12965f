"""CSV and NDJSON: bytes, cut into lines, parsed in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dpi.errors import SchemaError
from dpi.sources.delimited import Delimited, header
from dpi.sources.inputs import FileInput, StandardInput
from dpi.sources.lines import Lines
from dpi.sources.ndjson import Ndjson
from dpi.sources.source import EventFile, Progress, missing

if TYPE_CHECKING:
    import polars as pl


class Parser(Protocol):
    """Turns whole lines into columns of text."""

    def parse(self, lines: bytes) -> pl.DataFrame:
        """One row for each line that is sound."""
        ...


class Textual(EventFile):
    """A file of lines, or standard input (`-`); `form` is "csv" or "ndjson". CSV without a header has `columns`."""

    def __init__(
        self, path: str, form: str, separator: str, longest: int, columns: Sequence[str] | None = None
    ) -> None:
        self.path = path
        self.size = 0 if path == "-" else Path(path).stat().st_size
        self.longest = longest
        self._form = form
        self.has_header = form == "csv" and columns is None
        self._separator = separator
        self.input = StandardInput() if path == "-" else None
        self._columns = list(columns or ())
        if self.has_header:
            opened = self.input or FileInput(path)
            try:
                self._columns = self.columns(opened.line(longest))
            finally:
                if self.input is None:
                    opened.close()

    def columns(self, line: bytes) -> list[str]:
        """The columns that a header names."""
        names = header(line, self._separator) if len(line) <= self.longest else None
        if not names or names == [""]:
            raise SchemaError(f"{self.path!r} must begin with a line that names its columns.")
        return names

    def kinds(self) -> dict[str, pl.DataType] | None:
        """Text, all of it; nothing is declared in NDJSON, where a row that lacks a field lacks it by itself."""
        import polars as pl

        return dict.fromkeys(self._columns, pl.String()) if self._form == "csv" else None

    def parser(self, user: str, names: Sequence[str], columns: Sequence[str] | None = None) -> Parser:
        """A parser for lines under the file's header, or under another one; refuses one that lacks a column."""
        if self._form == "ndjson":
            return Ndjson(user, names)
        known = self._columns if columns is None else columns
        if not set(names) & set(known):  # it may be an event: its fields are not shown
            wanted = ", ".join(repr(name) for name in names)
            if not self.has_header:
                raise SchemaError(f"`columns` must name the columns of {self.path!r}. It names none of {wanted}.")
            raise SchemaError(
                f"{self.path!r} must begin with a line that names its columns. It names none of {wanted}."
            )
        for name in names:
            if known.count(name) == 0:
                raise missing(self.path, name, known)
            if known.count(name) > 1 and not self.has_header:
                raise SchemaError(f"`columns` must name {name!r} once.")
            if known.count(name) > 1:
                raise SchemaError(f"{self.path!r} must have one column {name!r}. It has {known.count(name)}.")
        return Delimited(known, names, self._separator)

    def check(self, user: str, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column, or has it twice."""
        self.parser(user, names)

    def frames(self, user: str, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """The columns, as text."""
        parser, lines = self.parser(user, names), Lines(self.longest)
        if self.input is not None:
            self.input.take()
        opened = self.input or FileInput(self.path)
        try:
            if self.has_header and self.input is None:
                opened.line(self.longest)
            while block := opened.block():
                whole = lines.feed(block)
                if whole:
                    yield parser.parse(whole)
                progress(opened.done)
            last = lines.finish()
            if last:
                yield parser.parse(last)
        finally:
            opened.close()
