"""What charts over time are made of: panels, the time axis, and the numbers behind a chart as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpi.display.markup import Html, element, join
from dpi.report import svg
from dpi.report.facts import Band, Facts
from dpi.report.figures import percent_text, share_text

ESTIMATED = "plot estimated"
"""A chart of estimates: the style sheet hatches the columns that were not measured."""


def scale_top(band: Band) -> float:
    """The end of a scale: all estimates, and all but the widest intervals; what is above it is cut off."""
    upper = band.upper[np.isfinite(band.upper)]
    return room_above(float(np.nanmax(band.value)), float(np.quantile(upper, 0.98)) if upper.size else 0.0)


def room_above(*numbers: float) -> float:
    """A round end of a scale with a little room above the largest number."""
    return svg.round_top(1.04 * max(numbers))


def curve(facts: Facts, band: Band, top: float) -> Html:
    """A line with the band of its intervals. Where it was not measured, the line is broken and the band is paler."""
    drawn = []
    for where, kind in ((facts.measured, ""), (~facts.measured, " carried")):
        if where.any():
            value, lower, upper = (np.where(where, end, np.nan) for end in (band.value, band.lower, band.upper))
            drawn += [svg.band(lower, upper, top, f"band{kind}"), svg.line(value, top, f"line{kind}")]
    return join(*drawn)


def panel(
    facts: Facts,
    label: str,
    note: str,
    paths: Html,
    top: float,
    *more: Html,
    percent: bool = True,
    kind: str = ESTIMATED,
    **data: str | int,
) -> Html:
    """A chart with its name at the left and three marks on its scale."""
    scale = [
        element("span", percent_text(value) if percent else f"{value:,.6g}", style=f"bottom:{height}%")
        for value, height in ((0.0, 0), (top / 2, 50), (top, 100))
    ]
    told = f"{label} over time, from {facts.names[0]} to {facts.names[-1]}; {note}"
    drawn = element(
        "div", svg.drawing(len(facts.names), paths), *more, class_=kind, role="img", aria_label=told, **data
    )
    name = element("div", element("strong", label, title=label), element("span", note, class_="soft"), class_="name")
    return element("div", name, element("div", *scale, class_="scale", aria_hidden="true"), drawn, class_="panel")


def axis(facts: Facts) -> Html:
    """The marks on the time axis; one at the very end would run out of the page."""
    columns = len(facts.names)
    spans = [
        element("span", text, class_="end" if place > 85 else False, style=f"left:{place:.2f}%")
        for place, text in ((100 * i / columns, text) for i, text in facts.marks)
        if place <= 96
    ]
    return element("div", *spans, class_="axis")


def axis_row(facts: Facts) -> Html:
    """The time axis below panels."""
    empty = element("div", class_="name"), element("div", class_="scale")
    return element("div", *empty, axis(facts), class_="panel", aria_hidden="true")


def sample(columns: int, count: int = 24) -> list[int]:
    """Evenly spread columns, the newest among them."""
    return sorted({round(i) for i in np.linspace(columns - 1, 0, min(count, columns)).tolist()})


def shares_by_value(facts: Facts) -> Html:
    """The numbers of all rows at some slots: a row for each value."""
    chosen = sample(len(facts.names), 12)
    head = (facts.kind, *(facts.names[i] for i in chosen))
    bands = [facts.shares.row(row) for row in range(len(facts.rows.labels))]
    texts = [tuple(share_text(*band.at(i)) for i in chosen) for band in bands]
    return folded(head, list(zip(facts.rows.labels, texts, strict=True)))


def shares_by_slot(facts: Facts, rows: Sequence[int]) -> Html:
    """The numbers of a few rows: a row for each slot."""
    bands = [facts.shares.row(row) for row in rows]
    chosen = sample(len(facts.names))
    texts = [(facts.names[i], tuple(share_text(*band.at(i)) for band in bands)) for i in chosen]
    return folded(("Slot", *(facts.rows.labels[row] for row in rows)), texts)


def folded(head: tuple[str, ...], rows: Sequence[tuple[str, tuple[str, ...]]]) -> Html:
    """The numbers behind a chart, folded away."""
    titles = element("tr", *(element("th", title, scope="col") for title in head))
    body = [
        element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))
        for name, cells in rows
    ]
    table = element("table", element("thead", titles), element("tbody", *body), class_="numbers")
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Numbers of the chart")
    summary = element("summary", "Numbers of this chart, at evenly spread slots")
    return element("details", summary, scroll)
