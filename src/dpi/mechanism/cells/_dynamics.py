"""The cells of which classes are made, and how their laws age: dynamics that compete by how well each predicted.

A class has two cells: users who have *paid* since it was last measured, and those who were *behind*, absent when it
was. Of a cell's law, *own* keeps its past, of users who are fixed or draw anew; *kin* is the class's previous users;
*absent* is who was missing; *shrunk* is own past and a law of all, by precision; *along* is own past moved by the
*common drift*, a walk of log-levels that all laws share and every measurement tells something of. Sees counts after
noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from dpi.mechanism.base import Floats
from dpi.mechanism.cells._law import DRIFTS
from dpi.mechanism.filtering._gaussians import PATIENCE, Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

STEP = 0.01**2
"""Variance by which the walk moves in a slot, and so does the offset of newcomers. Source: by trial
(benchmarks/clocked.py)."""
SURPRISE = 5.0
"""A residual of so many deviations is a jump. Source: by trial (benchmarks/clocked.py)."""
UNKNOWN = 4.0
"""Relative variance of the levels of newcomers before anything was seen. Source: by definition."""
FARTHEST = 5.0
"""Bound of the walk, and of the offsets below those of a uniform law. Source: by definition; a factor of 150."""


@dataclass(frozen=True, eq=False)
class CommonDrift:
    """The walk and its variance; the log-levels of newcomers without it, and their variance: (bins,) each."""

    mean: Floats
    variance: Floats
    offset: Floats
    doubt: Floats

    @classmethod
    def begun(cls, bins: int) -> CommonDrift:
        """Before anything was seen."""
        return cls(np.zeros(bins), np.zeros(bins), np.full(bins, -np.log(bins)), np.full(bins, UNKNOWN))

    def later(self, elapsed: int) -> CommonDrift:
        """Some slots later."""
        step = elapsed * STEP
        return CommonDrift(self.mean, self.variance + step, self.offset, np.minimum(self.doubt + step, UNKNOWN))

    def along(self, since: Floats, age: Floats) -> Gaussians:
        """By what factor levels changed since the walk was somewhere, so many slots ago, and its relative variance."""
        return Gaussians(np.exp(self.mean - since), np.minimum(2 * self.variance, age * STEP))

    def newcomers(self, counts: NoisyCounts, size: float) -> CommonDrift:
        """After newcomers were measured, so many of them."""
        levels = np.exp(self.offset + self.mean)
        change, wide, total = self._compared(counts, levels * (size / levels.sum()), self.doubt)
        lowest = -np.log(levels.size) - FARTHEST
        return CommonDrift(
            mean=self._gone(wide / total * change),
            variance=wide * (1 - wide / total),
            offset=np.maximum(self.offset + np.log1p(self.doubt / total * change), lowest),
            doubt=self.doubt * (1 - self.doubt / total),
        )

    def of_class(self, counts: NoisyCounts, size: float, law: Gaussians) -> CommonDrift:
        """After a class was measured, of which this law was foreseen if it went along."""
        mean = np.maximum(law.mean, 1e-12)
        change, wide, total = self._compared(counts, size * mean, law.variance / mean**2)
        return CommonDrift(self._gone(wide / total * change), wide * (1 - wide / total), self.offset, self.doubt)

    def _compared(self, counts: NoisyCounts, expected: Floats, doubt: Floats) -> tuple[Floats, Floats, Floats]:
        """By what share counts differ from what was expected, and the variance of the walk in that, and of all."""
        noise = (2 * counts.noise**2 + counts.doubt + expected) / expected**2
        change = np.maximum(counts.values / expected - 1, -0.95)
        others, squared = doubt + noise, change**2
        jumped = squared > SURPRISE**2 * (self.variance + others)
        wide = np.where(jumped, np.maximum(squared - others, self.variance), self.variance)
        return change, wide, wide + others

    def _gone(self, share: Floats) -> Floats:
        gone = self.mean + np.log1p(share)
        return np.minimum(np.maximum(gone, -FARTHEST, out=gone), FARTHEST, out=gone)


KIN_DRIFTS, ABSENT_DRIFTS, SHRUNK_DRIFTS = (0.03, 0.2), (0.1, 0.3), (0.03, 0.1, 0.3, 0.03)
"""How far a cell may lie from the class's previous users, from those who were missing, and from a law of all: relative
deviations. Source: by trial."""
OWN_DRIFTS = (0.03, 0.03, 0.03, 0.1)
"""Drifts of a cell's own past while it is weighed against a law of all: the last one forgets it soon. Source: by trial
(benchmarks/clocked.py)."""
ALONG_DRIFTS = (0.01, 0.1)
"""Drifts of a cell's own past beside the common drift. Source: by trial."""
OWN_SHARE, KIN_SHARE, ABSENT_SHARE, SHRUNK_SHARES, ALONG_SHARE = 0.3, 0.1, 0.1, (0.25, 0.25), 0.003
"""Prior weights of the kinds, before they are made to have the sum one. Source: by trial (benchmarks/clocked.py)."""
WAITING = 0.1
"""By how much the variance around previous users grows with each slot since they were measured. Source: by trial."""
_PATIENCE = PATIENCE ** np.arange(len(DRIFTS))
_PRIOR: Floats = np.concatenate(
    [
        np.tile(_PATIENCE / _PATIENCE.sum() * OWN_SHARE / 2, 2),
        np.full(len(KIN_DRIFTS), KIN_SHARE / len(KIN_DRIFTS)),
        np.full(len(ABSENT_DRIFTS), ABSENT_SHARE / len(ABSENT_DRIFTS)),
        np.repeat(np.array(SHRUNK_SHARES) / len(SHRUNK_DRIFTS), len(SHRUNK_DRIFTS)),
        np.full(len(ALONG_DRIFTS), ALONG_SHARE / len(ALONG_DRIFTS)),
    ]
)
DYNAMICS_PRIOR: Floats = _PRIOR / _PRIOR.sum()
"""Weights of the dynamics before anything was seen: own past of fixed users, of redrawing ones, kin, absent, shrunk,
along."""
_FIXED = len(DRIFTS)
_OWN = 2 * _FIXED
_KIN = _OWN + len(KIN_DRIFTS)
_ABSENT = _KIN + len(ABSENT_DRIFTS)
_SHRUNK = _ABSENT + len(SHRUNK_SHARES) * len(SHRUNK_DRIFTS)
_SHRUNK_STEP, _OWN_STEP = np.array(SHRUNK_DRIFTS)[:, None] ** 2, np.array(OWN_DRIFTS)[:, None] ** 2

