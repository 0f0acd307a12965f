"""`dpi serve`: the service, from a configuration or as a demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.output import note
from dpi.errors import OptionError


def serve(
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help="A path, or postgresql://…")] = None,
    tokens: Annotated[Path, typer.Option("--tokens", metavar="FILE", help="Tokens, as hashes.")] = Path("tokens.json"),
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="Where to listen.")] = 8321,
    delay: Annotated[
        str, typer.Option("--delay", metavar="DURATION", help="A release is seen so long after its slot has closed.")
    ] = "1s",
    config: Config = None,
) -> None:
    """Serve streams over HTTP: events come in, releases go out by the public clock.

    Examples:
      dpi serve --config dpi.toml
    """
    from dpi.service import config as settings
    from dpi.service.running import serve as start

    if store is None:
        raise OptionError("`--store` must be said.")
    streams, keys = ({}, {}) if config is None else settings.streams_of(config)
    made = settings.Config(store=store, tokens=tokens, host=host, port=port, delay=delay, streams=streams, keys=keys)

    note(f"serving on http://{host}:{port}/v1")
    start(made)
