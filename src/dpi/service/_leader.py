"""Replicas that take turns: of several processes on one store one leads, and the others wait to.

On PostgreSQL the right to write is a lock of the leader's session, and every paying or publishing transaction runs in
that session. The server ends a session of which it has heard nothing for a *lease*: so a leader that is stopped, cut
off or asleep loses the lock, and another replica takes over, opens the store and goes on. Nothing that was acknowledged
is lost by it: an answer is given when the batch is durable in the database that both use.

**Guarantee.** A former leader that comes back neither pays nor publishes. *Why:* its transactions have no session any
more, and a lost connection is never opened again under the same store object. Should a session live on without its lock
(a pooler that resets sessions, somebody who released it by hand), the *term* stands in the way: who takes over raises a
number in the store, and every write compares it first, in its own serializable transaction
(`dpi.store._write_guard`). What was measured and not paid for is thrown away unseen. The witness is read and written in
one step (`dpi.store.witness`).

**How long it takes.** After `kill -9` the server sees the end of the connection at once; a leader that stands still has
to be waited for, a lease. Then the next try, a quarter of a second at most, and the opening of the accounts.

A replica answers by HTTP from the beginning: while it waits, that it does. Sees what a service sees.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from dpi.errors import StoreBusy, StoreError
from dpi.service import logs
from dpi.service._app import make_application
from dpi.service._endpoints import document
from dpi.service._problems import Problem
from dpi.service._receipts import Clock, Receipt
from dpi.service.config import Config
from dpi.service.service import Service, open_service_store
from dpi.store.opening import is_remote
from dpi.store.sql import SQLStore
from dpi.stream.input_positions import system_clock

AGAIN = 0.25  # seconds between two tries to lead
BEATS = 4  # how often in a lease a leader is heard
ANSWERING = 2.0  # seconds that requests of a lost term have to end
ALIVE = "/v1/health"  # what a replica that waits answers: it is well


class Lease(threading.Thread):
    """Says to the store, again and again, that this process is there; calls `lost` when that fails."""

    def __init__(self, store: SQLStore, seconds: float, lost: Callable[[], object]) -> None:
        super().__init__(name="dpi lease", daemon=True)
        self._store, self._pause, self._lost = store, seconds / BEATS, lost
        self._stopping = threading.Event()
        store.lead(seconds)
        self.start()

    def run(self) -> None:
        with suppress(StoreError):
            while not self._stopping.wait(self._pause):
                self._store.renew()
            return
        self._lost()

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Replica:
    """An ASGI application: the service while this process leads, and otherwise the word that it waits.

    A store in a file has one process by its own lock: a second one is refused at once, as everywhere.
    """

    def __init__(self, config: Config, *, clock: Clock = system_clock) -> None:
        self.config, self.clock = config, clock
        self.failed: Exception | None = None  # why it can never lead, such as a store that is an old copy
        self.on_failure: Callable[[], None] = lambda: None
        self._shared = is_remote(config.place)
        self._app: ASGIApp | None = None
        self._service: Service | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._store: SQLStore | None = None
        try:  # what is wrong with it is told to whoever starts the program
            self._store = open_service_store(config)
        except StoreBusy:
            if not self._shared:
                raise

    def read_again(self) -> None:
        """Read tokens again; a replica that waits reads them when it leads."""
        if self._service is not None:
            self._service.read_again()

    def limit(self, config: Config) -> None:
        """Take over other limits, also for terms to come."""
        self.config = config
        if self._service is not None:
            self._service.limit(config)

    def leave(self) -> None:
        """Begin to stop: whoever follows releases is let go."""
        if self._service is not None:
            self._service.leave()

    def arrive(self, arrived: int | None) -> Receipt | None:
        """Return the receipt of a batch whose head is read now, if this process leads."""
        return None if self._service is None else self._service.arrive(arrived)

    async def _run(self, stopping: asyncio.Event) -> None:
        waits = False
        while not stopping.is_set():
            try:
                await self._serve(stopping)
                waits = False
            except StoreError as error:  # busy, or not there at the moment
                if not waits:
                    logs.tell("waits to lead", kind=type(error).__name__)
                waits = True
                await _first_of(stopping.wait(), asyncio.sleep(AGAIN))
            except Exception as error:
                logs.failed("cannot lead", error)
                self.failed = error
                self.on_failure()
                return

    async def _serve(self, stopping: asyncio.Event) -> None:
        """Lead for one term, if it can be had."""
        store, self._store = self._store, None
        if store is None:
            store = await asyncio.to_thread(open_service_store, self.config)
        over, lease = asyncio.Event(), None
        lost = partial(asyncio.get_running_loop().call_soon_threadsafe, over.set)
        try:
            if self._shared:
                lease = await asyncio.to_thread(Lease, store, self.config.lease_seconds, lost)
            service = await asyncio.to_thread(partial(Service, self.config, store=store, clock=self.clock))
            app = make_application(service)
            async with app.life():
                service.acts.note("term begun")
                self._app, self._service = app, service
                logs.tell("leads")
                await _first_of(over.wait(), stopping.wait())
                self._app = self._service = None
                if not stopping.is_set():
                    logs.tell("leads no more")
                    service.acts.note("term lost")
                    service.leave()
                    if self._requests:  # what is still being answered
                        _, left = await asyncio.wait(self._requests, timeout=ANSWERING)
                        for task in left:
                            task.cancel()
        finally:
            if lease is not None:
                await asyncio.to_thread(lease.stop)
            store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._app is None:
            answer = Problem(503, "this replica waits to lead: ask the other one, or again.", retry=1).response()
            await (document({"status": "ok"}) if scope["path"] == ALIVE else answer)(scope, receive, send)
            return
        task = asyncio.ensure_future(self._app(scope, receive, send))
        self._requests.add(task)
        try:
            await task
        finally:
            self._requests.discard(task)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        stopping = asyncio.Event()
        running = asyncio.create_task(self._run(stopping))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stopping.set()
        await running
        if self._store is not None:
            self._store.close()
        await send({"type": "lifespan.shutdown.complete"})


async def _first_of(*waits: Coroutine[object, object, object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
