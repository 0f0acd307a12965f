"""The events of a table in memory, slot by slot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpi.errors import SchemaError
from dpi.events.columns import Table, take
from dpi.sources._source import Columns, PlayedSlots, Progress
from dpi.sources.admission import Admission, Events

if TYPE_CHECKING:
    import polars as pl

_BATCH = 1 << 20
"""Rows of a batch."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class TableEvents(Columns):
    """The events in a table of any library; `FileEvents` of what lies in memory.

    >>> from dpi.domain import Categories
    >>> from dpi.events.slots import Slots
    >>> table = {"user": ["a", "b", "c"], "time": ["1970-01-01T02:10", "1970-01-01T00:20", "never"], "value": [1, 2, 3]}
    >>> slots = TableEvents(table=Table(table)).slots(Admission(Slots("1h"), Categories([1, 2, 3]), bytes(32), 0, 3))
    >>> [(number, rows.bins.tolist()) for number, rows in slots]
    [(0, [1]), (1, []), (2, [0])]
    """

    table: Table
    size = 0
    """A table has no bytes that are read one after the other."""

    def pieces(self) -> list[TableEvents]:
        """Return none: the table is in this process."""
        return []

    def batches(self, *, progress: Progress | None = None) -> Iterator[Events]:
        """Return all events in the order of the table, some at a time."""
        columns = self._columns()
        size = len(columns[self.time])
        for start in range(0, size, _BATCH):
            rows = np.arange(start, min(start + _BATCH, size))
            yield self.events({name: take(column, rows) for name, column in columns.items()})

    def _columns(self) -> dict[str, pl.Series | list[object]]:
        columns = {name: self.table.column(name) for name in self.names}
        if len({len(column) for column in columns.values()}) > 1:
            raise SchemaError("`events` must have columns of the same length.")
        return columns

    def slots(self, admission: Admission, *, memory: int = 0, progress: Progress | None = None) -> PlayedSlots:
        """Return number and rows of every slot of the admission's period, also of one without events.

        Events outside the period, or with a time that cannot be read, are dropped, each by its own time. A table is
        there at once, so that `progress` is told nothing, and `memory` is not asked for.
        """
        assert admission.last is not None  # noqa: S101 - what is played has an end
        yield from admission.admit(self.events(self._columns())).by_slot(admission.first, admission.last)
