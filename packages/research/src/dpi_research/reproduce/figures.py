"""Lines, boxes and panels of the evaluation's figures: a system looks the same in all of them, in grey print too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpi.release.plots import COLOURS, LINES, blank
from dpi_research.reproduce.experiment import Rows, Value
from dpi_research.reproduce.play import LABELS, SYSTEMS
from dpi_research.reproduce.rows import course, distinct, mean, number, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vXP*"


@dataclass(frozen=True)
class Style:
    """How a series is drawn: colour, line and marker each tell it from the others."""

    colour: str
    line: Any
    marker: str

    @classmethod
    def numbered(cls, index: int) -> Style:
        """For series that are no systems."""
        return cls(COLOURS[index % len(COLOURS)], LINES[index % len(LINES)], MARKERS[index % len(MARKERS)])


STYLES = {
    "truth": Style("#4a4e55", "-", ""),
    "uniform": Style("#8a8f98", ":", ""),
    "popular": Style(COLOURS[4], (0, (5, 1)), "^"),
    "noisy": Style(COLOURS[5], (0, (3, 1, 1, 1)), "v"),
    "strict": Style(COLOURS[1], "--", "s"),
    "converging": Style(COLOURS[2], "-.", "D"),
    "ledger": Style(COLOURS[0], "-", "o"),
}
"""Of the systems, and of what stands beside them: the truth, a uniform guess, what is popular, bare measurements."""


def panels(columns: int, rows: int = 1, *, width: float = 3.7, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of axes, row by row."""
    figure = blank(width * columns, height * rows)
    return figure, list(np.atleast_1d(figure.subplots(rows, columns)).ravel())


def line(axes: Axes, x: npt.ArrayLike, y: npt.ArrayLike, name: str, *, style: Style | None = None) -> None:
    """One series; a system's name brings its own style and label. Markers stand at eight places at most."""
    style = style or STYLES[name]
    places = np.asarray(x).size
    every = max(1, places // 8) if places > 12 else 1
    look = {"color": style.colour, "ls": style.line, "marker": style.marker, "markevery": every}
    axes.plot(x, y, ms=4, lw=1.5, label=LABELS.get(name, name), **look)


def boxes(axes: Axes, groups: Mapping[str, Sequence[Sequence[float]]], ticks: Sequence[str]) -> None:
    """Box plots of several systems side by side, at each tick one box for each of them."""
    width = 0.8 / len(groups)
    for index, (name, samples) in enumerate(groups.items()):
        style = STYLES.get(name) or Style.numbered(index)
        drawn = axes.boxplot(
            samples,
            positions=np.arange(len(ticks)) + (index - (len(groups) - 1) / 2) * width,
            widths=0.85 * width,
            patch_artist=True,
            manage_ticks=False,
            showcaps=False,  # a third of the file
            flierprops={"marker": ".", "ms": 3, "mec": style.colour},
            medianprops={"color": "black", "lw": 1.2},
        )
        for box in drawn["boxes"]:
            box.set(facecolor=style.colour, alpha=0.75, edgecolor="black", lw=0.6)
        for part in drawn["whiskers"]:
            part.set(color=style.colour, lw=0.9)
        axes.plot([], [], color=style.colour, marker="s", ls="", label=LABELS.get(name, name))
    axes.set_xticks(np.arange(len(ticks)), ticks)


def finish(axes: Axes, title: str, x: str, y: str, *, log_x: bool = False, log_y: bool = False) -> None:
    """Titles with units, light grid, logarithmic axes where asked."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.25, lw=0.5)


def legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, above them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(4, max(1, len(labels))), frameon=False)


def moving(values: npt.ArrayLike, window: int) -> npt.NDArray[np.float64]:
    """Means over the last so many values, fewer at the beginning; what is not a number is left out.

    >>> moving([1, 3, 5], 2).tolist()
    [1.0, 2.0, 4.0]
    """
    series = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(series)
    sums, counts = (np.concatenate([[0.0], np.cumsum(part)]) for part in (np.where(known, series, 0), known))
    first = np.maximum(np.arange(1, series.size + 1) - window, 0)
    last = np.arange(1, series.size + 1)
    with np.errstate(invalid="ignore"):
        return np.asarray((sums[last] - sums[first]) / (counts[last] - counts[first]))


BESIDE = ("noisy", "popular")
"""What stands beside the systems: bare measurements, and what is popular."""


def epsilons(rows: Rows) -> list[float]:
    """The ε of these rows, from small to large; guesses and the truth, which have none, have 0.

    >>> epsilons([{"epsilon": 2.0}, {"epsilon": 0.1}, {"epsilon": 2.0}])
    [0.1, 2.0]
    """
    return sorted(float(epsilon) for epsilon in distinct(rows, "epsilon") if epsilon)


def by_epsilon(axes: Axes, rows: Rows, measure: str, *, chance: float | None = None) -> None:
    """A share by ε, for every system that the rows have; `chance` is what a uniform guess finds."""
    for system in (*SYSTEMS, *BESIDE):
        if own := select(rows, system=system):
            line(axes, *course(own, "epsilon", measure), system)
    if chance is not None:
        known = epsilons(rows)
        line(axes, [known[0], known[-1]], [chance, chance], "uniform")
    whole(axes)


def grid(count: int) -> tuple[Figure, list[Axes]]:
    """So many panels, four in a row."""
    figure, axes = panels(min(4, count), math.ceil(count / 4), width=3.1)
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]


def whole(axes: Axes) -> None:
    """An axis from nothing to all; few ticks, for there are many panels."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks((0, 0.5, 1))
    axes.locator_params(axis="x", nbins=4)


def cell(rows: Rows, measure: str, **wanted: Value) -> str:
    """The mean of a share over the rows with these entries, as text.

    >>> cell([{"share": 0.5}, {"share": 0.75}], "share"), cell([], "share")
    ('0.62', '–')
    """
    average = mean(rows, measure, **wanted)
    return "–" if math.isnan(average) else f"{average:.2f}"


def error_of(rows: Rows, name: str, system: str, epsilon: float, churn: float) -> float:
    """The mean of an error; the uniform guess has no ε and no churn."""
    return mean(rows, name, system=system, **({} if system == "uniform" else {"epsilon": epsilon, "churn": churn}))


def churn_cells(rows: Rows, epsilon: float, churn: float, usual: float) -> list[str]:
    """KL of the guess and of all systems; a series takes the same from everybody, and was played at one churn."""
    churns = {system: churn if system == "ledger" else usual for system in ("uniform", *SYSTEMS)}
    return [number(error_of(rows, "kl", system, epsilon, at)) for system, at in churns.items()]
