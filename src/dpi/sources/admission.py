"""Admission: columns of events, as they came, become rows (`dpi.events.rows`) of the slots that take them.

Each event is judged by itself: by its own time, by moments that were recorded when it arrived, and by public options.
Sees events and the secret that names accounts; no randomness, no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.domain import Product, column_of
from dpi.domain.overlap import Domains, by_slot, encode
from dpi.errors import SchemaError
from dpi.events.columns import read, take
from dpi.events.identity import EXACT, name_users
from dpi.events.rows import Rows
from dpi.events.slots import FOR_EVER, UNREADABLE, Slots, Window
from dpi.exact.silence import silence


class Events(NamedTuple):
    """Columns of some events, as they came."""

    users: object
    times: object
    values: object
    unit: str | None = None
    """Of times that are numbers."""


@dataclass(frozen=True, repr=False)
class Admission:
    """Everything public, and the store's secret, by which events of a stream become rows.

    A value: another thread or process than the stream's own may use it. Slots that close after it was made are kept out
    by the window of what arrives then, and options change for slots alone that have not begun.

    >>> from dpi.domain import Categories
    >>> times = ["1970-01-01T00:10", "1970-01-01T00:20", "1970-01-01T00:40"]
    >>> events, half_past = Events(["a", "a", "b"], times, ["x"] * 3), Window(0, 1_800_000_000)
    >>> rows = Admission(Slots("1h"), Categories(["x"]), bytes(32), first=0).keep(events, half_past)
    >>> rows.slots.tolist(), rows.bins.tolist(), rows.counts.tolist()
    ([0], [0], [2])
    """

    slots: Slots
    domain: Domains
    key: bytes
    """That names accounts."""
    first: int
    """The stream's next slot when this was made …"""
    last: int | None = None
    """… and the first slot after a public period that is played; an admission of live events has no end."""
    ids: str = EXACT
    """How texts of ids are compared (`dpi.events.identity`)."""

    @silence()
    def admit(self, events: Events, window: Window = FOR_EVER) -> Rows:
        """Return a row for each event that counts.

        One that `window` does not admit, of a slot outside of the period, or without user or bin is dropped by itself.
        Its bin is that of its own slot's domain.
        """
        moments = self.slots.moments(events.times, events.unit)
        numbers = self.slots.at(np.where(moments == UNREADABLE, 0, moments))
        names, known = name_users(events.users, self.key, self.ids)
        if moments.size != len(names):
            raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
        inside = window.admits(self.slots, moments) & (numbers >= self.first)
        if known is not None:
            inside &= known
        if self.last is not None:
            inside &= numbers < self.last
        values = _read(self.domain, events.values)  # all rows: whether that can be done depends on none of them
        if not inside.all():
            names, numbers, values = names.compress(inside, 0), numbers[inside], _select(values, inside)
        bins, counts = encode(self.domain, numbers, values)
        rows = Rows(names, numbers, bins, counts)
        return rows if (bins >= 0).all() else rows.only(bins >= 0)

    @silence()
    def keep(self, events: Events, window: Window) -> Rows:
        """Return what a store keeps of the events that count: one row for equal ones."""
        return Rows.sum([self.admit(events, window)])


def _read(domains: Domains, values: object) -> object:
    """Return a column of values, or one for each part of a product that any slot has, whatever table they came in."""
    products = [each for _, each in by_slot(domains).entries if isinstance(each, Product)]
    if not products:
        return read(values, "value")
    return {name: read(column_of(values, name), "value") for product in products for name in product.parts}


def _select(values: object, rows: npt.NDArray[np.bool_]) -> object:
    """Return some rows of the columns: others' values are not even looked at."""
    if isinstance(values, dict):
        return {part: _select(column, rows) for part, column in values.items()}
    column = read(values, "value")
    if len(column) != rows.size:
        raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
    return take(column, np.flatnonzero(rows))


def stamp_window(stamps: object, unit: str | None, slots: Slots, now: int) -> Window:
    """Return the window of events whose arrival was recorded with each: that decides, however late they are read.

    A stamp that cannot be read, or of the future, admits nothing of its event that has not come by `now`.

    >>> slots = Slots("1h")
    >>> stamps, times = [3000, 4000, 9999], slots.moments([100, 100, 8000], "s")
    >>> stamp_window(stamps, "s", slots, 7_200_000_000).admits(slots, times).tolist()
    [True, False, False]
    """
    with silence():
        moments = slots.moments(stamps, unit)
        readable = np.where(moments == UNREADABLE, now, moments)  # no calendar has a day for what cannot be read
        return Window(slots.first_open(readable), np.minimum(moments, now))
