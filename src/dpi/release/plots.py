"""Pictures of releases (matplotlib, the extra `plot`). They see releases only.

The bin `other` is drawn only where it is named; its share stands in the caption, with whatever else is left out.
Shares are of all users, whatever is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from dpi._version import how_to_install
from dpi.domain import Bins, Categories, Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release.choice import Values, catch_all, choose, short_label
from dpi.release.grid import neighbours, span
from dpi.release.interval import LEVEL_TEXT
from dpi.release.queries import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpi.release import Release

COLOURS = ("#1b3a5c", "#c8553d", "#588157", "#8d6a9f", "#e0a458", "#5fa8d3", "#6c757d", "#b5838d")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
BARS = 20
"""How many values are drawn as bars, unless said."""
CURVES = 5
"""How many values are drawn over time, unless said."""
ROWS = 40
"""How many rows of bins a picture over time has; of more bins neighbours are drawn as one."""
DECADES = 1.5
"""From how many powers of ten between the edges on an axis has equal steps for equal factors."""


def blank(width: float, height: float) -> Figure:
    """An empty figure, which a notebook shows as a picture, whether or not pyplot was imported there."""
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


def plot_release(release: Release, values: Values | None = None, *, parts: tuple[str, str] | None = None) -> Figure:
    """One release with 95 % intervals: steps over the edges of bins, a grid of a product, or bars of values."""
    domain = release.domain
    if isinstance(domain, Product) and len(domain.parts) > 1 and _by_parts(values):
        from dpi.release.grid_plot import plot_grid

        return plot_grid(release, values, parts)
    if parts is not None:
        raise OptionError("`parts` are two parts of a product domain that is drawn as a grid.")
    if isinstance(domain, Bins) and domain.edges.size > 1 and values is None:
        return _steps(release, domain)
    return _bars(release, choose(domain, release.pdf, BARS if values is None else values))


def caption(figure: Figure, text: str) -> None:
    """A small line below a picture."""
    if text:
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color="#555555")


def title(release: Release) -> str:
    """The slot, and when it began."""
    return f"slot {release.slot:,}" + (f", {release.start_text}" if release.start else "")


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.3g} %"


def _by_parts(values: Values | None) -> bool:
    return values is None or isinstance(values, int | Mapping)


def _bars(release: Release, codes: Integers) -> Figure:
    lower, upper = release.interval()
    figure = blank(7, 1.1 + 0.27 * codes.size)
    axes, places = figure.subplots(), np.arange(codes.size)
    share = release.pdf[codes]
    axes.barh(places, share, color=COLOURS[0], alpha=0.85)
    errors = np.stack([share - lower[codes], upper[codes] - share])
    axes.errorbar(share, places, xerr=errors, fmt="none", ecolor=COLOURS[1], capsize=2, lw=1.2)
    axes.set_yticks(places, [short_label(release.domain, int(code)) for code in codes])
    axes.set_ylim(codes.size - 0.4, -0.6)  # the first value above
    axes.set_xlim(left=0)
    axes.set_xlabel(f"share of users, with {LEVEL_TEXT} interval")
    axes.set_title(title(release), loc="left")
    caption(figure, _left_out(release.domain, codes, release.pdf))
    return figure


def _left_out(domain: Domain, codes: Integers, pdf: Floats) -> str:
    """What is not drawn, in words; the bin `other` by its name."""
    outside = np.setdiff1d(np.arange(domain.size), codes)
    named = outside[catch_all(domain)[outside]] if isinstance(domain, Categories) else outside[:0]
    named = outside if outside.size == 1 else named
    told = [f"{short_label(domain, int(code))} {percent(float(pdf[code]))}" for code in named]
    rest = np.setdiff1d(outside, named)
    if rest.size:
        told.append(f"{rest.size:,} more {'values' if rest.size > 1 else 'value'} {percent(float(pdf[rest].sum()))}")
    return f"Not drawn: {', and '.join(told)} of users" if told else ""


def _steps(release: Release, domain: Bins) -> Figure:
    """The density of an ordered domain: areas are shares, so that bins of different width can be compared."""
    edges = domain.edges
    lower, upper = release.interval()
    factors = edges[0] > 0 and np.log10(edges[-1] / edges[0]) >= DECADES
    widths = np.diff(np.log10(edges)) if factors else np.diff(edges)
    even = bool(np.allclose(widths, widths[0]))
    unit = np.ones_like(widths) if even else widths  # bins of one width need no density: the share itself is told
    inner = slice(1, domain.size - 1)
    figure = blank(8, 4)
    axes = figure.subplots()
    axes.stairs(release.pdf[inner] / unit, edges, color=COLOURS[0], fill=True, alpha=0.25, lw=0)
    axes.stairs(release.pdf[inner] / unit, edges, color=COLOURS[0], lw=1.6, baseline=None)
    axes.stairs(upper[inner] / unit, edges, baseline=lower[inner] / unit, color=COLOURS[1], fill=True, alpha=0.25, lw=0)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, _room(release.pdf[inner] / unit, upper[inner] / unit))
    if factors:
        axes.set_xscale("log")
    density = "share of users per factor of ten" if factors else "share of users per unit"
    axes.set_ylabel(("share of users in a bin" if even else density) + f"\n(band: {LEVEL_TEXT})")
    axes.set_title(title(release), loc="left")
    below, above = percent(float(release.pdf[0])), percent(float(release.pdf[-1]))
    caption(figure, f"Beyond the edges: {below} of users below {edges[0]:g}, {above} from {edges[-1]:g} on.")
    return figure


def plot_series(releases: Sequence[Release], values: int | Sequence[object] | None = None) -> Figure:
    """Shares over time, and below them the budget of each slot.

    `values` is how many of the largest are drawn as curves with 95 % bands (5 unless given), or a list of values.
    Without it, ordered bins are drawn all, in their order, as a map over time.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, slot="1h", start="2026-01-01")
    >>> releases = [stream.release(["ada"], ["DE"]) for _ in range(3)]
    >>> len(dpi.plot_series(releases, ["DE", "FR"]).axes)
    2
    """
    if not releases:
        raise OptionError("there are no releases to draw.")
    domain = releases[0].domain
    if any(release.domain != domain for release in releases):
        raise OptionError("`releases` must be of one stream: all with the same domain.")
    starts = [release.start_text for release in releases]
    timed = all(starts)
    slots = np.array([datetime.fromisoformat(str(s)) for s in starts] if timed else [r.slot for r in releases])
    figure = blank(9, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    if isinstance(domain, Bins) and values is None:
        _map(above, slots, releases, domain)
    else:
        codes = _curves(above, slots, releases, CURVES if values is None else values)
        mean = np.mean([release.pdf for release in releases], axis=0)
        told = _left_out(domain, codes, mean)
        caption(figure, f"{told}, the mean of all slots" if told else "")
    budgets = [release.epsilon for release in releases]
    below.step(slots, budgets, where="mid", color=COLOURS[0], lw=1.2)
    below.set_ylabel("ε of the slot")
    below.set_ylim(0, 1.2 * max(budgets) or 1)
    below.set_xlabel("start of the slot" if timed else "slot")
    if timed:
        below.tick_params(axis="x", rotation=20)
    return figure


def _curves(axes: Axes, slots: np.ndarray, releases: Sequence[Release], values: int | Sequence[object]) -> Integers:
    domain = releases[0].domain
    pdf = np.stack([release.pdf for release in releases])
    codes = choose(domain, pdf.mean(axis=0), values)
    bounds = [release.interval() for release in releases]
    lower, upper = (np.stack([bound[side][codes] for bound in bounds]) for side in (0, 1))
    for rank, code in enumerate(codes):
        colour, line = COLOURS[rank % len(COLOURS)], LINES[rank % len(LINES)]
        axes.plot(slots, pdf[:, code], color=colour, ls=line, lw=1.6, label=short_label(domain, int(code)))
        axes.fill_between(slots, lower[:, rank], upper[:, rank], color=colour, alpha=0.13, lw=0)
    axes.set_ylabel(f"share of users ({LEVEL_TEXT} band)")
    axes.set_ylim(0, _room(pdf[:, codes], upper))
    named = " · ".join(domain.parts) if isinstance(domain, Product) else None
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, title=named, alignment="left")
    return codes


def _map(axes: Axes, slots: np.ndarray, releases: Sequence[Release], domain: Bins) -> None:
    """Ordered bins as rows in their order, the lowest below; colour for the share."""
    from matplotlib.colors import PowerNorm

    sets = neighbours(domain, ROWS)
    shares = np.stack([[release.pdf[codes].sum() for release in releases] for codes in sets])
    places = np.arange(len(sets))
    drawn = axes.pcolormesh(slots, places, shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0), shading="nearest")
    ticks = places[:: -(-len(sets) // 14)]
    labels = [span(domain, int(sets[place][0]), int(sets[place][-1])) for place in ticks]
    axes.set_yticks(ticks, labels)
    axes.figure.colorbar(drawn, ax=axes, label="share of users", pad=0.01)


def _room(share: Floats, upper: Floats) -> float:
    """The end of a scale: all estimates, and all but the widest intervals, which are cut off."""
    return 1.05 * max(float(share.max()), float(np.quantile(upper, 0.98)), 1e-12)
