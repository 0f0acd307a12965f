"""Replicas that take turns: of several processes on one store one leads, and the others wait to.

On PostgreSQL the right to write is a lock of the leader's session, and every paying or publishing transaction runs in
that session. The server ends a session of which it has heard nothing for a *lease*: so a leader that is stopped, cut
off or asleep loses the lock, and another replica takes over, opens the store and goes on. Nothing that was acknowledged
is lost by it: an answer is given when the batch is durable in the database that both use.

**Guarantee.** A former leader that comes back neither pays nor publishes. *Why:* its transactions have no session any
more, and a lost connection is never opened again under the same store object. Should a session live on without its lock
(a pooler that resets sessions, somebody who released it by hand), the *term* stands in the way: who takes over raises a
number in the store, and every write compares it first, in its own serializable transaction (`dpi.store.known`). What
was measured and not paid for is thrown away unseen. The witness is read and written in one step (`dpi.store.witness`).

**How long it takes.** After `kill -9` the server sees the end of the connection at once; a leader that stands still has
to be waited for, a lease. Then the next try, a quarter of a second at most, and the opening of the accounts.

A replica answers by HTTP from the beginning: while it waits, that it does. Sees what a service sees.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from dpi.certificates.signature import Signer
from dpi.errors import StoreBusy, StoreError
from dpi.service.app import application, json_response
from dpi.service.config import Config
from dpi.service.problems import Problem
from dpi.service.receipts import Clock
from dpi.service.service import Service, opened
from dpi.store.opening import is_remote
from dpi.store.sql import SQLStore
from dpi.stream.admission.timer import system_clock

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

AGAIN = 0.25
"""Seconds between two tries to lead."""
BEATS = 4
"""How often in a lease a leader is heard."""
ANSWERING = 2.0
"""Seconds that requests of a lost term have to end."""
ALIVE = "/v1/health"
"""What a replica that waits answers: it is well."""


class Lease:
    """Says to the store, again and again, that this process is there; sets `over` when that fails."""

    def __init__(self, store: SQLStore, seconds: float, over: threading.Event) -> None:
        self._store, self._pause, self._over = store, seconds / BEATS, over
        self._stopping = threading.Event()
        store.lead(seconds)
        self._thread = threading.Thread(target=self._run, name="dpi lease", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(StoreError):
            while not self._stopping.wait(self._pause):
                self._store.renew()
        self._over.set()

    def stop(self) -> None:
        """Say nothing any more."""
        self._stopping.set()
        self._thread.join()


class Replica:
    """An ASGI application: the service while this process leads, and otherwise the word that it waits.

    A store in a file has one process by its own lock: a second one is refused at once, as everywhere.
    """

    def __init__(self, config: Config, *, clock: Clock = system_clock) -> None:
        self.config, self.clock = config, clock
        self.failed: BaseException | None = None
        """Why this replica can never lead, such as a store that is an old copy: somebody has to look at it."""
        self.on_failure: Callable[[], None] = lambda: None
        self._signer = None if config.sign is None else Signer.open(config.sign)
        self._shared = is_remote(config.store)
        self._app: App | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping, self._over = threading.Event(), threading.Event()
        self._store = self._first()
        self._thread = threading.Thread(target=self._run, name="dpi replica", daemon=True)

    def _first(self) -> SQLStore | None:
        """The store, if it can be had at once: what is wrong with it is told to whoever starts the program."""
        try:
            return opened(self.config, self._signer)
        except StoreBusy:
            if not self._shared:
                raise
            return None

    @property
    def leads(self) -> bool:
        """Whether this process is the active one."""
        return self._app is not None

    # Taking turns.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._serve()
            except StoreError:  # busy, or not there at the moment
                self._stopping.wait(AGAIN)
            except BaseException as error:
                self.failed = error
                self.on_failure()
                return

    def _serve(self) -> None:
        """Lead for one term, if it can be had."""
        store, self._store = opened(self.config, self._signer) if self._store is None else self._store, None
        over, lease = threading.Event(), None
        try:
            lease = Lease(store, self.config.lease_seconds, over) if self._shared else None
            service = Service(self.config, store=store, clock=self.clock)
        except BaseException:
            if lease is not None:
                lease.stop()
            store.close()
            raise
        service.start()
        self._app, self._over = application(service), over
        try:
            if not self._stopping.is_set():
                over.wait()
        finally:
            self._app = None
            if not self._stopping.is_set():
                self._end_requests()
            service.stop()
            if lease is not None:
                lease.stop()

    def _end_requests(self) -> None:
        """End what is still being answered from a term that is over, such as readers that listen for ever."""
        loop = self._loop
        if loop is None:
            return

        def cancel() -> None:
            for task in list(self._requests):
                task.cancel()

        loop.call_soon_threadsafe(loop.call_later, ANSWERING, cancel)

    # Answering.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, by the service or for it."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        app = self._app
        if app is None:
            await _waiting(scope, receive, send)
            return
        task = asyncio.ensure_future(app(scope, receive, send))
        self._requests.add(task)
        try:
            await task
        finally:
            self._requests.discard(task)

    async def _live(self, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        await receive()
        self._thread.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.stop)
        await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """Keep what was received, and let go of the store: another replica takes over at once."""
        self._stopping.set()
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._store is not None:
            self._store.close()
            self._store = None


async def _waiting(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer of a replica that does not lead."""
    if scope["type"] != "http":
        return
    if scope["path"] == ALIVE:
        await json_response({"status": "ok"})(scope, receive, send)
        return
    await Problem(503, "this replica waits to lead: ask the other one, or again.", retry=1).response()(
        scope, receive, send
    )
