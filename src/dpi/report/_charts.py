"""The charts of the page. All are complete without a script, which only adds tooltips and the choice of a slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dpi.display.markup import Html, element, join
from dpi.release.choice import Floats
from dpi.release.grid import Grid, Shares
from dpi.release.interval import LEVEL, LEVEL_TEXT
from dpi.release.people import COUNTS, LABELS, NUMBERS, is_of_its_slot, tell_people
from dpi.release.quality import Unit
from dpi.release.shown import show_answer
from dpi.report import _drawing
from dpi.report._facts import CODE, UPPER, VALUE, Facts
from dpi.report._figures import budget_text, count_text, percent_text, share_text, slots_text
from dpi.report._rows import BARS

ESTIMATED = "plot estimated"  # A chart of estimates: the script says of a column whether it was measured
_STRONG = (("strong", 0.75), ("middle", 0.58))
"""From which part of the colour scale on a number is written in the colour of paper: in both themes, in the dark one.

There its contrast is larger than that of ink: at least 3.8 to 1 in every cell.
"""
_NEXT_TO_NOTHING = 5e-5  # A share that is not worth a sentence; sums of rounded numbers are never quite one


_HIDDEN = "No number of users is shown: every interval is wider than the publisher's rules allow."


def draw_bars(facts: Facts) -> Html:
    """Draw the largest or the chosen values of the newest slot with intervals; the script can show another slot."""
    newest = len(facts.names) - 1
    slider = element("input", type="range", id="slot", min=0, max=newest, value=newest, step=1)
    chooser = element("p", element("label", "Slot", for_="slot"), slider, class_="chooser", hidden=True)
    when = element("p", "Newest slot: ", element("strong", facts.names[-1]), id="when", aria_live="polite")
    rows = [_bar(facts, row) for row in facts.rows.bars]
    table = element(
        "table",
        element("thead", _head(facts.kind, "Share", f"Share ({LEVEL_TEXT} interval)")),
        element("tbody", *rows, id="bars"),
        class_="bars close" if len(rows) > BARS else "bars",
    )
    rest = []
    if facts.rest is not None:
        what = f"Everything else ({facts.rows.others:,} values)" if facts.rows.others > 1 else facts.rows.rest_label
        rest = [element("p", f"{what}: ", element("span", share_text(*facts.rest[:, -1]), id="rest"))]
    return join(chooser, when, table, *rest)


def bar_scale(facts: Facts) -> float:
    """Return the share at the right end of the bars: the same for every slot, so that slots can be compared."""
    return 1.01 * max(facts.largest, float(np.nan_to_num(facts.shares[UPPER, :, -1]).max()))


def _bar(facts: Facts, row: int) -> Html:
    share, lower, upper = np.nan_to_num(facts.shares[:CODE, row, -1]).tolist()
    scale = 100 / bar_scale(facts)
    track = element(
        "div",
        element("i", class_="bar", hidden=upper == 0, style=f"width:{share * scale:.2f}%"),
        element(
            "i",
            class_="interval",
            hidden=upper == 0,
            style=f"left:{lower * scale:.2f}%;width:{(upper - lower) * scale:.2f}%",
        ),
        class_="track",
    )
    name = element("th", facts.rows.labels[row], scope="row", title=facts.rows.labels[row])
    number = element("td", *_bold(share_text(*facts.shares[:, row, -1])))
    return element("tr", name, element("td", track, aria_hidden="true"), number)


def _bold(text: str) -> tuple[str | Html, ...]:
    """Return a number with its interval, which is the bold part."""
    value, found, rest = text.partition(" (")
    ends, _, more = rest.partition(")")
    return (f"{value} (", element("strong", ends), f"){more}") if found else (text,)


def _head(*titles: str) -> Html:
    return element("tr", *(element("th", title, scope="col") for title in titles))


def draw_map(facts: Facts) -> Html:
    """Draw shares over time: a row for each value, colour for the share."""
    rows = [
        _map_row(label, _strip(facts, row), facts.shares[:, row], row) for row, label in enumerate(facts.rows.labels)
    ]
    columns = len(facts.names)
    if facts.rest is not None:
        curve = _drawing.draw(columns, _drawing.band(np.zeros(columns), facts.rest[VALUE], 1.0))
        rows.append(_map_row(facts.rows.rest_label, curve, facts.rest, len(facts.rows.labels)))
    foot = [element("tr", element("td"), element("td", _axis(facts)), element("td"))]
    if not facts.measured.all():
        strip = element("div", class_="measured", style=f"--measured:url({_drawing.mask(facts.measured)})")
        foot.insert(0, element("tr", element("td", "measured"), element("td", strip), element("td")))
    table = element(
        "table",
        element("thead", _head(facts.kind, "Share over time", "Newest slot")),
        element("tbody", *rows),
        element("tfoot", *foot, aria_hidden="true"),
        class_="map" if columns > 400 else "map crisp",
    )
    chosen = _sample(columns, 12)
    texts = [[share_text(*facts.shares[:, row, i]) for i in chosen] for row in range(len(facts.rows.labels))]
    numbers = _fold((facts.kind, *(facts.names[i] for i in chosen)), zip(facts.rows.labels, texts, strict=True))
    return join(_legend(facts), table, numbers)


def _map_row(label: str, drawn: Html, band: Floats, row: int) -> Html:
    return element(
        "tr",
        element("th", label, scope="row", title=label),
        element("td", element("div", drawn, class_=ESTIMATED, data_row=row)),
        element("td", share_text(*band[:, -1])),
    )


def _strip(facts: Facts, row: int) -> Html:
    shares = facts.shares[VALUE, row]
    if not np.isfinite(shares).any():
        return _drawing.pictures(_drawing.level(shares, facts.largest), share_text(*facts.shares[:, row, -1]))
    least, most = (percent_text(float(f"{end:.3g}")) for end in (np.nanmin(shares), np.nanmax(shares)))
    return _drawing.pictures(_drawing.level(shares, facts.largest), f"from {least} to {most}")


def _legend(facts: Facts) -> Html:
    """Draw the colour scale: how dark which share is."""
    round_shares = [0.0, *(m * 10.0**e for e in range(-7, 1) for m in (1, 2, 5))]
    marks, last = list[Html](), -1.0
    for share in [share for share in round_shares if share <= facts.largest]:
        place = float(_drawing.level(np.array([share]), facts.largest)[0])
        if place - last >= 0.14 or share == 0:
            marks.append(element("span", percent_text(share), style=f"left:{100 * place:.2f}%"))
            last = place
    ramp = _drawing.pictures(np.linspace(0, 1, _drawing.LEVELS), "")
    return element(
        "div",
        element("span", "Share of users; darkness grows with its square root", class_="on-light"),
        element("span", "Share of users; brightness grows with its square root", class_="on-dark"),
        element("div", ramp, element("div", *marks, class_="axis"), class_="ramp"),
        class_="legend",
    )


def draw_series(facts: Facts) -> Html:
    """Draw the largest or the chosen values as curves with their bands, each on its own scale."""
    curves = [(row, facts.rows.labels[row], facts.shares[:, row]) for row in facts.rows.curves]
    panels = []
    for row, label, band in curves:
        top = min(_scale_top(band), 1.0)
        panels.append(_panel(facts, label, share_text(*band[:, -1]), _curve(facts, band, top), top, data_row=row))
    texts = [(facts.names[i], [share_text(*band[:, i]) for *_, band in curves]) for i in _sample(len(facts.names))]
    return join(*panels, _axis_row(facts), _fold(("Slot", *(label for _, label, _ in curves)), texts))


def draw_totals(facts: Facts) -> Html:
    """Draw the number of users over time, where it was measured."""
    if not np.isfinite(facts.total[VALUE]).any():
        hidden = bool((facts.total[CODE] > 0).any())
        return element("p", _HIDDEN if hidden else "The number of users was not measured in this stream.")
    bands = {"users": facts.total}
    bands |= {name: band for name, band in zip(COUNTS, facts.people, strict=True) if np.isfinite(band[VALUE]).any()}
    panels = []
    for name, band in bands.items():
        top, newest = _scale_top(band), count_text(*band[:, -1])
        every = is_of_its_slot("total" if name == "users" else name, facts.newest)
        value, lower, upper, _ = band
        whole = join(_drawing.band(lower, upper, top), _drawing.line(value, top))
        drawn = whole if every else _curve(facts, band, top)
        kind = "plot" if every else ESTIMATED
        panels.append(_panel(facts, name, newest, drawn, top, percent=False, kind=kind, data_text=name))
    rows = [(facts.names[i], [count_text(*band[:, i]) for band in bands.values()]) for i in _sample(len(facts.names))]
    heads = ("Slot", *(f"{name.capitalize()} ({LEVEL_TEXT} interval)" for name in bands))
    return join(*panels, _axis_row(facts), _fold(heads, rows), *_list_people(facts))


def _list_people(facts: Facts) -> list[Html]:
    """Return what the newest slot says of its people, as a table."""
    rows = []
    for name, answer in tell_people(facts.newest).items():
        if name == "further_activity":
            text = slots_text(answer.value, *answer.interval(LEVEL))
        else:
            unit: Unit = "%" if name in NUMBERS else "points"
            text = (count_text if name in NUMBERS else share_text)(*show_answer(answer, None, facts.quality, unit))
        rows.append(element("tr", element("th", LABELS[name], scope="row"), element("td", text)))
    head = element("thead", _head("Newest slot", f"Estimate ({LEVEL_TEXT} interval)"))
    return [_scroll(head, element("tbody", *rows), "People in the newest slot")] if rows else []


def draw_budget(facts: Facts) -> Html:
    """Draw the budget of each slot, and what is spent of all of it."""
    limit, epsilon = [], facts.epsilon_total
    top, whole = _room_above(float(facts.epsilon.max())), _room_above(epsilon or 0.0, float(facts.spent.max()))
    if epsilon is not None:
        place = f"bottom:{100 * epsilon / whole:.2f}%"
        limit = [element("span", f"ε = {budget_text(epsilon)}", class_="limit", style=place)]
    per = "largest payment" if facts.per_column == 1 else "largest payment (mean)"
    panels = []
    for label, told, amounts, end, more in (
        (per, "newest", facts.epsilon, top, []),
        ("one user in total", "at most", facts.spent, whole, limit),
    ):
        paths = join(_drawing.band(np.zeros(amounts.size), amounts, end), _drawing.line(amounts, end))
        note = f"{told}: {budget_text(float(amounts[-1]))}"
        panels.append(
            _panel(facts, label, note, paths, end, *more, percent=False, kind="plot", data_text="epsilon"),
        )
    both = (facts.epsilon, facts.spent)
    rows = [(facts.names[i], [budget_text(float(each[i])) for each in both]) for i in _sample(len(facts.names))]
    return join(*panels, _axis_row(facts), _fold(("Slot", per.capitalize(), "One user in total, at most"), rows))


def list_recent(facts: Facts) -> Html:
    """Return the last slots as a table."""
    head = _head(
        "Slot",
        "Start",
        "Measured",
        f"Largest values ({LEVEL_TEXT} interval)",
        f"Users ({LEVEL_TEXT} interval)",
        "Largest payment (ε)",
        "One user in total, at most (ε)",
    )
    body = []
    for slot in facts.recent:
        top = [
            element("div", f"{label} ", element("span", share_text(*band), class_="soft")) for label, band in slot.top
        ]
        texts = (count_text(*slot.total), budget_text(slot.epsilon), budget_text(slot.spent))
        cells = (slot.name if facts.zone else "—", f"{100 * slot.measured:.0f} %", join(*top), *texts)
        body.append(element("tr", element("th", f"{slot.slot:,}", scope="row"), *(element("td", c) for c in cells)))
    return _scroll(element("thead", head), element("tbody", *body), "The last slots")


def _scroll(head: Html, body: Html, name: str) -> Html:
    table = element("table", head, body, class_="numbers")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)


def _scale_top(band: Floats) -> float:
    """Return the end of a scale: all estimates, and bands up to three times the median; what is above is cut off."""
    upper, known = band[UPPER, np.isfinite(band[UPPER])], band[VALUE, np.isfinite(band[VALUE])]
    if not known.size:
        return _room_above(0.0)
    widest = float(np.quantile(upper, 0.98)) if upper.size else 0.0
    return _room_above(float(known.max()), min(widest, 3 * float(np.median(known)) or widest))


def _room_above(*numbers: float) -> float:
    """Return a round end of a scale with a little room above the largest number."""
    return _drawing.round_top(1.04 * max(numbers))


def _curve(facts: Facts, band: Floats, top: float) -> Html:
    """Draw a line with the band of its intervals; grey where it was not measured, and then dots where it was."""
    drawn, gaps = [], not facts.measured.all()
    for where, kind in ((facts.measured, ""), (~facts.measured, " carried")):
        if where.any():
            value, lower, upper = np.where(where, band[:CODE], np.nan)
            drawn += [_drawing.band(lower, upper, top, f"band{kind}"), _drawing.line(value, top, f"line{kind}")]
    return join(*drawn, *([_drawing.dots(np.where(facts.measured, band[VALUE], np.nan), top)] if gaps else []))


def _panel(
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
    """Draw a chart with its name at the left and three marks on its scale."""
    scale = [
        element("span", percent_text(value) if percent else f"{value:,.6g}", style=f"bottom:{height}%")
        for value, height in ((0.0, 0), (top / 2, 50), (top, 100))
    ]
    told = f"{label} over time, from {facts.names[0]} to {facts.names[-1]}; {note}"
    chart = _drawing.draw(len(facts.names), paths)
    drawn = element("div", chart, *more, class_=kind, role="img", aria_label=told, **data)
    name = element("div", element("strong", label, title=label), element("span", note, class_="soft"), class_="name")
    return element("div", name, element("div", *scale, class_="scale", aria_hidden="true"), drawn, class_="panel")


def _axis(facts: Facts) -> Html:
    """Draw the marks on the time axis; one at the very end would run out of the page."""
    places = [(100 * i / len(facts.names), text) for i, text in facts.marks]
    spans = [
        element("span", text, class_="end" if place > 85 else False, style=f"left:{place:.2f}%")
        for place, text in places
        if place <= 96
    ]
    return element("div", *spans, class_="axis")


def _axis_row(facts: Facts) -> Html:
    """Draw the time axis below panels."""
    empty = element("div", class_="name"), element("div", class_="scale")
    return element("div", *empty, _axis(facts), class_="panel", aria_hidden="true")


def _sample(columns: int, count: int = 24) -> list[int]:
    """Return evenly spread columns, the newest among them."""
    return sorted({round(i) for i in np.linspace(columns - 1, 0, min(count, columns)).tolist()})


def _fold(head: tuple[str, ...], rows: Iterable[tuple[str, Sequence[str]]]) -> Html:
    """Return the numbers behind a chart, folded away."""
    body = [
        element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))
        for name, cells in rows
    ]
    numbers = _scroll(element("thead", _head(*head)), element("tbody", *body), "Numbers of the chart")
    return element("details", element("summary", "Numbers of this chart, at evenly spread slots"), numbers)


def draw_grid(grid: Grid) -> tuple[str, str, Html]:
    """Return title, introduction and table of one pair of parts of a product: darker where more users are.

    It is a table of numbers that happens to be coloured: nothing is lost where colours are not seen, and each number's
    interval is in its tooltip, without a script.
    """
    words = (
        "A cell is the per cent of all users with both values, in the newest slot. “All” counts those as well that "
        "have no row or column here. Rest the pointer on a number for its interval."
    )
    told = [f"Summed over {', '.join(grid.summed)}."] if grid.summed else []
    if grid.left_out > _NEXT_TO_NOTHING:
        told.append(f"Not in a cell: {100 * grid.left_out:.3g} % of users.")
    said = [element("p", " ".join(told))] if told else []
    return f"{grid.rows.name} × {grid.columns.name}", words, join(_grid_table(grid), *said)


def _grid_table(grid: Grid) -> Html:
    columns, many = grid.columns, len(grid.columns.labels)
    names = element(
        "tr",
        element("th", f"{grid.rows.name} ↓", class_="part"),
        element("th", f"{columns.name} →", class_="part", colspan=many),
        element("th"),
    )
    labels = (*columns.labels, "all")
    head = element("tr", element("td", class_="all"), *(element("th", label, scope="col") for label in labels))
    levels = _drawing.level(grid.cells.value, float(np.nan_to_num(grid.cells.value).max()))
    body = []
    for row, label in enumerate(grid.rows.labels):
        cells = [_cell(grid.cells, (row, column), float(levels[row, column])) for column in range(many)]
        name = element("th", label, scope="row", title=label)
        body.append(element("tr", name, *cells, _cell(grid.rows.shares, (row,))))
    whole = [_cell(columns.shares, (column,)) for column in range(many)]
    foot = element("tr", element("th", "all", scope="row"), *whole, element("td", class_="all"))
    table = element("table", element("thead", names, head), element("tbody", *body, foot), class_="grid")
    told = f"Shares by {grid.rows.name} and {columns.name}"
    return element("div", table, class_="wide", tabindex=0, role="region", aria_label=told)


def _code(shares: Shares, place: tuple[int, ...]) -> list[float]:
    return [] if shares.codes is None else [float(shares.codes[place])]


def _cell(shares: Shares, place: tuple[int, ...], level: float | None = None) -> Html:
    """Return a number with its interval as a tooltip; without a level it belongs to all of a row or column."""
    value, lower, upper = (float(end[place]) for end in (shares.value, shares.lower, shares.upper))
    text, title = f"{100 * value:.1f}", share_text(value, lower, upper, *_code(shares, place))
    if np.isnan(value):
        return element("td", "–", title=title, class_="all" if level is None else False)
    if level is None:
        return element("td", text, title=title, class_="all")
    strong = next((name for name, least in _STRONG if level > least), False)
    return element("td", text, title=title, style=f"--level:{100 * level:.0f}%", class_=strong)
