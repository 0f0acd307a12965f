"""Clocks: what closes a slot, and whether it is released."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dpi.events.slots import Slots
from dpi.exact.integers import Integers
from dpi.stream.admission import Mark
from dpi.testing.laws import Law, Point
from dpi_audit import neighbours
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.session import StreamSession
from dpi_audit.small import SLOTS, VALUES, stream, stream_session
from dpi_audit.zoo.base import Counts, Pair, on, units

ALONE = neighbours.alone(SLOTS, VALUES)


class BrokenSkip(Counts):
    """Nothing happened, nothing is released: silence says that nobody was there."""

    def look(self, rows: Rows) -> Law:
        """Nothing, if there are no rows."""
        return super().look(rows) if rows else Point("skipped")


def _timed(slot: int) -> Rows:
    """Values with the hour they are of: others are in time, the user sends one event of a far hour in slot 2."""
    rows = tuple((f"other-{slot}-{i}", (slot, VALUES[i % 3])) for i in range(6))
    return (*rows, (TARGET, (1000, VALUES[0]))) if slot == 2 else rows


FAR_FUTURE = pair("far future", [_timed(slot) for slot in range(SLOTS)])


def broken_watermark() -> Counts:
    """The latest event time closes slots: one far-future event makes everybody else's late."""
    latest = -1

    def count(rows: Rows) -> Integers:
        nonlocal latest
        latest = max([latest, *(int(value[0]) for _, value in rows)])  # type: ignore[index]
        return units(tuple((user, value[1]) for user, value in rows if value[0] >= latest))  # type: ignore[index]

    return Counts(count)


class CorrectClock(StreamSession):
    """The public clock, here the number of the step, decides about each event by the event's own time."""

    def look(self, rows: Rows) -> Law:
        """The rows of this hour."""
        return super().look(tuple((user, value[1]) for user, value in rows if value[0] == self._slots))  # type: ignore[index]


PACE = 100
"""Rows that a reader handles in the time of a slot."""


def _flooded(slot: int) -> Rows:
    """Rows with the hour they are of, as they arrive: in slot 2 a flood by the user comes before the others' rows."""
    rows = tuple((f"other-{slot}-{i}", (slot, VALUES[i % 3])) for i in range(6))
    return (*((TARGET, (slot, VALUES[0])),) * (40 * PACE), *rows) if slot == 2 else rows


FLOOD = pair("flood", [_flooded(slot) for slot in range(SLOTS)])


def broken_pace() -> Counts:
    """Lateness is judged when a row is read: behind one user's flood everybody else's rows are late."""
    unread: list[tuple[object, object]] = []
    slot = -1

    def count(rows: Rows) -> Integers:
        nonlocal slot
        slot += 1
        unread.extend(rows)
        read, unread[:] = unread[:PACE], unread[PACE:]
        return units(tuple((user, value[1]) for user, value in read if value[0] == slot))  # type: ignore[index]

    return Counts(count)


class CorrectMarks(StreamSession):
    """What had arrived when a slot closed is marked, and judged by the marks, however long it takes to read."""

    _hours = Slots("1h")
    _before: Mark | None = None

    def look(self, rows: Rows) -> Law:
        """All rows between two marks; with the slot's own times, the window admits those of the slot."""
        mark = Mark(self._hours.closing(self._slots), self._hours.closing(self._slots), {})
        times = np.array([int(value[0]) * self._hours.width for _, value in rows], dtype=np.int64)  # type: ignore[index]
        admitted = mark.window(self._before, self._hours, self._slots).admits(self._hours, times)
        self._before = mark
        return super().look(tuple((user, value[1]) for (user, value), kept in zip(rows, admitted, strict=True) if kept))  # type: ignore[index]


def _shared(slot: int) -> Rows:
    """Rows of two streams, `a` and `b`: six people are in both, and the user only in `a`, with many rows."""
    rows = tuple((f"other-{i}", (name, VALUES[i % 3])) for i in range(6) for name in "ab")
    return (*rows, *((TARGET, ("a", VALUES[0])),) * 9)


SHARED = pair("two streams", [_shared(slot) for slot in range(SLOTS)])


def _in_turn(order: Callable[[Rows], Iterable[str]]) -> Counts:
    """Two streams on one ledger, of which each account can pay for one in every step: the first in some order."""

    def count(rows: Rows) -> Integers:
        paid: set[object] = set()
        counts = {}
        for name in order(rows):
            mine = tuple((user, value[1]) for user, value in rows if value[0] == name and user not in paid)  # type: ignore[index]
            counts[name] = units(mine)
            paid |= {user for user, _ in mine}
        return np.concatenate([counts[name] for name in "ab"])

    return Counts(count)


def broken_race() -> Counts:
    """The stream with fewer rows is ready first, and takes what accounts have: one user's rows turn the order round."""
    return _in_turn(lambda rows: sorted("ab", key=lambda name: sum(value[0] == name for _, value in rows)))  # type: ignore[index]


PAIRS = (
    Pair(
        "skipped empty slots",
        "every slot is released, an empty one too",
        on(BrokenSkip, ALONE, runs=512),
        on(stream_session(), ALONE),
    ),
    Pair(
        "a watermark from event time",
        "only the public clock closes a slot",
        on(broken_watermark, FAR_FUTURE),
        on(lambda: CorrectClock(stream()), FAR_FUTURE),
    ),
    Pair(
        "lateness judged when a row is read",
        "what had arrived is marked when a slot closes, and judged by the marks (dpi.stream.admission)",
        on(broken_pace, FLOOD),
        on(lambda: CorrectMarks(stream()), FLOOD),
    ),
    Pair(
        "a race of two streams on one ledger",
        "slots of streams that share accounts close by time and name, never by which is ready first",
        on(broken_race, SHARED),
        on(lambda: _in_turn(lambda rows: "ab"), SHARED),
    ),
)
