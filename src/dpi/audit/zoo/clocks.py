"""Clocks: what closes a slot, and whether it is released."""

from __future__ import annotations

from dpi.audit import neighbours
from dpi.audit.laws import Law, Point
from dpi.audit.neighbours import TARGET, Rows, pair
from dpi.audit.session import StreamSession
from dpi.audit.small import SLOTS, VALUES, stream, stream_session
from dpi.audit.zoo.base import Counts, Pair, on, units
from dpi.integers import Integers

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
)
