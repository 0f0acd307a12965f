"""`dpi serve top`: what an operator looks at, in a terminal. Private: it is the curator's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, cast

from rich.console import Console, ConsoleOptions, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from dpi.cli.options import Json, KeyFile
from dpi.cli.output import document, number
from dpi.cli.signals import Signals
from dpi.errors import OptionError
from dpi.files import read_secret
from dpi.settings.declaration import Setting

TOKEN = "DPI_TOKEN"  # noqa: S105 - a variable's name
"""The variable of the environment that holds a curator's token, unless a file does."""
PATIENCE = 5.0
"""Seconds for which a service that is away is tried."""
Look = Callable[[], Mapping[str, object]]
HEADINGS = (
    "stream", "measured", "closes", "lag", "late", "quiet", "newest", "next", "releases", "batches", "refused",
    "accounts", "dry", "spent",
)  # fmt: skip
BAD = "bold red"
_table = partial(Table, box=None, pad_edge=False, header_style="bold")


def top(
    target: Annotated[str, Setting("URL|STORE", "A service, https://…, or a store.", argument=True)],
    token_file: Annotated[Path | None, Setting("FILE", f"A curator's token; from {TOKEN} unless given.")] = None,
    every: Annotated[float, Setting("SECONDS", "Seconds between two looks; 0 prints once.")] = 2.0,
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
    if target.startswith(("http://", "https://")):
        from dpi.client import connect

        with connect(target, _token(token_file), patience=PATIENCE) as connection:
            _show(connection.operations, every, json)
    else:
        _show(partial(_look, target, key_file), every, json)


def _show(look: Look, every: float, json: bool) -> None:
    console = Console(highlight=False, emoji=False)
    if json:
        document(look())
    elif every == 0 or not console.is_terminal:
        console.print(picture(look()))
    else:
        with Signals(), Live(picture(look()), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every)
                live.update(picture(look()), refresh=True)


def _token(path: Path | None) -> str:
    if path is None:
        secret = os.environ.get(TOKEN, "")
        if not secret:
            raise OptionError(f"a curator's token is needed: give `--token-file`, or set {TOKEN}.")
        return secret.strip()
    try:
        return read_secret(path).decode("ascii").strip()
    except UnicodeDecodeError:
        raise OptionError(f"the file {path} holds no token.") from None
    except OSError as error:
        raise OptionError(f"the token {path} cannot be read: {error.strerror}.") from None


def _look(target: str, key_file: Path | None) -> Mapping[str, object]:
    """Return how a store does."""
    from dpi.service.operations import store_operations
    from dpi.store import open_store

    curator, now = key_file is not None, time.time_ns() // 1000
    with open_store(target, read_only=True, curator=curator, key_file=key_file) as opened:
        return asdict(store_operations(opened, tuple(opened.streams()), now, accounts=curator))


class Columns:
    """Rows of cells as one table, or, where the terminal is too narrow for it, as a list for each row."""

    def __init__(self, rows: Sequence[Sequence[Text]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        whole = _table(*(Column(each, justify="right" if i else "left") for i, each in enumerate(HEADINGS)))
        for row in self._rows:
            whole.add_row(*row)
        if console.measure(whole, options=options.update(max_width=1 << 16)).maximum <= options.max_width:
            yield whole
            return
        for row in self._rows:
            listed = _table("", Column("", overflow="fold"), show_header=False)
            for heading, cell in zip(HEADINGS, row, strict=True):
                listed.add_row(heading, cell)
            yield from (listed, Text())


def picture(operations: Mapping[str, object]) -> Group:
    """Return the document of `/v1/operations`, or of a store, to be printed."""
    streams = cast("list[dict[str, object]]", operations["streams"])
    at, failing = str(operations["at"]), operations["failing"]
    lines = [Text(f"{at}  {len(streams)} stream{'' if len(streams) == 1 else 's'}")]
    if failing is not None:
        lines.append(Text(f"Slots cannot be closed at the moment ({failing}).", BAD))
    for each in streams:
        if failing is None and each.get("failing") is not None:
            lines.append(Text(f"Slots of {_name(each)} cannot be closed at the moment ({each['failing']}).", BAD))
        if each["silent"]:
            lines.append(Text(f"{_name(each)} is silent: no batch has come for {each['quiet']} slots.", BAD))
        lines += [
            Text(f"{_name(each)}: most rows that {sender} has sent of late lack a column, or are not in time.", BAD)
            for sender in cast("Sequence[str]", each.get("unusable", ()))
        ]
    budgets = [Text(f"{_name(each)}: {' '.join(cast('list[str]', each['budget']))}") for each in streams]
    return Group(*lines, Text(), Columns([_cells(each, at) for each in streams]), Text(), *budgets)


def _cells(each: Mapping[str, object], at: str) -> list[Text]:
    arrivals = cast("dict[str, float]", each["arrivals"] or {})
    held = cast("dict[str, float]", each["accounts"] or {})
    lag, late = cast("float | None", each["lag"]), cast("int | None", each["late"])
    dry = held["dry"] / held["number"] if held.get("number") else None
    return [
        Text(_name(each)),
        Text("–" if each["measured"] is None else f"{duration(max(0.0, -_seconds(each['measured'], at)))} ago"),
        Text(_until(each["closes"], at)),
        Text("–" if lag is None else duration(lag), BAD if lag else ""),
        Text(number(late, 9), BAD if late else ""),
        Text(number(cast("int | None", each["quiet"]), 9), BAD if each["silent"] else ""),
        *(Text("–" if each[slot] is None else str(each[slot])) for slot in ("newest", "next")),
        Text(number(cast("float", each["releases"]), 9)),
        *(Text(number(count, 9)) for count in (arrivals.get("kept"), arrivals.get("refused"), held.get("number"))),
        Text("–" if dry is None else f"{dry:.0%}"),
        Text(f"{each['spent_at_most']:.3g} of {each['epsilon']:g}"),
    ]


def _name(each: Mapping[str, object]) -> str:
    return str(each["stream"] or "(no name)")


def _until(closes: object, at: str) -> str:
    """How long it is until a moment."""
    if closes is None:
        return "–"
    rest = _seconds(closes, at)
    return f"in {duration(rest)}" if rest > 0 else "due"


def _seconds(moment: object, at: str) -> float:
    return (datetime.fromisoformat(str(moment)) - datetime.fromisoformat(at)).total_seconds()


def duration(seconds: float) -> str:
    """Seconds for a person.

    >>> duration(0), duration(59.4), duration(3700), duration(200000)
    ('0 s', '59 s', '1.0 h', '2.3 d')
    """
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
