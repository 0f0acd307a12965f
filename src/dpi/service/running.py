"""Running a service in this process, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

import uvicorn

from dpi.service.app import application
from dpi.service.config import Config
from dpi.service.service import Service


class Server(uvicorn.Server):
    """Serves until a signal comes; then what was received is kept, and readers who follow are let go."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._leave()
        super().handle_exit(sig, frame)


def server(config: Config, service: Service | None = None) -> Server:
    """A server of a service; `run` serves until a signal comes."""
    made = Service(config) if service is None else service
    settings = uvicorn.Config(
        application(made),
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
    return Server(settings, made.leave)
