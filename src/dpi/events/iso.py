"""Times as most programs write them, read at the speed of arrays: 2026-01-31T23:59:59.123456+01:00.

The forms are those of a fixed width: a date, `T` or a blank, hours, minutes and seconds, up to six digits of a
fraction, and `Z`, an offset or nothing. Any other text, and any that is no time of any calendar, is left to the reader
that knows all forms (`dpi.events.slots`). Each row is read by itself; its neighbours decide nothing.

Sees event times; no user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

_SECONDS = len("2026-01-31T23:59:59")
_OFFSET = len("+01:00")
_FRACTION = 6
_LONGEST = _SECONDS + 1 + _FRACTION + _OFFSET
_FARTHEST_OFFSET = 15
"""Hours; no zone of any country is farther from UTC."""
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MARKS = {4: b"-", 7: b"-", 10: b"T ", 13: b":", 16: b":"}
_ZONES = {0: b"0123456789", 1: b"Z", _OFFSET: b"+-"}
"""By the characters that a zone takes: what the first of them, or the last of all, must be."""
Characters = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]


class Moments(NamedTuple):
    """What could be read of a column of texts: microseconds since 1970, of wall clocks where no zone was named."""

    micros: Integers
    read: Marks
    local: Marks


def moments(texts: pl.Series) -> Moments:
    """Read the rows that have one of the forms.

    >>> import polars as pl
    >>> texts = ["1970-01-01T00:00:01Z", "1970-01-01 00:00:00.5", "1970-02-29 00:00:00", None, "now"]
    >>> found = moments(pl.Series(texts))
    >>> found.micros.tolist(), found.read.tolist(), found.local.tolist()
    ([1000000, 500000, 0, 0, 0], [True, True, False, False, False], [False, True, False, False, False])
    """
    widths = texts.str.len_bytes().fill_null(0).to_numpy()
    found = Moments(np.zeros(widths.size, np.int64), *(np.zeros(widths.size, np.bool_) for _ in range(2)))
    counts = np.bincount(np.minimum(widths, _LONGEST + 1), minlength=_LONGEST + 2)
    for width in np.flatnonzero(counts[: _LONGEST + 1]).tolist():
        if width >= _SECONDS:
            here = np.flatnonzero(widths == width)
            rows = texts if here.size == widths.size else texts.gather(here)
            _read(np.frombuffer(rows.str.join("").item().encode(), np.uint8).reshape(-1, width), here, found)
    return found


def _read(rows: Characters, here: Integers, found: Moments) -> None:
    """Read rows of one width, of which a fraction or a zone, or both, can be the rest."""
    width = rows.shape[1]
    for zone in _ZONES:
        fraction = width - _SECONDS - zone
        has_zone = np.isin(rows[:, width - max(zone, 1)], np.frombuffer(_ZONES[zone], np.uint8))
        if fraction not in (0, *range(2, 2 + _FRACTION)) or not has_zone.any():
            continue
        micros, sound = _wall_clock(rows, fraction)
        if zone == _OFFSET:
            offset, readable = _offset(rows[:, -_OFFSET:])
            micros -= offset
            sound &= readable
        sound &= has_zone
        to = here[sound]
        found.micros[to], found.read[to], found.local[to] = micros[sound], True, zone == 0


def _wall_clock(rows: Characters, fraction: int) -> tuple[Integers, Marks]:
    year, month, day = _digits(rows, 0, 4), _digits(rows, 5, 2), _digits(rows, 8, 2)
    hour, minute, second = (_digits(rows, at, 2) for at in (11, 14, 17))
    sound = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (hour >= 0) & (hour < 24)
    sound &= (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    sound &= day <= _DAYS[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    for at, marks in _MARKS.items():
        sound &= np.isin(rows[:, at], np.frombuffer(marks, np.uint8))
    micros = (((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000
    if fraction:
        part = _digits(rows, _SECONDS + 1, fraction - 1)
        micros += part * 10 ** (_FRACTION + 1 - fraction)
        sound &= (rows[:, _SECONDS] == ord(".")) & (part >= 0)
    return micros, sound


def _offset(rows: Characters) -> tuple[Integers, Marks]:
    """Microseconds of +hh:mm or -hh:mm."""
    hours, minutes, behind = _digits(rows, 1, 2), _digits(rows, 4, 2), rows[:, 0] == ord("-")
    sound = (rows[:, 3] == ord(":")) & (hours >= 0) & (hours < _FARTHEST_OFFSET) & (minutes >= 0) & (minutes < 60)
    return np.where(behind, -1, 1) * (hours * 60 + minutes) * 60_000_000, sound


def _digits(rows: Characters, start: int, count: int) -> Integers:
    """The number that some characters write; below 0 if one of them is no digit."""
    number = np.zeros(len(rows), np.int64)
    sound = np.ones(len(rows), np.bool_)
    for at in range(start, start + count):
        digit = rows[:, at] - np.uint8(ord("0"))  # what is no digit wraps to one of 10 and more
        sound &= digit < 10
        number *= 10
        number += digit
    return np.where(sound, number, -1)


def _days(year: Integers, month: Integers, day: Integers) -> Integers:
    """Days since 1970 in the Gregorian calendar; a year begins in March here, so that a leap day is its last."""
    year = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468
