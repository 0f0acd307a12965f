"""Rows and clocks: what one user's rows do to the rows of others, what closes a slot, and whether it is released."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import dpi
from dpi.events.slots import Slots
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import truncate
from dpi.stream.input_positions import Mark
from dpi.testing.laws import Law, Point
from dpi_audit import neighbours
from dpi_audit.neighbours import TARGET, Neighbours, Rows, pair
from dpi_audit.session import StreamSession
from dpi_audit.small import VALUES
from dpi_audit.zoo.base import ALONE, RUNS, SLOTS, Counts, Pair, on, stream, stream_session, units

BROKEN_ROWS = neighbours.broken_rows(SLOTS, VALUES)
GIANT = neighbours.giant(SLOTS, VALUES)
CAPACITY = PACE = 100
"""Rows that a queue holds, and that a reader handles in the time of a slot."""


class _Batch(Counts):
    """A value that is none raises, and the batch is lost: one user's NaN silences a slot."""

    def _counted(self, rows: Rows) -> Integers:
        return units(rows if all(value in VALUES for _, value in rows) else ())


class _Queue(Counts):
    """A queue of a hundred rows for everybody: one user's flood pushes the others out."""

    def _counted(self, rows: Rows) -> Integers:
        return units(rows[:CAPACITY])


class _Records(Counts):
    """Every row counts one: a user with 400 rows counts 400."""

    def _counted(self, rows: Rows) -> Integers:
        return np.bincount([VALUES.index(str(value)) for _, value in rows], minlength=len(VALUES)) * GRAINS


class _Truncation(Counts):
    """Of each user's rows the one with the lowest hash of its *row number* is kept: one row more moves all numbers."""

    def _counted(self, rows: Rows) -> Integers:
        kept: dict[str, tuple[int, object]] = {}
        for number, (user, value) in enumerate(rows):
            mixed = (number * 2654435761) % 2**32
            if str(user) not in kept or mixed < kept[str(user)][0]:
                kept[str(user)] = mixed, value
        return units(tuple((user, value) for user, (_, value) in kept.items()))


_SEVERAL: Rows = tuple((f"other-{i}", VALUES[(i + j) % 3]) for i in range(6) for j in range(3))
FIRST_ROW = pair("first row", [((TARGET, VALUES[0]), *_SEVERAL)] * SLOTS)
"""The user's one row stands before those of others, who have several each."""


_SPENDERS: Rows = tuple((f"other-{i}", 10 * i) for i in range(6))
HUGE = pair("one huge amount", [(*_SPENDERS, (TARGET, 10**12))] * SLOTS)


class _Grid(Counts):
    """Sums of amounts by user in three bins up to the largest of them: one user's amount moves the bins of all."""

    def _counted(self, rows: Rows) -> Integers:
        sums: dict[str, float] = {}
        for user, value in rows:
            sums[str(user)] = sums.get(str(user), 0.0) + float(str(value))
        edges = np.linspace(min(sums.values()), max(sums.values()), 4)[1:-1]
        return np.bincount(np.searchsorted(edges, list(sums.values())), minlength=3) * GRAINS


class _Skip(Counts):
    """Nothing happened, nothing is released: silence says that nobody was there."""

    def look(self, rows: Rows) -> Law:
        return super().look(rows) if rows else Point("skipped")


def _timed(name: str, before: Rows = (), after: Rows = ()) -> Neighbours:
    """Values with the hour they are of: others are in time; in slot 2 the user's rows stand before or after."""
    others = [tuple((f"other-{t}-{i}", (t, VALUES[i % 3])) for i in range(6)) for t in range(SLOTS)]
    return pair(name, [*others[:2], (*before, *others[2], *after), *others[3:]])


FAR_FUTURE = _timed("far future", after=((TARGET, (1000, VALUES[0])),))
FLOOD = _timed("flood", before=((TARGET, (2, VALUES[0])),) * (40 * PACE))


