"""Running a service in this process, until it is told to stop."""

from __future__ import annotations

import uvicorn

from dpi.service.app import application
from dpi.service.config import Config
from dpi.service.service import Service


def server(config: Config, service: Service | None = None) -> uvicorn.Server:
    """A server of a service; `run` serves until a signal comes."""
    app = application(Service(config) if service is None else service)
    return uvicorn.Server(
        uvicorn.Config(
            app,
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
