"""The events of a table in memory, slot by slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpi.domain.scheduled import Domains, by_slot
from dpi.errors import SchemaError
from dpi.events.slots import Slots
from dpi.events.tables import Table, take
from dpi.sources.source import PlayedSlots, Progress, SlotRows


@dataclass(frozen=True, repr=False, eq=False)
class TableEvents:
    """The events in a table of any library; `FileEvents` of what lies in memory.

    >>> from dpi.domain import Categories
    >>> table = {"user": ["a", "b", "c"], "time": ["1970-01-01T02:10", "1970-01-01T00:20", "never"], "value": [1, 2, 3]}
    >>> slots = TableEvents(Table(table)).slots(Slots("1h"), Categories([1, 2, 3]), 0, 3)
    >>> [(number, rows.users, rows.bins.tolist()) for number, rows in slots]
    [(0, ['b'], [1]), (1, [], []), (2, ['a'], [0])]
    """

    table: Table
    user: str = "user"
    time: str = "time"
    value: str | Mapping[str, str] = "value"
    """The column of values or, for a Product domain, a column for each part."""
    unit: str | None = None

    size = 0
    """A table has no bytes that are read one after the other."""

    def slots(
        self, slots: Slots, domain: Domains, first: int, last: int, *, progress: Progress | None = None
    ) -> PlayedSlots:
        """Number and rows of every slot of the public period [first, last), also of one without events.

        Events outside the period, or with a time that cannot be read, are dropped, each by its own time. A table is
        there at once, so that `progress` is told nothing.
        """
        domains = by_slot(domain)
        numbers = slots.numbers(self.table.column(self.time), self.unit)
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], np.arange(first, last + 1))
        users = self.table.column(self.user)
        parts = self.value if isinstance(self.value, Mapping) else {"": self.value}
        columns = {part: self.table.column(name) for part, name in parts.items()}
        if {len(users), *(len(column) for column in columns.values())} != {numbers.size}:
            raise SchemaError("`events` must have columns of the same length.")
        for number in range(first, last):
            rows = order[borders[number - first] : borders[number - first + 1]]
            values = {part: take(column, rows) for part, column in columns.items()}
            yield number, SlotRows.of(take(users, rows), values.get("", values), domains.at(number))
