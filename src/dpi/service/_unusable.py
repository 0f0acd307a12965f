"""Who sends rows that are mostly unusable: wrong columns, units or clocks, which no release would show.

A row is usable if it is understood and in time (`dpi.sources.Understood`).

**Private**, the curator's and the administrator's alone, as the metrics are. *Why:* how many rows a sender has, and
whether they are usable, follows from events. A sender is told by its token's id, which an administrator finds in the
list of tokens. Producers' names are not told: another curator who knows one could use up its numbers.

Sees numbers of rows, names of streams and producers, ids of tokens; no event.
"""

from __future__ import annotations

import threading
from collections import Counter

from dpi.service._receipts import Clock
from dpi.sources import Understood

SPAN = 600 * 1_000_000
"""Microseconds after which rows are left out: those of the last span and of the one before are looked at."""
LEAST = 10
"""Rows from which on somebody is judged: a broken row by itself is no alarm."""
MOST = 1_000
"""Producers of a stream in a span; of further ones rows count for the sender alone."""
BROKER = "the broker"
"""Sends what is read from one."""
_Key = tuple[str, str | None]


class Unusable:
    """Rows by stream, sender and producer, of the last ten to twenty minutes by the service's clock.

    >>> unusable = Unusable(lambda: 0)
    >>> good, bad = Understood(10, 10, (), 10, 10), Understood(10, 1, ("user",), 10, 1)
    >>> unusable.note("visits", "token 7f3a", "gate", good); unusable.note("visits", "token 90c1", "door", bad)
    >>> unusable.senders("visits")
    ('token 90c1',)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._turn = clock, threading.Lock()
        self._spans: dict[str, tuple[int, _Rows, _Rows]] = {}

    def note(self, stream: str, sender: str, producer: str, understood: Understood) -> None:
        """Count the rows of a batch that was kept."""
        with self._turn:
            _, newer, _ = self._find(stream)
            keys: list[_Key] = [(sender, None)]
            if (sender, producer) in newer.all or len(newer.all) < MOST:
                keys.append((sender, producer))
            for key in keys:
                newer.all[key] += understood.rows
                newer.unusable[key] += understood.rows - understood.usable

    def senders(self, stream: str) -> tuple[str, ...]:
        """Return those of whom all rows together, or those of one producer, were mostly unusable."""
        with self._turn:
            _, newer, older = self._find(stream)
            rows, unusable = newer.all + older.all, newer.unusable + older.unusable
        return tuple(sorted({key[0] for key, number in rows.items() if LEAST <= number < 2 * unusable[key]}))

    def _find(self, stream: str) -> tuple[int, _Rows, _Rows]:
        """Return the number of the span that it is now, its rows, and those of the span before."""
        now = self._clock() // SPAN
        span, newer, older = self._spans.get(stream, (now, _Rows(), _Rows()))
        if span != now:
            span, newer, older = now, _Rows(), newer if span == now - 1 else _Rows()
        self._spans[stream] = span, newer, older
        return span, newer, older


class _Rows:
    """Numbers of rows in a span; of a sender all, and by producer."""

    def __init__(self) -> None:
        self.all, self.unusable = Counter[_Key](), Counter[_Key]()
