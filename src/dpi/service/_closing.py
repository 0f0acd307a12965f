"""The public clock: one thread that closes slots, and does whatever else changes streams.

Slots close by their closing time, and by the name of their stream where that is the same, over all streams of the
store; also those that the clock has passed while nobody was there. Before a slot closes, every batch of its stream that
was stamped before its closing moment is durable or refused (`dpi.service._receipts`), and what had arrived at a broker
by then is kept (`dpi.service._feeding`). What is released is seen by `dpi.service._publication`.

**No stream delays another** that pays from other accounts. A slot that cannot be closed yet, because a batch is not
kept, a broker is not read or an error stands in the way, holds others back for half of the delay after which they are
seen, and no longer: until then the order is that of the public clock, so that it tells nothing of how long a slot took.
Slots that have missed the moment at which they should have been seen come after those that have not, and streams with
such slots take turns: a long past delays nothing. Streams that pay from the *same* accounts keep their order whatever
happens, since what one slot takes another cannot (`dpi.store.ledger_session`): there the later slot waits, until the
earlier one is closed or its stream is stopped.

Streams are touched by this thread alone. Whoever wants to open or change one hands it what to do.

Sees what a stream sees.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from dpi.service import logs
from dpi.service._feeding import Feeding
from dpi.service._metrics import Metrics, span
from dpi.service._publication import Publication
from dpi.service._receipts import Clock, Receipts
from dpi.stream import Stream

Done = TypeVar("Done")
LISTENING = 1.0  # seconds after which a clock that was set is noticed at the latest
THINNING = 100  # measurements are thinned after slots whose number is a multiple of this: a public rule, and few writes
AGAIN = 0.5  # seconds after which a slot is tried again that a store refused
LOOKING = 0.02  # seconds after which a slot is looked at again that waits for a batch, for a broker or for its turn


class Closing(threading.Thread):
    """Closes the slots of some streams until it is stopped."""

    def __init__(
        self, receipts: Receipts, publication: Publication, clock: Clock, metrics: Metrics, thin: Callable[[], None]
    ) -> None:
        super().__init__(name="dpi closing", daemon=True)
        self.streams: dict[str, Stream] = {}
        self.feeding: dict[str, Feeding] = {}  # of streams that are fed by a broker
        self.failing: dict[str, str] = {}
        """Streams whose next slot cannot be closed at the moment, and why, by the kind of error alone."""
        self._receipts, self._publication, self._clock, self._metrics = receipts, publication, clock, metrics
        self._thin = thin
        self._patience = publication.delay // 2
        self._again: dict[str, float] = {}
        self._served: dict[str, int] = {}
        self._asked: deque[Callable[[], None]] = deque()
        self._wake, self._stopped = threading.Event(), False

    @property
    def all_failing(self) -> bool:
        """Whether no slot of any stream can be closed at the moment."""
        return bool(self.failing) and self.failing.keys() >= {
            name for name, stream in list(self.streams.items()) if not stream.stopped
        }

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self.is_alive():
            self.join()

    def call(self, do: Callable[[], Done]) -> Future[Done]:
        """Have something done by the thread that owns the streams."""
        future: Future[Done] = Future()

        def done() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(do())
                except BaseException as error:
                    future.set_exception(error)

        self._asked.append(done)
        self._wake.set()
        return future

    def run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            while self._asked:
                self._asked.popleft()()
            self._wake.wait(self.step())
        while self._asked:
            self._asked.popleft()()

    def step(self) -> float:
        """Close the slot whose turn it is, if there is one; return for how many seconds there is nothing to do."""
        upcoming, now = self._find_upcoming(), self._clock()
        due = [name for name, closing in upcoming.items() if closing <= now]
        for name in upcoming.keys() - set(due):
            self._mend(name)
        first: dict[str, str] = {}  # of the streams that pay from the same accounts
        for name in sorted(due, key=lambda name: (upcoming[name], name)):
            accounts = self.streams[name].accounts
            first.setdefault(f"stream {name}" if accounts is None else f"accounts {accounts}", name)
        for name in sorted(first.values(), key=lambda name: self._turn(name, upcoming[name], now)):
            if self._close(self.streams[name], upcoming[name]):
                return 0.0
            if now < upcoming[name] + self._patience:
                return LOOKING
        rest = [(closing - now) / 1e6 for closing in upcoming.values() if closing > now]
        return min([LISTENING, *rest, *([LOOKING] if due else []), *([AGAIN] if self.failing else [])])

    def _find_upcoming(self) -> dict[str, int]:
        """Return when the next slot of each stream closes, but for those that are not tried again yet."""
        upcoming, moment = {}, time.monotonic()
        for name, stream in self.streams.items():
            if not stream.stopped and self._again.get(name, moment) <= moment:
                try:
                    upcoming[name] = stream.upcoming[0]
                except BaseException as error:  # a panic of polars is no `Exception`
                    self._fail(name, error)
        return upcoming

    def _turn(self, name: str, closing: int, now: int) -> tuple[bool, int, int, str]:
        """Return what the slots that are due are ordered by: those that can still be seen in time come first."""
        missed = now >= closing + self._publication.delay
        return missed, self._served.get(name, 0) if missed else 0, closing, name

    def _close(self, stream: Stream, closing: int) -> bool:
        """Close the next slot of a stream, if it can be; what fails is noted, tried again, and never skipped."""
        feeding = self.feeding.get(stream.name)
        if not self._receipts.settled(stream.name, closing) or not (feeding is None or feeding.settled(closing)):
            return False
        began = time.perf_counter()
        try:
            with span("close a slot", stream=stream.name, slot=stream.next_slot):
                release = next(stream.close_before(stream.next_slot + 1), None)
            if release is None:  # another stream of its accounts comes first, or another process has a say in it
                return False
            entry = stream.store.head().sequence
            seen = self._publication.ready(stream.name, release.slot, entry, closing, at=self._clock())
            if release.slot % THINNING == 0:
                self._thin()
        except BaseException as error:  # the store's, a fault, or a panic of polars
            self._fail(stream.name, error)
            return False
        metrics, seconds = self._metrics, time.perf_counter() - began  # for the operator, and nobody else
        metrics.closing_seconds.labels(stream.name).observe(seconds)
        metrics.slot.labels(stream.name).set(seen.slot)
        metrics.late.labels(stream.name).inc(seen.late)
        said = round(seconds, 4)
        logs.tell("closed", stream=stream.name, slot=seen.slot, entry=entry, seconds=said, late=seen.late)
        self._served[stream.name] = entry
        self._mend(stream.name)
        return True

    def _fail(self, name: str, error: BaseException) -> None:
        if name not in self.failing:
            logs.failed("a slot cannot be closed", error, stream=name)
        self._metrics.failures.labels(type(error).__name__).inc()
        self._metrics.failing.labels(name).set(1)
        self.failing[name], self._again[name] = type(error).__name__, time.monotonic() + AGAIN

    def leave(self, name: str) -> None:
        """Wait for nothing of a stream that was stopped."""
        self.feeding.pop(name, None)
        self._mend(name)

    def _mend(self, name: str) -> None:
        if self.failing.pop(name, None) is not None:
            self._metrics.failing.labels(name).set(0)