REDRAWN: Floats = (np.arange(DYNAMICS_PRIOR.size) >= _FIXED).astype(np.float64)[:, None]
"""One where users draw anew, so that a slot's own PDF differs from the law; zero where they are fixed."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Squared drifts of the dynamics of each kind, as columns; for those of own past the share of users who redraw."""

    own: Floats
    redrawn: Floats
    kin: Floats
    absent: Floats
    along: Floats

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where the dynamics of each kind begin, and where the last of them end."""
        kinds = (self.own.shape[-2], self.kin.shape[-2], self.absent.shape[-2], _SHRUNK - _ABSENT, self.along.shape[-2])
        return tuple(accumulate(kinds, initial=0))

    def astype(self, dtype: npt.DTypeLike) -> Rows:
        """The same in another precision."""
        return Rows(*(getattr(self, field.name).astype(dtype) for field in fields(self)))


ALL_ROWS = Rows(
    np.tile(np.array(DRIFTS) ** 2, 2)[:, None],
    REDRAWN[:_OWN],
    np.array(KIN_DRIFTS)[:, None] ** 2,
    np.array(ABSENT_DRIFTS)[:, None] ** 2,
    np.array(ALONG_DRIFTS)[:, None] ** 2,
)
"""Every dynamic in a row of its own."""


def condense_dynamics(weights: Floats) -> tuple[Rows, Floats]:
    """Dynamics with a common mean as one row, of the same mixture, and the weights of these fewer rows: of cells."""
    parts = [weights[:, :_OWN], weights[:, _OWN:_KIN], weights[:, _KIN:_ABSENT], weights[:, _SHRUNK:]]
    totals = [part.sum(1, keepdims=True) for part in parts]

    def average(values: Floats, i: int) -> Floats:
        return np.asarray(parts[i] @ values / totals[i])[:, :, None]

    rows = Rows(
        average(ALL_ROWS.own, 0),
        average(ALL_ROWS.redrawn, 0),
        average(ALL_ROWS.kin, 1),
        average(ALL_ROWS.absent, 2),
        average(ALL_ROWS.along, 3),
    )
    return rows, np.concatenate([*totals[:3], weights[:, _ABSENT:_SHRUNK], totals[3]], axis=1)


@dataclass(frozen=True, eq=False)
class CellBatch:
    """Cells in one slot, arrays of shape (cells, 1, bins) and (cells, 1, 1)."""

    law: Gaussians
    """Of each when it was measured."""
    size: Floats
    """Users then."""
    age: Floats
    """Slots since."""
    active: Floats
    """Who of it is active."""
    kin: Gaussians
    """The law of the class when it was last measured, and"""
    kin_age: Floats
    """the slots since then."""
    absent: Gaussians
    """The law of those who were missing then."""
    along: Gaussians
    """How the common drift has changed levels since it was measured, relatively."""

    def astype(self, dtype: npt.DTypeLike) -> CellBatch:
        """The same cells in another precision, in which their forecasts are then made."""
        return CellBatch(*(getattr(self, field.name).astype(dtype) for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Forecast:
    """Laws of cells under every dynamic, (cells, dynamics, bins)."""

    laws: Gaussians
    shared: Floats
    """Of those that are shrunk or go along, which are the last: the part of their deviations that all cells have in
    common, by the laws of all and by the common drift."""

    def in_common(self, weights: Floats) -> Floats:
        """That part for each cell, by weights of the dynamics; the others have none."""
        return np.asarray(weights[..., -self.shared.shape[1] :] @ self.shared)


_Part = tuple[Floats, Floats]
"""Means and variances of the dynamics of one kind, to be filled in."""


def forecast_laws(cells: CellBatch, common: Gaussians, rows: Rows = ALL_ROWS) -> Forecast:
    """Each cell's law under every dynamic."""
    own, users = cells.law, np.maximum(cells.size, 1.0)
    squared, sampled = own.mean * own.mean, own.mean / users
    places, shape = rows.places, (len(own.mean), rows.places[-1], own.mean.shape[-1])
    laws = Gaussians.empty(*shape, dtype=own.mean.dtype)
    each = [(laws.mean[:, first:last], laws.variance[:, first:last]) for first, last in pairwise(places)]
    alone, kin, absent, shrunk, along = each
    shared = np.empty((shape[0], places[-1] - places[3], shape[2]), own.mean.dtype)
    _keep(alone, cells, rows, squared, sampled, users)
    _stay(kin, cells.kin, rows.kin * (1 + WAITING * cells.kin_age))
    _stay(absent, cells.absent, rows.absent)
    _shrink(shrunk, cells, common, squared, sampled, shared[:, : _SHRUNK - _ABSENT])
    _go_along(along, cells, rows, users, shared[:, _SHRUNK - _ABSENT :])
    return Forecast(laws, shared)


