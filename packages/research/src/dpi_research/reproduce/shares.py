"""Shares of what is wanted that are found, as lines and as text: for the applications, whose measure they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpi_research.reproduce.drawing import line, panels
from dpi_research.reproduce.experiment import Rows, Value
from dpi_research.reproduce.rows import distinct, mean, select
from dpi_research.reproduce.systems import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BESIDE = ("noisy", "popular")
"""What stands beside the systems: bare measurements, and what is popular."""


def epsilons(rows: Rows) -> list[float]:
    """The ε of these rows, from small to large.

    >>> epsilons([{"epsilon": 2.0}, {"epsilon": 0.1}, {"epsilon": 2.0}])
    [0.1, 2.0]
    """
    return sorted(float(epsilon) for epsilon in distinct(rows, "epsilon") if epsilon is not None)


def by_epsilon(axes: Axes, rows: Rows, measure: str, *, chance: float | None = None) -> None:
    """A share by ε, for every system that the rows have; `chance` is what a uniform guess finds."""
    known = epsilons(rows)
    for system in (*SYSTEMS, *BESIDE):
        own = select(rows, system=system)
        if own:
            shares = np.array([mean(own, measure, epsilon=epsilon) for epsilon in epsilons(own)], dtype=np.float64)
            line(axes, epsilons(own), shares, system)
    if chance is not None:
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
    found = mean(rows, measure, **wanted)
    return "–" if found is None else f"{found:.2f}"
