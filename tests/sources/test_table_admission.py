"""Neighbours at a followed table: one user's flood is counted for slots on end, and moves no row of another user."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

import dpi
from broker_feeds import Maria, Postgres, TableFeed, on
from dpi.sources.brokers import log
from dpi.sources.brokers._table import Snapshot, Table
from dpi.sources.live import Reach
from dpi.store.base import Arrival
from dpi.stream.input_positions import Timer
from dpi.stream.live import AWAY, BACK, Follower

SECOND = 1_000_000
SLOT = 10
OWN = [-25, -12, -3, 0, 1, 4, 9, 14, 19, 24, 40]
"""Times of rows, in seconds after they are written: ahead of the next look, of the slot's end, and of the next's."""
Kept = set[tuple[int, str]]
"""Who is counted in which slot."""


class Recording(dpi.MemoryStore):
    """Notes what is counted where; the bin of a row tells who it is."""

    def __init__(self, users: Sequence[str]) -> None:
        super().__init__()
        self.users, self.kept = users, Kept()

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep some rows, each for the first time."""
        for _, rows, *_ in arrivals:
            found = {(int(slot), self.users[bin_]) for slot, bin_ in zip(rows.slots, rows.bins, strict=True)}
            assert not found & {each for each in self.kept if each[1] != "flood"}
            self.kept |= found
        return super().append_all(arrivals)


class Clockwork(Timer):
    """A timer with its threads, whose clock is set by hand: every look that is due is over when `tick` returns."""

    now = 0
    _ended = False

    def start(self) -> Clockwork:
        """Begin, at the clock's moment."""
        self._due, self._over = threading.Semaphore(0), threading.Semaphore(0)
        super().start()
        assert self._over.acquire(timeout=60)
        return self

    def _wait(self, seconds: float) -> bool:
        self._over.release()
        assert self._due.acquire(timeout=60)
        return self._ended

    def tick(self, second: float) -> None:
        """Set the clock, to when a look is due."""
        self.now = round(second * SECOND)
        self._due.release()
        assert self._over.acquire(timeout=60)

    def end(self) -> None:
        """Let it look for the last time."""
        self._ended = True
        self._due.release()


