"""The public clock: one thread that closes slots in order, and does whatever else changes streams.

Slots close by their closing time, and by the name of their stream where that is the same, over all streams of the
store; also those that the clock has passed while nobody was there. Before a slot closes, every batch that was stamped
before its closing moment is durable or refused (`dpi.service.receipts`), and what had arrived at a broker by then is
kept (`dpi.service.feeding`). What is released is seen by
`dpi.service.publication`.

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
from dpi.service.feeding import Feeding
from dpi.service.metrics import Metrics, span
from dpi.service.publication import Publication, Published
from dpi.service.receipts import Clock, Receipts
from dpi.stream import Stream

Done = TypeVar("Done")
LISTENING = 1.0
"""Seconds after which a clock that was set is noticed at the latest."""
THINNING = 100
"""Measurements are thinned after slots whose number is a multiple of this: a public rule, and few writes."""
AGAIN = 0.5
"""Seconds after which a slot is tried again that a store refused."""


class Closing:
    """Closes the slots of some streams until it is stopped."""

    def __init__(
        self,
        receipts: Receipts,
        publication: Publication,
        clock: Clock,
        metrics: Metrics,
        thin: Callable[[], object] = lambda: None,
    ) -> None:
        self.streams: dict[str, Stream] = {}
        self.feeding: dict[str, Feeding] = {}
        """Of streams that are fed by a broker."""
        self.failing: str | None = None
        """Why no slot can be closed at the moment, by the kind of error alone."""
        self._receipts, self._publication, self._clock, self._metrics = receipts, publication, clock, metrics
        self._thin = thin
        self._asked: deque[Callable[[], None]] = deque()
        self._wake, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="dpi closing", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is being done, and wait for it."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

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

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            while self._asked:
                self._asked.popleft()()
            try:
                pause = self.step()
                self.failing = None
            except Exception as error:  # the store's, or a fault: slots are tried again, and nothing is skipped
                if self.failing is None:
                    logs.failed("no slot can be closed", error)
                self._metrics.failures.labels(type(error).__name__).inc()
                self.failing, pause = type(error).__name__, AGAIN
            self._wake.wait(pause)
        while self._asked:
            self._asked.popleft()()

    def step(self) -> float:
        """Close the slot that is due, if there is one; for how many seconds there is nothing to do."""
        if not self.streams:
            return LISTENING
        stream = min(self.streams.values(), key=lambda each: each.upcoming)
        closing, _ = stream.upcoming
        now = self._clock()
        if now < closing:
            return min((closing - now) / 1e6, LISTENING)
        if not self._receipts.settle_before(closing, timeout=LISTENING):
            return 0.0  # others may have asked for something meanwhile
        feeding = self.feeding.get(stream.name)
        if feeding is not None and not feeding.settle_before(closing, LISTENING):
            return 0.0
        began = time.perf_counter()
        with span("close a slot", stream=stream.name, slot=stream.next_slot):
            release = next(stream.close_before(stream.next_slot + 1), None)
        if release is None:  # another process has a say in it
            return AGAIN
        entry = stream.store.head().sequence
        seen = self._publication.ready(stream.name, release.slot, entry, closing, at=self._clock())
        self._note(seen, closing, time.perf_counter() - began)
        if release.slot % THINNING == 0:
            self._thin()
        return 0.0

    def _note(self, seen: Published, closing: int, seconds: float) -> None:
        """Tell the operator, and nobody else."""
        metrics, late = self._metrics, seen.due > closing + self._publication.delay
        metrics.closing_seconds.labels(seen.stream).observe(seconds)
        metrics.slot.labels(seen.stream).set(seen.slot)
        metrics.late.labels(seen.stream).inc(late)
        logs.tell("closed", stream=seen.stream, slot=seen.slot, entry=seen.entry, seconds=round(seconds, 4), late=late)
