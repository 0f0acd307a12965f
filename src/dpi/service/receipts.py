"""Receipts: when the last byte of a batch was there, and which batches a slot still waits for.

A batch is stamped when its last byte is received, before it is decoded or waits for anything. Stamps never go back,
also where the system's clock does. A slot that closes at a moment waits until every batch with an earlier stamp is
durable or refused by itself; from then on no batch is stamped before that moment.

**Guarantee.** Whether an event counts follows from its own time and from the stamp of its batch. *Why:* a slot is
closed after `settle_before` of its closing moment, so that each batch stamped before it was kept whole, however long
that took; and a batch stamped later counts for later slots alone (`dpi.events.clock.Window`). How much others have sent
decides how long a slot waits, and nothing else. What is assumed: when the last byte of a batch arrives does not follow
from what is in it, and no flood exceeds the machine.

Sees moments; no event.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]
"""Microseconds since 1970."""


@dataclass(frozen=True, eq=False)
class Receipt:
    """A batch whose last byte is there."""

    moment: int


class Receipts:
    """The batches that were received and are not yet durable or refused.

    >>> moments = iter([10, 5, 7])
    >>> receipts = Receipts(lambda: next(moments))
    >>> first, second = receipts.stamp(), receipts.stamp()
    >>> first.moment, second.moment, receipts.settle_before(10, timeout=0), receipts.settle_before(11, timeout=0)
    (10, 10, True, False)
    >>> receipts.done(first); receipts.done(second)
    >>> receipts.settle_before(11, timeout=0), receipts.stamp().moment
    (True, 11)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._last = 0
        self._open: dict[Receipt, None] = {}  # in the order of their moments

    def stamp(self) -> Receipt:
        """The receipt of a batch whose last byte is there now."""
        with self._changed:
            self._last = max(self._last, self._clock())
            receipt = Receipt(self._last)
            self._open[receipt] = None
            return receipt

    def done(self, receipt: Receipt) -> None:
        """The batch is durable, or was refused by itself."""
        with self._changed:
            self._open.pop(receipt, None)
            self._changed.notify_all()

    def settle_before(self, moment: int, timeout: float | None = None) -> bool:
        """Wait for every batch with an earlier stamp; no later one gets an earlier stamp. False if it took too long."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._last = max(self._last, moment)
            while self._open and next(iter(self._open)).moment < moment:
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    return False
                self._changed.wait(rest)
            return True
