"""Times as most programs write them, read at the speed of arrays: 2026-01-31T23:59:59.123456+01:00.

The forms are those of a fixed width: a date, `T` or a blank, hours, minutes and seconds, up to six digits of a
fraction, and `Z`, an offset or nothing. Any other text, and any that is no time of any calendar, is left to the reader
that knows all forms (`dpi.events.slots`). Each row is read by itself; its neighbours decide nothing.

Sees event times; no user.
"""

from __future__ import annotations

from functools import cache
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
_MARKS = {4: b"-", 7: b"-", 10: b"T ", 13: b":", 16: b":"}
_ZONES = {0: b"0123456789", 1: b"Z", _OFFSET: b"+-"}
"""By the characters that a zone takes: what the first of them, or the last of all, must be."""
_YEARS, _MONTHS = 10_000, 13
_DAY = 24 * 60 * 60
Characters = npt.NDArray[np.uint8]
"""Texts of one width, a column of characters after the other: so an operation on one of them reads no other."""
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
    >>> times = moments(pl.Series(texts))
    >>> times.micros.tolist(), times.read.tolist(), times.local.tolist()
    ([1000000, 500000, 0, 0, 0], [True, True, False, False, False], [False, True, False, False, False])
    """
    widths = texts.str.len_bytes().fill_null(0).to_numpy()
    result = Moments(np.zeros(widths.size, np.int64), *(np.zeros(widths.size, np.bool_) for _ in range(2)))
    counts = np.bincount(np.minimum(widths, _LONGEST + 1), minlength=_LONGEST + 2)
    for width in np.flatnonzero(counts[: _LONGEST + 1]).tolist():
        if width >= _SECONDS:
            here = np.flatnonzero(widths == width)
            rows = texts if here.size == widths.size else texts.gather(here)
            characters = np.frombuffer(rows.str.join("").item().encode(), np.uint8).reshape(-1, width)
            _read(np.ascontiguousarray(characters.T), here, result)
    return result


def _read(columns: Characters, here: Integers, result: Moments) -> None:
    """Read texts of one width, of which a fraction or a zone, or both, can be the rest."""
    width = len(columns)
    for zone in _ZONES:
        fraction = width - _SECONDS - zone
        sound = _one_of(columns[width - max(zone, 1)], _ZONES[zone])
        if fraction not in (0, *range(2, 2 + _FRACTION)) or not sound.any():
            continue
        micros = _wall_clock(columns, fraction, sound)
        if zone == _OFFSET:
            micros -= _offset(columns[-_OFFSET:], sound)
        if sound.all() and here.size == result.micros.size:
            result.micros[:], result.read[:], result.local[:] = micros, True, zone == 0
        else:
            to = here[sound]
            result.micros[to], result.read[to], result.local[to] = micros[sound], True, zone == 0


def _wall_clock(columns: Characters, fraction: int, sound: Marks) -> Integers:
    """Microseconds since 1970; what is no time is marked as not sound."""
    year, month, day = (_digits(columns, at, count, sound) for at, count in ((0, 4), (5, 2), (8, 2)))
    hour, minute, second = (_digits(columns, at, 2, sound) for at in (11, 14, 17))
    for at, marks in _MARKS.items():
        sound &= _one_of(columns[at], marks)
    sound &= (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    first, length = _calendar()
    of = year.astype(np.int32) * _MONTHS + np.where(month < _MONTHS, month, 0)
    sound &= day <= length.take(of, mode="clip")
    micros = (first.take(of, mode="clip") + day).astype(np.int64) * _DAY
    micros += (hour.astype(np.int32) * 60 + minute) * 60 + second
    micros *= 1_000_000
    if fraction:
        sound &= columns[_SECONDS] == ord(".")
        micros += _digits(columns, _SECONDS + 1, fraction - 1, sound).astype(np.int64) * 10 ** (
            _FRACTION + 1 - fraction
        )
    return micros


def _offset(columns: Characters, sound: Marks) -> Integers:
    """Microseconds of +hh:mm or -hh:mm; what is none is marked as not sound."""
    hours, minutes = _digits(columns, 1, 2, sound), _digits(columns, 4, 2, sound)
    sound &= (columns[3] == ord(":")) & (hours < _FARTHEST_OFFSET) & (minutes < 60)
    micros = (hours.astype(np.int64) * 60 + minutes) * 60_000_000
    return np.where(columns[0] == ord("-"), -micros, micros)


def _one_of(column: Characters, marks: bytes) -> Marks:
    """Where a column has one of some characters."""
    if len(marks) > 2:  # they follow each other
        return column - np.uint8(marks[0]) < len(marks)
    sound: Marks = column == marks[0]
    return sound if len(marks) == 1 else sound | (column == marks[1])


def _digits(columns: Characters, start: int, count: int, sound: Marks) -> npt.NDArray[np.uint32]:
    """Return the number that up to six characters write, in as few bytes; mark what is no digit as not sound."""
    kind = "u1" if count <= 2 else "u2" if count <= 4 else "u4"
    number: npt.NDArray[np.uint32] = np.zeros(columns.shape[1], kind)
    for column in columns[start : start + count]:
        digit = column - np.uint8(ord("0"))  # what is no digit wraps to one of 10 and more
        sound &= digit < 10
        number *= 10
        number += digit
    return number


@cache
def _calendar() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """For every month of the years 0 to 9999, the first after a month 0 that none has: days since 1970, and its own.

    The first day of a month is numbered as the one before it. Year 0 has no days.
    """
    year, month = (each.reshape(-1) for each in np.mgrid[:_YEARS, :_MONTHS].astype(np.int64))
    first = _days(year, month)
    following = _days(year + (month == _MONTHS - 1), month % (_MONTHS - 1) + 1)
    length = np.where((year > 0) & (month > 0), following - first, 0)
    return (first - 1).astype(np.int32), length.astype(np.int32)


def _days(year: Integers, month: Integers) -> Integers:
    """Days from 1970 to a month in the Gregorian calendar; a year begins in March here, so that a leap day is last."""
    year = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468
