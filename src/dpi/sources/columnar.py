"""Parquet and Arrow files: columns with a declared type, read some rows at a time.

The footer is schema. A file whose footer or pages are damaged is refused as a whole; no row can cause that. A text that
is not UTF-8, which many writers let through, is missing by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import SchemaError, StateError
from dpi.sources.source import EventFile, Progress, missing
from dpi.sources.unchecked_arrow import record_batches
from dpi.sources.unchecked_parquet import group_rows, row_groups

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 18
"""Rows at a time."""


class Columnar(EventFile):
    """A Parquet file, or an Arrow (IPC, Feather) file."""

    def __init__(self, path: str, form: str, rows: tuple[int, int] | None = None) -> None:
        self.path = path
        self.size = Path(path).stat().st_size
        self._form, self._rows = form, rows
        """With `rows`, a piece of the file: where it begins, and how many rows it has."""

    def _scan(self) -> pl.LazyFrame:
        import polars as pl

        if self._form == "parquet":
            whole = pl.scan_parquet(self.path, glob=False, hive_partitioning=False)
            return whole if self._rows is None else whole.slice(*self._rows)
        return pl.scan_ipc(self.path, glob=False, hive_partitioning=False)

    def kinds(self) -> dict[str, pl.DataType]:
        """The declared types."""
        import polars as pl

        try:
            return dict(self._scan().collect_schema())
        except (pl.exceptions.PolarsError, OSError):
            raise SchemaError(f"{self.path!r} must be a {self._form} file. It is another, or is damaged.") from None

    def check(self, user: str, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""
        kinds = self.kinds()
        for name in names:
            if name not in kinds:
                raise missing(self.path, name, kinds)

    def frames(self, user: str, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """The columns, with dictionaries of texts as texts; a text that is not UTF-8 is missing, by itself."""
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
        except _refusals():
            for frame in self._unchecked(names):
                yield frame.slice(min(done, frame.height))
                done = max(0, done - frame.height)
            progress(self.size)

    def _unchecked(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """All rows of a file that polars refuses; if that is not for its texts, the file is damaged."""
        import polars as pl

        parts = row_groups if self._form == "parquet" else record_batches
        try:
            kinds = self.kinds()
            text = [name for name in names if kinds[name] in (pl.String, pl.Categorical, pl.Enum)]
            for frame in self._within(parts(self.path, names)):
                texts = (pl.Series(name, map(_text, frame[name]), dtype=pl.String) for name in text)
                yield frame.with_columns(*texts)
        except _refusals(LookupError, ValueError, TypeError, struct.error):
            # The cause may quote what was read.
            raise StateError(f"{self.path!r} is damaged, or its layout is unknown; write it again.") from None

    def _within(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The rows of this piece."""
        start, size = (0, None) if self._rows is None else self._rows
        for frame in frames:
            yield frame.slice(min(start, frame.height), size)
            size = None if size is None else max(0, size - max(0, frame.height - start))
            start = max(0, start - frame.height)

    def pieces(self) -> Sequence[EventFile]:
        """Some row groups each: whole ones, since a part of one takes as long to read."""
        if self._form != "parquet":
            return ()
        try:
            groups = group_rows(self.path)
        except (LookupError, ValueError, TypeError, OSError):
            return ()
        found, start, size = [], 0, 0
        for number, rows in enumerate(groups):
            size += rows
            if size >= _ROWS or (number == len(groups) - 1 and size):
                found.append(Columnar(self.path, self._form, (start, size)))
                start, size = start + size, 0
        return found


def _refusals(*more: type[BaseException]) -> tuple[type[BaseException], ...]:
    """What polars raises for a file that it does not read; a panic is how it fails on some that are damaged."""
    import polars as pl

    return pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, *more


def _text(content: object) -> str | None:
    try:
        return content.decode() if isinstance(content, bytes) else content if isinstance(content, str) else None
    except UnicodeError:
        return None
