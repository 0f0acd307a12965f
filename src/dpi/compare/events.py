"""The slots of events, of a table or of files, for a comparison on real data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise

import numpy as np

from dpi.datasets.generators import Slot
from dpi.domain import Domain
from dpi.errors import SchemaError
from dpi.identity import users as canonical_users
from dpi.integers import Integers
from dpi.slots import Slots
from dpi.tables import Table


def coded(slots: Iterable[tuple[int, object, object]], domain: Domain) -> Iterator[Slot]:
    """The slots of `FileEvents.slots`, in numbers: a user has the same one in all slots. What is unreadable is dropped.

    >>> from dpi.domain import Categories
    >>> slots = coded([(0, ["a", "b"], ["x", "y"]), (1, ["b", None], ["x", "x"])], Categories(["x", "y"], other=None))
    >>> [(slot.users.tolist(), slot.values.tolist()) for slot in slots]
    [([0, 1], [0, 1]), ([1], [0])]
    """
    numbers: dict[str, int] = {}
    for _, users, values in slots:
        ids, codes = canonical_users(users), domain.encode(values)
        readable = (codes >= 0) & ids.is_not_null().to_numpy()
        texts = ids.filter(readable).to_list()
        known = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
        yield _slot(known, codes[readable], domain.size)


def _slot(users: Integers, codes: Integers, bins: int) -> Slot:
    """A slot whose PDF is its own, for nothing else is known of real data."""
    counts = np.bincount(codes, minlength=bins)
    return Slot(users, codes, counts / max(1, int(counts.sum())))


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
        yield _slot(users[rows], codes[rows], domain.size)
