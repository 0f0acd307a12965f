"""When a release is seen: at public moments, however long it took to make.

A slot that closes at c is seen at c + delay. Should its release be late, it waits for the next tick: c + 2·delay and
so on. Releases are seen in the order of the chain: a late one that stands before another stream's is seen with that one
at the latest, so that it delays nothing. So between two ticks nobody can tell, by asking again and again, how long a
slot took to close, which is a matter of how many events it had.

**Guarantee.** What a reader can see at a moment follows from the releases and from the ticks by which they were ready.
*Why:* every reader asks `upto`, which knows slots and dues; a due is a tick of its own slot or, if it is late, of one
that comes after it in the chain, and the first such tick by which it was ready. Where the machine is fast enough, as is
assumed, that is the slot's first tick, and the due is a function of the public clock alone.

`Publication` sees slots, moments and places in the chain; no release. `Reading` gives what is public in a store, and of
that as much as may be seen, over connections that can write nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dpi.reader import Releases
from dpi.release.quality import Quality
from dpi.service._problems import Problem
from dpi.service._receipts import Clock
from dpi.store import open_store
from dpi.store.spent import spent_in
from dpi.store.sql import SQLStore
from dpi.stream.counted import counts, name_counted

CONNECTIONS = 4


@dataclass(frozen=True)
class Published:
    stream: str | None  # None for an entry of the chain that is no release
    slot: int
    entry: int  # its place in the chain
    due: int
    late: bool = False  # whether it has missed its first tick


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
        self._listeners: list[Callable[[int], None]] = []
        self.left = False  # whether the service is being stopped, so that nobody should wait for releases

    def listen(self, listener: Callable[[int], None]) -> None:
        """Have something called, by whichever thread, with the moment at which each release is to be seen."""
        with self._lock:
            self._listeners.append(listener)
            waiting = list(self._waiting)
        for published in waiting:
            listener(published.due)

    def leave(self) -> None:
        """Let go of whoever waits for releases."""
        self.left = True
        for listener in self._listeners:
            listener(0)

    def begin(self, seen: Mapping[str, int], entry: int) -> None:
        """Take up what is seen when the program comes back: the last slot of streams, and the end of the chain."""
        with self._lock:
            self._seen, self._entry = dict(seen), entry

    def declared(self, entry: int) -> None:
        """Show an entry of the chain that is no release, with what stands before it."""
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
            listener(published.due)
        return published

    def now(self) -> int:
        return self._clock()

    def _look(self) -> None:
        now = self._clock()
        while self._waiting and self._waiting[0].due <= now:
            first = self._waiting.pop(0)
            if first.stream is not None:
                self._seen[first.stream] = first.slot
            self._entry = max(self._entry, first.entry)

    def upto(self, stream: str) -> int | None:
        """Return the last slot of a stream that is seen; None before the first."""
        with self._lock:
            self._look()
            return self._seen.get(stream)

    @property
    def entry(self) -> int:
        with self._lock:
            self._look()
            return self._entry


class Reading:
    """Gives out some read-only connections to a store, each used by one thread at a time."""

    def __init__(
        self,
        address: str,
        publication: Publication,
        keys: Mapping[str, bytes],
        quality: Mapping[str, Quality],
    ) -> None:
        self._address, self.publication, self._keys, self._quality = address, publication, keys, quality
        self._free: queue.LifoQueue[SQLStore | None] = queue.LifoQueue()
        for _ in range(CONNECTIONS):
            self._free.put(None)

    @contextmanager
    def store(self) -> Iterator[SQLStore]:
        """Lend a connection; one that fails is closed, and whoever asks next opens another."""
        store = self._free.get()
        try:
            store = open_store(self._address, read_only=True) if store is None else store
            yield store
        except OSError:
            if store is not None:
                store.close()
            store = None
            raise
        finally:
            self._free.put(store)

    @contextmanager
    def releases(self, stream: str) -> Iterator[Releases]:
        """Lend the releases of a stream that are seen by now."""
        with self.store() as store:
            if stream not in store.streams():
                raise Problem(404, "there is no such stream.")
            upto = self.publication.upto(stream)
            seen = Releases(store, stream, self._keys).under(self._quality.get(stream))
            yield seen.between(0, 0) if upto is None else seen.between(None, upto + 1)

    def spent(self) -> float:
        """Return the most that one user can have lost by all streams together, by the releases that are seen by now.

        A slot's count of users (`people`) is in its release: it is seen with it.
        """
        with self.store() as store:
            streams = store.streams()
            seen = {name: self.publication.upto(name) for name in streams}
            seen |= {name_counted(name): seen[name] for name in streams if counts(name, streams)}
            return spent_in(store, seen)

    def close(self) -> None:
        """Let go of the connections that nobody uses."""
        for _ in range(CONNECTIONS):
            store = self._free.get()
            if store is not None:
                store.close()
