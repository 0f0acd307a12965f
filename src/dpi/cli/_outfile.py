"""The file that `run` hands releases out in: exactly those that the store holds for the period, each once.

The store is what survives a crash; the file is made from it. A text file (.ndjson, .jsonl) is made anew from the store
when a run begins, put in place whole, and then grows by a line for each release. A Parquet file cannot grow: it is made
when the run ends, also when it is interrupted. So after any crash the next run leaves the file that an uninterrupted
run would have left, byte by byte. A file that holds any other release is left alone (`dpi.cli._overwrite_check`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self, TextIO

from dpi.cli._overwrite_check import TEXT, OverwriteCheck
from dpi.errors import OptionError
from dpi.files import draft_of, put
from dpi.reader import Releases
from dpi.release import Release, from_frame, to_frame

if TYPE_CHECKING:
    from dpi.domain import Domain

_ROWS = 64
"""Releases in memory at a time."""
_START = b'{"accumulated":'
"""How every release begins as text."""


def check_out(path: Path, *, grows: bool) -> None:
    """Refuse a name that no file of releases can have, before anything is done."""
    if path.suffix not in (".parquet", *TEXT):
        raise OptionError(f"`--out` must end in .parquet, .ndjson or .jsonl. Got {str(path)!r}.")
    if not path.parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(path)!r}.")
    if path.exists() and not _holds_releases(path):
        raise OptionError(f"`--out` {str(path)!r} is there and holds no releases: it is not replaced.")
    if grows and path.suffix not in TEXT:
        raise OptionError("a Parquet file cannot grow: with `--follow`, `--out` must end in .ndjson or .jsonl.")


class OutFile:
    """Releases of one stream of a store, as a file."""

    def __init__(self, path: Path, stored: Releases, first: int, end: int | None) -> None:
        self.path = path
        self._stored, self._first, self._end = stored, first, end
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        stored = self._stored
        OverwriteCheck(self.path, stored.name, stored.slots, self._first, self._end).check(stored.store)
        self._new = not self.path.exists()
        if self.path.suffix in TEXT:
            draft = draft_of(self.path)
            self._file = draft.open("w", encoding="utf-8")
            for release in self._released():
                self.add(release)
            self._sync()
            put(draft, self.path)
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._sync()
            self._file.close()
            if self._new and error[0] is not None and self.path.stat().st_size == 0:
                self.path.unlink()  # nothing was handed out
        else:
            self._write_table()

    def add(self, release: Release) -> None:
        """Hand out a release that the store holds."""
        if self._file is not None:
            self._file.write(release.to_json() + "\n")
            self._file.flush()

    def _released(self) -> Iterator[Release]:
        return iter(self._stored.between(self._first, self._end))

    def _sync(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def _write_table(self) -> None:
        """Write the releases as Parquet, some at a time: a year of a large domain need not fit in memory."""
        import polars as pl

        releases, schema = self._released(), None
        with TemporaryDirectory() as folder:
            for number in count():
                frame = to_frame(islice(releases, _ROWS))
                if frame.is_empty():
                    break
                schema = frame.schema if schema is None else schema
                frame.cast(schema).write_parquet(Path(folder, f"{number:09}.parquet"))
            if schema is not None:
                draft = draft_of(self.path)
                pl.scan_parquet(f"{folder}/*.parquet").sink_parquet(draft, row_group_size=_ROWS)
                put(draft, self.path)


def _holds_releases(path: Path) -> bool:
    """Return whether a file was written here, whole or cut: another, such as the events, must not be lost."""
    import polars as pl

    if path.suffix in TEXT:
        with path.open("rb") as file:
            start = file.read(len(_START))
        return _START.startswith(start)
    try:
        return {"slot", "pdf", "certificate"} <= pl.read_parquet_schema(path).keys()
    except (pl.exceptions.PolarsError, OSError):
        return False


def read_releases(path: Path, domains: Sequence[Domain]) -> list[Release]:
    """Return the releases in such a file, each of one of the domains."""
    import polars as pl

    if path.suffix in TEXT:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Release.from_json(line, *domains) for line in lines if line]
    try:
        return from_frame(pl.read_parquet(path), *domains)
    except pl.exceptions.PolarsError:
        raise OptionError(f"{path} is not a Parquet file of releases.") from None
