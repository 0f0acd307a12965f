"""What an SQL store asks of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

from dpi.errors import StoreError

OTHER_WRITER = (
    "another process has written to the store since this one read it, so nothing was written: let one process write. "
    "The next call reads the store anew."
)
PAGE = 64
"""Rows of a long table that are in memory at a time."""


class Engine(ABC):
    """A connection to a database. Statements have `?` for their values; errors are `StoreError` without values.

    A transaction is one thread's at a time: the timer of a live stream notes marks while another thread writes events.
    """

    types: ClassVar[dict[str, str]]
    """How this database calls the types `bytes` and `whole` of the schema."""
    begin_writing: ClassVar[str]
    begin_reading: ClassVar[str]
    """How a transaction begins that writes, as if no other ran beside it, and one that sees one state."""

    path: Path | None = None
    """The file of an embedded database."""

    def __init__(self, *, read_only: bool) -> None:
        self.read_only = read_only
        """Whether nothing may be written."""
        self.turn = RLock()
        self._reading = False
        """Whether a snapshot is open, to whoever has the turn."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        """Run a statement."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for every row of values."""

    @abstractmethod
    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

    def pages(
        self, select: str, values: Sequence[object], key: str, at: int = -(1 << 62), *, column: int = 0, times: int = 1
    ) -> Iterator[tuple[Any, ...]]:
        """Give what a query finds from a key on, in its order, some rows at a time; the key is one of the columns."""
        while rows := self.rows(f"{select} AND {key} >= ? ORDER BY {key} LIMIT {times * PAGE}", (*values, at)):
            yield from rows
            at = int(rows[-1][column]) + 1

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside happen durably at once, or none of them does."""
        with self.turn:
            self.execute(self.begin_writing)
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                with suppress(StoreError):
                    self.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All queries inside see one state of the database; one within another is part of it."""
        with self.turn:
            if self._reading:
                yield
                return
            self.execute(self.begin_reading)
            self._reading = True
            try:
                yield
            finally:
                self._reading = False
                with suppress(StoreError):
                    self.execute("ROLLBACK")

    @abstractmethod
    def exists(self) -> bool:
        """Whether the schema is there."""

    @abstractmethod
    def give_up(self) -> None:
        """Let others write; this connection may go on to read."""

    def lease(self, seconds: float) -> None:  # noqa: B027 - a file is let go of when its process ends
        """Let others write if nothing is heard of this process for so long, also in the middle of a transaction."""

    @abstractmethod
    def erase(self) -> None:
        """Make what was deleted unreadable on disk, as far as the engine can."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""
