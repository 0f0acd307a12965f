"""A table of events of any library, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dpi.errors import SchemaError
from dpi.events.columns import read
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl


class Table:
    """Columns by name, from a data frame, an Arrow table, a mapping of columns, or an iterable of mappings.

    A column keeps its type if it has one of its own; a list stays a list of objects.

    In an iterable of mappings a row without a key has no value there, and what is no mapping is no row: each by itself.

    >>> Table([{"user": 1, "value": "a"}, {"user": 2}, None]).column("value")
    ['a', None]
    """

    def __init__(self, events: object) -> None:
        import polars as pl

        self._rows: list[Mapping[str, object]] | None = None
        if isinstance(events, Mapping | pl.DataFrame) or hasattr(events, "loc"):
            self._columns = events
        elif hasattr(events, "__arrow_c_stream__"):
            self._columns = pl.DataFrame(events)
        elif isinstance(events, Iterable) and not isinstance(events, str | bytes):
            self._rows = [row for row in events if isinstance(row, Mapping)]
        else:
            raise SchemaError("`events` must be a table: a data frame, columns by name, or rows as mappings.")

    def column(self, name: str) -> pl.Series | list[object]:
        """One column; if a table with columns does not have it, the error names it."""
        import polars as pl

        if self._rows is not None:
            return [row.get(name) for row in self._rows]
        try:
            found = self._columns[name]  # type: ignore[index]
        except (KeyError, TypeError, IndexError, pl.exceptions.ColumnNotFoundError):
            raise SchemaError(f"`events` must have a column {name!r}.") from None
        return list(found) if isinstance(found, list | tuple) else read(found, name)


def take(column: pl.Series | list[object], rows: Integers) -> pl.Series | list[object]:
    """Some rows of a column."""
    return [column[i] for i in rows] if isinstance(column, list) else column.gather(rows)
