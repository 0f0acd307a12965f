"""Receipts of batches: when the last byte of one was there, which ones a slot still waits for, how long none has come.

A batch is stamped when its last byte is received, before it is decoded or waits for anything. Stamps never go back,
also where the system's clock does. A slot that closes at a moment waits until every batch of its stream with an earlier
stamp is durable or refused by itself; from then on no batch is stamped before that moment.

**Guarantee.** Whether an event counts follows from its own time and from the stamp of its batch. *Why:* a slot is
closed when batches are `settled` before its closing moment, so that each batch stamped before it was kept whole,
however long that took; and a batch stamped later counts for later slots alone (`dpi.events.slots.Window`). How much
others have sent to the stream decides how long a slot waits, and nothing else. What is assumed: when the last byte of a
batch arrives does not follow from what is in it, and no flood exceeds the machine.

**Silence is private**, the curator's and the administrator's alone, as the metrics are. *Why:* whether a batch arrives
can depend on one user: a producer may send events as they come, and one user's may be the only ones of an hour. So
neither releases, nor what analysts or auditors are told, nor `/v1/health` and `/v1/ready`, which need no token, depend
on it. Analysts see how old a measurement is (`Release.measured_ago`), which follows from releases.

Sees moments and names of streams; no event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dpi.events.slots import Slots

Clock = Callable[[], int]  # microseconds since 1970
SILENT = 3
"""Whole slots without a batch from which on a stream is silent, unless `[alerts] silence` says otherwise.

A stream in which a slot has no batch with probability q has so many in a row with q³ in any slot: with q = 1 %, once in
a million slots. A stream that rests at night or at weekends needs more.
"""


def write_moment(micros: int, timespec: str = "auto") -> str:
    """Return a moment of the public clock as text.

    >>> write_moment(1_767_225_600_000_001)
    '2026-01-01T00:00:00.000001+00:00'
    """
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat(timespec=timespec)


@dataclass(frozen=True, eq=False)
class Receipt:
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
    >>> receipts.settle(first); receipts.settle(second)
    >>> receipts.settled("visits", 11), receipts.stamp("visits").moment
    (True, 11)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._last = 0
        self._open: dict[str, dict[Receipt, None]] = {}  # by stream, in the order of their moments

    def stamp(self, stream: str) -> Receipt:
        """Return the receipt of a batch whose last byte is there now."""
        with self._turn:
            self._last = max(self._last, self._clock())
            receipt = Receipt(stream, self._last)
            self._open.setdefault(stream, {})[receipt] = None
            return receipt

    def settle(self, receipt: Receipt) -> None:
        """Note that the batch is durable, or was refused by itself."""
        with self._turn:
            self._open[receipt.stream].pop(receipt, None)

    def settled(self, stream: str, moment: int) -> bool:
        """Whether every batch of a stream with an earlier stamp is settled; no later one gets an earlier stamp."""
        with self._turn:
            self._last = max(self._last, moment)
            first = next(iter(self._open.get(stream, ())), None)
            return first is None or first.moment >= moment


class Silence:
    """How many slots have passed since each stream's last batch, by the service's clock.

    A batch counts when it is kept, also if it holds no event that counts, or none at all: a producer can say that it is
    there while users are not. What a process has not seen it does not know: silence is counted anew from its start.
    """

    def __init__(self, clock: Clock, limit: int = SILENT) -> None:
        self._clock, self.limit = clock, limit
        self._streams: dict[str, tuple[Slots, int]] = {}  # with the first slot of which a batch can be missed

    def begin(self, stream: str, slots: Slots, first: int) -> None:
        """Count for a stream whose first slot this is; one that was changed goes on."""
        before = self._streams.get(stream)
        since = slots.first_open(self._clock()) + 1 if before is None else before[1]
        self._streams[stream] = slots, max(since, first)

    def end(self, stream: str) -> None:
        self._streams.pop(stream, None)

    def note(self, stream: str) -> None:
        found = self._streams.get(stream)
        if found is not None:
            slots, first = found
            self._streams[stream] = slots, max(slots.first_open(self._clock()) + 1, first)

    def quiet(self, stream: str) -> int:
        """Return how many whole slots have passed without a batch; none of a stream that was stopped."""
        found = self._streams.get(stream)
        return 0 if found is None else max(0, found[0].first_open(self._clock()) - found[1])

    def silent(self, stream: str) -> bool:
        """Whether these are as many as make an alert."""
        return self.quiet(stream) >= self.limit
