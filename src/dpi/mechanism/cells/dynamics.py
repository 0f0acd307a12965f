"""How the law of a cell ages: dynamics that compete, weighted by how well each predicted.

*Own*: the cell keeps its past, which drifts; its users are fixed, or draw their bins anew in every slot. *Kin*: it is
what the class's previous users were, as where everybody changes after some time. *Absent*: who was behind is what was
missing when the class was measured, as where users have a bin for life. *Shrunk*: own past and the pooled law, by
precision. Never the pool alone: it would drag cells along when it is stale.

Sees laws and weights made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells.law import DRIFTS
from dpi.mechanism.filtering.gaussians import PATIENCE, Gaussians

KIN_DRIFTS, ABSENT_DRIFTS, SHRUNK_DRIFTS = (0.03, 0.2), (0.1, 0.3), (0.03, 0.1, 0.3)
"""How far a cell may lie from the class's previous users, from those who were missing, and from the pooled law:
relative deviations.

Source: by trial; not measured by itself.
"""

OWN_DRIFT = 0.03
"""Drift of a cell's own past while it is weighed against the pooled law.

Source: by trial; not measured by itself.
"""

OWN_SHARE, KIN_SHARE, ABSENT_SHARE, SHRUNK_SHARE = 0.3, 0.1, 0.1, 0.5
"""Prior weights of the four kinds.

Source: by trial; what the third does is measured by benchmarks/clocked.py (swap, weekly).
"""

WAITING = 0.1
"""By how much the variance around previous users grows with each slot since they were measured.

Source: by trial; not measured by itself.
"""

_PATIENCE = PATIENCE ** np.arange(len(DRIFTS))
PRIOR: Floats = np.concatenate(
    [
        np.tile(_PATIENCE / _PATIENCE.sum() * OWN_SHARE / 2, 2),
        np.full(len(KIN_DRIFTS), KIN_SHARE / len(KIN_DRIFTS)),
        np.full(len(ABSENT_DRIFTS), ABSENT_SHARE / len(ABSENT_DRIFTS)),
        np.full(len(SHRUNK_DRIFTS), SHRUNK_SHARE / len(SHRUNK_DRIFTS)),
    ]
)
"""Weights of the dynamics before anything was seen: own past of fixed users, of redrawing ones, kin, absent, shrunk."""

_FIXED = len(DRIFTS)
_OWN = 2 * _FIXED
_KIN = _OWN + len(KIN_DRIFTS)
_ABSENT = _KIN + len(ABSENT_DRIFTS)
_SHRUNK_STEP = np.array(SHRUNK_DRIFTS)[:, None] ** 2

REDRAWN: Floats = (np.arange(PRIOR.size) >= _FIXED).astype(np.float64)[:, None]
"""One where users draw anew, so that a slot's own PDF differs from the law; zero where they are fixed."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Squared drifts of the dynamics of each kind, as columns; for those of own past the share of users who redraw."""

    own: Floats
    redrawn: Floats
    kin: Floats
    absent: Floats


ALL = Rows(
    np.tile(np.array(DRIFTS) ** 2, 2)[:, None],
    REDRAWN[:_OWN],
    np.array(KIN_DRIFTS)[:, None] ** 2,
    np.array(ABSENT_DRIFTS)[:, None] ** 2,
)
"""Every dynamic in a row of its own."""


def condensed(weights: Floats) -> tuple[Rows, Floats]:
    """Dynamics with a common mean as one row, of the same mixture, and the weights of these fewer rows."""
    parts = [weights[:_OWN], weights[_OWN:_KIN], weights[_KIN:_ABSENT]]
    totals = [float(part.sum()) for part in parts]

    def average(values: Floats, i: int) -> Floats:
        return np.array([[float(parts[i] @ values[:, 0]) / totals[i]]])

    rows = Rows(average(ALL.own, 0), average(ALL.redrawn, 0), average(ALL.kin, 1), average(ALL.absent, 2))
    return rows, np.concatenate([totals, weights[_ABSENT:]])


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell in one slot: its law when it was measured, its size then, the slots since, and who of it is active."""

    law: Gaussians
    size: float
    age: float
    active: float
    kin: Gaussians | None
    """The law of the class when it was last measured, if it ever was, and"""
    kin_age: float
    """the slots since then."""
    absent: Gaussians | None
    """The law of those who were missing then, if this cell is made of them."""


def forecast(cell: Cell, pool: Gaussians, rows: Rows = ALL) -> Gaussians:
    """A cell's law under every dynamic, (dynamics, bins); its own past stands in for kin or absentees it has not."""
    own, users = cell.law, max(cell.size, 1.0)
    sampled = own.mean / users
    subset = own.mean * max(1 / max(cell.active, 1.0) - 1 / users, 0.0)
    alone = own.variance + cell.age * rows.own * (own.mean**2 + own.variance)
    alone += rows.redrawn * sampled + (1 - rows.redrawn) * subset
    kin, waited = cell.kin, cell.kin_age
    if kin is None:
        kin, waited = Gaussians(own.mean, own.variance + sampled), cell.age
    absent = cell.absent or Gaussians(own.mean, own.variance + sampled)
    wide = pool.variance + _SHRUNK_STEP * pool.mean**2
    near = own.variance + sampled + cell.age * OWN_DRIFT**2 * own.mean**2 + 1e-18
    shrunk = pool.mean + wide / (wide + near) * (own.mean - pool.mean)
    shape = np.zeros_like(own.mean)
    mean = [rows.own * shape + own.mean, rows.kin * shape + kin.mean, rows.absent * shape + absent.mean]
    variance = [
        alone,
        kin.variance + rows.kin * (1 + WAITING * waited) * kin.mean**2,
        absent.variance + rows.absent * absent.mean**2,
        wide * near / (wide + near),
    ]
    return Gaussians(
        np.concatenate([*mean, shrunk / shrunk.sum(-1, keepdims=True)]),
        np.concatenate(variance),
    )


def together(cell: Floats, of_class: Floats) -> Floats:
    """A cell's weights of the dynamics, times what its class has learned."""
    weights = cell * of_class / PRIOR
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def mixed(weights: Floats, each: Gaussians) -> Gaussians:
    """The mixture of the dynamics as one Gaussian for each bin."""
    mean = weights @ each.mean
    return Gaussians(mean, weights @ (each.variance + (each.mean - mean) ** 2))
