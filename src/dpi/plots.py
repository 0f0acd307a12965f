"""Pictures of releases (matplotlib, the extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpi.release import Release

COLOURS = ("#1b3a5c", "#c8553d", "#588157", "#8d6a9f", "#e0a458", "#5fa8d3", "#6c757d", "#b5838d")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def blank(width: float, height: float) -> Figure:
    """An empty figure; says what to install if there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("plots need matplotlib: install the extra `plot`.") from None
    return Figure(figsize=(width, height), layout="constrained")


def plot_release(release: Release, bins: int = 20) -> Figure:
    """The largest bins of one release with 95 % intervals."""
    order = np.argsort(-release.pdf, kind="stable")[:bins][::-1]
    lower, upper = release.interval()
    figure = blank(7, 0.6 + 0.27 * order.size)
    axes = figure.subplots()
    errors = np.stack([release.pdf[order] - lower[order], upper[order] - release.pdf[order]])
    axes.barh(np.arange(order.size), release.pdf[order], color=COLOURS[0], alpha=0.85)
    axes.errorbar(
        release.pdf[order], np.arange(order.size), xerr=errors, fmt="none", ecolor=COLOURS[1], capsize=2, lw=1.2
    )
    axes.set_yticks(np.arange(order.size), [release.domain.label(int(i)) for i in order])
    axes.set_xlabel("share of users, with 95 % interval")
    axes.set_title(f"slot {release.slot}" + (f", {release.start}" if release.start else ""), loc="left")
    return figure


def plot_series(releases: Sequence[Release], values: int = 5) -> Figure:
    """The largest bins over time with 95 % bands, and below them the budget of each slot."""
    if not releases:
        raise OptionError("there are no releases to draw.")
    starts = [release.start for release in releases]
    timed = all(starts)
    slots = np.array([datetime.fromisoformat(str(s)) for s in starts] if timed else [r.slot for r in releases])
    pdf = np.stack([release.pdf for release in releases])
    bounds = [release.interval() for release in releases]
    figure = blank(9, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for rank, code in enumerate(np.argsort(-pdf.mean(axis=0), kind="stable")[:values]):
        colour, line = COLOURS[rank % len(COLOURS)], LINES[rank % len(LINES)]
        above.plot(slots, pdf[:, code], color=colour, ls=line, lw=1.6, label=releases[0].domain.label(int(code)))
        low, high = (np.array([bound[side][code] for bound in bounds]) for side in (0, 1))
        above.fill_between(slots, low, high, color=colour, alpha=0.13, lw=0)
    above.set_ylabel("share of users (95 % band)")
    above.set_ylim(bottom=0)
    above.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    below.step(slots, [release.epsilon for release in releases], where="mid", color=COLOURS[0], lw=1.2)
    below.set_ylabel("ε of the slot")
    below.set_ylim(bottom=0)
    below.set_xlabel("start of the slot" if timed else "slot")
    if timed:
        below.tick_params(axis="x", rotation=20)
    return figure
