"""Pictures of releases over time (matplotlib, the extra `plot`). They see releases only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import Bins, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release.choice import choose, neighbours, short_label, span
from dpi.release.interval import LEVEL_TEXT
from dpi.release.plots import COLOURS, LINES, add_caption, blank, describe_rest, scale_end
from dpi.release.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = 5
"""How many values are drawn over time, unless said."""
ROWS = 40
"""How many rows of bins a picture over time has; of more bins neighbours are drawn as one."""


def plot_series(releases: Sequence[Release], values: int | Sequence[object] | None = None) -> Figure:
    """Draw shares over time, and below them the largest payment of any one user in each slot.

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
        _draw_map(above, slots, releases, domain)
    else:
        codes = _draw_curves(above, slots, releases, CURVES if values is None else values)
        told = describe_rest(domain, codes, np.mean([release.pdf for release in releases], axis=0))
        add_caption(figure, f"{told}, the mean of all slots" if told else "")
    budgets = [release.epsilon for release in releases]
    below.step(slots, budgets, where="mid", color=COLOURS[0], lw=1.2)
    below.set_ylabel("largest\npayment (ε)")
    below.set_ylim(0, 1.2 * max(budgets) or 1)
    below.set_xlabel("start of the slot" if timed else "slot")
    if timed:
        below.tick_params(axis="x", rotation=20)
    return figure


def _draw_curves(
    axes: Axes, slots: np.ndarray, releases: Sequence[Release], values: int | Sequence[object]
) -> Integers:
    domain = releases[0].domain
    pdf = np.stack([release.pdf for release in releases])
    codes = choose(domain, pdf.mean(axis=0), values)
    lower, upper = np.stack([release.interval() for release in releases], axis=1)[:, :, codes]
    for rank, code in enumerate(codes):
        colour, line = COLOURS[rank % len(COLOURS)], LINES[rank % len(LINES)]
        axes.plot(slots, pdf[:, code], color=colour, ls=line, lw=1.6, label=short_label(domain, int(code)))
        axes.fill_between(slots, lower[:, rank], upper[:, rank], color=colour, alpha=0.13, lw=0)
    axes.set_ylabel(f"share of users ({LEVEL_TEXT} band)")
    axes.set_ylim(0, scale_end(pdf[:, codes], upper))
    named = " · ".join(domain.parts) if isinstance(domain, Product) else None
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, title=named, alignment="left")
    return codes


def _draw_map(axes: Axes, slots: np.ndarray, releases: Sequence[Release], domain: Bins) -> None:
    """Draw ordered bins as rows in their order, the lowest below; colour for the share."""
    from matplotlib.colors import PowerNorm

    sets = neighbours(domain, ROWS)
    shares = np.stack([[release.pdf[codes].sum() for release in releases] for codes in sets])
    places = np.arange(len(sets))
    drawn = axes.pcolormesh(slots, places, shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0), shading="nearest")
    ticks = places[:: -(-len(sets) // 14)]
    axes.set_yticks(ticks, [span(domain, int(sets[place][0]), int(sets[place][-1])) for place in ticks])
    axes.figure.colorbar(drawn, ax=axes, label="share of users", pad=0.01)