def _of_hour(rows: Rows, first: int, last: int) -> Rows:
    """Return the rows of some hours, without their hour."""
    return tuple((user, value[1]) for user, value in rows if first <= value[0] <= last)  # type: ignore[index]


class _Watermark(Counts):
    """The latest event time closes slots: one far-future event makes everybody else's late."""

    _latest = -1

    def _counted(self, rows: Rows) -> Integers:
        self._latest = max([self._latest, *(int(value[0]) for _, value in rows)])  # type: ignore[index]
        return units(_of_hour(rows, self._latest, 1 << 40))


class _Clock(StreamSession):
    """The public clock, here the number of the step, decides about each event by the event's own time."""

    def look(self, rows: Rows) -> Law:
        return super().look(_of_hour(rows, self._slots, self._slots))


class _Pace(Counts):
    """Lateness is judged when a row is read: behind one user's flood everybody else's rows are late."""

    _unread: Rows = ()

    def _counted(self, rows: Rows) -> Integers:
        arrived = (*self._unread, *rows)
        read, self._unread = arrived[:PACE], arrived[PACE:]
        return units(_of_hour(read, self.step, self.step))


class _Marks(StreamSession):
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


_BOTH: Rows = tuple((f"other-{i}", (name, VALUES[i % 3])) for i in range(6) for name in "ab")
SHARED = pair("two streams", [(*_BOTH, *((TARGET, ("a", VALUES[0])),) * 9)] * SLOTS)
"""Rows of two streams, `a` and `b`: six people are in both, and the user only in `a`, with many rows."""


class _InTurn(Counts):
    """Two streams on one ledger, of which each account can pay for one in every step: the first in a fixed order."""

    def _counted(self, rows: Rows) -> Integers:
        paid: set[object] = set()
        counts = {}
        for name in self._order(rows):
            mine = tuple((user, value[1]) for user, value in rows if value[0] == name and user not in paid)  # type: ignore[index]
            counts[name] = units(mine)
            paid |= {user for user, _ in mine}
        return np.concatenate([counts[name] for name in "ab"])

    def _order(self, rows: Rows) -> Iterable[str]:
        return "ab"


class _Race(_InTurn):
    """The stream with fewer rows is ready first, and takes what accounts have: one user's rows turn the order round."""

    def _order(self, rows: Rows) -> Iterable[str]:
        return sorted("ab", key=lambda name: sum(value[0] == name for _, value in rows))  # type: ignore[index]


PAIRS = (
    Pair("skipped empty slots", "every slot is released, an empty one too",
         on(_Skip, ALONE, runs=RUNS), on(stream_session(), ALONE)),
    Pair("a watermark from event time", "only the public clock closes a slot",
         on(_Watermark, FAR_FUTURE), on(lambda: _Clock(stream()), FAR_FUTURE)),
    Pair("lateness judged when a row is read",
         "what had arrived is marked when a slot closes, and judged by the marks (dpi.stream.input_positions)",
         on(_Pace, FLOOD), on(lambda: _Marks(stream()), FLOOD)),
    Pair("a race of two streams on one ledger",
         "slots of streams that share accounts close by time and name, never by which is ready first",
         on(_Race, SHARED), on(_InTurn, SHARED)),
    Pair("a batch that fails on one row", "a row is dropped by itself",
         on(_Batch, BROKEN_ROWS), on(stream_session(), BROKEN_ROWS)),
    Pair("a shared queue that drops under a flood", "per-user caps come before anything shared",
         on(_Queue, GIANT), on(stream_session(), GIANT)),
    Pair("bounding per record, not per user", "one user, one unit",
         on(_Records, GIANT, runs=RUNS), on(stream_session(), GIANT)),
    Pair("a grid of amounts from the slot's own amounts", "the grid of a slot is made of the releases before it",
         on(_Grid, HUGE), on(stream_session(domain=dpi.Amounts(1)), HUGE)),
    Pair("truncation by row number", "which rows are kept is decided by the user's own content",
         on(_Truncation, FIRST_ROW), on(stream_session(compression=truncate(1, bytes(range(32)))), FIRST_ROW)),
)  # fmt: skip
