"""A table of a database that only grows, as an input: rows are polled in the order of an id that goes up.

Ids are given out when rows are written and seen when they are committed, so that a smaller one may appear after a
larger one. What is final is for each database to say (`dpi.sources.brokers.postgresql`, `dpi.sources.brokers.mariadb`):
a mark never passes an id that may still appear.

Rows must stay until they are read. If the last row that was read is gone when more is read, rows after it may be gone
too, and are called lost; so is a row that a mark had seen and the reader does not find.

Sees rows on their way; keeps none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from dpi.errors import OptionError, SchemaError
from dpi.sources.brokers.address import Address, client
from dpi.sources.brokers.log import MESSAGES, Columns, Log, Piece, Span
from dpi.sources.live import Done, Known
from dpi.sources.ndjson import texts

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class TableName:
    """Which table is polled, and by which column."""

    table: str
    id: str

    def __post_init__(self) -> None:
        for option, name in (("table", self.table), ("id", self.id)):
            if not name or "\0" in name or name.startswith(".") or name.endswith("."):
                raise OptionError(f"`{option}` must be a name.")


class Table(Log):
    """Rows of one table by an id that goes up."""

    start_at: ClassVar[int] = 1
    quote: ClassVar[str] = '"'
    library: ClassVar[tuple[str, str]]
    """What speaks with the database, and the extra that has it."""

    def __init__(self, address: Address, name: TableName, columns: Columns, done: Done, known: Known) -> None:
        super().__init__(address, f"{address.scheme}:{name.table}", columns, done, known)
        self.table = ".".join(self._quoted(part) for part in name.table.split("."))
        self.id = self._quoted(name.id)
        self._library = client(*self.library)
        self.errors = (self._library.OperationalError, self._library.InterfaceError, OSError)
        self._reader: Any = None
        self._look: Any = None

    def _quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    @abstractmethod
    def _connect(self, timeout: float) -> Any:
        """A connection of the database's library, which commits by itself."""

    @abstractmethod
    def _missing(self, error: BaseException) -> bool:
        """Whether an error says that there is no such table, or column."""

    def _rows(self, connection: Any, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """What a query gives."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                found: Sequence[Sequence[Any]] = cursor.fetchall()
                return found
        except self._library.Error as error:
            if self._missing(error):
                raise SchemaError(
                    f"{self.address.shown!r} must have a table {self.table} with the columns {self.id} and "
                    f"{', '.join(map(self._quoted, self.columns.names))}, for this reader to read."
                ) from None
            raise

    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        if self._reader is None:
            self._reader = self._connect(60.0)
        names = ", ".join(map(self._quoted, self.columns.names))
        there = f"SELECT 1 FROM {self.table} WHERE {self.id} = %s"  # noqa: S608 - names are quoted
        query = (
            f"SELECT {self.id}, {names} FROM {self.table} WHERE {self.id} >= %s AND {self.id} < %s "  # noqa: S608
            f"ORDER BY {self.id} LIMIT {MESSAGES}"
        )
        for part, (at, end) in spans.items():
            if at > self.start_at and not self._rows(self._reader, there, at - 1):
                self.lost = True
            while at < end and (rows := self._rows(self._reader, query, at, end)):
                at = int(rows[-1][0]) + 1
                yield Piece(part, self._frame(rows), at)
            self.lost = self.lost or at < end

    def _frame(self, rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
        """Canonical texts of the columns, as those of lines are."""
        import polars as pl

        columns = list(zip(*rows, strict=True))[1:]
        return pl.DataFrame({
            name: texts(list(map(_plain, column)), name, exact=name == self.columns.user)
            for name, column in zip(self.columns.names, columns, strict=True)
        })  # fmt: skip

    def _hang_up(self) -> None:
        self._close(self._reader)
        self._reader = None

    def _hang_up_look(self) -> None:
        self._close(self._look)
        self._look = None

    def _close(self, connection: Any) -> None:
        if connection is not None:
            with suppress(*self.errors):  # it was lost before
                connection.close()


def _plain(value: object) -> object:
    """A decimal number by its text; anything else is for `dpi.events.columns` to read."""
    return str(value) if isinstance(value, Decimal) else value
