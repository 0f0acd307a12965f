"""Writing batches: many small ones in one transaction, each answered when it is durable.

One thread takes whatever has been decoded, writes it in one transaction and answers all of it: one wait for the disk
serves as many batches as came meanwhile. A batch that follows one which was not kept is refused, so that nothing is
left out without a word where a producer sends several at a time.

Sees names of accounts, bins and numbers; no id and no value.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from dpi.service._metrics import Metrics
from dpi.service._problems import Problem
from dpi.store.base import Arrival, Store
from dpi.stream import Stream

MOST = 256  # batches in one transaction
OUT_OF_ORDER = "a batch before this one was not kept: send the batches of a producer one after the other, from 0 on."
STOPPED = "the stream was stopped: it takes no more events."
Waiting = tuple[Arrival, Future[bool]]  # a batch that is decoded, and whoever waits for it to be durable


class BatchWriter(threading.Thread):
    def __init__(self, store: Store, streams: Mapping[str, Stream], metrics: Metrics) -> None:
        super().__init__(name="dpi batch writer", daemon=True)
        self._store, self._streams, self._metrics = store, streams, metrics
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.turn = threading.Lock()  # held while batches are written, and while a stream is stopped

    def stop(self) -> None:
        self._queue.put(None)
        if self.is_alive():
            self.join()

    def keep(self, arrival: Arrival) -> Future[bool]:
        """Have a batch written; done when it is durable, with whether it was not before."""
        kept: Future[bool] = Future()
        self._queue.put((arrival, kept))
        return kept

    def run(self) -> None:
        ended = False
        while not ended:
            group = [self._queue.get()]
            while len(group) < MOST:
                try:
                    group.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            ended = None in group
            with self.turn:
                self._write([each for each in group if each is not None])

    def _write(self, group: list[Waiting]) -> None:
        last: dict[tuple[str, str], int] = {}
        fitting: list[tuple[*Waiting, bool]] = []
        try:
            for arrival, kept in sorted(group, key=lambda each: each[0].sequence):
                stream, _, producer, sequence = arrival
                if self._streams[stream].stopped:
                    kept.set_exception(Problem(410, STOPPED))
                    continue
                place = (stream, producer)
                if place not in last:
                    last[place] = self._store.sequence(stream, producer)
                if sequence > last[place] + 1:
                    kept.set_exception(Problem(409, OUT_OF_ORDER))
                    continue
                fitting.append((arrival, kept, sequence > last[place]))
                last[place] = max(last[place], sequence)
            if fitting:
                with self._metrics.stage("keeping"):
                    self._store.append_all([arrival for arrival, *_ in fitting])
        except BaseException as error:
            for _, kept in group:
                if not kept.done():
                    kept.set_exception(error)
        else:
            for _, kept, new in fitting:
                kept.set_result(new)
