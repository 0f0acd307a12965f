"""`dpi serve top`: what an operator looks at, in a terminal. Private: it is the curator's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from dpi.cli.options import Json, KeyFile
from dpi.cli.output import document
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.files import read_secret
from dpi.settings.declaration import Setting

TOKEN = "DPI_TOKEN"  # noqa: S105 - a variable's name
"""The variable of the environment that holds a curator's token, unless a file does."""
PATIENCE = 5.0
"""Seconds for which a service that is away is tried."""
Look = Callable[[], Mapping[str, object]]


def top(
    target: Annotated[str, Setting("URL|STORE", "A service, https://…, or a store, as elsewhere.", argument=True)],
    token_file: Annotated[Path | None, Setting("FILE", f"A curator's token; from {TOKEN} unless given.")] = None,
    every: Annotated[float, Setting("SECONDS", "How often to look; 0 prints it once.")] = 2.0,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Show how a service or a store does: lag, arrivals, accounts, next closings, releases, budgets.

    Private, for a curator alone: how late a slot is, what came in and what accounts hold follows from events. A store
    knows no arrivals, and tells of accounts only with --key-file.

    Examples:
      dpi serve top http://127.0.0.1:8321 --token-file curator.token
      dpi serve top https://dpi.example:8321 --json
      dpi serve top visits.db --key-file visits.db.key
    """
    if not every >= 0:
        raise OptionError(f"`--every` must be 0 or above. Got {every!r}.")
    remote = target.startswith(("http://", "https://"))
    opened = _service(target, token_file) if remote else _store(target, key_file)
    with opened as look:
        if json:
            document(look())
        else:
            _show(look, every)


def _show(look: Look, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from dpi.cli.operations import picture

    console = Console(highlight=False, emoji=False)
    if every == 0 or not console.is_terminal:
        console.print(picture(look()))
        return
    with Signals(), Live(picture(look()), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(picture(look()), refresh=True)


@contextmanager
def _service(url: str, token_file: Path | None) -> Iterator[Look]:
    from dpi.client import connect

    with connect(url, _token(token_file), patience=PATIENCE) as connection:
        yield connection.operations


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
def _store(target: str, key_file: Path | None) -> Iterator[Look]:
    from dpi.service.operations import store_operations
    from dpi.store import open_store

    def look() -> Mapping[str, object]:
        curator = key_file is not None
        with open_store(target, read_only=True, curator=curator, key_file=key_file) as opened:
            return store_operations(
                opened, tuple(opened.streams()), time.time_ns() // 1000, accounts=curator
            ).document()

    yield look
