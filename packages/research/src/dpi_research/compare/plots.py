"""Pictures of comparisons (matplotlib, the extra `compare`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpi.errors import OptionError
from dpi.release.plots import COLOURS, LINES, blank
from dpi_research.compare.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Error = Literal["l1", "kl", "accumulated_l1", "accumulated_kl"]
_LABELS = {
    "l1": "L1 from the slot's PDF",
    "kl": "KL from the slot's PDF",
    "accumulated_l1": "L1 from the PDF of all so far",
    "accumulated_kl": "KL from the PDF of all so far",
}


def plot_loss(comparison: Comparison) -> Figure:
    """What a user in every slot has lost, over time; infinite losses are not drawn."""
    return _over_time(comparison, {n: c.loss for n, c in comparison.courses.items()}, "loss of a user, ε")


def plot_error(comparison: Comparison, error: Error = "kl") -> Figure:
    """An error over time."""
    return _over_time(comparison, {n: getattr(c, error) for n, c in comparison.courses.items()}, _LABELS[error])


def _over_time(comparison: Comparison, series: dict[str, tuple[float, ...]], label: str) -> Figure:
    figure = blank(8, 4.2)
    axes = figure.subplots()
    slots = np.arange(1, comparison.slots + 1)
    for rank, (name, values) in enumerate(series.items()):
        known = np.where(np.isfinite(values) & (np.array(values) > 0), values, np.nan)
        axes.plot(slots, known, color=COLOURS[rank % len(COLOURS)], ls=LINES[rank % len(LINES)], lw=1.4, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("slot")
    axes.set_ylabel(label)
    axes.set_title(f"{comparison.stream}, ε = {comparison.epsilon:g}, {comparison.mode}", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def plot_trade_off(comparisons: Sequence[Comparison], error: Error = "kl") -> Figure:
    """Mean error against the loss of a user at the end; one point for each comparison, lines join a system."""
    if not comparisons:
        raise OptionError("there are no comparisons to draw.")
    figure = blank(7, 4.2)
    axes = figure.subplots()
    names = list(dict.fromkeys(name for comparison in comparisons for name in comparison.courses))
    for rank, name in enumerate(names):
        courses = [c.courses[name].means() for c in comparisons if name in c.courses]
        points = sorted((m["loss"], m[error]) for m in courses if np.isfinite(m["loss"]))
        if points:
            colour = COLOURS[rank % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), marker="o", ms=5, lw=1, color=colour, label=name)
    axes.set_xscale("symlog", linthresh=1e-3)
    axes.set_yscale("log")
    axes.set_xlabel("loss of a user in every slot, at the end, ε")
    axes.set_ylabel(_LABELS[error])
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure
