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


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1, title: str | None = None
) -> None:
    """A plain table; the first `left` columns hold names, the others numbers."""
    drawn = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="", header_style="bold")
    drawn.show_header = any(headings)
    for index, heading in enumerate(headings):
        drawn.add_column(heading, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(visible(str(cell))) for cell in row))
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, width=160)
    console.print(drawn)


def visible(text: str) -> str:
    r"""A text with what a terminal would obey or hide (control and direction characters, odd spaces) written out.

    >>> print(visible("caf\u00e9 \u202etxt.exe\x1b[2J"))
    café \u202etxt.exe\x1b[2J
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def address(store: str) -> str:
    """A store's name without the password that a database's address may hold.

    >>> address("postgresql://curator:hush@db.example/visits"), address("visits.db")
    ('postgresql://db.example/visits', 'visits.db')
    """
    scheme, separator, rest = store.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else store


def next_command(store: str, *words: str) -> list[str]:
    """The line that says what to do next, as a shell takes it; none where it would need a password that is not said."""
    return [] if address(store) != store else [f"Next: {shlex.join(('dpi', *words))}"]


def number(value: float | None, digits: int = 4) -> str:
    """A number for a person.

    >>> number(12345.678), number(0.000123456), number(None)
    ('12,346', '0.0001235', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


class _OnTerminal:
    """Bars that are drawn while a `with` lasts, and leave nothing behind."""

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class Bars(_OnTerminal):
    """How many bytes were read and how many slots were released."""

    def __init__(self, size: int, slots: int, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._size, self._slots = size, slots
        self._reading = self._progress.add_task("reading", total=size or None, done="")
        self._releasing = self._progress.add_task("releasing", total=slots, visible=slots > 0, done=f"0/{slots} slots")

    def read(self, done: int) -> None:
        """Bytes read so far."""
        of = f"/{self._size / 1e6:,.0f}" if self._size else ""
        self._progress.update(self._reading, completed=done, done=f"{done / 1e6:,.0f}{of} MB")

    def released(self, done: int) -> None:
        """Slots released so far."""
        self._progress.update(self._releasing, completed=done, done=f"{done}/{self._slots} slots")


class Steps(_OnTerminal):
    """How many of some steps are over, and which one was last; with `lines`, also where there is no terminal."""

    def __init__(self, name: str, steps: int, *, lines: bool = False) -> None:
        super().__init__()
        self._name, self._steps, self._over = name, steps, 0
        self._said = time.monotonic() if lines and self._progress.disable else None
        self._task = self._progress.add_task(name, total=steps, done=f"0/{steps}")

    def over(self, done: int, what: str = "") -> None:
        """So many are over."""
        self._over = done
        text = f"{done}/{self._steps} {what}".rstrip()
        self._progress.update(self._task, completed=done, done=text)
        if self._said is not None and time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            note(f"{self._name}: {text}")

    def another(self, what: str = "") -> None:
        """One more is over."""
        self.over(self._over + 1, what)
