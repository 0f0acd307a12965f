"""The admission of each stream, and who uses it: none is replaced while events that were read by it are not yet stored.

Options of a stream change between two slots. Bins that were encoded by the options before must be in the store when it
recodes its rows, or else they would lie there as other values. So a change waits for batches that are being read, and
batches that come meanwhile wait for the change: as long as an admission is used, nothing takes its place.

Sees no event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from dpi.sources import Admission


class Admissions:
    """Admissions by stream.

    >>> admissions = Admissions()
    >>> with admissions.replace("visits"):
    ...     admissions.put("visits", "an admission")
    >>> with admissions.use("visits") as admission:
    ...     admission
    'an admission'
    """

    def __init__(self) -> None:
        self._now: dict[str, Admission] = {}
        self._used, self._changing, self._turn = Counter[str](), set[str](), Condition()

    def put(self, stream: str, admission: Admission) -> None:
        """Have a stream's events read by an admission from now on."""
        self._now[stream] = admission

    def find(self, stream: str) -> Admission:
        """Return the one of a stream, for what is public of it."""
        return self._now[stream]

    def items(self) -> list[tuple[str, Admission]]:
        """Return all streams with their admissions."""
        return list(self._now.items())

    @contextmanager
    def use(self, stream: str) -> Iterator[Admission]:
        """Give a stream's admission, which stays until what was read by it is stored."""
        with self._turn:
            self._turn.wait_for(lambda: stream not in self._changing)
            self._used[stream] += 1
        try:
            yield self._now[stream]
        finally:
            with self._turn:
                self._used[stream] -= 1
                self._turn.notify_all()

    @contextmanager
    def replace(self, stream: str) -> Iterator[None]:
        """Wait until a stream's admission is not used, and let nobody use it meanwhile."""
        with self._turn:
            self._changing.add(stream)
            self._turn.wait_for(lambda: not self._used[stream])
        try:
            yield
        finally:
            with self._turn:
                self._changing.discard(stream)
                self._turn.notify_all()
