"""What may be read: releases that are seen by now, over connections that can write nothing.

Sees what is public in a store, and of that as much as `dpi.service.publication` lets be seen.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dpi.reader import Releases
from dpi.service.problems import Problem
from dpi.service.publication import Publication
from dpi.store import Store, open_store
from dpi.store.spent import spent_in

CONNECTIONS = 4


class Reading:
    """Some read-only connections to a store, each used by one thread at a time."""

    def __init__(self, address: str, publication: Publication, keys: Mapping[str, bytes]) -> None:
        self._address, self.publication, self._keys = address, publication, keys
        self._free: queue.LifoQueue[Store | None] = queue.LifoQueue()
        for _ in range(CONNECTIONS):
            self._free.put(None)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """A connection; one that fails is closed, and another is opened by whoever asks next."""
        found = self._free.get()
        try:
            found = open_store(self._address, read_only=True) if found is None else found
            yield found
        except OSError:
            if found is not None:
                found.close()
            found = None
            raise
        finally:
            self._free.put(found)

    @contextmanager
    def releases(self, stream: str) -> Iterator[Releases]:
        """The releases of a stream that are seen by now."""
        with self.store() as store:
            if stream not in store.streams():
                raise Problem(404, "there is no such stream.")
            upto = self.publication.upto(stream)
            seen = Releases(store, stream, self._keys)
            yield seen.between(0, 0) if upto is None else seen.between(None, upto + 1)

    def spent(self) -> float:
        """The most that one user can have lost by all streams together, by the releases that are seen by now."""
        with self.store() as store:
            return spent_in(store, {name: self.publication.upto(name) for name in store.streams()})

    def close(self) -> None:
        """Let go of the connections that nobody uses."""
        for _ in range(CONNECTIONS):
            store = self._free.get()
            if store is not None:
                store.close()
