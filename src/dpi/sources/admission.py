"""Admission: columns of events, as they came, become rows (`dpi.events.rows`) of the slots that take them.

Each event is judged by itself: by its own time, by moments that were recorded when it arrived, and by public options.
Sees events and the secret that names accounts; no randomness, no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from dpi.domain import Product, column_of
from dpi.domain.overlap import Domains, by_slot, encode
from dpi.errors import SchemaError
from dpi.events.columns import read, take
from dpi.events.identity import EXACT, Digests, name_users
from dpi.events.rows import Rows
from dpi.events.slots import FOR_EVER, UNREADABLE, Slots, Window
from dpi.exact.integers import Integers
from dpi.exact.silence import silence

Mask = npt.NDArray[np.bool_]
SHARES = ("all", "most", "few", "none")
"""How many rows of a batch are understood: of an empty one all, and "few" are less than half."""


class Events(NamedTuple):
    """Columns of some events, as they came."""

    users: object
    times: object
    values: object
    unit: str | None = None
    """Of times that are numbers."""


class Understood(NamedTuple):
    """How many rows of a batch were understood, which of its columns some rows lack, and how many are in time.

    A row is understood if it has an id, a time that can be read, and a value that has a bin in the domain of its slot.
    A missing value is not understood, also where the domain counts it as `other`. A row is in time if its slot was open
    for the batch, and its time is not in the future. It is usable if it is both.

    **Guarantee.** A function of the batch, of its own two moments and of public options. *Why:* each row is judged by
    its own cells, by the calendar, the domain and the rule for ids; whether it is in time follows from the window of
    its batch, too. Rows of others, accounts and the store do not enter. (After a change of options and a restart, a row
    of a slot that had closed is judged by the next slot's domain: both are public.) So a producer is told nothing that
    it has not sent. The numbers are for operators; a producer is told shares and `missing`, in words that its logs may
    hold.

    >>> told = Understood(3, 2, ("user",), 1, 0)
    >>> told.share, told.in_time, Understood(0, 0, (), 0, 0).share
    ('most', 'few', 'all')
    """

    rows: int
    understood: int
    missing: tuple[str, ...]
    """Columns, as a batch names them; never a value."""
    timely: int
    """Rows that are in time."""
    usable: int
    """Rows that are understood and in time."""

    @classmethod
    def of(cls, user: Mask, time: Mask, value: Mask, open_: Mask) -> Self:
        """Return what is understood of rows, by which of them have each column, and which are in time."""
        columns = {"user": user, "time": time, "value": value}
        missing = tuple(name for name, has in columns.items() if not has.all())
        whole = user & time & value
        understood, timely, usable = (int(np.count_nonzero(mask)) for mask in (whole, open_, whole & open_))
        return cls(user.size, understood, missing, timely, usable)

    @property
    def share(self) -> str:
        """How many rows are understood: one of `SHARES`."""
        return self._share(self.understood)

    @property
    def in_time(self) -> str:
        """How many rows are in time: one of `SHARES`."""
        return self._share(self.timely)

    def _share(self, number: int) -> str:
        if number == self.rows:
            return "all"
        if not number:
            return "none"
        return "few" if 2 * number < self.rows else "most"


class _Read(NamedTuple):
    """Names of accounts, which rows have one (None: all), times, and the slots of these; row by row."""

    names: Digests
    known: Mask | None
    moments: Integers
    numbers: Integers


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
        columns = self._read(events)
        names, numbers, inside = columns.names, columns.numbers, self._find_open(columns, window)
        if columns.known is not None:
            inside &= columns.known
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

    @silence()
    def understand(self, events: Events, window: Window) -> tuple[Rows, Understood]:
        """Return what `keep` does, and what is understood of all rows, also of those that do not count."""
        columns, values = self._read(events), _read(self.domain, events.values)
        bins, counts = encode(self.domain, columns.numbers, values)
        known = np.ones(bins.shape, dtype=np.bool_) if columns.known is None else columns.known
        rows, inside = Rows(columns.names, columns.numbers, bins, counts), self._find_open(columns, window)
        counting = inside & known & (bins >= 0)
        kept = Rows.sum([rows if counting.all() else rows.only(counting)])
        return kept, Understood.of(known, columns.moments != UNREADABLE, (bins >= 0) & _find_given(values), inside)

    def _read(self, events: Events) -> _Read:
        moments = self.slots.moments(events.times, events.unit)
        names, known = name_users(events.users, self.key, self.ids)
        if moments.size != len(names):
            raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
        return _Read(names, known, moments, self.slots.at(np.where(moments == UNREADABLE, 0, moments)))

    def _find_open(self, columns: _Read, window: Window) -> Mask:
        """Return which rows have a slot that takes them."""
        inside = window.admits(self.slots, columns.moments) & (columns.numbers >= self.first)
        if self.last is not None:
            inside &= columns.numbers < self.last
        return inside


def _read(domains: Domains, values: object) -> object:
    """Return a column of values, or one for each part of a product that any slot has, whatever table they came in."""
    products = [each for _, each in by_slot(domains).entries if isinstance(each, Product)]
    if not products:
        return read(values, "value")
    return {name: read(column_of(values, name), "value") for product in products for name in product.parts}


def _select(values: object, rows: Mask) -> object:
    """Return some rows of the columns: others' values are not even looked at."""
    if isinstance(values, dict):
        return {part: _select(column, rows) for part, column in values.items()}
    column = read(values, "value")
    if len(column) != rows.size:
        raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
    return take(column, np.flatnonzero(rows))


def _find_given(values: object) -> Mask:
    """Return which rows have a value, or one of each part, whatever it is."""
    import polars as pl

    if isinstance(values, dict):
        return np.logical_and.reduce([_find_given(column) for column in values.values()])  # type: ignore[no-any-return]
    if isinstance(values, pl.Series):
        return values.is_not_null().to_numpy()
    return np.array([value is not None for value in cast("list[object]", values)], dtype=np.bool_)


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
