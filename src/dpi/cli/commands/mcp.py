"""`dpi mcp`: an export, or a service, for agents that speak the Model Context Protocol."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from dpi.agents.server import make_server
from dpi.agents.tools import Tools
from dpi.cli.options import Json
from dpi.cli.output import document
from dpi.client import connect
from dpi.errors import OptionError
from dpi.files import read_secret
from dpi.reader import open
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.export import is_export
from dpi.verification import verify

ANALYST = "analyst"
"""The role of tokens that an agent may have."""


def mcp(
    source: Annotated[str, Setting("EXPORT|URL", "A file of dpi export, or a service: https://…", argument=True)],
    token_file: Annotated[Path | None, Setting("FILE", "File with an analyst's token, for a service.")] = None,
    json: Json = False,
) -> None:
    """Serve releases to agents by the Model Context Protocol, over standard input and output.

    Tools: streams, ask, series, movers, compare, verify, promise. Every number has its interval and its certificate.
    Questions are free: they are answered from releases, and no loop of an agent spends budget. A store is refused, for
    an agent must not have one: export it. An export is read as it is; start anew for a newer one. With --json it prints
    the entry for the configuration of an agent's host, and serves nothing. Needs the extra mcp.

    Examples:
      dpi mcp public.db
      dpi mcp https://dpi.example:8321 --token-file analyst.token
      dpi mcp public.db --json
    """
    remote = source.startswith(("https://", "http://"))
    if remote != (token_file is not None):
        raise OptionError("`--token-file` is for the address of a service, which needs one.")
    if json:
        place = source if remote else str(Path(source).absolute())
        words = ["mcp", place, *(["--token-file", str(token_file.absolute())] if token_file is not None else [])]
        program = shutil.which("dpi")
        command = {"command": program, "args": words} if program else {
            "command": sys.executable, "args": ["-m", "dpi", *words]
        }  # fmt: skip
        document({"mcpServers": {"dpi": command}})
        return
    with _open_service(source, token_file) if token_file is not None else _open_export(source) as tools:
        server = make_server(tools)
        for number in (signal.SIGINT, signal.SIGTERM):  # nothing is written, so it may end while it waits for a call
            signal.signal(number, signal.SIG_DFL)
        server.run("stdio")


@contextmanager
def _open_export(source: str) -> Iterator[Tools]:
    if not is_export(Path(source)):
        raise OptionError(f"agents get an export alone: make one with `dpi export`. Got {source!r}.")
    with open_store(source, read_only=True) as store:
        names = list(store.streams())
        yield Tools(open(store, names[0]), lambda: verify(store))


@contextmanager
def _open_service(url: str, token_file: Path) -> Iterator[Tools]:
    try:
        token = read_secret(token_file).decode().strip()
    except FileNotFoundError:
        raise OptionError(f"there is no file {token_file}.") from None
    with connect(url, token) as service:
        if service.role != ANALYST:
            raise OptionError(f"agents get the token of an analyst alone. This one is of the role {service.role!r}.")
        names = service.streams
        if not names:
            raise OptionError("the service has no stream yet.")
        yield Tools(service.stream(names[0]), service.verify)
