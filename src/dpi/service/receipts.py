"""Receipts: when the last byte of a batch was there, and which batches a slot still waits for.

A batch is stamped when its last byte is received, before it is decoded or waits for anything. Stamps never go back,
also where the system's clock does. A slot that closes at a moment waits until every batch of its stream with an earlier
stamp is durable or refused by itself; from then on no batch is stamped before that moment.

**Guarantee.** Whether an event counts follows from its own time and from the stamp of its batch. *Why:* a slot is
closed when batches are `settled` before its closing moment, so that each batch stamped before it was kept whole,
however long that took; and a batch stamped later counts for later slots alone (`dpi.events.clock.Window`). How much
others have sent to the stream decides how long a slot waits, and nothing else. What is assumed: when the last byte of a
batch arrives does not follow from what is in it, and no flood exceeds the machine.

Sees moments and names of streams; no event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]
"""Microseconds since 1970."""


@dataclass(frozen=True, eq=False)
class Receipt:
    """A batch of a stream whose last byte is there."""

    stream: str
    moment: int


class Receipts:
    """The batches that were received and are not yet durable or refused.

    >>> moments = iter([10, 5, 7])
    >>> receipts = Receipts(lambda: next(moments))
    >>> first, second = receipts.stamp("visits"), receipts.stamp("visits")
    >>> first.moment, second.moment, receipts.settled("visits", 10), receipts.settled("visits", 11)
    (10, 10, True, False)
    >>> receipts.settled("clicks", 11)
    True
    >>> receipts.done(first); receipts.done(second)
    >>> receipts.settled("visits", 11), receipts.stamp("visits").moment
    (True, 11)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._last = 0
        self._open: dict[str, dict[Receipt, None]] = {}  # by stream, in the order of their moments

    def stamp(self, stream: str) -> Receipt:
        """The receipt of a batch whose last byte is there now."""
        with self._turn:
            self._last = max(self._last, self._clock())
            receipt = Receipt(stream, self._last)
            self._open.setdefault(stream, {})[receipt] = None
            return receipt

    def done(self, receipt: Receipt) -> None:
        """The batch is durable, or was refused by itself."""
        with self._turn:
            self._open[receipt.stream].pop(receipt, None)

    def settled(self, stream: str, moment: int) -> bool:
        """Whether every batch of a stream with an earlier stamp is done; no later one gets an earlier stamp."""
        with self._turn:
            self._last = max(self._last, moment)
            first = next(iter(self._open.get(stream, ())), None)
            return first is None or first.moment >= moment
