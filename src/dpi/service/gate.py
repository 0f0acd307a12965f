"""How many requests are taken at a time, in all and of one token: counted by requests, never by what is in them.

Bodies are read only behind the gate, so that memory is bounded by the number of requests times the size of one. Whoever
finds it full waits a little before a body is read; with too many waiting, one is told to come again.

**Why not by events or users.** A limit that one user's flood reaches would be what refuses another's events. Limits on
requests and their sizes are reached by producers; that no flood exceeds the machine is assumed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dpi.service.problems import Problem

WAITING = 8
"""So many times as many requests may wait as are taken."""


class Gate:
    """Takes some requests at a time, and of one token at most so many, waiting ones included."""

    def __init__(self, most: int, of_one: int) -> None:
        self._places = asyncio.Semaphore(most)
        self._most, self._of_one = most * (1 + WAITING), of_one
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def enter(self, token: str) -> AsyncIterator[None]:
        """A place for a request of a token; refuses one that is too many."""
        if self._here[token] >= self._of_one:
            raise Problem(429, "this token has too many requests at a time.", retry=1)
        if self._here.total() >= self._most:
            raise Problem(503, "too many requests wait: come again.", retry=1)
        self._here[token] += 1
        try:
            async with self._places:
                yield
        finally:
            self._here[token] -= 1
            if not self._here[token]:
                del self._here[token]
