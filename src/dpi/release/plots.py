"""Pictures of a release (matplotlib, the extra `plot`). They see released distributions only.

The bin `other` is drawn only where it is named; its share stands in the caption, with whatever else is left out.
Shares are of all users, whatever is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from dpi._version import how_to_install
from dpi.domain import Bins, Categories, Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release.choice import Floats, Values, catch_all, choose, short_label
from dpi.release.grid import Grid, Shares, grid, pairs
from dpi.release.interval import LEVEL_TEXT
from dpi.release.queries import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1b3a5c", "#c8553d", "#588157", "#8d6a9f", "#e0a458", "#5fa8d3", "#6c757d", "#b5838d")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
BARS = 20
"""How many values are drawn as bars, unless said."""
DECADES = 1.5
"""From how many powers of ten between the edges on an axis has equal steps for equal factors."""
CELLS = (24, 24)
"""The most rows and columns of a grid."""
NUMBERS = 12
"""Up to how many columns the cells of a grid have their numbers in them."""


def blank(width: float, height: float) -> Figure:
    """Return an empty figure, which a notebook shows as a picture, whether or not pyplot was imported there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError(f"plots need matplotlib: {how_to_install('plot')}.") from None

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            image = BytesIO()
            self.savefig(image, format="png", dpi=144)
            return image.getvalue()

    return Picture(figsize=(width, height), layout="constrained")


def plot(distribution: Distribution, title: str, values: Values | None, parts: tuple[str, str] | None) -> Figure:
    """Draw a distribution with 95 % intervals: steps over the edges of bins, a grid of a product, or bars of values."""
    domain = distribution.domain
    by_parts = values is None or isinstance(values, int | Mapping)
    if isinstance(domain, Product) and len(domain.parts) > 1 and by_parts:
        return _plot_grid(distribution, title, values, parts)
    if parts is not None:
        raise OptionError("`parts` are two parts of a product domain that is drawn as a grid.")
    if isinstance(domain, Bins) and domain.edges.size > 1 and values is None:
        return _plot_steps(distribution, title, domain)
    return _plot_bars(distribution, title, choose(domain, distribution.pdf, BARS if values is None else values))


def add_caption(figure: Figure, text: str) -> None:
    """Write a small line below a picture."""
    if text:
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color="#555555")


def describe_rest(domain: Domain, codes: Integers, pdf: Floats) -> str:
    """Say what is not drawn; the bin `other` by its name."""
    outside = np.setdiff1d(np.arange(domain.size), codes)
    named = outside[catch_all(domain)[outside]] if isinstance(domain, Categories) else outside[:0]
    named = outside if outside.size == 1 else named
    told = [f"{short_label(domain, int(code))} {_percent(pdf[code])}" for code in named]
    rest = np.setdiff1d(outside, named)
    if rest.size:
        told.append(f"{rest.size:,} more {'values' if rest.size > 1 else 'value'} {_percent(pdf[rest].sum())}")
    return f"Not drawn: {', and '.join(told)} of users" if told else ""


def scale_end(share: Floats, upper: Floats) -> float:
    """Return the end of a scale: all estimates, and all but the widest intervals, which are cut off."""
    return 1.05 * max(float(share.max()), float(np.quantile(upper, 0.98)), 1e-12)


def _percent(share: float) -> str:
    return f"{100 * float(share):.3g} %"


def _draw_bars(axes: Axes, shares: Shares, *, across: bool) -> None:
    """Draw shares with their intervals, side by side (`across`) or below each other."""
    places = np.arange(shares.value.size)
    errors = np.stack([shares.value - shares.lower, shares.upper - shares.value])
    bar, line, thin = COLOURS[0], COLOURS[1], {"lw": 1.2}
    if across:
        axes.bar(places, shares.value, yerr=errors, color=bar, alpha=0.85, ecolor=line, capsize=2, error_kw=thin)
        axes.set(ylim=(0, None), ylabel="share of users")
    else:
        axes.barh(places, shares.value, xerr=errors, color=bar, alpha=0.85, ecolor=line, capsize=2, error_kw=thin)
        axes.set(xlim=(0, None), xlabel="share of users")


