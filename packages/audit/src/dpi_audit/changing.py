"""A stream under audit that is fed as events arrive, and whose domain changes while a slot is open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dpi
from dpi.release import Release
from dpi.testing.laws import Law
from dpi_audit.neighbours import Rows
from dpi_audit.session import StreamSession, Wrap
from dpi_audit.small import VALUES, stream

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WIDTH = timedelta(hours=1)
LISTS = ((VALUES, None), (VALUES[1:], "rest"), ((*VALUES, "new"), "rest"))
"""In turns: values leave the list and come back to it, with a bin for all others and without."""


class ChangedSession(StreamSession):
    """Events are kept in the middle of their slot; in every second one another domain is declared for the next slot."""

    def __init__(self, **options: object) -> None:
        self._options = {"store": dpi.MemoryStore(), "slot": "1h", "start": BEGIN, **options}
        self._turn = 0
        super().__init__(self._made)

    def _made(self, wrap: Wrap) -> dpi.Stream:
        change = BEGIN + self._slots * WIDTH + WIDTH if self._turn else False
        domain = dpi.Categories(*LISTS[self._turn % len(LISTS)])
        return stream(domain=domain, change=change, **self._options)(wrap)

    def look(self, rows: Rows) -> Law:
        """The law of the slot that is open, whatever was declared for the one after it."""
        now = BEGIN + self._slots * WIDTH + WIDTH / 2
        users, values = ([row[part] for row in rows] for part in (0, 1))
        self.stream.append(users, [now] * len(rows), values, now=now)
        if self._slots % 2:
            self._turn += 1
            self.stream = self._open()
        return super().look(rows)

    def _release(self) -> Release:
        (release,) = self.stream.close_before(self.stream.next_slot + 1)
        return release
