"""Running a service in this process, until it is told to stop.

`SIGTERM` and `SIGINT` end it. `SIGHUP` has tokens, TLS files and limits read again, and nothing else: the options of
streams change by HTTP, and all others are what the process was made of.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import FrameType

import uvicorn

from dpi.errors import AboutOptions, OptionError
from dpi.service import logs
from dpi.service._app import make_application
from dpi.service._arrivals import Arrivals
from dpi.service._connections import HEADERS, IDLE, make_connection_class
from dpi.service._leader import Replica
from dpi.service.config import LIVE, Config
from dpi.service.service import Service


class Server(uvicorn.Server):
    """Serves until a signal comes; then what was received is kept, and readers who follow are let go."""

    def __init__(
        self,
        config: uvicorn.Config,
        arrivals: Arrivals,
        service: Service | Replica,
        listening: Callable[[], None],
        limits: Limits | None,
    ) -> None:
        super().__init__(config)
        self._arrivals, self._service, self._listening, self._limits = arrivals, service, listening, limits
        self._reason: str | None = None  # why it stops
        self._asked = self._done = 0  # how often files were to be read, and were

    def stop(self, reason: str) -> None:
        """Begin to stop, for a reason that is logged."""
        self._reason = self._reason or reason
        self.should_exit = True

    def read_again(self) -> None:
        """Have files read again, by the thread that moves bytes: a signal comes at any moment."""
        self._asked += 1

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
            logs.tell("started", host=self.config.host, port=self.config.port)

    async def on_tick(self, counter: int) -> bool:
        """Do what a signal has asked for; return whether that is to stop."""
        if (asked := self._asked) != self._done:
            self._read_files()
            self._done = asked
        return await super().on_tick(counter)

    def _read_files(self) -> None:
        """Read tokens, TLS files and limits again; of a file that is refused the log has the error."""
        logs.tell("tokens, TLS files and limits are read again; all other options need a restart", reason="SIGHUP")
        for read, refused in (
            (self._service.read_again, "tokens cannot be read, and open nothing"),
            (self._read_certificate, "TLS files cannot be read, and the certificate stays"),
            (self._read_limits, "limits cannot be taken, and stay"),
        ):
            try:
                read()
            except (OSError, AboutOptions) as error:
                logs.failed(refused, error)

    def _read_certificate(self) -> None:
        """Have connections from now on see the certificate that is in the files."""
        if self.config.ssl is None or self.config.ssl_certfile is None:
            return
        # First where nobody looks: of two files that do not fit each other the first would be in use already.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.config.ssl):
            context.load_cert_chain(self.config.ssl_certfile, self.config.ssl_keyfile, lambda: "")  # and ask nobody

    def _read_limits(self) -> None:
        """Have what begins from now on meet the limits that the configuration states."""
        if self._limits is None:
            return
        before = self._service.config
        config = replace(before, **self._limits())  # type: ignore[arg-type] # read by their kinds
        _take_files(config)
        self._arrivals.most = config.connections
        self._service.limit(config)
        changed = {name: getattr(config, name) for name in LIVE if getattr(config, name) != getattr(before, name)}
        if changed:
            logs.tell("limits have changed", limits=changed)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._reason = self._reason or signal.Signals(sig).name
        self._service.leave()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what has arrived, and say why nothing else is."""
        logs.tell("stops", reason=self._reason)
        await super().shutdown(sockets)
        logs.tell("stopped")


COLLECTED = 100_000
"""Objects that are made before garbage is looked for. The interpreter's own 700 have it look at the cells of one batch
again and again, while no other thread runs: 16 MiB of lists take 2.1 s instead of 0.4."""


FILES = 256
"""Open files beside connections, those in a handshake, and spooled bodies: the store, exports, pipes."""


Limits = Callable[[], Mapping[str, object]]
"""Reads the limits that a configuration states now."""


def _take_files(config: Config) -> None:
    """Have the system allow as many open files as its limits need; refuse them if it does not."""
    if sys.platform == "win32":  # which has no such limit
        return
    import resource

    most = 2 * config.connections + min(2 * config.requests, config.connections) + FILES
    now, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != now < most:
        if resource.RLIM_INFINITY != highest < most:
            raise OptionError(
                f"`connections` needs {most:,} open files, and the system allows {highest:,}: "
                "choose a lower number, or raise the limit (`ulimit -Hn`)."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, highest))


def make_server(
    service: Service | Replica, listening: Callable[[], None] = lambda: None, limits: Limits | None = None
) -> Server:
    """Return a server of a service, or of a replica; `run` serves until a signal comes.

    `listening` is called once connections are accepted. `limits` reads them again, where there is something to read.
    """
    gc.set_threshold(COLLECTED, *gc.get_threshold()[1:])
    config = service.config
    arrivals = Arrivals(config.connections)
    _take_files(config)
    settings = uvicorn.Config(
        service if isinstance(service, Replica) else make_application(service),
        host=config.host,
        port=config.port,
        http=make_connection_class(lambda: min(HEADERS, service.config.patience), service.arrive, arrivals),
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
    return Server(settings, arrivals, service, listening, limits)


def serve(config: Config, listening: Callable[[], None] = lambda: None, limits: Limits | None = None) -> None:
    """Serve until a signal comes; raises what keeps this process from ever leading."""
    replica = Replica(config)
    running = make_server(replica, listening, limits)
    replica.on_failure = partial(running.stop, "it cannot lead")
    # Before the server listens, and what it sends itself once more after it has heeded a signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: running.stop(signal.Signals(number).name))
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: running.read_again())
    running.run()
    if replica.failed is not None:
        raise replica.failed
