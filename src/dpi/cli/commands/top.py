"""`dpi top`: what an operator looks at, in a terminal. Private: it is the curator's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import typer

from dpi.cli.config import Config
from dpi.cli.options import Json, KeyFile, StreamName
from dpi.cli.output import document
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.files import read_secret

TOKEN = "DPI_TOKEN"  # noqa: S105 - a variable's name
"""The variable of the environment that holds a curator's token, unless a file does."""
PATIENCE = 5.0
"""Seconds for which a service that is away is tried."""
Look = Callable[[], Mapping[str, object]]


def top(
    target: Annotated[
        str,
        typer.Argument(metavar="URL|STORE", show_default=False, help="A service, https://…, or a store, as elsewhere."),
    ],
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help=f"A curator's token; from {TOKEN} unless given."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="How often to look.")] = 2.0,
    stream: StreamName = None,
    key_file: KeyFile = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show how a service or a store does: lag, arrivals, accounts, next closings, releases, budgets.

    Private, for a curator alone: how late a slot is, what came in and what accounts hold follows from events. A store
    knows no arrivals, and tells of accounts only with --key-file.

    Examples:
      dpi top http://127.0.0.1:8321 --token-file curator.token
      dpi top https://dpi.example:8321 --once --json
      dpi top visits.db --key-file visits.db.key
    """
    if not every > 0:
        raise OptionError(f"`--every` must be above 0. Got {every!r}.")
    remote = target.startswith(("http://", "https://"))
    opened = _service(target, token_file, stream) if remote else _store(target, stream, key_file)
    with opened as look:
        if json:
            document(look())
        else:
            _show(look, once, every)


def _show(look: Look, once: bool, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from dpi.cli.operations import picture

    console = Console(highlight=False, emoji=False)
    if once or not console.is_terminal:
        console.print(picture(look()))
        return
    with Signals(), Live(picture(look()), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(picture(look()), refresh=True)


@contextmanager
def _service(url: str, token_file: Path | None, stream: str | None) -> Iterator[Look]:
    from dpi.client import connect

    connection = connect(url, _token(token_file), patience=PATIENCE)

    def look() -> Mapping[str, object]:
        found = connection.operations()
        streams = cast("list[dict[str, object]]", found["streams"])
        named = [each for each in streams if stream in (None, each["stream"])]
        if stream is not None and not named:
            raise OptionError("`--stream` must be one of the service's streams.")
        return found | {"streams": named}

    with connection:
        yield look


def _token(path: Path | None) -> str:
    if path is None:
        found = os.environ.get(TOKEN, "")
        if not found:
            raise OptionError(f"a curator's token is needed: give `--token-file`, or set {TOKEN}.")
        return found.strip()
    try:
        return read_secret(path).decode("ascii").strip()
    except UnicodeDecodeError:
        raise OptionError(f"the file {path} holds no token.") from None
    except OSError as error:
        raise OptionError(f"the token {path} cannot be read: {error.strerror}.") from None


@contextmanager
def _store(target: str, stream: str | None, key_file: Path | None) -> Iterator[Look]:
    from dpi.reader import stream_named
    from dpi.service.operations import store_operations
    from dpi.store import open_store

    def look() -> Mapping[str, object]:
        curator = key_file is not None
        with open_store(target, read_only=True, curator=curator, key_file=key_file) as opened:
            names = tuple(opened.streams()) if stream is None else (stream_named(opened, stream),)
            return store_operations(opened, names, time.time_ns() // 1000, accounts=curator).document()

    yield look
