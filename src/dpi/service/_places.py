"""What a service holds for others at a time, in all and of one token: batches, followers, exports, bytes of answers.

A batch is held from its last byte on until it is answered; what is made for a reader until they have read it, or are
left after `patience`. So each of these has a limit. What is too many is refused at once, with an error: nobody waits
for a place that another has. One token's limit is a part of the whole, so that one who does not send, or does not read,
keeps out nobody else.

Bodies that are still coming have places of their own (`Arriving`), of which one that comes never finds none: the body
of which nothing has come for longest leaves instead. So bodies that stand still keep out nothing. A sender that begins
more bodies than there are places, faster than others' bodies come on, refuses these: senders who must not be able to
do that have tokens of their own.

**Why not by events or users.** A limit that one user's flood reaches would be what refuses another's events. Limits on
requests and their sizes are reached by producers.

Counts requests and sizes of public answers; sees no event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from threading import Lock

from dpi.service._problems import Problem

SENDING = 100  # connections that no follower takes, or half of them if these are fewer


class Places:
    """So many of something at a time, and of one token at most so many; refuses what is too many.

    >>> places = Places("exports", most=2, of_one=1)
    >>> with places.take("ada"), places.take("bob"):
    ...     with places.take("ada"):
    ...         pass
    Traceback (most recent call last):
    dpi.service._problems.Problem: (429, 'this token has too many exports at a time: come again when some are done.')
    """

    def __init__(self, what: str, most: int, of_one: int) -> None:
        self.most, self.of_one = most, of_one
        self._what, self._held, self._turn = what, Counter[str](), Lock()

    @contextmanager
    def take(self, token: str, amount: int = 1) -> Iterator[None]:
        """Hold a place, or several; more than one token may have count as all of its own."""
        amount = min(amount, self.of_one)
        with self._turn:
            if self._held[token] + amount > self.of_one:
                told = f"this token has too many {self._what} at a time: come again when some are done."
                raise Problem(429, told, retry=1)
            if self._held.total() + amount > self.most:
                raise Problem(503, f"there are too many {self._what} at a time: come again.", retry=1)
            self._held[token] += amount
        try:
            yield
        finally:
            with self._turn:
                self._held[token] -= amount
                if not self._held[token]:
                    del self._held[token]


class Arriving:
    """Bodies that are coming, so many at a time and so many of one token. Lives in one event loop."""

    def __init__(self, most: int, of_one: int) -> None:
        self.most, self.of_one = most, of_one
        self._held: dict[str, dict[asyncio.Timeout, None]] = {}  # of each token, the longest first

    @property
    def number(self) -> int:
        """How many there are."""
        return sum(map(len, self._held.values()))

    @asynccontextmanager
    async def take(self, token: str) -> AsyncIterator[Callable[[], None]]:
        """Hold a place; raise when another body needs it. Gives what is called when some of the body has come."""
        mine = self._held.setdefault(token, {})
        if len(mine) >= self.of_one:
            self._leave(mine)
        elif self.number >= self.most:
            self._leave(max(self._held.values(), key=len))
        try:
            async with asyncio.timeout(None) as leave:
                mine[leave] = None
                yield partial(self._note, mine, leave)
        except TimeoutError:
            raise Problem(429, "others came while this body did not: send it again, faster.", retry=1) from None
        finally:
            mine.pop(leave, None)
            if not mine and self._held.get(token) is mine:
                del self._held[token]

    def _note(self, held: dict[asyncio.Timeout, None], place: asyncio.Timeout) -> None:
        if place in held:
            del held[place]
            held[place] = None

    def _leave(self, held: dict[asyncio.Timeout, None]) -> None:
        leave = next(iter(held))
        del held[leave]
        leave.reschedule(asyncio.get_running_loop().time())


def count_followers(connections: int) -> Places:
    """Return the places of readers who follow: all connections but some for those who send, a quarter of one token.

    >>> [(places.most, places.of_one) for places in map(count_followers, (800, 5100, 4))]
    [(700, 200), (5000, 1275), (2, 1)]
    """
    return Places("connections that follow", connections - min(SENDING, connections // 2), max(1, connections // 4))
