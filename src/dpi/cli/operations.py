"""What `dpi serve top` draws: one document of operations as tables that fit the terminal, and budgets under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from dpi.cli.output import number

HEADINGS = (
    "stream", "measured", "closes", "lag", "late", "quiet", "newest", "next", "releases", "batches", "refused",
    "accounts", "dry", "spent",
)  # fmt: skip
BAD = "bold red"
GAP = 2
"""Blanks between two columns."""
NARROWEST = 8
"""The least width of the column of names; longer names are folded."""


class Columns:
    """Rows of cells as one table, or as several below each other where the terminal is narrow.

    Each begins with the first column, and has as many of the others, in their order, as fit beside it.
    """

    def __init__(self, headings: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        self._headings, self._rows = headings, rows
        self._widths = [
            max(cell_len(heading), *(row[i].cell_len for row in rows)) if rows else cell_len(heading)
            for i, heading in enumerate(headings)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        parts = self._parts(options.max_width)
        for at, part in enumerate(parts):
            if at:
                yield Text()
            drawn = Table(box=None, pad_edge=False, header_style="bold")
            for i in (0, *part):
                drawn.add_column(self._headings[i], justify="right" if i else "left", overflow="fold")
            for row in self._rows:
                drawn.add_row(*(row[i] for i in (0, *part)))
            yield drawn

    def _parts(self, width: int) -> list[list[int]]:
        """Which columns stand beside the first in each table."""
        first = min(self._widths[0], max(NARROWEST, width // 3))
        parts: list[list[int]] = []
        left = 0
        for i, needed in enumerate(self._widths[1:], start=1):
            if not parts or needed + GAP > left:
                parts.append([])
                left = width - first
            parts[-1].append(i)
            left -= needed + GAP
        return parts


def picture(found: Mapping[str, object]) -> Group:
    """The document of `/v1/operations`, or of a store, to be printed."""
    streams = cast("list[dict[str, object]]", found["streams"])
    at, failing = str(found["at"]), found["failing"]
    lines = [Text(f"{at}  {len(streams)} stream{'' if len(streams) == 1 else 's'}")]
    if failing is not None:
        lines.append(Text(f"Slots cannot be closed at the moment ({failing}).", BAD))
    lines += [
        Text(f"Slots of {_name(each)} cannot be closed at the moment ({each['failing']}).", BAD)
        for each in streams
        if failing is None and each.get("failing") is not None
    ]
    lines += [
        Text(f"{_name(each)} is silent: no batch has come for {each['quiet']} slots.", BAD)
        for each in streams
        if each["silent"]
    ]
    budgets = [Text(f"{_name(each)}: {' '.join(cast('list[str]', each['budget']))}") for each in streams]
    return Group(*lines, Text(), Columns(HEADINGS, [_cells(each, at) for each in streams]), Text(), *budgets)


def _cells(each: Mapping[str, object], at: str) -> list[Text]:
    arrivals = cast("dict[str, float]", each["arrivals"] or {})
    held = cast("dict[str, float]", each["accounts"] or {})
    lag, late = cast("float | None", each["lag"]), cast("int | None", each["late"])
    dry = held["dry"] / held["number"] if held.get("number") else None
    return [
        Text(_name(each)),
        Text(_since(each["measured"], at)),
        Text(_until(each["closes"], at)),
        Text("–" if lag is None else duration(lag), BAD if lag else ""),
        Text(number(late, 9), BAD if late else ""),
        Text(number(cast("int | None", each["quiet"]), 9), BAD if each["silent"] else ""),
        Text(_slot(each["newest"])),
        Text(_slot(each["next"])),
        Text(number(cast("float", each["releases"]), 9)),
        Text(number(arrivals.get("kept"), 9)),
        Text(number(arrivals.get("refused"), 9)),
        Text(number(held.get("number"), 9)),
        Text("–" if dry is None else f"{dry:.0%}"),
        Text(f"{each['spent_at_most']:.3g} of {each['epsilon']:g}"),
    ]


def _name(each: Mapping[str, object]) -> str:
    return str(each["stream"] or "(no name)")


def _slot(slot: object) -> str:
    return "–" if slot is None else str(slot)


def _since(measured: object, at: str) -> str:
    """How long ago a picture was measured."""
    return "–" if measured is None else f"{duration(max(0.0, -_seconds(measured, at)))} ago"


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
