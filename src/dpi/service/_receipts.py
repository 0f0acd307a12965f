"""Receipts of batches: when the head and the last byte of one arrived, and which ones a slot still waits for.

A batch has two moments. Its **head** decides which slots are open for it: those that had not closed when the head of
its request arrived. Its **last byte** decides what is from the future: a time after the first closing time that follows
the last byte. Both are the kernel's where it tells them (`dpi.service._arrivals`), else those of the read: before it is
known who sends, and before anything is decoded, queued or stored.

A slot that closes at a moment waits until all bytes that came before it are read: until the thread that moves bytes has
gone round `ROUNDS` times. Then it waits until every batch of its stream whose head arrived before that moment is
durable, or was refused with an error; from then on no head gets an earlier moment. While a request is not yet
understood, all streams wait for it: as long as it takes to check a token.

**Guarantee.** Whether an event counts follows from its own time and from the two moments of its batch. *Why:* a slot is
closed when batches are `settled` before its closing moment, so that each batch whose head came before it was kept
whole, or its sender was told otherwise, however long that took; and a batch whose head came later counts for later
slots alone (`dpi.events.slots.Window`). How much others have sent decides how long a slot waits, and nothing else. How
long a body may take is bounded by its own bytes alone (`dpi.service._body`). In Coq, of a model of all this:
`batch_alone`, `proofs/Admission.v`; `a_head_counts_by_its_arrival`, `proofs/Admission.v`.

What is assumed: when a head and a last byte arrive does not follow from what is in the batch; and who sends does not
wait with one batch for the answer to another. Without the kernel's moments, and for a head whose body is sent apart
from it, also that the thread that moves bytes is not kept from it. A machine that is too small for a flood closes slots
late, which is seen, or refuses requests, which are told so.

**Silence is private**, the curator's and the administrator's alone, as the metrics are. *Why:* whether a batch arrives
can depend on one user: a producer may send events as they come, and one user's may be the only ones of an hour. So
neither releases, nor what analysts or auditors are told, nor `/v1/health` and `/v1/ready`, which need no token, depend
on it. Analysts see how old a measurement is (`Release.measured_ago`), which follows from releases.

Sees moments and names of streams; no event.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dpi.events.slots import Slots
from dpi.stream.input_positions import system_clock

ROUNDS = 8
"""How often the thread that moves bytes looks for some before all that had come are read: a connection is accepted in
one round, made in the next two and read in the fourth; more are to be safe."""
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


@dataclass(eq=False)
class Receipt:
    """A batch that is on its way."""

    owner: Receipts
    moment: int
    """When the head of its request arrived."""
    stream: str | None = None
    """None until the request is understood: all streams wait for it."""

    def settle(self) -> None:
        """Note that the batch is durable or refused, or that there is none."""
        self.owner.settle(self)


class Receipts:
    """The batches whose heads have arrived, and that are not yet durable or refused.

    >>> moments = iter([10, 9, 7, 8])
    >>> receipts = Receipts(lambda: next(moments))
    >>> first, second = receipts.arrive(), receipts.arrive()
    >>> first.moment, second.moment, receipts.settled("visits", 9), receipts.settled("visits", 10)
    (10, 9, True, False)
    >>> receipts.assign(first, "clicks"); receipts.assign(second, "visits")
    >>> receipts.settled("visits", 11), receipts.settled("games", 11)
    (False, True)
    >>> second.settle()
    >>> receipts.settled("visits", 11), receipts.read_clock(), receipts.arrive().moment
    (True, 7, 11)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._closed = 0
        """No head gets an earlier moment."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looked, self._looking = 0, False
        """What had come by then is read."""
        self._open: dict[Receipt, None] = {}

    def read_clock(self, arrived: int | None = None) -> int:
        """Return the moment of bytes that are read now: the kernel's, if it says when they arrived.

        The kernel's moments are those of the system's clock, and of use by that alone.
        """
        return self._clock() if arrived is None or self._clock is not system_clock else arrived

    def arrive(self, arrived: int | None = None) -> Receipt:
        """Return the receipt of a request whose head is read now."""
        with self._turn:
            receipt = Receipt(self, max(self._closed, self.read_clock(arrived)))
            self._open[receipt] = None
            return receipt

    def look_by(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Have slots wait until a thread that moves bytes, from now on this one, has read what had come."""
        with self._turn:
            self._loop, self._looking = loop, False

    def assign(self, receipt: Receipt, stream: str) -> None:
        """Note which stream a batch is for: others wait for it no longer."""
        with self._turn:
            receipt.stream = stream

    def settle(self, receipt: Receipt) -> None:
        with self._turn:
            self._open.pop(receipt, None)

    def settled(self, stream: str, moment: int) -> bool:
        """Whether a stream waits for no batch whose head came before a moment; none that comes gets an earlier one."""
        with self._turn:
            if self._loop is not None and self._looked < moment:
                if not self._looking:
                    with suppress(RuntimeError):  # a loop that has ended reads nothing more
                        self._loop.call_soon_threadsafe(self._look, self._loop, None, ROUNDS)
                        self._looking = True
                return False
            self._closed = max(self._closed, moment)
            earlier = (receipt for receipt in self._open if receipt.moment < moment)
            return all(receipt.stream not in (None, stream) for receipt in earlier)

    def _look(self, loop: asyncio.AbstractEventLoop, began: int | None, rounds: int) -> None:
        """Note that what had come by now is read, some rounds later."""
        began = self._clock() if began is None else began
        if rounds:
            loop.call_soon(self._look, loop, began, rounds - 1)
            return
        with self._turn:
            if loop is self._loop:
                self._looked, self._looking = began, False


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
        known = self._streams.get(stream)
        if known is not None:
            slots, first = known
            self._streams[stream] = slots, max(slots.first_open(self._clock()) + 1, first)

    def quiet(self, stream: str) -> int:
        """Return how many whole slots have passed without a batch; none of a stream that was stopped."""
        known = self._streams.get(stream)
        return 0 if known is None else max(0, known[0].first_open(self._clock()) - known[1])

    def silent(self, stream: str) -> bool:
        """Whether these are as many as make an alert."""
        return self.quiet(stream) >= self.limit
