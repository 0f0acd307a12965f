"""When a release is seen: at public moments, however long it took to make.

A slot that closes at c is seen at c + delay. Should its release be late, it waits for the next tick: c + 2·delay and
so on. Releases are seen in the order of the chain: a late one that stands before another stream's is seen with that one
at the latest, so that it delays nothing. So between two ticks nobody can tell, by asking again and again, how long a
slot took to close, which is a matter of how many events it had.

**Guarantee.** What a reader can see at a moment follows from the releases and from the ticks by which they were ready.
*Why:* every reader asks `upto`, which knows slots and dues; a due is a tick of its own slot or, if it is late, of one
that comes after it in the chain, and the first such tick by which it was ready. Where the machine is fast enough, as is
assumed, that is the slot's first tick, and the due is a function of the public clock alone.

Sees slots, moments and places in the chain; no release.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dpi.service.receipts import Clock


@dataclass(frozen=True)
class Published:
    """A release that is ready, and when it is seen."""

    stream: str | None
    """None for an entry of the chain that is no release."""
    slot: int
    entry: int
    """Its place in the chain."""
    due: int
    late: bool = False
    """Whether it has missed its first tick."""


class Publication:
    """What can be seen of the streams of a store.

    >>> now = [0]
    >>> seen = Publication(lambda: now[0], delay=100)
    >>> seen.ready("visits", 7, entry=1, closing=1000, at=1030).due, seen.ready("visits", 8, 2, 1050, at=1160).due
    (1100, 1250)
    >>> seen.ready("clicks", 3, 3, 1120, at=1165).due  # and what stands before it
    1220
    >>> now[0] = 1100
    >>> seen.upto("visits"), seen.entry
    (7, 1)
    """

    def __init__(self, clock: Clock, delay: int) -> None:
        self._clock, self.delay = clock, delay
        self._lock = threading.Lock()
        self._waiting: list[Published] = []
        self._seen: dict[str, int] = {}
        self._entry = -1
        self._listeners: list[Callable[[Published], None]] = []

    def listen(self, listener: Callable[[Published], None]) -> None:
        """Have something called, by whichever thread, for each release that is ready and not yet to be seen."""
        with self._lock:
            self._listeners.append(listener)
            waiting = list(self._waiting)
        for published in waiting:
            listener(published)

    def begin(self, seen: Mapping[str, int], entry: int) -> None:
        """Take up what is seen when the program comes back: the last slot of streams, and the end of the chain."""
        with self._lock:
            self._seen, self._entry = dict(seen), entry

    def declared(self, entry: int) -> None:
        """The chain has an entry that is no release: it is seen with what stands before it."""
        with self._lock:
            if self._waiting:
                self._waiting.append(Published(None, 0, entry, self._waiting[-1].due, late=True))
            else:
                self._entry = max(self._entry, entry)

    def ready(self, stream: str, slot: int, entry: int, closing: int, at: int) -> Published:
        """Take up a release that was stored at a moment."""
        with self._lock:
            least = max([at, *(each.due for each in self._waiting if not each.late)])
            ticks = max(1, -(-(least - closing) // self.delay))
            due = closing + ticks * self.delay
            published = Published(stream, slot, entry, due, late=ticks > 1)
            self._waiting = [*(replace(each, due=min(each.due, due)) for each in self._waiting), published]
        for listener in self._listeners:
            listener(published)
        return published

    def now(self) -> int:
        """What the public clock shows."""
        return self._clock()

    @staticmethod
    def moment(micros: int) -> str:
        """A moment of the public clock as text."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()

    def _look(self) -> None:
        now = self._clock()
        while self._waiting and self._waiting[0].due <= now:
            first = self._waiting.pop(0)
            if first.stream is not None:
                self._seen[first.stream] = first.slot
            self._entry = max(self._entry, first.entry)

    def upto(self, stream: str) -> int | None:
        """The last slot of a stream that is seen; None before the first."""
        with self._lock:
            self._look()
            return self._seen.get(stream)

    @property
    def entry(self) -> int:
        """The last entry of the chain that is seen."""
        with self._lock:
            self._look()
            return self._entry
