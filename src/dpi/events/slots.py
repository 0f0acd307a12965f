"""The public clock: which slot an event belongs to, and whether it still counts.

A slot is a fixed interval of real time, counted from a public origin, or a day, week or month of a calendar. Only the
public clock decides what is late or from the future: never the times of other events, the order of rows or the end of a
file. Each event is judged by its own time alone. How many were dropped is private.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Self, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from dpi.errors import ClockError, OptionError, SchemaError
from dpi.events import _iso as iso
from dpi.events._calendar import UNITS, Calendar
from dpi.events.columns import bounded, numbers, read, times
from dpi.exact.integers import Integers
from dpi.exact.silence import silence
from dpi.options import Option

if TYPE_CHECKING:
    import polars as pl

UNREADABLE = np.iinfo(np.int64).min
"""The slot number of an event whose time cannot be read."""

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_UNITS["w"] = 7 * _UNITS["d"]
_FARTHEST = 8_030 * 366 * _UNITS["d"]
"""Times further than this from 1970 cannot be read, however they are written; every year of four digits can."""
Moment = TypeVar("Moment", int, Integers)
"""Microseconds since 1970, or slot numbers: one, or a column."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration(text: str, name: str = "slot") -> int:
    """Microseconds of "500ms", "0.5s", "1h", "1d", "1w" …

    >>> duration("0.5s"), duration("1h"), duration("1w") == duration("7d")
    (500000, 3600000000, True)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)", text) if isinstance(text, str) else None
    amount = Fraction(match[1]) * _UNITS[match[2]] if match else Fraction(0)
    if match is None or amount.denominator != 1 or amount >= 2**53:
        calendar = ', or a part of the calendar: "day", "week" or "month"' if name == "slot" else ""
        raise OptionError(f'`{name}` must be a duration such as "500ms", "1h", "1d" or "1w"{calendar}. Got {text!r}.')
    return int(amount)


@dataclass(frozen=True, init=False)
class Slots(Option):
    """Slots of fixed width: slot n covers [origin + n·width, origin + (n + 1)·width). Or parts of a calendar.

    A width of "1d" is 24 hours, also where clocks are changed, and "1w" is seven times that. The words "day", "week"
    and "month" are those of the calendar in `zone`, from midnight, Monday, the first (`_calendar.py`): they have
    no `origin`. `zone` says how times without a zone are read and how slots are printed. A slot closes `lateness`
    after its end, whatever has arrived.

    >>> slots = Slots("1h", origin="2026-01-01", zone="Europe/Berlin")
    >>> slots.numbers(["2026-01-01T02:30:00", "2026-01-01T02:30:00Z", "soon"]).tolist()[:2]
    [2, 3]
    >>> slots.start(2).isoformat()
    '2026-01-01T02:00:00+01:00'
    >>> Slots("month", zone="Europe/Berlin").start(12 * 56 + 6).isoformat()
    '2026-07-01T00:00:00+02:00'
    """

    width: int
    """Microseconds; 0 for parts of a calendar."""
    origin: int
    zone: str
    lateness: int
    calendar: str
    """The part of the calendar: "day", "week" or "month"; nothing for slots of fixed width."""

    def __init__(
        self, slot: str, *, origin: str | datetime = "1970-01-01", zone: str = "UTC", lateness: str = "0s"
    ) -> None:
        calendar = slot if slot in UNITS else ""
        width = 0 if calendar else duration(slot)
        if calendar and origin != "1970-01-01":
            raise OptionError(f'`origin` is for slots of fixed width: a "{slot}" begins where the calendar says.')
        if not calendar and width < 1:
            raise OptionError(f"`slot` must be at least one microsecond. Got {slot!r}.")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            raise OptionError(f'`zone` must be a time zone such as "Europe/Berlin". Got {zone!r}.') from None
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "calendar", calendar)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "lateness", duration(lateness, "lateness"))
        object.__setattr__(self, "origin", 0 if calendar else self.instant(origin, "origin"))

    def __repr__(self) -> str:
        grid = f"calendar={self.calendar!r}" if self.calendar else f"width={self.width}, origin={self.origin}"
        return f"Slots({grid}, zone={self.zone!r}, lateness={self.lateness})"

    def at(self, moment: Moment) -> Moment:
        """Return the slot that a moment lies in, or each of a column: microseconds since 1970, all of them readable."""
        if not self.calendar:
            return (moment - self.origin) // self.width
        if isinstance(moment, int):
            return int(Calendar(self.calendar, self.zone).numbers(np.array([moment]))[0])
        return Calendar(self.calendar, self.zone).numbers(moment)

    def begin(self, number: int) -> int:
        """When slot `number` begins, in microseconds since 1970."""
        if not self.calendar:
            return self.origin + number * self.width
        return int(Calendar(self.calendar, self.zone).begins(np.array([number]))[0])

    @property
    def about(self) -> int:
        """About how long a slot is, in microseconds."""
        return self.width or {"day": 1, "week": 7, "month": 30}[self.calendar] * _UNITS["d"]

    @classmethod
    def _made(cls, values: dict[str, object]) -> Self:
        width, origin, lateness = (_whole(values.pop(name), name) for name in ("width", "origin", "lateness"))
        calendar = values.pop("calendar")
        if calendar:
            return cls(str(calendar), lateness=f"{lateness}us", **values)  # type: ignore[arg-type]
        start = _EPOCH + timedelta(microseconds=origin)
        return cls(f"{width}us", origin=start, lateness=f"{lateness}us", **values)  # type: ignore[arg-type]

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
        """Slot numbers of event times; `UNREADABLE` where a time cannot be read.

        Takes dates, datetimes, ISO 8601 text, or numbers since 1970 if `unit` ("s", "ms", "us", "ns") is named. A local
        time that a change of clocks makes ambiguous is the earlier one; one that does not exist cannot be read.
        """
        moments = self.moments(column, unit)
        readable = moments != UNREADABLE
        return np.where(readable, self.at(np.where(readable, moments, 0)), UNREADABLE)

    def moments(self, column: object, unit: str | None = None) -> Integers:
        """Event times as microseconds since 1970, `UNREADABLE` where a time cannot be read."""
        return self._microseconds(column, unit).fill_null(UNREADABLE).to_numpy()

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
            return self._local(_within(days, 1 + _FARTHEST // _UNITS["d"]) * _UNITS["d"])
        if not isinstance(kind, pl.Datetime):
            raise SchemaError(f"`time` must hold times, dates or ISO 8601 text. Got a column of {kind}.")
        ticks = column.to_physical()
        if kind.time_unit == "ns":
            micros = ticks // 1000
        else:
            factor = 1000 if kind.time_unit == "ms" else 1
            micros = _within(ticks, (_FARTHEST + _UNITS["d"]) // factor) * factor
        return _within(micros, _FARTHEST) if kind.time_zone is not None else self._local(micros)

    def _local(self, micros: pl.Series) -> pl.Series:
        """Microseconds of wall-clock time in `zone` as microseconds since 1970; missing if it does not exist."""
        import polars as pl

        near = _within(micros, _FARTHEST + _UNITS["d"]).cast(pl.Datetime("us"))  # no zone is a day from UTC
        return _within(self._localise(near).dt.epoch("us"), _FARTHEST)

    def _localise(self, column: pl.Series) -> pl.Series:
        return column.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")

    def _parse(self, column: pl.Series) -> pl.Series:
        """Each row by itself, with or without a zone: one row's form must not decide how others are read."""
        import polars as pl

        moments = iso.moments(column)
        micros = pl.Series(moments.micros)
        if moments.local.any() and self.zone != "UTC":
            walls = np.flatnonzero(moments.local)
            micros = micros.scatter(walls, self._local(micros.gather(walls)))
        if not moments.read.all():
            others = np.flatnonzero(~moments.read)
            micros = micros.scatter(others, self._parse_any(column.gather(others)))
        return _within(micros, _FARTHEST)

    def _parse_any(self, column: pl.Series) -> pl.Series:
        """Texts of every form that is known."""
        import polars as pl

        text = bounded(column).str.strip_chars().str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00")
        text = text.str.replace(r"^(\d{4}-\d{2}-\d{2})$", "$1 00:00:00")
        text = text.str.replace(r"^(\d{4}-\d{2}-\d{2} \d{2}:\d{2})($|[+-])", "$1:00$2")
        aware = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="us", time_zone="UTC", strict=False)
        naive = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
        micros = aware.dt.epoch("us")
        micros = micros.zip_with(micros.is_not_null(), self._localise(naive).dt.epoch("us")).cast(pl.Int64)
        return _within(micros, _FARTHEST)

    def start(self, number: int) -> datetime:
        """When slot `number` begins."""
        moment = _EPOCH + timedelta(microseconds=self.begin(number))
        return moment.astimezone(ZoneInfo(self.zone))

    def number(self, time: str | datetime) -> int:
        """Return the slot that a public time lies in."""
        return self.at(self.instant(time))

    def boundary(self, time: str | datetime, name: str = "time") -> int:
        """Return the slot that begins at a public time; refuse a time within one, naming those between which it lies.

        >>> Slots("1h").boundary("1970-01-01T05:00")
        5
        """
        moment = self.instant(time, name)
        number = self.at(moment)
        if self.begin(number) != moment and self.calendar:
            raise OptionError(
                f"`{name}` must be where a {self.calendar} of the calendar begins: {self._nearest(number)}. "
                f"Got {str(time)!r}."
            )
        if self.begin(number) != moment:
            raise OptionError(
                f"`{name}` must be the boundary of a slot: {self._nearest(number)}. Got {str(time)!r}. Slots are "
                "counted from `origin`: with that time as `origin` it is one.",
                options=(name, "origin"),
            )
        return number

    def _nearest(self, number: int) -> str:
        """Where a slot begins and ends, in words."""
        try:
            begin, end = (self.start(each).isoformat() for each in (number, number + 1))
        except OverflowError:  # in the year 10000
            return "there is none near"
        return f"the nearest are {begin} and {end}"

    def closing(self, number: int) -> int:
        """When slot `number` closes, in microseconds since 1970: `lateness` after its end."""
        return self.begin(number + 1) + self.lateness

    def first_open(self, now: Moment) -> Moment:
        """Return the first slot that is still open when the clock shows `now` (microseconds since 1970)."""
        return self.at(now - self.lateness)

    def next_closing(self, moment: int) -> int:
        """Return the first closing time after a moment, in microseconds since 1970.

        >>> hours = Slots("1h", lateness="10m")
        >>> [hours.next_closing(minute * 60_000_000) // 60_000_000 for minute in (0, 9, 10, 69, 70)]
        [10, 10, 70, 70, 130]
        """
        return self.closing(self.first_open(moment))


