"""The slots of a table of events, for a comparison on real data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import numpy as np

from dpi.datasets.generators import Slot
from dpi.domain import Domain
from dpi.errors import SchemaError
from dpi.identity import users as canonical_users
from dpi.slots import Slots
from dpi.tables import Table


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
    """Every slot of the public period [start, end), empty ones too; rows that cannot be read are dropped.

    A slot's `pdf` is its own, for nothing else is known of real data.

    >>> from dpi.domain import Categories
    >>> table = {"user": ["a", "b", "a"], "time": ["2026-01-01T00:10", "2026-01-01T00:20", "2026-01-01T02:00"],
    ...          "value": ["x", "y", "x"]}
    >>> slots = slots_of(table, Categories(["x", "y"], other=None), Slots("1h"), start="2026-01-01",
    ...                  end="2026-01-01T03:00")
    >>> [(slot.users.tolist(), slot.values.tolist()) for slot in slots]
    [([0, 1], [0, 1]), ([], []), ([0], [0])]
    """
    table = Table(events)
    numbers = clock.numbers(table.column(time), unit)
    codes = domain.encode(table.column(value))
    ids = canonical_users(table.column(user))
    if not numbers.size == codes.size == ids.len():
        raise SchemaError("`events` must have columns of the same length.")
    readable = (codes >= 0) & ids.is_not_null().to_numpy()
    _, users = np.unique(np.array(ids.to_list(), dtype=object).astype(str), return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    order = order[readable[order]]
    first, last = clock.number(start), clock.number(end)
    borders = np.searchsorted(numbers[order], np.arange(first, last + 1))
    for low, high in pairwise(borders):
        rows = order[low:high]
        counts = np.bincount(codes[rows], minlength=domain.size)
        yield Slot(users[rows], codes[rows], counts / max(1, int(counts.sum())))
