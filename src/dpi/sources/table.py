"""The events of a table in memory, slot by slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpi.errors import SchemaError
from dpi.slots import Slots
from dpi.sources.source import PlayedSlots
from dpi.tables import Table, take


@dataclass(frozen=True, repr=False, eq=False)
class TableEvents:
    """The events in a table of any library; `FileEvents` of what lies in memory.

    >>> table = {"user": ["a", "b", "c"], "time": ["1970-01-01T02:10", "1970-01-01T00:20", "never"], "value": [1, 2, 3]}
    >>> list(TableEvents(Table(table)).slots(Slots("1h"), 0, 3))
    [(0, ['b'], [2]), (1, [], []), (2, ['a'], [1])]
    """

    table: Table
    user: str = "user"
    time: str = "time"
    value: str | Mapping[str, str] = "value"
    """The column of values or, for a Product domain, a column for each part."""
    unit: str | None = None

    def slots(self, slots: Slots, first: int, last: int) -> PlayedSlots:
        """Number, users and values of every slot of the public period [first, last), also of one without events.

        Events outside the period, or with a time that cannot be read, are dropped, each by its own time.
        """
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
            yield number, take(users, rows), values.get("", values)