def _whole(stated: object, name: str) -> int:
    if type(stated) is not int:
        raise OptionError(f"`{name}` must be a whole number of microseconds. Got {stated!r}.")
    return stated


def _within(ticks: pl.Series, bound: int) -> pl.Series:
    """Return the numbers, missing where they are beyond ± bound."""
    inside = ((ticks >= -bound) & (ticks <= bound)).fill_null(False)
    return ticks.set(~inside, None)


def _since_1970(raw: object, unit: str) -> pl.Series:
    """Numbers since 1970 as microseconds: whole numbers exactly, anything else that is a number by its float.

    Each row by itself, and alike whether it stands in a column of integers of any width, of texts, or of objects.
    """
    import polars as pl

    if unit not in ("s", "ms", "us", "ns"):
        raise OptionError(f'`unit` must be one of "s", "ms", "us", "ns". Got {unit!r}.')
    column = read(raw, "time")
    if isinstance(column, list):
        column = times(column, "time")
    if column.dtype.is_integer():
        return _whole_since_1970(column, unit)
    if column.dtype != pl.String:
        return _floats_since_1970(column, unit)
    narrow = column.cast(pl.Int64, strict=False)
    micros = _whole_since_1970(narrow, unit)
    odd = (narrow.is_null() & column.is_not_null()).arg_true()
    if odd.len():
        rest = column.gather(odd)
        wide = rest.cast(pl.Int128, strict=False)
        exact = _whole_since_1970(wide, unit)
        micros.scatter(odd, exact.zip_with(wide.is_not_null(), _floats_since_1970(rest, unit)))
    return micros


