"""What a command prints: a table or some sentences for a person, or one JSON document."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


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
