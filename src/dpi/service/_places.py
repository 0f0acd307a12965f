"""What a service holds for others at a time, in all and of one token: batches, followers, exports, bytes of answers.

A batch is held from its head on until it is answered; whatever is made for a reader until they have read it, or are
left after `patience`. So each of these has a limit, which is asked before it is held. What is too many is refused at
once, with an error: nobody waits for a place that another has. One token's limit is a part of the whole, so that one
who does not send, or does not read, keeps out nobody else.

**Why not by events or users.** A limit that one user's flood reaches would be what refuses another's events. Limits on
requests and their sizes are reached by producers.

Counts requests and sizes of public answers; sees no event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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


def count_followers(connections: int) -> Places:
    """Return the places of readers who follow: all connections but some for those who send, a quarter of one token.

    >>> [(places.most, places.of_one) for places in map(count_followers, (800, 5100, 4))]
    [(700, 200), (5000, 1275), (2, 1)]
    """
    return Places("connections that follow", connections - min(SENDING, connections // 2), max(1, connections // 4))
