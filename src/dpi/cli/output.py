"""What a command prints: a table or some sentences for a person, or one JSON document; and how far it is.

Progress bars are on standard error, if that is a terminal. They show bytes, slots, steps: public, unlike rows. Where it
is none, a command that takes minutes may say a line now and then.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

EVERY = 10.0
"""Seconds between two lines of progress."""


def say(*lines: str) -> None:
    """Sentences on standard output, wrapped at the terminal's width; what stands in them is no markup."""
    console = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def note(*lines: str) -> None:
    """Sentences on standard error: what a person may want to know, and no program."""
    for line in lines:
        print(f"dpi: {line}", file=sys.stderr)


def document(value: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False), flush=True)


def answer(as_json: bool, value: object, *lines: str) -> None:
    """Print what a command has to say: as one JSON document if that is asked for, or in sentences."""
    document(value) if as_json else say(*lines)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> None:
    """Print a plain table; the first `left` columns hold names, the others numbers."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", show_header=any(headings))
    for index, heading in enumerate(headings):
        drawn.add_column(heading, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(visible(str(cell))) for cell in row))
    width = None if Console().is_terminal else 160
    Console(highlight=False, emoji=False, width=width).print(drawn)


def visible(text: str) -> str:
    r"""Return a text whose control and direction characters and odd spaces, which a terminal obeys, are written out.

    >>> print(visible("caf\u00e9 \u202etxt.exe\x1b[2J"))
    café \u202etxt.exe\x1b[2J
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def address(store: str) -> str:
    """Return a store's name without the password that a database's address may hold.

    >>> address("postgresql://curator:hush@db.example/visits"), address("visits.db")
    ('postgresql://db.example/visits', 'visits.db')
    """
    scheme, separator, rest = store.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else store


def next_command(store: str, *words: str) -> list[str]:
    """Return the line that says what to do next, as a shell takes it; none if it would need a password."""
    return [] if address(store) != store else [f"Next: {shlex.join(('dpi', *words))}"]


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a person.

    >>> number(12345.678), number(0.000123456), number(None)
    ('12,346', '0.0001235', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


class Steps:
    """A bar on a terminal: how many of some steps are over, and which one was last.

    It is there while a `with` lasts, and leaves nothing behind; with `lines`, it is told also where there is no
    terminal.
    """

    def __init__(self, name: str, steps: int, *, lines: bool = False) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"))
        hidden = not console.is_terminal
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden)
        self._name, self._of, self._over = name, f"/{steps}" if steps else "", 0
        self._said = time.monotonic() if lines and hidden else None
        self._task = self._progress.add_task(name, total=steps or None, done=f"0{self._of}")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def over(self, done: int, what: str = "") -> None:
        """So many are over."""
        self._over = done
        text = f"{done}{self._of} {what}".rstrip()
        self._progress.update(self._task, completed=done, done=text)
        if self._said is not None and time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            note(f"{self._name}: {text}")

    def another(self, what: str = "") -> None:
        """One more is over."""
        self.over(self._over + 1, what)
