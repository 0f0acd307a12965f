"""Detectors of unusual cells: they learn what cells look like, and score how unusual one is.

A cell is a row of numbers. `HBOS` is written out here: it is twenty lines, while PyOD, where it is usually taken from,
brings half a gigabyte of dependencies. The isolation forest is scikit-learn's.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpi.apps.extra import learn
from dpi.errors import OptionError

Floats = npt.NDArray[np.float64]


class Detector(Protocol):
    """Learns from cells, and scores cells: the higher, the more unusual."""

    def fit(self, cells: Floats) -> None:
        """Learn from one row for each cell."""
        ...

    def score(self, cells: Floats) -> Floats:
        """A number for each row."""
        ...


class HBOS:
    """Histogram-based outlier score (Goldstein and Dengel, 2012): Σ over columns of -ln density, bins of equal counts.

    Between the middles of bins the score is linear, so that cells of one bin can be told apart; beyond the outermost
    bin it grows with the logarithm of the distance.

    >>> detector = HBOS()
    >>> detector.fit(np.arange(100.0)[:, None])
    >>> inside, outside, far = detector.score(np.array([[50.0], [150.0], [900.0]]))
    >>> bool(inside < outside < far)
    True
    """

    def __init__(self) -> None:
        self._columns: list[tuple[Floats, Floats, Floats]] = []

    def fit(self, cells: Floats) -> None:
        """Make a histogram of √n bins for each column."""
        self._columns = [self._histogram(column) for column in cells.T]

    @staticmethod
    def _histogram(column: Floats) -> tuple[Floats, Floats, Floats]:
        edges = np.unique(np.quantile(column, np.linspace(0, 1, max(2, round(column.size**0.5)) + 1)))
        if edges.size == 1:  # all cells are alike
            edges = edges + np.array([-1e-12, 1e-12])
        counts, _ = np.histogram(column, edges)
        widths = np.maximum(np.diff(edges), 1e-12)
        return (edges[:-1] + edges[1:]) / 2, -np.log(np.maximum(counts, 1) / (column.size * widths)), widths

    def score(self, cells: Floats) -> Floats:
        """The sum of the columns' scores."""
        total = np.zeros(len(cells))
        for column, (middles, heights, widths) in zip(cells.T, self._columns, strict=True):
            beyond = np.maximum(0, np.maximum((middles[0] - column) / widths[0], (column - middles[-1]) / widths[-1]))
            total += np.interp(column, middles, heights) + np.log1p(beyond)
        return total


class IsolationForest:
    """Isolation forest (Liu, Ting and Zhou, 2008): the fewer random cuts set a cell apart, the higher its score."""

    def __init__(self, trees: int = 100, seed: int = 0) -> None:
        self._trees, self._seed = trees, seed

    def fit(self, cells: Floats) -> None:
        """Grow the trees."""
        ensemble = learn("ensemble")
        self._forest = ensemble.IsolationForest(n_estimators=self._trees, random_state=self._seed)
        self._forest.fit(cells)

    def score(self, cells: Floats) -> Floats:
        """Minus scikit-learn's score, so that unusual is high."""
        return np.asarray(-self._forest.score_samples(cells))


DETECTORS: dict[str, type[HBOS] | type[IsolationForest]] = {"hbos": HBOS, "forest": IsolationForest}


def detector_named(name: str) -> Detector:
    """A new detector.

    >>> detector_named("magic")
    Traceback (most recent call last):
    dpi.errors.OptionError: `detector` must be one of hbos, forest. Got 'magic'.
    """
    if name not in DETECTORS:
        raise OptionError(f"`detector` must be one of {', '.join(DETECTORS)}. Got {name!r}.")
    return DETECTORS[name]()
