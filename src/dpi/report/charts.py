"""The charts of the page. All are complete without a script, which only adds tooltips and the choice of a slot."""

from __future__ import annotations

import numpy as np

from dpi.display.markup import Html, element, join
from dpi.release.interval import LEVEL_TEXT
from dpi.report import svg
from dpi.report.facts import Band, Facts
from dpi.report.figures import budget_text, count_text, percent_text, share_text
from dpi.report.panels import (
    ESTIMATED,
    axis,
    axis_row,
    curve,
    folded,
    panel,
    room_above,
    sample,
    scale_top,
    shares_by_slot,
    shares_by_value,
)
from dpi.report.rows import BARS
from dpi.report.strip import LEVELS, level, pictures


def bars(facts: Facts) -> Html:
    """The largest or the chosen values of the newest slot with intervals; the script can show another slot."""
    rows = [_bar(facts, row) for row in facts.rows.bars]
    chooser = element(
        "p",
        element("label", "Slot", for_="slot"),
        element("input", type="range", id="slot", min=0, max=len(facts.names) - 1, value=len(facts.names) - 1, step=1),
        class_="chooser",
        hidden=True,
    )
    when = element("p", "Newest slot: ", element("strong", facts.names[-1]), id="when", aria_live="polite")
    head = element(
        "tr", *(element("th", name, scope="col") for name in (facts.kind, "Share", f"Share ({LEVEL_TEXT} interval)"))
    )
    table = element(
        "table",
        element("thead", head),
        element("tbody", *rows, id="bars"),
        class_="bars close" if len(rows) > BARS else "bars",
    )
    rest = []
    if facts.rest is not None:
        what = f"Everything else ({facts.rows.others:,} values)" if facts.rows.others > 1 else facts.rows.rest_label
        rest = [element("p", f"{what}: ", element("span", share_text(*facts.rest.last), id="rest"))]
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
    label = facts.rows.labels[row]
    return element(
        "tr",
        element("th", label, scope="row", title=label),
        element("td", track, aria_hidden="true"),
        element("td", share_text(share, lower, upper)),
    )


def heat(facts: Facts) -> Html:
    """Shares over time: a row for each value, colour for the share."""
    rows = [
        _map_row(label, _strip(facts, row), facts.shares.row(row), row) for row, label in enumerate(facts.rows.labels)
    ]
    if facts.rest is not None:
        columns = len(facts.names)
        curve = svg.drawing(columns, svg.band(np.zeros(columns), facts.rest.value, 1.0))
        rows.append(_map_row(facts.rows.rest_label, curve, facts.rest, len(facts.rows.labels)))
    head = element("tr", *(element("th", name, scope="col") for name in (facts.kind, "Share over time", "Newest slot")))
    foot = element("tr", element("td"), element("td", axis(facts)), element("td"))
    table = element(
        "table",
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", foot, aria_hidden="true"),
        class_="map" if len(facts.names) > 400 else "map crisp",
    )
    return join(_legend(facts), table, shares_by_value(facts))


def _map_row(label: str, drawn: Html, band: Band, row: int) -> Html:
    return element(
        "tr",
        element("th", label, scope="row", title=label),
        element("td", element("div", drawn, class_=ESTIMATED, data_row=row)),
        element("td", share_text(*band.last)),
    )


def _strip(facts: Facts, row: int) -> Html:
    shares = facts.shares.value[row]
    span = f"from {percent_text(_short(np.nanmin(shares)))} to {percent_text(_short(np.nanmax(shares)))}"
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
    """The largest or the chosen values as curves with their bands, each on its own scale."""
    rows = facts.rows.curves
    panels = []
    for row in rows:
        band = facts.shares.row(row)
        top = min(scale_top(band), 1.0)
        drawn, label = curve(facts, band, top), facts.rows.labels[row]
        panels.append(panel(facts, label, share_text(*band.last), drawn, top, data_row=row))
    return join(*panels, axis_row(facts), shares_by_slot(facts, rows))


def totals(facts: Facts) -> Html:
    """The number of users over time, where it was measured."""
    if not np.isfinite(facts.total.value).any():
        return element("p", "The number of users was not measured in this stream.")
    top = scale_top(facts.total)
    newest = count_text(*facts.total.last)
    drawn = panel(facts, "users", newest, curve(facts, facts.total, top), top, percent=False, data_text="total")
    rows = [(facts.names[i], (count_text(*facts.total.at(i)),)) for i in sample(len(facts.names))]
    return join(drawn, axis_row(facts), folded(("Slot", f"Users ({LEVEL_TEXT} interval)"), rows))


def budget(facts: Facts) -> Html:
    """The budget of each slot, and what is spent of all of it."""
    columns = len(facts.names)
    zero = np.zeros(columns)
    top = room_above(float(facts.epsilon.max()))
    slot = join(svg.band(zero, facts.epsilon, top), svg.line(facts.epsilon, top))
    whole = room_above(facts.epsilon_total or 0.0, float(facts.spent.max()))
    spent = join(svg.band(zero, facts.spent, whole), svg.line(facts.spent, whole))
    limit = []
    if facts.epsilon_total is not None:
        place = f"bottom:{100 * facts.epsilon_total / whole:.2f}%"
        limit = [element("span", f"ε = {budget_text(facts.epsilon_total)}", class_="limit", style=place)]
    now, sum_ = budget_text(float(facts.epsilon[-1])), budget_text(float(facts.spent[-1]))
    per = "ε of a slot" if facts.per_column == 1 else "ε of a slot (mean)"
    rows = [
        (facts.names[i], (budget_text(float(facts.epsilon[i])), budget_text(float(facts.spent[i]))))
        for i in sample(columns)
    ]
    return join(
        panel(facts, per, f"newest: {now}", slot, top, percent=False, kind="plot", data_text="epsilon"),
        panel(
            facts,
            "spent at most",
            f"so far: {sum_}",
            spent,
            whole,
            *limit,
            percent=False,
            kind="plot",
            data_text="epsilon",
        ),
        axis_row(facts),
        folded(("Slot", per, "Spent at most, per user"), rows),
    )


def recent(facts: Facts) -> Html:
    """The last slots as a table."""
    head = (
        "Slot",
        "Start",
        "Measured",
        f"Largest values ({LEVEL_TEXT} interval)",
        f"Users ({LEVEL_TEXT} interval)",
        "ε of the slot",
        "Spent at most",
    )
    body = []
    for name, slot in facts.recent:
        top = [
            element("div", f"{label} ", element("span", share_text(share, lower, upper), class_="soft"))
            for label, share, lower, upper in slot.top
        ]
        measured = f"{100 * slot.measured:.0f} %"
        cells = (measured, join(*top), count_text(*slot.total), budget_text(slot.epsilon), budget_text(slot.spent))
        start = name if facts.zone else "—"
        row = (element("th", f"{slot.slot:,}", scope="row"), element("td", start), *(element("td", c) for c in cells))
        body.append(element("tr", *row))
    titles = element("tr", *(element("th", title, scope="col") for title in head))
    table = element("table", element("thead", titles), element("tbody", *body), class_="numbers")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="The last slots")
