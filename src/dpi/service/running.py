"""Running a service in this process, until it is told to stop."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn

from dpi.errors import OptionError
from dpi.service._app import make_application
from dpi.service._arrivals import Arrivals
from dpi.service._connections import HEADERS, IDLE, make_connection_class
from dpi.service._leader import Replica
from dpi.service.config import Config
from dpi.service.service import Service


class Server(uvicorn.Server):
    """Serves until a signal comes; then what was received is kept, and readers who follow are let go."""

    def __init__(
        self, config: uvicorn.Config, arrivals: Arrivals, leave: Callable[[], None], listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._arrivals, self._leave, self._listening = arrivals, leave, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, before anything else is begun; say in an error why that cannot be."""
        try:
            sockets = self._arrivals.listen(self.config.host, self.config.port)
        except OSError as refused:
            number = None if isinstance(refused, socket.gaierror) else refused.errno
            reason = "There is no such address" if number is None else os.strerror(number)
            place = f"{self.config.host}:{self.config.port}"
            raise OptionError(f"nothing can listen on {place} ({reason}): choose another `host` or `port`.") from None
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._leave()
        super().handle_exit(sig, frame)


COLLECTED = 100_000
"""Objects that are made before garbage is looked for. The interpreter's own 700 have it look at the cells of one batch
again and again, while no other thread runs: 16 MiB of lists take 2.1 s instead of 0.4."""


FILES = 256
"""Open files beside connections, those in a handshake, and spooled bodies: the store, exports, pipes."""


def _take_files(most: int) -> None:
    """Have the system allow so many open files; refuse to begin if it does not."""
    if sys.platform == "win32":  # which has no such limit
        return
    import resource

    now, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != now < most:
        if resource.RLIM_INFINITY != highest < most:
            raise OptionError(
                f"`connections` needs {most:,} open files, and the system allows {highest:,}: "
                "choose a lower number, or raise the limit (`ulimit -Hn`)."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, highest))


def make_server(service: Service | Replica, listening: Callable[[], None] = lambda: None) -> Server:
    """Return a server of a service, or of a replica; `run` serves until a signal comes.

    `listening` is called once connections are accepted.
    """
    gc.set_threshold(COLLECTED, *gc.get_threshold()[1:])
    config = service.config
    arrivals = Arrivals(config.connections)
    _take_files(2 * config.connections + min(2 * config.requests, config.connections) + FILES)
    settings = uvicorn.Config(
        service if isinstance(service, Replica) else make_application(service),
        host=config.host,
        port=config.port,
        http=make_connection_class(config.connections, min(HEADERS, config.patience), service.arrive, arrivals),
        ws="none",
        loop="asyncio",  # which accepts all connections that wait at once; uvloop takes one, then what others have sent
        timeout_keep_alive=IDLE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.private_key,
        timeout_graceful_shutdown=30,
    )
    return Server(settings, arrivals, service.leave, listening)


def serve(config: Config, listening: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal comes; raises what keeps this process from ever leading."""
    replica = Replica(config)
    running = make_server(replica, listening)
    replica.on_failure = stop = partial(setattr, running, "should_exit", True)
    # Before the server listens, and what it sends itself once more after it has heeded a signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())
    running.run()
    if replica.failed is not None:
        raise replica.failed
