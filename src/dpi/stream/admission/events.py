"""Events that arrive while their slots are open: which of them count, and what a store keeps of them.

Sees events and the secret that names accounts; no randomness, no budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpi.domain.overlap import Domains, encode
from dpi.errors import SchemaError
from dpi.events.clock import Window
from dpi.events.identity import digests
from dpi.events.identity import users as canonical_users
from dpi.events.slots import UNREADABLE, Slots
from dpi.exact.integers import Integers
from dpi.store.base import OpenEvents

if TYPE_CHECKING:
    import polars as pl


class Events(NamedTuple):
    """Columns of some events, as they came."""

    users: object
    times: object
    values: object
    unit: str | None = None
    """Of times that are numbers."""


class Names(NamedTuple):
    """How a store names accounts: by its secret, and by its rule of which ids are one."""

    key: bytes
    rule: int


def accepted(
    events: Events, window: Window, *, slots: Slots, first: int, domain: Domains, rule: int, last: int | None = None
) -> tuple[pl.Series, Integers, Integers]:
    """Canonical ids, slots and bins of the events that count. Private.

    An event that `window` does not admit, of a slot before `first` or from `last` on, or without user or bin is dropped
    by itself. Its bin is that of its own slot's domain.
    """
    moments = slots.moments(events.times, events.unit)
    numbers = slots.at(np.where(moments == UNREADABLE, 0, moments))
    codes, ids = encode(domain, numbers, events.values), canonical_users(events.users, rule)
    if not moments.size == codes.size == ids.len():
        raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
    counts = window.admits(slots, moments) & (codes >= 0) & ids.is_not_null().to_numpy() & (numbers >= first)
    rows = np.flatnonzero(counts if last is None else counts & (numbers < last))
    return (ids, numbers, codes) if rows.size == ids.len() else (ids.gather(rows), numbers[rows], codes[rows])


def admitted(events: Events, window: Window, *, slots: Slots, first: int, domain: Domains, names: Names) -> OpenEvents:
    """What is kept of the events that count: an account's name, a slot, a bin and a number. Private.

    >>> from dpi.domain import Categories
    >>> times = ["1970-01-01T00:10", "1970-01-01T00:20", "1970-01-01T00:40"]
    >>> events, half_past = Events(["a", "a", "b"], times, ["x"] * 3), Window(0, 1_800_000_000)
    >>> where = {"slots": Slots("1h"), "first": 0, "domain": Categories(["x"]), "names": Names(bytes(32), 2)}
    >>> kept = admitted(events, half_past, **where)
    >>> kept.slots.tolist(), kept.bins.tolist(), kept.counts.tolist()
    ([0], [0], [2])
    """
    import polars as pl

    ids, numbers, codes = accepted(events, window, slots=slots, first=first, domain=domain, rule=names.rule)
    grouped = pl.DataFrame({"user": ids, "slot": numbers, "bin": codes}).group_by("user", "slot", "bin").len()
    return OpenEvents(
        digests(grouped["user"], names.key),
        grouped["slot"].to_numpy(),
        grouped["bin"].to_numpy(),
        grouped["len"].cast(pl.Int64).to_numpy(),
    )


class Admission(NamedTuple):
    """Everything public, and the store's secret, by which events of a stream become what is kept of them.

    A value: another thread than the stream's own may use it. Slots that close after it was made are kept out by the
    window of what arrives then, and options change for slots alone that have not begun.
    """

    slots: Slots
    first: int
    """The stream's next slot when this was made."""
    domain: Domains
    names: Names

    def keep(self, events: Events, window: Window) -> OpenEvents:
        """What is kept of the events that count."""
        return admitted(events, window, slots=self.slots, first=self.first, domain=self.domain, names=self.names)


def stamped(stamps: object, unit: str | None, slots: Slots, now: int) -> Window:
    """The window of events whose arrival was recorded with each of them: then that decides, however late they are read.

    A stamp that cannot be read, or of the future, admits nothing of its event that has not come by `now`.

    >>> slots = Slots("1h")
    >>> stamps, times = [3000, 4000, 9999], slots.moments([100, 100, 8000], "s")
    >>> stamped(stamps, "s", slots, 7_200_000_000).admits(slots, times).tolist()
    [True, False, False]
    """
    moments = slots.moments(stamps, unit)
    readable = np.where(moments == UNREADABLE, now, moments)  # no calendar has a day for what cannot be read
    return Window(slots.first_open(readable), np.minimum(moments, now))
