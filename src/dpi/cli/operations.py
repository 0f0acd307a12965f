"""What `dpi top` draws: one document of operations as a table, and the budgets under it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from dpi.cli.output import number

HEADINGS = (
    "stream", "newest", "releases", "next", "closes", "lag", "late", "batches", "refused", "accounts", "dry", "spent",
)  # fmt: skip
BAD = "bold red"


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
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        drawn.add_column(heading, justify="left" if heading == "stream" else "right", overflow="fold")
    for each in streams:
        drawn.add_row(*_cells(each, at))
    budgets = [Text(f"{_name(each)}: {' '.join(cast('list[str]', each['budget']))}") for each in streams]
    return Group(*lines, Text(), drawn, Text(), *budgets)


def _cells(each: Mapping[str, object], at: str) -> list[Text]:
    arrivals = cast("dict[str, float]", each["arrivals"] or {})
    held = cast("dict[str, float]", each["accounts"] or {})
    lag, late = cast("float | None", each["lag"]), cast("int | None", each["late"])
    dry = held["dry"] / held["number"] if held.get("number") else None
    return [
        Text(_name(each)),
        Text(_slot(each["newest"])),
        Text(number(cast("float", each["releases"]), 9)),
        Text(_slot(each["next"])),
        Text(_until(each["closes"], at)),
        Text("–" if lag is None else duration(lag), BAD if lag else ""),
        Text(number(late, 9), BAD if late else ""),
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


def _until(closes: object, at: str) -> str:
    """How long it is until a moment."""
    if closes is None:
        return "–"
    rest = (datetime.fromisoformat(str(closes)) - datetime.fromisoformat(at)).total_seconds()
    return f"in {duration(rest)}" if rest > 0 else "due"


def duration(seconds: float) -> str:
    """Seconds for a person.

    >>> duration(0), duration(59.4), duration(3700), duration(200000)
    ('0 s', '59 s', '1.0 h', '2.3 d')
    """
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