def _keep(to: _Part, cells: CellBatch, rows: Rows, squared: Floats, sampled: Floats, users: Floats) -> None:
    """Own past: it drifts, and those who are active are a part of it, or draw anew."""
    own, (mean, wide) = cells.law, to
    subset = own.mean * np.maximum(1 / np.maximum(cells.active, 1.0) - 1 / users, 0.0)
    mean[:] = own.mean
    np.multiply(cells.age * rows.own, squared + own.variance, out=wide)
    wide += own.variance + subset
    wide += rows.redrawn * (sampled - subset)


def _stay(to: _Part, law: Gaussians, drift: Floats) -> None:
    """A law that was measured at another time, off by a squared drift."""
    mean, wide = to
    mean[:] = law.mean
    np.add(law.variance, drift * law.mean**2, out=wide)


def _shrink(to: _Part, cells: CellBatch, common: Gaussians, squared: Floats, sampled: Floats, shared: Floats) -> None:
    """Own past and each law of all, by precision; `shared` is how far they are off if that law is."""
    own, law, wide = cells.law, common.mean[:, None], common.variance[:, None]
    shape = (len(own.mean), len(SHRUNK_SHARES), len(SHRUNK_DRIFTS), law.shape[-1])
    mean, pull, alike = to[0].reshape(shape), to[1].reshape(shape), shared.reshape(shape)
    own_step, step = _OWN_STEP.astype(law.dtype), _SHRUNK_STEP.astype(law.dtype)
    near = own.variance + sampled + cells.age * own_step * squared + 1e-18
    near = near[:, None]
    wider = wide + step * law**2
    np.add(wider, near, out=pull)
    np.divide(wider, pull, out=pull)
    np.subtract(own.mean[:, None], law, out=mean)
    mean *= pull
    mean += law
    mean /= np.add.reduce(mean, -1, keepdims=True)
    np.subtract(1, pull, out=alike)
    alike *= np.sqrt(wide)
    pull *= near


