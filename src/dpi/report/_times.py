"""The time axis: what a slot is called, and where the marks stand. Knows the public starts of slots only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

MARKS = 8  # the most marks on an axis

_SECONDS = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
_DAYS = (1, 2, 7, 14)
_MONTHS = (1, 3, 12, 60, 120, 1200)


def moments(starts: Sequence[str | None]) -> list[datetime] | None:
    """Return the starts of the slots as times, or None if any slot has no clock."""
    try:
        parsed = [datetime.fromisoformat(start) for start in starts if start is not None]
    except ValueError:
        return None
    return parsed if parsed and len(parsed) == len(starts) else None


def names(times: Sequence[datetime]) -> list[str]:
    """Return times as text: no longer than is needed to tell them apart, all of one form.

    >>> names(moments(["2026-03-02T00:00:00+00:00", "2026-03-02T01:00:00+00:00"]))
    ['2026-03-02 00:00', '2026-03-02 01:00']
    >>> names(moments(["2026-03-02T00:00:00+00:00", "2026-03-03T00:00:00+00:00"]))
    ['2026-03-02', '2026-03-03']
    """
    if len({moment.utcoffset() for moment in times}) == 1:
        times = [moment.replace(tzinfo=None) for moment in times]
        if len(times) > 1 and all(moment.time() == time() for moment in times):
            return [f"{moment:%Y-%m-%d}" for moment in times]
    spec = "minutes"
    if any(moment.microsecond for moment in times):
        spec = "microseconds"
    elif any(moment.second for moment in times):
        spec = "seconds"
    return [moment.isoformat(" ", spec) for moment in times]


def zone(times: Sequence[datetime]) -> str:
    """Return how the times are to be read.

    >>> zone(moments(["2026-03-02T00:00:00+01:00"])), zone(moments(["2026-03-02T00:00:00+00:00"]))
    ('UTC+01:00', 'UTC')
    """
    offsets = {moment.utcoffset() for moment in times}
    if offsets == {timedelta(0)}:
        return "UTC"
    return f"UTC{times[0].isoformat()[-6:]}" if len(offsets) == 1 and None not in offsets else "local time"


def width(times: Sequence[datetime]) -> str:
    """Return how long a slot is, if all are equally long and more than one is known; otherwise nothing.

    >>> width(moments(["2026-03-02T00:00:00", "2026-03-02T01:00:00"]))
    '1 h'
    """
    aware = [moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in times]
    steps = {after - before for before, after in pairwise(aware)}
    if len(steps) != 1:
        return ""
    step = steps.pop()
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        count, rest = divmod(step, timedelta(microseconds=size))
        if count and not rest:
            return f"{count} {unit}"
    return f"{step / timedelta(milliseconds=1):g} ms"


def time_marks(times: Sequence[datetime]) -> list[tuple[int, str]]:
    """Return which columns get a mark, and its text: where a round unit of time begins, as fine as `MARKS` allows.

    >>> time_marks(moments([f"2026-03-0{day}T{hour:02}:00:00" for day in (2, 3, 4) for hour in range(24)]))
    [(0, '2 Mar'), (12, '12:00'), (24, '3 Mar'), (36, '12:00'), (48, '4 Mar'), (60, '12:00')]
    """
    for scale, text in _scales():
        units = [scale(moment) for moment in times]
        places = [i for i in range(len(units)) if i == 0 or units[i] != units[i - 1]]
        # The first column is marked only if a unit begins there: an odd start would claim to be a round time.
        places = [i for i in places if i > 0 or _begins(times[0], scale)] or [0]
        if len(places) <= MARKS:
            return [(i, text(times[i])) for i in places]
    return [(0, names(times[:1])[0])]


def slot_marks(slots: Sequence[int]) -> list[tuple[int, str]]:
    """Return marks at round slot numbers.

    >>> slot_marks(range(40))
    [(0, '0'), (5, '5'), (10, '10'), (15, '15'), (20, '20'), (25, '25'), (30, '30'), (35, '35')]
    """
    for step in (m * 10**e for e in range(12) for m in (1, 2, 5)):
        places = [i for i, n in enumerate(slots) if n // step != (slots[i - 1] if i else n - 1) // step]
        if len(places) <= MARKS:
            return [(i, f"{slots[i]:,}") for i in places or [0]]
    return [(0, f"{slots[0]:,}")]


def _scales() -> list[tuple[Callable[[datetime], int], Callable[[datetime], str]]]:
    """Return, from fine to coarse, the unit's number of a time, and how its mark is written."""

    def seconds(size: int) -> Callable[[datetime], int]:
        return lambda t: (t.toordinal() * 86_400 + t.hour * 3600 + t.minute * 60 + t.second) // size

    def days(size: int) -> Callable[[datetime], int]:
        return lambda t: (t.toordinal() - 1) // size  # day 1 of the calendar was a Monday

    def months(size: int) -> Callable[[datetime], int]:
        return lambda t: (t.year * 12 + t.month - 1) // size

    def clock(t: datetime) -> str:
        if t.time() == time():
            return day(t)
        return f"{t:%H:%M:%S}" if t.second else f"{t:%H:%M}"

    def day(t: datetime) -> str:
        return f"{t.day} {_MONTH[t.month - 1]}"

    def month(t: datetime) -> str:
        return f"{_MONTH[t.month - 1]} {t.year}"

    return [
        *((seconds(size), clock) for size in _SECONDS),
        *((days(size), day) for size in _DAYS),
        *((months(size), month if size < 12 else lambda t: str(t.year)) for size in _MONTHS),
    ]


_MONTH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # whatever the locale


def _begins(moment: datetime, scale: Callable[[datetime], int]) -> bool:
    try:
        return scale(moment - timedelta(microseconds=1)) != scale(moment)
    except OverflowError:
        return True
