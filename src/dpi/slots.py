"""The public clock: which slot an event belongs to, and whether it still counts.

A slot is a fixed interval of real time, counted from a public origin. Only the public clock decides what is late or
from the future: never the times of other events, the order of rows or the end of a file. Each event is judged by its
own time alone. How many were dropped is private.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from dpi.columns import numbers, read, times
from dpi.errors import ClockError, OptionError, SchemaError
from dpi.integers import Integers

if TYPE_CHECKING:
    import polars as pl

NOWHERE = np.iinfo(np.int64).min
"""The slot number of an event whose time cannot be read."""

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_FARTHEST = 8_000 * 366 * _UNITS["d"]
"""Times further than 8,000 years from 1970 cannot be read."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration(text: str, name: str = "slot") -> int:
    """Microseconds of "500ms", "0.5s", "1h", "1d" …

    >>> duration("0.5s"), duration("1h")
    (500000, 3600000000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)", text) if isinstance(text, str) else None
    amount = Fraction(match[1]) * _UNITS[match[2]] if match else Fraction(0)
    if match is None or amount.denominator != 1 or amount >= 2**53:
        raise OptionError(f'`{name}` must be a duration such as "500ms", "1h" or "1d". Got {text!r}.')
    return int(amount)


@dataclass(frozen=True, init=False)
class Slots:
    """Slots of fixed width: slot n covers [origin + n·width, origin + (n + 1)·width).

    A width of "1d" is 24 hours, also where clocks are changed. `zone` says how times without a zone are read and how
    slots are printed. A slot closes `lateness` after its end, whatever has arrived.

    >>> slots = Slots("1h", origin="2026-01-01", zone="Europe/Berlin")
    >>> slots.numbers(["2026-01-01T02:30:00", "2026-01-01T02:30:00Z", "soon"]).tolist()[:2]
    [2, 3]
    >>> slots.start(2).isoformat()
    '2026-01-01T02:00:00+01:00'
    """

    width: int
    origin: int
    zone: str
    lateness: int

    def __init__(
        self, slot: str, *, origin: str | datetime = "1970-01-01", zone: str = "UTC", lateness: str = "0s"
    ) -> None:
        width = duration(slot)
        if width < 1:
            raise OptionError(f"`slot` must be at least one microsecond. Got {slot!r}.")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            raise OptionError(f'`zone` must be a time zone such as "Europe/Berlin". Got {zone!r}.') from None
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "lateness", duration(lateness, "lateness"))
        object.__setattr__(self, "origin", self.instant(origin, "origin"))

    def instant(self, time: str | datetime, name: str = "time") -> int:
        """Microseconds since 1970 of a public time: ISO 8601 text or a datetime, in `zone` if it names none."""
        try:
            moment = datetime.fromisoformat(time) if isinstance(time, str) else time
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=ZoneInfo(self.zone))
            return (moment - _EPOCH) // timedelta(microseconds=1)
        except (ValueError, TypeError, AttributeError):
            raise OptionError(f"`{name}` must be a time in ISO 8601. Got {time!r}.") from None

    def numbers(self, column: object, unit: str | None = None) -> Integers:
        """Slot numbers of event times; `NOWHERE` where a time cannot be read.

        Takes dates, datetimes, ISO 8601 text, or numbers since 1970 if `unit` ("s", "ms", "us", "ns") is named. A local
        time that a change of clocks makes ambiguous is the earlier one; one that does not exist cannot be read.
        """
        moments = self.moments(column, unit)
        return np.where(moments == NOWHERE, NOWHERE, (moments - self.origin) // self.width)

    def moments(self, column: object, unit: str | None = None) -> Integers:
        """Event times as microseconds since 1970, `NOWHERE` where a time cannot be read."""
        return self._microseconds(column, unit).fill_null(NOWHERE).to_numpy()

    def _microseconds(self, raw: object, unit: str | None) -> pl.Series:
        import polars as pl

        if unit is not None:
            return _since_1970(raw, unit)
        column = times(raw, "time")
        kind = column.dtype
        if kind.is_numeric():
            if column.len() == 0:
                return column.cast(pl.Int64)
            raise SchemaError('`time` holds numbers: name their unit, one of "s", "ms", "us", "ns".')
        if kind in (pl.String, pl.Null):
            return self._parse(column.cast(pl.String))
        if kind == pl.Date:
            days = column.to_physical().cast(pl.Int64)
            return self._local(_within(days, _FARTHEST // _UNITS["d"]) * _UNITS["d"])
        if not isinstance(kind, pl.Datetime):
            raise SchemaError(f"`time` must hold times, dates or ISO 8601 text. Got a column of {kind}.")
        ticks = column.to_physical()
        if kind.time_unit == "ns":
            micros = ticks // 1000
        else:
            factor = 1000 if kind.time_unit == "ms" else 1
            micros = _within(ticks, _FARTHEST // factor) * factor
        return _within(micros, _FARTHEST) if kind.time_zone is not None else self._local(micros)

    def _local(self, micros: pl.Series) -> pl.Series:
        """Microseconds of wall-clock time in `zone` as microseconds since 1970; missing if it does not exist."""
        import polars as pl

        return self._localise(_within(micros, _FARTHEST).cast(pl.Datetime("us"))).dt.epoch("us")

    def _localise(self, column: pl.Series) -> pl.Series:
        return column.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")

    def _parse(self, column: pl.Series) -> pl.Series:
        """Each row by itself, with or without a zone: one row's form must not decide how others are read."""
        import polars as pl

        text = column.str.strip_chars().str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00")
        text = text.str.replace(r"^(\d{4}-\d{2}-\d{2})$", "$1 00:00:00")
        text = text.str.replace(r"^(\d{4}-\d{2}-\d{2} \d{2}:\d{2})($|[+-])", "$1:00$2")
        aware = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="us", time_zone="UTC", strict=False)
        naive = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
        micros = aware.dt.epoch("us")
        return micros.zip_with(micros.is_not_null(), self._localise(naive).dt.epoch("us")).cast(pl.Int64)

    def start(self, number: int) -> datetime:
        """When slot `number` begins."""
        moment = _EPOCH + timedelta(microseconds=self.origin + number * self.width)
        return moment.astimezone(ZoneInfo(self.zone))

    def number(self, time: str | datetime) -> int:
        """The slot that a public time lies in."""
        return (self.instant(time) - self.origin) // self.width

    def border(self, time: str | datetime, name: str = "time") -> int:
        """The slot that begins at a public time; refuses a time within a slot.

        >>> Slots("1h").border("1970-01-01T05:00")
        5
        """
        moment = self.instant(time, name)
        number, rest = divmod(moment - self.origin, self.width)
        if rest:
            raise OptionError(f"`{name}` must be the border of a slot. Got {time!r}.")
        return number

    def closed_before(self, now: int) -> int:
        """The first slot that is still open when the clock shows `now` (microseconds since 1970)."""
        return (now - self.lateness - self.origin) // self.width