def _go_along(to: _Part, cells: CellBatch, rows: Rows, users: Floats, shared: Floats) -> None:
    """Own past, moved by the common drift; `shared` is how far it is off if that is."""
    own, drift, (mean, wide) = cells.law, cells.along, to
    moved = own.mean * drift.mean
    whole = np.add.reduce(moved, -1, keepdims=True)
    moved /= whole
    mean[:] = moved
    np.add(drift.variance, cells.age * rows.along, out=wide)
    wide *= moved**2
    wide += own.variance * (drift.mean / whole) ** 2
    wide += moved / users
    shared[:] = moved * np.sqrt(drift.variance)


def join_weights(cell: Floats, of_class: Floats) -> Floats:
    """A cell's weights of the dynamics, times what its class has learned."""
    weights = cell * of_class
    weights /= DYNAMICS_PRIOR
    weights /= np.add.reduce(weights, -1, keepdims=True)
    return weights


def mix_dynamics(weights: Floats, each: Gaussians) -> Gaussians:
    """The mixture of the dynamics as one Gaussian for each bin; of one cell, or of many."""
    row = weights[..., None, :]
    mean = row @ each.mean
    around = each.mean - mean
    around *= around
    around += each.variance
    variance = row @ around
    return Gaussians(mean[..., 0, :], variance[..., 0, :])


PAID, BEHIND = 0, 1
"""Where the two cells of a class lie in arrays. Source: by definition."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells: arrays of shape (2, classes, …), `PAID` and `BEHIND` of every class. Class 0 has none: it is new."""

    size: Floats
    """Users at their last measurement."""
    doubt: Floats
    """Relative variance of that."""
    age: Floats
    """Slots since then."""
    left: Floats
    """What they have left on average, as a share of ε."""
    weights: Floats
    """Of the dynamics, by what the cell's forefathers have shown."""
    mean: Floats
    """Their PDF when they were measured."""
    variance: Floats
    walk: Floats
    """Where the common drift was then."""

    @classmethod
    def empty(cls, bins: int, classes: int) -> Cells:
        """Nobody has paid yet."""
        shape = (2, classes)
        return cls(
            size=np.zeros(shape),
            doubt=np.zeros(shape),
            age=np.zeros(shape),
            left=np.ones(shape),
            weights=np.broadcast_to(DYNAMICS_PRIOR, (*shape, DYNAMICS_PRIOR.size)).copy(),
            mean=np.full((*shape, bins), 1 / bins),
            variance=np.full((*shape, bins), 1 / bins**2),
            walk=np.zeros((*shape, bins)),
        )

    def __getitem__(self, key: tuple[int | slice, ...] | int | slice) -> Cells:
        return Cells(*[part[key] for part in _parts(self)])

    def copied(self) -> Cells:
        """The same in arrays of its own."""
        return Cells(*[part.copy() for part in _parts(self)])


_parts: Callable[[Cells], tuple[Floats, ...]] = attrgetter(*(field.name for field in fields(Cells)))
