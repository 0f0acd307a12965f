"""The slots of events, of a table or of files, for a comparison on real data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np

from dpi.domain import Domain
from dpi.events.rows import Rows
from dpi.events.slots import Slots
from dpi.events.tables import Table
from dpi.sources import Admission, TableEvents
from dpi_research.datasets.generators import Slot

KEY = bytes(32)
"""Names users: a comparison is nobody's ledger."""


def coded(slots: Iterable[tuple[int, Rows]], bins: int) -> Iterator[Slot]:
    """The slots of events, in numbers: a user has the same one in all slots. What is unreadable is dropped.

    A slot's `pdf` is its own, for nothing else is known of real data.
    """
    numbers: dict[tuple[int, int], int] = {}
    for _, rows in slots:
        known = np.array([numbers.setdefault((a, b), len(numbers)) for a, b in rows.names.tolist()], dtype=np.int64)
        users, values = (np.repeat(column, rows.counts) for column in (known, rows.bins))
        counts = np.bincount(values, minlength=bins)
        yield Slot(users, values, counts / max(1, int(counts.sum())))


def slots_of(
    events: object,
    domain: Domain,
    clock: Slots,
    *,
    start: str | datetime,
    end: str | datetime,
    user: str = "user",
    time: str = "time",
    value: str = "value",
    unit: str | None = None,
) -> Iterator[Slot]:
    """Every slot of the public period [start, end) of a table, empty ones too, as `coded` gives them.

    >>> from dpi.domain import Categories
    >>> table = {"user": ["a", "b", "a"], "time": ["2026-01-01T00:10", "2026-01-01T00:20", "2026-01-01T02:00"],
    ...          "value": ["x", "y", "x"]}
    >>> slots = slots_of(table, Categories(["x", "y"], other=None), Slots("1h"), start="2026-01-01",
    ...                  end="2026-01-01T03:00")
    >>> [(slot.users.tolist(), slot.values.tolist()) for slot in slots]
    [([0, 1], [0, 1]), ([], []), ([0], [0])]
    """
    played = TableEvents(Table(events), user, time, value, unit)
    period = Admission(clock, domain, KEY, clock.number(start), clock.number(end))
    return coded(played.slots(period), domain.size)