def _within(ticks: pl.Series, bound: int) -> pl.Series:
    """The numbers, missing where they are beyond ± bound."""
    inside = ((ticks >= -bound) & (ticks <= bound)).fill_null(False)
    return ticks.set(~inside, None)


def _since_1970(raw: object, unit: str) -> pl.Series:
    """Numbers since 1970 as microseconds; integers exactly, anything else that is a number as a float."""
    import polars as pl

    if unit not in ("s", "ms", "us", "ns"):
        raise OptionError(f'`unit` must be one of "s", "ms", "us", "ns". Got {unit!r}.')
    column = read(raw, "time")
    factor = Fraction(1, 1000) if unit == "ns" else Fraction(_UNITS[unit])
    if isinstance(column, list) or not column.dtype.is_integer():
        rows = column if isinstance(column, list) else column.to_list()
        # Integers exactly, anything else that is a number by its float: each row for itself.
        exact = [row if type(row) is int else None for row in rows]
        floats = numbers(column, "time")
        micros = [
            None
            if n is None and not math.isfinite(f)
            else math.floor(factor * (Fraction(float(f)) if n is None else n))
            for n, f in zip(exact, floats, strict=True)
        ]
        return pl.Series([m if m is not None and abs(m) <= _FARTHEST else None for m in micros], dtype=pl.Int64)
    whole = column.cast(pl.Int64, strict=False)
    if unit == "ns":
        return _within(whole // 1000, _FARTHEST)
    return _within(whole, _FARTHEST // _UNITS[unit]) * _UNITS[unit]


@dataclass
class Clock:
    """The public clock of a stream: it only moves forward, and says which events still count.

    >>> clock = Clock(Slots("1h", origin="2026-01-01"), "2026-01-01T05:10:00")
    >>> clock.admit(["2026-01-01T05:05:00", "2026-01-01T04:59:59", "2026-01-01T05:20:00"]).tolist()
    [True, False, False]
    """

    slots: Slots
    now: str | datetime
    dropped: dict[str, int] = field(default_factory=lambda: {"late": 0, "future": 0, "unreadable": 0}, repr=False)
    """How many events were dropped, and why. Private: for the curator alone."""

    def __post_init__(self) -> None:
        self._now = self.slots.instant(self.now, "now")

    def advance(self, now: str | datetime) -> None:
        """Move the clock forward."""
        moment = self.slots.instant(now, "now")
        if moment < self._now:
            raise ClockError("the clock went backwards; a slot that has closed stays closed.")
        self.now, self._now = now, moment

    @property
    def first_open(self) -> int:
        """The first slot that has not closed."""
        return self.slots.closed_before(self._now)

    def admit(self, column: object, unit: str | None = None) -> npt.NDArray[np.bool_]:
        """Which events count: readable, in a slot that is still open, and not later than the clock."""
        moments = self.slots.moments(column, unit)
        readable = moments != NOWHERE
        late = readable & ((moments - self.slots.origin) // self.slots.width < self.first_open)
        future = readable & (moments > self._now)
        for reason, mask in (("late", late), ("future", future), ("unreadable", ~readable)):
            self.dropped[reason] += int(mask.sum())
        admitted: npt.NDArray[np.bool_] = readable & ~late & ~future
        return admitted
