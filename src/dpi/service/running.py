"""Running a service in this process, until it is told to stop."""

from __future__ import annotations

import signal
from functools import partial

import uvicorn

from dpi.service.app import application
from dpi.service.config import Config
from dpi.service.leader import Replica
from dpi.service.service import Service


def server(config: Config, service: Service | Replica | None = None) -> uvicorn.Server:
    """A server of a service; `run` serves until a signal comes: then what was received is kept, and nothing else."""
    app = Replica(config) if service is None else service
    found = uvicorn.Server(
        uvicorn.Config(
            app if isinstance(app, Replica) else application(app),
            host=config.host,
            port=config.port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=config.certificate,
            ssl_keyfile=config.private_key,
            timeout_graceful_shutdown=30,
        )
    )
    if isinstance(app, Replica):
        app.on_failure = partial(setattr, found, "should_exit", True)
    return found


def serve(config: Config) -> None:
    """Serve until a signal comes; raises what keeps this process from ever leading."""
    replica = Replica(config)
    for number in (signal.SIGINT, signal.SIGTERM):  # the server sends itself once more what it has heeded
        signal.signal(number, lambda *_: None)
    server(config, replica).run()
    if replica.failed is not None:
        raise replica.failed
