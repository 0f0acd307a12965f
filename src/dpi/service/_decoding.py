"""Decoding of batches: two at a time of each stream; those that take long in processes of their own.

The thread that moves bytes notes when batches arrive (`dpi.service._receipts`), and shares the interpreter with every
other thread. A large body that is decoded here holds the interpreter for a tenth of a second at a time, so that what is
in one batch would decide when the head of another one is noted. A process shares nothing but the processor's cores, and
gives way to this one there. Arrow that is not packed needs no decoding: its columns lie in the body. What a packed body
unpacks to is not known before, so it is always decoded there.

A process that was killed breaks the pool, with all batches that are in it. Each is decoded once more, in a process of
its own: only one that ends that process too is refused, with an error. So no batch refuses another.

Sees events; keeps none.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from threading import Lock
from typing import TypeVar

from dpi.domain import Domain
from dpi.processes import start_pool
from dpi.service._batch_reader import ARROW, parts_of, read_batch
from dpi.service._problems import Problem
from dpi.sources import Events

OF_A_STREAM = 2
"""Batches of a stream that are decoded at a time: they wait for none of another stream."""
LARGE = 1 << 16
"""Bytes from which on a body is decoded by another process: with fewer, decoding takes a few milliseconds."""
PROCESSES = 2
BUSY = "a process that decodes batches was ended: come again."
Found = TypeVar("Found")


class Decoders:
    """Threads for each stream, and processes for all; none is started before it is needed."""

    def __init__(self) -> None:
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._turn = Lock()

    def open(self, stream: str) -> None:
        """Decode batches of a stream."""
        self._threads.setdefault(stream, ThreadPoolExecutor(OF_A_STREAM, "dpi decoding"))

    def submit(self, stream: str, work: Callable[[], Found]) -> Future[Found]:
        """Have a thread of a stream do something; refuses it while the service is being stopped."""
        try:
            return self._threads[stream].submit(work)
        except RuntimeError:
            raise Problem(503, "the service is being stopped.", retry=1) from None

    def read(self, body: bytes, kind: str, unit: str | None, domain: Domain, packing: str, limit: int) -> Events:
        """Return the columns of a batch, as `read_batch` does."""
        parts = parts_of(domain)
        if not packing and (len(body) < LARGE or kind == ARROW):
            return read_batch(body, kind, unit, parts, packing, limit)
        work = partial(read_batch, body, kind, unit, parts, packing, limit)
        pool = self._find_pool()
        try:
            return pool.submit(work).result()
        except BrokenProcessPool:
            self._leave(pool)
        with start_pool(1, __name__, gives_way=True) as alone:
            try:
                return alone.submit(work).result()
            except BrokenProcessPool:
                raise Problem(503, BUSY, retry=1) from None

    def _find_pool(self) -> ProcessPoolExecutor:
        with self._turn:
            if self._pool is None:
                self._pool = start_pool(PROCESSES, __name__, gives_way=True)
            return self._pool

    def _leave(self, pool: ProcessPoolExecutor) -> None:
        """Have a new pool made for the next batch."""
        with self._turn:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False)

    def stop(self) -> None:
        """Finish what was begun, and let go of threads and processes."""
        for each in self._threads.values():
            each.shutdown(wait=True)
        if self._pool is not None:
            self._pool.shutdown(wait=True)
