"""A picture of a product: the grid of two parts as a heat map, with the shares of each part along its sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpi.errors import OptionError
from dpi.release.choice import Values
from dpi.release.grid import Grid, Side, grid, pairs
from dpi.release.plots import COLOURS, blank, caption, percent, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpi.release import Release

MOST = (24, 24)
NUMBERS = 12
"""Up to how many columns the cells have their numbers in them."""


def plot_grid(release: Release, values: Values | None, parts: tuple[str, str] | None) -> Figure:
    """Rows and columns are two parts: the first two, unless named. Every cell sums over the other parts."""
    rows, columns = pairs(release.domain)[0] if parts is None else _two(parts)
    made = grid(release, rows, columns, values, most=MOST)
    across, down = len(made.columns.labels), len(made.rows.labels)
    figure = blank(min(3.4 + 0.62 * across, 13.0), 2.6 + 0.36 * down)
    axes = figure.subplots(
        2, 2, width_ratios=[max(across, 4), 3], height_ratios=[3, max(down, 4)], sharex="col", sharey="row"
    )
    (top, corner), (middle, right) = axes
    corner.set_axis_off()
    _cells(middle, made)
    _columns(top, made.columns)
    _rows(right, made.rows)
    top.set_title(title(release), loc="left")
    summed = f" Summed over {', '.join(made.summed)}." if made.summed else ""
    left = f"Not drawn: {percent(made.left_out)} of users." if made.left_out > 5e-5 else ""
    largest = percent(float(made.cells.value.max()))
    numbers = "Numbers are per cent of" if across <= NUMBERS else f"The darkest cell is {largest} of"
    caption(figure, f"{numbers} all users.{summed} {left}".strip())
    return figure


def _two(parts: tuple[str, str]) -> tuple[str, str]:
    if isinstance(parts, str) or len(parts) != 2:
        raise OptionError("`parts` must be the names of two parts of the product.")
    return parts


def _cells(axes: Axes, made: Grid) -> None:
    from matplotlib.colors import PowerNorm

    share = made.cells.value
    axes.imshow(share, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=max(float(share.max()), 1e-12)), aspect="auto")
    across, down = len(made.columns.labels), len(made.rows.labels)
    turned = across > 6 or max(map(len, made.columns.labels)) > 8
    axes.set_xticks(np.arange(across), made.columns.labels)
    if turned:
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(down), made.rows.labels)
    axes.set_xlabel(made.columns.name)
    axes.set_ylabel(made.rows.name)
    if across > NUMBERS:
        return
    for (row, column), value in np.ndenumerate(share):
        dark = value > 0.36 * share.max()  # of a scale by square roots, that is more than its middle
        text = f"{100 * value:.1f}" if value >= 0.0005 else "0"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "#333333")


def _columns(axes: Axes, side: Side) -> None:
    places, share = np.arange(len(side.labels)), side.shares
    axes.bar(places, share.value, color=COLOURS[0], alpha=0.85)
    errors = np.stack([share.value - share.lower, share.upper - share.value])
    axes.errorbar(places, share.value, yerr=errors, fmt="none", ecolor=COLOURS[1], capsize=2, lw=1.2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share of users")
    axes.tick_params(labelbottom=False)


def _rows(axes: Axes, side: Side) -> None:
    places, share = np.arange(len(side.labels)), side.shares
    axes.barh(places, share.value, color=COLOURS[0], alpha=0.85)
    errors = np.stack([share.value - share.lower, share.upper - share.value])
    axes.errorbar(share.value, places, xerr=errors, fmt="none", ecolor=COLOURS[1], capsize=2, lw=1.2)
    axes.set_xlim(left=0)
    axes.set_xlabel("share of users")
    axes.tick_params(labelleft=False)
