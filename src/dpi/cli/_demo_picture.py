"""The picture of `dpi demo`: releases beside the truth, which only a made-up shop can tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi.release import Release
from dpi.release.interval import LEVEL_TEXT
from dpi.release.plots import COLOURS, add_caption, blank, scale_end
from dpi.release.queries import Count, Distribution, Share
from dpi.release.release import MEASURED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    "offer": "an event: share of users at the page “offer”",
    "home": "a steady value: share of users at “home”",
    "": "number of users",
}
"""What is drawn, from above: two pages and the number of users, each with its title."""


def draw_demo(releases: Sequence[Release], truths: Sequence[Distribution]) -> Figure:
    """Draw an event, a steady value and the number of users: estimates with bands, dots where measured, the truth."""
    figure = blank(9, 7.2)
    slots = np.array([datetime.fromisoformat(str(release.start_text)) for release in releases])
    dots = np.array([release.measured >= MEASURED for release in releases])
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (page, title), colour in zip(panels, PANELS.items(), COLOURS, strict=False):
        answers = [release.probability(page) if page else release.count() for release in releases]
        truth = [float((of.probability(page) if page else of.count()).value) for of in truths]
        _draw(axes, slots, answers, dots if page else np.ones_like(dots), colour)
        axes.plot(slots, truth, color="black", lw=0.9, label="the truth")
        axes.set_title(title, loc="left", fontsize=10)
    panels[0].legend(loc="upper left", ncols=2, frameon=False)
    panels[-1].tick_params(axis="x", rotation=20)
    add_caption(
        figure,
        "Dots: at least half of the picture was measured in that hour; the rest is carried forward. Users who return\n"
        "pay now and then, so the beginning and the end of an event can be seen late. Users are counted each hour.",
    )
    return figure


def _draw(axes: Axes, slots: np.ndarray, answers: Sequence[Share | Count], measured: np.ndarray, colour: str) -> None:
    """Draw estimates with their bands, and a dot in each slot that was measured."""
    value = np.array([answer.value for answer in answers])
    lower, upper = np.array([answer.interval() for answer in answers]).T
    axes.fill_between(slots, np.maximum(lower, 0), upper, color=colour, alpha=0.2, lw=0, label=f"{LEVEL_TEXT} band")
    axes.plot(slots, value, color=colour, lw=0.8, label="released")
    axes.plot(slots[measured], value[measured], ".", color=colour, ms=3, label="measured")
    axes.set_ylim(0, scale_end(value, upper))
