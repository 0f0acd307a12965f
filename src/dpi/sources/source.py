"""What every file of events can do, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dpi.errors import SchemaError
from dpi.events.rows import Rows

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int], None]
"""Is told how many bytes have been read. Bytes only: a number of rows would be a private one."""


PlayedSlots = Generator[tuple[int, Rows], None, None]
"""Number and rows of one slot after the other."""


class EventFile(ABC):
    """One file."""

    path: str
    size: int
    """Bytes of the file; 0 for standard input."""

    @abstractmethod
    def kinds(self) -> dict[str, pl.DataType] | None:
        """The declared type of each column, or None if the format declares no columns."""

    @abstractmethod
    def check(self, user: str, names: Sequence[str]) -> None:
        """Refuse a file that lacks a column."""

    def pieces(self) -> Sequence[EventFile]:
        """The file in pieces that others can read at the same time; none, if it is read from its beginning."""
        return ()

    @abstractmethod
    def frames(self, user: str, names: Sequence[str], progress: Progress) -> Iterator[pl.DataFrame]:
        """The columns `names`, some rows at a time, in the order of the file; `user` is the one that holds ids."""


def missing(path: str, name: str, columns: Iterable[str]) -> SchemaError:
    """The error of a file that lacks a column. Names of columns are public."""
    known = ", ".join(repr(column) for column in columns)
    return SchemaError(f"{path!r} must have a column {name!r}. Its columns are: {known}.")
