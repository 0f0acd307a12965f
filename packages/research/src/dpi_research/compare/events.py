"""The slots of events, of a table or of files, for a comparison on real data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np

from dpi.domain import Domain
from dpi.events.identity import users as canonical_users
from dpi.events.slots import Slots
from dpi.events.tables import Table
from dpi.sources import SlotRows, TableEvents
from dpi_research.datasets.generators import Slot


def coded(slots: Iterable[tuple[int, SlotRows]]) -> Iterator[Slot]:
    """The slots of events, in numbers: a user has the same one in all slots. What is unreadable is dropped.

    A slot's `pdf` is its own, for nothing else is known of real data.
    """
    import polars as pl

    numbers: dict[str, int] = {}
    for _, rows in slots:
        ids = canonical_users(rows.users)
        readable = (rows.bins >= 0) & ids.is_not_null().to_numpy()
        texts = ids.filter(readable).cast(pl.String).to_list()  # one slot may have integers, another texts
        known = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
        users, bins = (np.repeat(column, rows.counts[readable]) for column in (known, rows.bins[readable]))
        counts = np.bincount(bins, minlength=rows.domain.size)
        yield Slot(users, bins, counts / max(1, int(counts.sum())))


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
    return coded(played.slots(clock, domain, clock.number(start), clock.number(end)))
