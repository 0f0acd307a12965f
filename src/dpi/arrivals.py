"""Events that arrive while their slots are open: which of them count, and what a store keeps of them.

Sees events and the secret that names accounts; no randomness, no budget.
"""

from __future__ import annotations

import numpy as np

from dpi.domain import Domain
from dpi.errors import SchemaError
from dpi.identity import digests
from dpi.identity import users as canonical_users
from dpi.slots import Clock
from dpi.store.base import OpenEvents


def arrivals(
    users: object,
    times: object,
    values: object,
    unit: str | None,
    *,
    clock: Clock,
    first: int,
    domain: Domain,
    key: bytes,
) -> OpenEvents:
    """What is kept of the events that count: an account's name, a slot, a bin and a number. Private.

    An event that is late, of a slot before `first`, from the future of the clock, unreadable, or without user or bin is
    dropped by itself.

    >>> from dpi.domain import Categories
    >>> from dpi.slots import Slots
    >>> clock = Clock(Slots("1h"), "1970-01-01T00:30")
    >>> times = ["1970-01-01T00:10", "1970-01-01T00:20", "1970-01-01T00:40"]
    >>> kept = arrivals(["a", "a", "b"], times, ["x"] * 3, None, clock=clock, first=0, domain=Categories(["x"]),
    ...                 key=bytes(32))
    >>> kept.slots.tolist(), kept.bins.tolist(), kept.counts.tolist()
    ([0], [0], [2])
    """
    import polars as pl

    admitted = clock.admit(times, unit)
    numbers = clock.slots.numbers(times, unit)
    codes, ids = domain.encode(values), canonical_users(users)
    if not numbers.size == codes.size == ids.len():
        raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
    rows = np.flatnonzero(admitted & (codes >= 0) & (numbers >= first) & ids.is_not_null().to_numpy())
    frame = pl.DataFrame({"user": ids.gather(rows), "slot": numbers[rows], "bin": codes[rows]})
    grouped = frame.group_by("user", "slot", "bin").len()
    return OpenEvents(
        digests(grouped["user"], key),
        grouped["slot"].to_numpy(),
        grouped["bin"].to_numpy(),
        grouped["len"].cast(pl.Int64).to_numpy(),
    )
