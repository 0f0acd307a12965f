"""A product as a grid: a table of the shares of all pairs of two parts, darker where more users are.

It is a table of numbers that happens to be coloured: nothing is lost where colours are not seen, and each number's
interval is in its tooltip, without a script.
"""

from __future__ import annotations

import numpy as np

from dpi.display.markup import Html, element, join
from dpi.release.grid import Grid, Shares
from dpi.report.figures import share_text
from dpi.report.strip import level

_STRONG = (("strong", 0.75), ("middle", 0.58))
"""From which part of the colour scale on a number is written in the colour of paper: in both themes, in the dark one.

There its contrast is larger than that of ink: at least 3.8 to 1 in every cell.
"""

_NEXT_TO_NOTHING = 5e-5
"""A share that is not worth a sentence; sums of rounded numbers are never quite one."""


def section(grid: Grid) -> tuple[str, str, Html]:
    """Title, introduction and table of one pair of parts."""
    words = "A cell is the per cent of all users with both values, in the newest slot. "
    words += (
        "“All” counts those as well that have no row or column here. Rest the pointer on a number for its interval."
    )
    told = [element("p", " ".join(_left(grid)))] if _left(grid) else []
    return f"{grid.rows.name} × {grid.columns.name}", words, join(_table(grid), *told)


def _left(grid: Grid) -> list[str]:
    summed = [f"Summed over {', '.join(grid.summed)}."] if grid.summed else []
    return summed + (
        [f"Not in a cell: {100 * grid.left_out:.3g} % of users."] if grid.left_out > _NEXT_TO_NOTHING else []
    )


def _table(grid: Grid) -> Html:
    columns = grid.columns
    names = element(
        "tr",
        element("th", f"{grid.rows.name} ↓", class_="part"),
        element("th", f"{columns.name} →", class_="part", colspan=len(columns.labels)),
        element("th"),
    )
    labels = (*columns.labels, "all")
    head = element("tr", element("td", class_="all"), *(element("th", label, scope="col") for label in labels))
    largest = float(grid.cells.value.max())
    body = []
    for row, label in enumerate(grid.rows.labels):
        levels = level(grid.cells.value[row], largest)
        cells = [_cell(grid.cells, (row, column), float(levels[column])) for column in range(len(columns.labels))]
        body.append(
            element("tr", element("th", label, scope="row", title=label), *cells, _whole(grid.rows.shares, row))
        )
    whole = [_whole(columns.shares, column) for column in range(len(columns.labels))]
    foot = element("tr", element("th", "all", scope="row"), *whole, element("td", class_="all"))
    return element(
        "div",
        element("table", element("thead", names, head), element("tbody", *body, foot), class_="grid"),
        class_="wide",
        tabindex=0,
        role="region",
        aria_label=f"Shares by {grid.rows.name} and {columns.name}",
    )


def _cell(shares: Shares, place: tuple[int, int], level: float) -> Html:
    strong = next((name for name, least in _STRONG if level > least), False)
    style = f"--level:{100 * level:.0f}%"
    return element("td", _percent(shares, place), title=_text(shares, place), style=style, class_=strong)


def _whole(shares: Shares, place: int) -> Html:
    return element("td", _percent(shares, (place,)), title=_text(shares, (place,)), class_="all")


def _percent(shares: Shares, place: tuple[int, ...]) -> str:
    return f"{100 * shares.value[place]:.1f}"


def _text(shares: Shares, place: tuple[int, ...]) -> str:
    return share_text(*(float(np.asarray(end)[place]) for end in (shares.value, shares.lower, shares.upper)))