class Desk:
    """A table that is followed, from its rows to its slots."""

    def __init__(self, feed: TableFeed, lateness: int, end: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.feed, self.lateness, self.seconds = feed, lateness, range(1, end + SLOT)
        self.written = [(second, second + own) for second in range(1, end) for own in OWN if second + own >= 0]
        self.store = Recording([*map(_name, self.written), "flood"])
        stream = dpi.Stream(
            domain=dpi.Categories(self.store.users), epsilon=1, slot=f"{SLOT}s", lateness=f"{lateness}s",
            start="1970-01-01", store=self.store,
        )  # fmt: skip
        column = feed.quoted.strip('"')
        self.told: list[str] = []
        events = dpi.broker(feed.address, unit="s", value=column, **feed.options)
        self.follower = Follower(stream, events, tell=self.told.append)
        (live,) = self.follower.inputs
        assert isinstance(live, Table)
        self.table, self.counting = live, threading.Event()
        self.counting.set()
        counted = live._counted

        def count(snapshot: Snapshot) -> Reach:
            assert self.counting.wait(60)
            return counted(snapshot)

        monkeypatch.setattr(live, "_counted", count)
        self.timer = Clockwork(
            self.follower.slots, self.follower.inputs, self.follower.journal,
            clock=lambda: self.timer.now, held=self.follower.hold,
        )  # fmt: skip

    def write(self, second: int) -> None:
        """Insert the rows of others that are written in a second."""
        self._insert([(_name(row), row[1]) for row in self.written if row[0] == second])

    def flood(self) -> None:
        """Commit many rows of one user at once; from now on looks wait to be counted."""
        self.counting.clear()
        self._insert([("flood", 1)] * 500)

    def _insert(self, rows: Sequence[tuple[str, int]]) -> None:
        """Commit some rows at once."""
        feed, values = self.feed, ", ".join(["(%s, %s, 'x')"] * len(rows))
        if rows:
            into = f"INSERT INTO {feed.table} ({feed.quoted}, time, value) VALUES {values}"  # noqa: S608
            feed.execute(feed.connection, into, *chain(*rows))

    def play(self, floods: Sequence[int] = (), counted: Sequence[int] = (), away: Sequence[int] = ()) -> Kept:
        """Let the clock go: after the look of each second, its rows are written. Return the rows of others that count.

        In some seconds there is a flood, in others everything that waits is counted, in others no look is answered.
        """
        self.timer.start()
        for second in self.seconds:
            with pytest.MonkeyPatch.context() as patch:
                if second in away:
                    patch.setattr(self.table, "_snapshot", lambda: None)
                self.timer.tick(second)
            if second in floods:
                self.flood()
            if second in counted:
                self.counting.set()
            self.write(second)
        self.counting.set()
        self.timer.end()
        for number, mark in self.timer:
            list(self.follower.reach(number, mark))
        self.follower.close()
        return {each for each in self.store.kept if each[1] != "flood"}

    def expected(self) -> Kept:
        """Return what the rule says: a row counts by its own time and by the closing look that first shows it."""
        found = Kept()
        for written, own in self.written:
            closing = (written - self.lateness) // SLOT  # the slot whose closing look is the first one after it
            if own // SLOT >= closing and own <= (closing + 2) * SLOT + self.lateness:
                found.add((own // SLOT, _name((written, own))))
        return found


def _name(row: tuple[int, int]) -> str:
    return f"{row[0]} {row[1]}"


@pytest.fixture
def desks(feed: TableFeed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Desks at one table."""
    made: list[Desk] = []

    def make(lateness: int, end: int = 38) -> Desk:
        """Nothing is written after second `end`."""
        made.append(Desk(feed, lateness, end, monkeypatch))
        return made[-1]

    yield make
    for desk in made:
        desk.counting.set()
        desk.follower.close()  # a snapshot that is left open would keep the table


@pytest.mark.parametrize(
    ("feed", "lateness", "end", "floods", "counted"),
    [
        (Postgres, 0, 38, [1], []),
        (Postgres, 3, 38, [1], []),
        (Postgres, 0, 38, [1, 27], [26]),
        (Postgres, 3, 38, [9, 19], [12, 22]),
        (Maria, 3, 18, [1], []),
    ],
    indirect=["feed"],
)
def test_a_flood_that_is_counted_for_slots_moves_no_row_of_another(
    desks: Any, lateness: int, end: int, floods: list[int], counted: list[int]
) -> None:
    """Looks between closing times are left out meanwhile; they decide nothing. Closing looks never are."""
    without, flooded = desks(lateness, end), desks(lateness, end)
    kept = without.play()
    without.feed.cut()
    assert flooded.play(floods, counted) == kept
    assert (0, "flood") in flooded.store.kept
    assert kept == without.expected()


@on(Postgres)
def test_a_slot_waits_for_a_database_that_does_not_answer(desks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be gone, or busy with one user's rows: a slot closes late, said to be, with all that came in time."""
    monkeypatch.setattr(log, "AGAIN", 0.01)
    desk = desks(0)
    kept = desk.play(away=[8, 9, 10, 11])
    assert kept >= desk.expected()
    assert {int(name.split()[0]) for _, name in kept - desk.expected()} == set(range(7, 12))  # what the look at 12 has
    assert desk.told == [AWAY, BACK]


@on(Postgres)
def test_a_look_waits_for_no_handshake(desks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is open before the look that needs it, however many looks wait to be counted."""
    desk = desks(0)
    desk.table.reached()
    for _ in range(3):
        desk.table.look()
        desk.table._spare.join()
        with monkeypatch.context() as patch:
            patch.setattr(desk.table, "_connect", lambda timeout: pytest.fail("a look connects"))
            desk.table._snapshot()
        desk.table._prepare()
        desk.table._spare.join()
    assert len(desk.table._snapshots) == 6
    desk.table._snapshot()
    connect = desk.table._connect
    monkeypatch.setattr(desk.table, "_connect", lambda timeout: time.sleep(0.2) or connect(timeout))
    desk.table._prepare()
    desk.follower.close()  # also what is being opened
    desk.table._spare.join()
    assert not desk.table._idle
    assert not desk.table._snapshots
