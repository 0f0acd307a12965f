"""How unusual each value of a slot is, by what the slots before were like.

A cell is one value in one slot, described by two changes of its share: the *step* from the slot before, and the *shift*
from the mean of the `window` slots before. Both are in shares of users: a change counts by how many users are behind
it, not by how rare the value is, because what one or two users do is not to be seen in a release, and must not be.

Where variances are given, scores are means over what the true changes may have been: a value whose share is uncertain
may have moved though its estimate did not, and released changes are smaller than true ones, because a release leans on
those before. What is learnt is the past as it may have been, one possible change for each cell. Only that part of a
variance counts which neighbouring slots do not share (`unshared`): the rest is in both, and not in their difference.

A detector learns what cells look like, and scores how unusual one is. `HBOS` is written out here: it is twenty lines,
while PyOD, where it is usually taken from, brings half a gigabyte of dependencies. The isolation forest is
scikit-learn's.

Sees releases and nothing else: post-processing, which costs no privacy.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from importlib import import_module
from statistics import NormalDist
from types import ModuleType

import numpy as np

from dpi._version import how_to_install
from dpi.errors import OptionError
from dpi.release import Release
from dpi.release.choice import Floats

_MIDDLES = np.array([NormalDist().inv_cdf(part) for part in (0.1, 0.3, 0.5, 0.7, 0.9)])
_NODES = _MIDDLES / _MIDDLES.std()

SHARED = 0.75
"""Correlation that a share's errors in neighbouring slots are taken to have: a release carries most of the picture on.

Source: by trial, on the five streams of benchmarks/apps.py that are not held out; one number for all of them. What
correlations are in truth is measured by benchmarks/apps.py errors: 0.6 to 0.95, but 0.04 where nobody comes back.
"""


@dataclass(frozen=True, eq=False)
class Scored:
    """The cells of one slot."""

    score: Floats
    before: Floats
    """The mean share in the window before."""


class Scorer:
    """Scores the cells of slot after slot against those of the last `memory` slots; the model is renewed every `renew`.

    The first 2·window slots have no score: the first half has nothing to be compared with, the second is learnt from.

    >>> scorer = Scorer(window=2)
    >>> pdfs = [np.array([0.5, 0.5])] * 4 + [np.array([0.9, 0.1])]
    >>> [scorer(pdf) is None for pdf in pdfs]
    [True, True, True, True, False]
    """

    def __init__(self, detector: str = "hbos", *, window: int = 7, memory: int = 100, renew: int = 7) -> None:
        for name, value in (("window", window), ("memory", memory), ("renew", renew)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"`{name}` must be a whole number of slots above 0. Got {value!r}.")
        self.window, self._renew = window, renew
        self._detector = make_detector(detector)
        self._past: deque[tuple[Floats, Floats]] = deque(maxlen=window)
        self._cells: deque[tuple[Floats, Floats]] = deque(maxlen=max(memory, window))
        self._age = 0
        self._learnt: tuple[Floats, Floats] = np.empty((0, 2)), np.empty((0, 2))
        self._known: Floats | None = None

    def __call__(self, pdf: Floats, variance: Floats | None = None) -> Scored | None:
        """Return the scores of a slot, which is then a part of the past; None while there is too little of it."""
        here = (pdf, np.zeros(pdf.size) if variance is None else variance)
        scored = None
        if len(self._past) == self.window:
            before, doubt = (np.mean(part, axis=0) for part in zip(*self._past, strict=True))
            last, last_doubt = self._past[-1]
            changes = np.stack([pdf - last, pdf - before], axis=1)
            errors = np.sqrt(np.stack([here[1] + last_doubt, here[1] + doubt / self.window], axis=1))
            if len(self._cells) >= self.window:
                scored = self._score(changes, errors, before)
            self._cells.append((changes, errors))
        self._past.append(here)
        return scored

    def rarity(self, score: Floats) -> Floats:
        """Return which part of the cells that the model has learnt from scored at least as high."""
        if self._known is None:
            self._known = np.sort(self._mean(*self._learnt))
        higher = self._known.size - np.searchsorted(self._known, score, side="left")
        return np.asarray((higher + 1) / (self._known.size + 1))

    def _score(self, changes: Floats, errors: Floats, before: Floats) -> Scored:
        if self._age % self._renew == 0:
            past, doubt = (np.concatenate(part) for part in zip(*self._cells, strict=True))
            self._detector.fit(_each_once(past, doubt))
            self._learnt, self._known = (past, doubt), None
        self._age += 1
        return Scored(self._mean(changes, errors), before)

    def _mean(self, changes: Floats, errors: Floats) -> Floats:
        cells = possible(changes, errors)
        scores = self._detector.score(np.concatenate(cells))  # at once: a forest takes its time for every call
        return np.asarray(scores.reshape(len(cells), -1).mean(axis=0))


def possible(changes: Floats, errors: Floats) -> list[Floats]:
    """Return cells as they may be, all equally likely: the middles of five parts of a normal law, with its variance.

    Both changes of a cell move together, because most of their error is that of the slot's own share.
    """
    if not errors.any():
        return [changes]
    return [changes + node * errors for node in _NODES]


def _each_once(changes: Floats, errors: Floats) -> Floats:
    """Return one possible change for each cell, the five parts of the law in turn: as many cells as there were."""
    return np.asarray(changes + _NODES[np.arange(len(changes)) % _NODES.size, None] * errors)


def unshared(release: Release) -> Floats:
    """Return the part of a release's variances that its neighbours do not share, which is what makes changes uncertain.

    A release carries on what those before it said, errors included. What is new in a slot is who happened to be there:
    no more than the variance of a draw of its users, p·(1 - p)/n.
    """
    own = (1 - SHARED) * release.variance
    if not release.total > 0:
        return np.asarray(own)
    return np.asarray(np.minimum(own, release.pdf * (1 - release.pdf) / max(release.total, 1.0)))


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
        """Return the sum of the columns' scores."""
        total = np.zeros(len(cells))
        for column, (middles, heights, widths) in zip(cells.T, self._columns, strict=True):
            beyond = np.maximum(0, np.maximum((middles[0] - column) / widths[0], (column - middles[-1]) / widths[-1]))
            total += np.interp(column, middles, heights) + np.log1p(beyond)
        return total


class IsolationForest:
    """Isolation forest (Liu, Ting and Zhou, 2008): the fewer random cuts set a cell apart, the higher its score."""

    def fit(self, cells: Floats) -> None:
        """Grow 100 trees, the same ones from the same cells."""
        self._forest = import_learn("ensemble").IsolationForest(n_estimators=100, random_state=0).fit(cells)

    def score(self, cells: Floats) -> Floats:
        """Return minus scikit-learn's score, so that unusual is high."""
        return np.asarray(-self._forest.score_samples(cells))


DETECTORS: dict[str, type[HBOS] | type[IsolationForest]] = {"hbos": HBOS, "forest": IsolationForest}


def make_detector(name: str) -> HBOS | IsolationForest:
    """Return a new detector.

    >>> make_detector("magic")
    Traceback (most recent call last):
    dpi.errors.OptionError: `detector` must be one of hbos, forest. Got 'magic'.
    """
    if name not in DETECTORS:
        raise OptionError(f"`detector` must be one of {', '.join(DETECTORS)}. Got {name!r}.")
    return DETECTORS[name]()


def import_learn(module: str) -> ModuleType:
    """Import a module of scikit-learn, which comes with the extra `apps`; say what to install if there is none."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise OptionError(f"this needs scikit-learn: {how_to_install('apps')}.") from None
