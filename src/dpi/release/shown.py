"""Numbers of a release as charts show them: with intervals of any level, under rules. It sees releases alone.

A band has values, lower and upper ends, NaN for what is not shown, and a code that says why (`dpi.release.quality`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpi.exact.integers import Integers
from dpi.release.choice import Floats
from dpi.release.grid import Grid, Shares
from dpi.release.interval import LEVEL, interval
from dpi.release.quality import WEEK, Quality, Unit
from dpi.release.queries import Answer
from dpi.release.release import Release


def show_shares(
    release: Release, week: Release | None, quality: Quality | None, sets: Sequence[Integers], level: float = LEVEL
) -> Floats:
    """Return the band of the shares of sets of bins; whether one is shown is judged by its 95 % interval."""
    shown = _read(release, sets, level)
    if quality is None:
        return shown
    users = None if quality.size is None else shown[0] * release.total
    later = None if week is None else _read(week, sets, LEVEL)[:3]
    judged = quality.show([*_read(release, sets, LEVEL)[:3]], later, unit="points", users=users)
    return _at_level(judged, shown, None if week is None else _read(week, sets, level))


def show_answer(
    answer: Answer, week: Answer | None, quality: Quality | None, unit: Unit, level: float = LEVEL
) -> Floats:
    """Return the band of one answer; of one that was not measured there is no number, and no reason."""

    def read(of: Answer, level: float) -> Floats:
        return np.array([of.value, *of.interval(level), 0.0])

    shown = read(answer, level)
    if quality is None or math.isnan(answer.value):
        return shown
    judged = quality.show(read(answer, LEVEL)[:3], None if week is None else read(week, LEVEL)[:3], unit=unit)
    return _at_level(judged, shown, None if week is None else read(week, level))


def show_grid(grid: Grid, quality: Quality | None, total: float) -> Grid:
    """Return a grid of one slot as it is shown: a cell that is not good enough is NaN, and has a code."""
    if quality is None:
        return grid

    def show(of: Shares) -> Shares:
        users = None if quality.size is None else of.value * total
        return Shares(*quality.show((of.value, of.lower, of.upper), unit="points", users=users))

    rows, columns = (replace(side, shares=show(side.shares)) for side in (grid.rows, grid.columns))
    return replace(grid, rows=rows, columns=columns, cells=show(grid.cells))


def _read(release: Release, sets: Sequence[Integers], level: float) -> Floats:
    """Return shares of sets with their intervals; a set of one bin has the interval of that bin."""
    pdf, variance = (np.array([each[codes].sum() for codes in sets]) for each in (release.pdf, release.variance))
    sums = Shares.of(pdf, variance, float(release.variance.sum()), release.total, level)
    band = np.stack([sums.value, sums.lower, sums.upper, np.zeros_like(pdf)])
    alone = np.array([codes.size == 1 for codes in sets], dtype=np.bool_)
    bins = np.array([codes[0] for codes in sets], dtype=np.int64)[alone]
    if bins.size:
        share, doubt, skew = (vector[bins] for vector in (release.pdf, release.variance, release.skew))
        band[:3, alone] = share, *interval(share, doubt, skew, release.total, level)
    return band


def _at_level(judged: Floats, slot: Floats, week: Floats | None) -> Floats:
    """Return what is shown with its intervals of the level that was asked for."""
    band = slot if week is None else np.where(judged[3] == WEEK, week, slot)
    return np.where(np.isnan(judged), np.nan, np.concatenate([band[:3], judged[3:]]))