def _whole_since_1970(column: pl.Series, unit: str) -> pl.Series:
    """Whole numbers since 1970 as microseconds; missing where that is further than a time may be."""
    import polars as pl

    if unit == "ns":
        return _within((column // 1000).cast(pl.Int64, strict=False), _FARTHEST)
    return _within(column.cast(pl.Int64, strict=False), _FARTHEST // _UNITS[unit]) * _UNITS[unit]


def _floats_since_1970(column: pl.Series, unit: str) -> pl.Series:
    """Numbers since 1970 as microseconds, rounded down from the exact value of each float."""
    import polars as pl

    factor = Fraction(1, 1000) if unit == "ns" else Fraction(_UNITS[unit])
    micros = [math.floor(factor * Fraction(f)) if math.isfinite(f) else None for f in numbers(column, "time").tolist()]
    return pl.Series([m if m is not None and abs(m) <= _FARTHEST else None for m in micros], dtype=pl.Int64)


@dataclass(frozen=True)
class Window:
    """What counts of events that arrived together: slots from `first` on, and times up to `until`.

    Both are microseconds or slot numbers that the public clock gave when the events arrived, one for all of them or one
    for each. So an event counts by its own time and by moments that no other event decides.

    >>> slots = Slots("1h")
    >>> Window(first=1, until=2 * slots.width).admits(slots, slots.moments([0, 5400, 9000], "s")).tolist()
    [False, True, False]
    """

    first: int | Integers
    until: int | Integers

    def admits(self, slots: Slots, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of some moments count: readable, in a slot that was open, and not from the future."""
        late, future = self.late(slots, moments), self.future(moments)
        admitted: npt.NDArray[np.bool_] = (moments != UNREADABLE) & ~late & ~future
        return admitted

    def late(self, slots: Slots, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of the moments that can be read lie in slots that had closed."""
        readable = moments != UNREADABLE
        late: npt.NDArray[np.bool_] = readable & (slots.at(np.where(readable, moments, 0)) < self.first)
        return late

    def future(self, moments: Integers) -> npt.NDArray[np.bool_]:
        """Which of the moments that can be read had not come yet."""
        future: npt.NDArray[np.bool_] = (moments != UNREADABLE) & (moments > self.until)
        return future


FOR_EVER = Window(np.iinfo(np.int64).min, np.iinfo(np.int64).max)
"""What is played admits an event by its slot alone."""


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

    moment: int = field(init=False, repr=False)
    """What the clock shows, in microseconds since 1970."""

    def __post_init__(self) -> None:
        self.moment = self.slots.instant(self.now, "now")

    def advance(self, now: str | datetime) -> None:
        """Move the clock forward."""
        moment = self.slots.instant(now, "now")
        if moment < self.moment:
            raise ClockError("the clock went backwards; a slot that has closed stays closed.")
        self.now, self.moment = now, moment

    @property
    def first_open(self) -> int:
        """The first slot that has not closed."""
        return self.slots.first_open(self.moment)

    @property
    def window(self) -> Window:
        """What counts of events that arrive now."""
        return Window(self.first_open, self.moment)

    @silence()
    def admit(self, column: object, unit: str | None = None) -> npt.NDArray[np.bool_]:
        """Which events count: readable, in a slot that is still open, and not later than the clock."""
        moments, window = self.slots.moments(column, unit), self.window
        self.dropped["late"] += int(window.late(self.slots, moments).sum())
        self.dropped["future"] += int(window.future(moments).sum())
        self.dropped["unreadable"] += int((moments == UNREADABLE).sum())
        return window.admits(self.slots, moments)