def _plot_bars(distribution: Distribution, title: str, codes: Integers) -> Figure:
    lower, upper = distribution.interval()
    figure = blank(7, 1.1 + 0.27 * codes.size)
    axes = figure.subplots()
    _draw_bars(axes, Shares(distribution.pdf[codes], lower[codes], upper[codes]), across=False)
    axes.set_yticks(np.arange(codes.size), [short_label(distribution.domain, int(code)) for code in codes])
    axes.set_ylim(codes.size - 0.4, -0.6)  # the first value above
    axes.set_xlabel(f"share of users, with {LEVEL_TEXT} interval")
    axes.set_title(title, loc="left")
    add_caption(figure, describe_rest(distribution.domain, codes, distribution.pdf))
    return figure


def _plot_steps(distribution: Distribution, title: str, domain: Bins) -> Figure:
    """Draw the density of an ordered domain: areas are shares, so that bins of different width can be compared."""
    edges = domain.edges
    factors = edges[0] > 0 and np.log10(edges[-1] / edges[0]) >= DECADES
    widths = np.diff(np.log10(edges)) if factors else np.diff(edges)
    even = bool(np.allclose(widths, widths[0]))
    unit = np.ones_like(widths) if even else widths  # bins of one width need no density: the share itself is told
    share, lower, upper = (end[1 : domain.size - 1] / unit for end in (distribution.pdf, *distribution.interval()))
    figure = blank(8, 4)
    axes = figure.subplots()
    axes.stairs(share, edges, color=COLOURS[0], fill=True, alpha=0.25, lw=0)
    axes.stairs(share, edges, color=COLOURS[0], lw=1.6, baseline=None)
    axes.stairs(upper, edges, baseline=lower, color=COLOURS[1], fill=True, alpha=0.25, lw=0)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, scale_end(share, upper))
    if factors:
        axes.set_xscale("log")
    density = "share of users per factor of ten" if factors else "share of users per unit"
    axes.set_ylabel(("share of users in a bin" if even else density) + f"\n(band: {LEVEL_TEXT})")
    axes.set_title(title, loc="left")
    below, above = _percent(distribution.pdf[0]), _percent(distribution.pdf[-1])
    add_caption(figure, f"Beyond the edges: {below} of users below {edges[0]:g}, {above} from {edges[-1]:g} on.")
    return figure


def _plot_grid(distribution: Distribution, title: str, values: Values | None, parts: tuple[str, str] | None) -> Figure:
    """Draw two parts of a product as a heat map, the first two unless named, with their own shares along its sides."""
    if isinstance(parts, str) or (parts is not None and len(parts) != 2):
        raise OptionError("`parts` must be the names of two parts of the product.")
    made = grid(distribution, *(parts or pairs(distribution.domain)[0]), values, most=CELLS)
    across, down = len(made.columns.labels), len(made.rows.labels)
    figure = blank(min(3.4 + 0.62 * across, 13.0), 2.6 + 0.36 * down)
    (top, corner), (middle, right) = figure.subplots(
        2, 2, width_ratios=[max(across, 4), 3], height_ratios=[3, max(down, 4)], sharex="col", sharey="row"
    )
    corner.set_axis_off()
    _draw_cells(middle, made)
    _draw_bars(top, made.columns.shares, across=True)
    top.tick_params(labelbottom=False)
    _draw_bars(right, made.rows.shares, across=False)
    right.tick_params(labelleft=False)
    top.set_title(title, loc="left")
    summed = f" Summed over {', '.join(made.summed)}." if made.summed else ""
    left = f"Not drawn: {_percent(made.left_out)} of users." if made.left_out > 5e-5 else ""
    largest = f"The darkest cell is {_percent(made.cells.value.max())} of"
    numbers = "Numbers are per cent of" if across <= NUMBERS else largest
    add_caption(figure, f"{numbers} all users.{summed} {left}".strip())
    return figure


def _draw_cells(axes: Axes, made: Grid) -> None:
    from matplotlib.colors import PowerNorm

    share, across = made.cells.value, len(made.columns.labels)
    axes.imshow(share, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=max(float(share.max()), 1e-12)), aspect="auto")
    axes.set_xticks(np.arange(across), made.columns.labels)
    if across > 6 or max(map(len, made.columns.labels)) > 8:
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(made.rows.labels)), made.rows.labels)
    axes.set_xlabel(made.columns.name)
    axes.set_ylabel(made.rows.name)
    if across > NUMBERS:
        return
    for (row, column), value in np.ndenumerate(share):
        dark = value > 0.36 * share.max()  # of a scale by square roots, that is more than its middle
        text = f"{100 * value:.1f}" if value >= 0.0005 else "0"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "#333333")
