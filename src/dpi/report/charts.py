"""The charts of the page. All are complete without a script, which only adds tooltips and the choice of a slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpi.queries import Floats
from dpi.report import svg
from dpi.report.facts import BARS, Band, Facts
from dpi.report.figures import budget_text, count_text, percent_text, share_text
from dpi.report.markup import Html, element, join
from dpi.report.strip import LEVELS, level, pictures

SERIES = 5
"""How many values are drawn as curves."""


def bars(facts: Facts) -> Html:
    """The largest values of the newest slot with their intervals; the script can show another slot."""
    newest = np.argsort(-facts.shares.value[:, -1], kind="stable")[:BARS]
    rows = [_bar(facts, int(row)) for row in newest]
    chooser = element(
        "p",
        element("label", "Slot", for_="slot"),
        element("input", type="range", id="slot", min=0, max=len(facts.names) - 1, value=len(facts.names) - 1, step=1),
        class_="chooser",
        hidden=True,
    )
    when = element("p", "Newest slot: ", element("strong", facts.names[-1]), id="when", aria_live="polite")
    head = element("tr", *(element("th", name, scope="col") for name in (facts.kind, "Share", "Share (95 % interval)")))
    table = element("table", element("thead", head), element("tbody", *rows, id="bars"), class_="bars")
    rest = []
    if facts.rest is not None:
        text = share_text(*facts.rest.last)
        rest = [element("p", f"Everything else ({facts.others:,} values): ", element("span", text, id="rest"))]
    return join(chooser, when, table, *rest)


def bar_scale(facts: Facts) -> float:
    """The share at the right end of the bars: the same for every slot, so that slots can be compared."""
    return 1.01 * max(facts.largest, float(facts.shares.upper[:, -1].max()))


def _bar(facts: Facts, row: int) -> Html:
    share, lower, upper = facts.shares.row(row).last
    scale = 100 / bar_scale(facts)
    track = element(
        "div",
        element("i", class_="bar", style=f"width:{share * scale:.2f}%"),
        element("i", class_="whisker", style=f"left:{lower * scale:.2f}%;width:{(upper - lower) * scale:.2f}%"),
        class_="track",
    )
    label = facts.labels[row]
    return element(
        "tr",
        element("th", label, scope="row", title=label),
        element("td", track, aria_hidden="true"),
        element("td", share_text(share, lower, upper)),
    )


def heat(facts: Facts) -> Html:
    """Shares over time: a row for each value, colour for the share."""
    rows = [_map_row(label, _strip(facts, row), facts.shares.row(row), row) for row, label in enumerate(facts.labels)]
    if facts.rest is not None:
        columns = len(facts.names)
        curve = svg.drawing(columns, svg.band(np.zeros(columns), facts.rest.value, 1.0))
        rows.append(_map_row("everything else", curve, facts.rest, len(facts.labels)))
    head = element("tr", *(element("th", name, scope="col") for name in (facts.kind, "Share over time", "Newest slot")))
    foot = element("tr", element("td"), element("td", _axis(facts)), element("td"))
    table = element(
        "table",
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", foot, aria_hidden="true"),
        class_="map" if len(facts.names) > 400 else "map crisp",
    )
    return join(_legend(facts), table, _numbers(facts, range(len(facts.labels)), 12))


def _map_row(label: str, drawn: Html, band: Band, row: int) -> Html:
    return element(
        "tr",
        element("th", label, scope="row", title=label),
        element("td", element("div", drawn, class_="plot", data_row=row)),
        element("td", share_text(*band.last)),
    )


def _strip(facts: Facts, row: int) -> Html:
    shares = facts.shares.value[row]
    span = f"from {percent_text(_short(shares.min()))} to {percent_text(_short(shares.max()))}"
    return pictures(level(shares, facts.largest), span)


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _legend(facts: Facts) -> Html:
    """The colour scale: how dark which share is."""
    ramp = pictures(np.linspace(0, 1, LEVELS), "")
    round_shares = [0.0, *(m * 10.0**e for e in range(-7, 1) for m in (1, 2, 5))]
    places = [(share, float(level(np.array([share]), facts.largest)[0])) for share in round_shares]
    marks = list[Html]()
    last = -1.0
    for share, place in [(share, place) for share, place in places if share <= facts.largest]:
        if place - last >= 0.14 or share == 0:
            marks.append(element("span", percent_text(share), style=f"left:{100 * place:.2f}%"))
            last = place
    text = "Share of users; darkness grows with its square root"
    dark = "Share of users; brightness grows with its square root"
    return element(
        "div",
        element("span", text, class_="on-light"),
        element("span", dark, class_="on-dark"),
        element("div", ramp, element("div", *marks, class_="axis"), class_="ramp"),
        class_="legend",
    )


def series(facts: Facts) -> Html:
    """The largest values as curves with their bands, each on its own scale."""
    rows = facts.rank[:SERIES]
    panels = []
    for row in rows:
        band = facts.shares.row(row)
        top = min(_top(band), 1.0)
        panels.append(_panel(facts, facts.labels[row], share_text(*band.last), _curve(band, top), top, data_row=row))
    return join(*panels, _axis_row(facts), _numbers(facts, rows, 24))


def totals(facts: Facts) -> Html:
    """The number of users over time, where it was measured."""
    if not np.isfinite(facts.total.value).any():
        return element("p", "The number of users was not measured in this stream.")
    top = _top(facts.total)
    panel = _panel(
        facts, "users", count_text(*facts.total.last), _curve(facts.total, top), top, percent=False, data_text="total"
    )
    rows = [(name, (count_text(*ends),)) for name, ends in _sampled(facts, facts.total)]
    return join(panel, _axis_row(facts), _table(("Slot", "Users (95 % interval)"), rows))


def budget(facts: Facts) -> Html:
    """The budget of each slot, and what is spent of all of it."""
    columns = len(facts.names)
    zero = np.zeros(columns)
    top = _above(float(facts.epsilon.max()))
    slot = join(svg.band(zero, facts.epsilon, top), svg.line(facts.epsilon, top))
    whole = _above(facts.epsilon_total or 0.0, float(facts.spent.max()))
    spent = join(svg.band(zero, facts.spent, whole), svg.line(facts.spent, whole))
    limit = []
    if facts.epsilon_total is not None:
        place = f"bottom:{100 * facts.epsilon_total / whole:.2f}%"
        limit = [element("span", f"ε = {budget_text(facts.epsilon_total)}", class_="limit", style=place)]
    now, sum_ = budget_text(float(facts.epsilon[-1])), budget_text(float(facts.spent[-1]))
    per = "ε of a slot" if facts.per_column == 1 else "ε of a slot (mean)"
    rows = [
        (facts.names[i], (budget_text(float(facts.epsilon[i])), budget_text(float(facts.spent[i]))))
        for i in _sample(columns, 24)
    ]
    return join(
        _panel(facts, per, f"newest: {now}", slot, top, percent=False, data_text="epsilon"),
        _panel(facts, "spent at most", f"so far: {sum_}", spent, whole, *limit, percent=False, data_text="epsilon"),
        _axis_row(facts),
        _table(("Slot", per, "Spent at most, per user"), rows),
    )


def recent(facts: Facts) -> Html:
    """The last slots as a table."""
    head = (
        "Slot",
        "Start",
        "Largest values (95 % interval)",
        "Users (95 % interval)",
        "ε of the slot",
        "Spent at most",
    )
    body = []
    for name, slot in facts.recent:
        top = [
            element("div", f"{label} ", element("span", share_text(*ends), class_="soft")) for label, *ends in slot.top
        ]
        cells = (join(*top), count_text(*slot.total), budget_text(slot.epsilon), budget_text(slot.spent))
        start = name if facts.zone else "—"
        row = (element("th", f"{slot.slot:,}", scope="row"), element("td", start), *(element("td", c) for c in cells))
        body.append(element("tr", *row))
    titles = element("tr", *(element("th", title, scope="col") for title in head))
    table = element("table", element("thead", titles), element("tbody", *body), class_="numbers")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="The last slots")


# What the charts are made of.


def _top(band: Band) -> float:
    """The end of a scale: all estimates, and all but the widest intervals; what is above it is cut off."""
    upper = band.upper[np.isfinite(band.upper)]
    return _above(float(np.nanmax(band.value)), float(np.quantile(upper, 0.98)) if upper.size else 0.0)


def _above(*numbers: float) -> float:
    """A round end of a scale with a little room above the largest number."""
    return svg.round_top(1.04 * max(numbers))


def _curve(band: Band, top: float) -> Html:
    return join(svg.band(band.lower, band.upper, top), svg.line(band.value, top))


def _panel(
    facts: Facts, label: str, note: str, paths: Html, top: float, *more: Html, percent: bool = True, **data: str | int
) -> Html:
    """A chart with its name at the left and three marks on its scale."""
    scale = [
        element("span", percent_text(value) if percent else f"{value:,.6g}", style=f"bottom:{height}%")
        for value, height in ((0.0, 0), (top / 2, 50), (top, 100))
    ]
    curve = svg.drawing(len(facts.names), paths)
    told = f"{label} over time, from {facts.names[0]} to {facts.names[-1]}; {note}"
    drawn = element("div", curve, *more, class_="plot", role="img", aria_label=told, **data)
    name = element("div", element("strong", label, title=label), element("span", note, class_="soft"), class_="name")
    return element("div", name, element("div", *scale, class_="scale", aria_hidden="true"), drawn, class_="panel")


def _axis(facts: Facts) -> Html:
    columns = len(facts.names)
    spans = [
        element("span", text, class_="end" if place > 85 else False, style=f"left:{place:.2f}%")
        for place, text in ((100 * i / columns, text) for i, text in facts.marks)
        if place <= 96
    ]
    return element("div", *spans, class_="axis")


def _axis_row(facts: Facts) -> Html:
    empty = element("div", class_="name"), element("div", class_="scale")
    return element("div", *empty, _axis(facts), class_="panel", aria_hidden="true")


def _sample(columns: int, count: int) -> list[int]:
    """Evenly spread columns, the newest among them."""
    return sorted({round(i) for i in np.linspace(columns - 1, 0, min(count, columns)).tolist()})


def _sampled(facts: Facts, band: Band, count: int = 24) -> list[tuple[str, tuple[float, float, float]]]:
    return [
        (facts.names[i], (float(band.value[i]), float(band.lower[i]), float(band.upper[i])))
        for i in _sample(len(facts.names), count)
    ]


def _numbers(facts: Facts, rows: range | tuple[int, ...], count: int) -> Html:
    """Shares as a table: a column for each value if there are few, or a row for each."""
    chosen = _sample(len(facts.names), count)

    def text(row: int, column: int) -> str:
        parts: list[Floats] = [facts.shares.value, facts.shares.lower, facts.shares.upper]
        return share_text(*(float(part[row, column]) for part in parts))

    if len(rows) <= SERIES:
        head = ("Slot", *(facts.labels[row] for row in rows))
        return _table(head, [(facts.names[i], tuple(text(row, i) for row in rows)) for i in chosen])
    head = (facts.kind, *(facts.names[i] for i in chosen))
    return _table(head, [(facts.labels[row], tuple(text(row, i) for i in chosen)) for row in rows])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, tuple[str, ...]]]) -> Html:
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
