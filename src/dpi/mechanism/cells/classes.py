"""One class in one slot: due, its cells are merged and compared with what was measured; otherwise they are carried.

Who paid goes on to the next class; who was absent stays behind, with the law just measured or, if users have a bin for
life, with what is missing in it. Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.cells import dynamics, law, sizes
from dpi.mechanism.cells.cells import BEHIND, PAID
from dpi.mechanism.cells.counts import ClassCounts
from dpi.mechanism.cells.drift import CommonDrift
from dpi.mechanism.cells.dynamics import Batch
from dpi.mechanism.cells.factors import Factors
from dpi.mechanism.cells.law import softmax
from dpi.mechanism.cells.parts import Carried, Measured
from dpi.mechanism.cells.sizes import Rates
from dpi.mechanism.cells.state import CellsState
from dpi.mechanism.filtering import laplace_gauss
from dpi.mechanism.filtering.gaussians import Gaussians

RETURN = 0.02
CLASS_RETURN = 0.05
"""Share of weight that flows back to the prior with a clear measurement: of a cell's dynamics, and of its class's.

Source: by trial; not measured by itself.
"""

LEAST = 0.2
"""A measurement lowers a probability to no less than this share of what was expected: a bin may only look empty.

Source: by trial; not measured by itself.
"""

NEGLIGIBLE = 0.01
"""A cell with fewer active users is not carried.

Source: by definition; no release shows a hundredth of a user.
"""


@dataclass(frozen=True, eq=False)
class Due:
    """A class after it was measured."""

    part: Measured
    law: Gaussians
    """Of those measured, for the time to come."""
    absent: Gaussians
    """Users in each bin who were missing."""
    spread: float
    """Variance of how many of them were expected, but for absentees."""
    left: float
    """What they had left before they paid, as a share of ε, and"""
    share: float
    """the fraction of it that they paid."""
    weights: Floats
    class_weights: Floats
    precision: Floats
    evidence: Floats
    sizes: Factors
    drift: CommonDrift


def _cells(state: CellsState, kind: Integers, m: Integers, rates: Rates) -> Batch:
    """Cells by their kinds and classes; own past stands in for kin or absentees that a cell has not."""
    cells, shape, column = state.cells, (m.size, 1, state.bins), (m.size, 1, 1)
    here, behind = kind * state.classes + m, BEHIND * state.classes + m
    size, age = cells.size.take(here).reshape(column), cells.age.take(here).reshape(column)
    own = Gaussians(_rows(cells.mean, here, shape), _rows(cells.variance, here, shape))
    apart = own.variance + own.mean / np.maximum(size, 1.0)
    seen = (cells.size.take(behind) > 0).reshape(column)
    missing, spread = _rows(state.absent.mean, m, shape), _rows(state.absent.variance, m, shape)
    users, doubt = np.add.reduce(missing, 2, keepdims=True), np.add.reduce(spread, 2, keepdims=True)
    told = users * users > 1 + doubt  # otherwise nothing is known of who is missing
    told &= (kind == BEHIND).reshape(column)
    users = np.where(told, users, 1.0)
    return Batch(
        law=own,
        size=size,
        age=age,
        active=rates.active.take(here).reshape(column),
        kin=Gaussians(
            np.where(seen, _rows(cells.mean, behind, shape), own.mean),
            np.where(seen, _rows(cells.variance, behind, shape), apart),
        ),
        kin_age=np.where(seen, cells.age.take(behind).reshape(column), age),
        absent=Gaussians(
            np.where(told, missing / users, own.mean),
            np.where(told, (spread + missing) / (users * users), apart),
        ),
        along=state.drift.along(_rows(cells.walk, here, shape), age),
    )


def _rows(array: Floats, at: Integers, shape: tuple[int, int, int]) -> Floats:
    """Rows of bins by their numbers, as (cells, 1, bins)."""
    return array.reshape(-1, shape[2]).take(at, 0).reshape(shape)


def carried(state: CellsState, lowest: int, rates: Rates, common: Gaussians) -> Carried:
    """The cells of the classes from `lowest` on, which are not due.

    No count is compared with their forecasts, so that single precision does, to 10⁻⁶ of each.
    """
    m, kind = np.nonzero(rates.active.T[lowest:] >= NEGLIGIBLE)
    m += lowest
    if m.size == 0:
        return Carried.nobody(state.bins)
    cells = _cells(state, kind, m, rates)
    weights = dynamics.together(state.cells.weights[kind, m], state.class_weights[m])
    rows, few = dynamics.condensed(weights)
    single = np.float32
    forecast = dynamics.forecast(cells.astype(single), common.astype(single), rows.astype(single))
    few = few.astype(single)
    mixed = dynamics.mixed(few, forecast.laws).astype(np.float64)
    shared = forecast.in_common(few[:, None])[:, 0].astype(np.float64)
    active = cells.active[:, 0, 0]
    drawn = weights @ dynamics.REDRAWN * mixed.mean / np.maximum(active, 1.0)[:, None]
    laws = Gaussians(mixed.mean, mixed.variance + drawn)
    spread = rates.alone(state.cells)
    return Carried(
        size=active,
        spread=spread[kind, m],
        law=laws,
        age=cells.age[:, 0, 0],
        shared=shared,
        factor=state.laws.each[m],
        size_factor=state.sizes.each[m],
    )


def due(state: CellsState, m: int, measured: ClassCounts, rates: Rates, common: Gaussians) -> Due:
    """A class that was measured; `common` has the laws of all to which cells are shrunk."""
    cells = state.cells[:, m]
    active = rates.active[:, m]
    whole = float(active[0] + active[1])
    expected, portion = max(whole, 1e-3), active / whole if whole > 0 else np.array([0.5, 0.5])
    both = dynamics.forecast(_cells(state, np.array([PAID, BEHIND]), np.array([m, m]), rates), common)
    each = both.laws
    forecast = Gaussians(
        portion[0] * each.mean[0] + portion[1] * each.mean[1],
        portion[0] ** 2 * each.variance[0] + portion[1] ** 2 * each.variance[1],
    )
    weights = portion @ cells.weights
    left = float(portion @ cells.left)
    counts = measured.of_users(left)
    believed = dynamics.together(weights, state.class_weights[m])
    prior = dynamics.mixed(believed, forecast)
    shared = portion @ both.in_common(believed)
    redrawn = float(believed @ dynamics.REDRAWN[:, 0])

    spread = rates.spread(state.cells, m)
    sized = sizes.measured(counts, prior, expected, spread, float(cells.size.sum()))
    size = sized.size

    people, known = size * forecast.mean, size**2 * forecast.variance
    wide = dynamics.REDRAWN * people
    wide += known
    wide += 1e-9
    residual = counts.values - people
    scored = laplace_gauss.evidence(residual, wide, counts.noise)
    slope, seen = law.lumpy(scored, residual, wide, counts.noise)
    users, of_users = law.corrected(people, wide, slope, seen, LEAST * people)
    users, of_users = law.crowded(users, of_users, scored.log_density, counts, size)
    counted = Gaussians(users, of_users).rescaled(1 / size)
    people, of_users = law.corrected(people, known, slope, seen, LEAST * people)
    after = Gaussians(people, of_users).rescaled(1 / size)

    trust = law.clear(size * prior.mean, counts.noise)
    score = trust * scored.log_density.sum(1, dtype=np.float64)
    weights = (1 - RETURN * trust) * weights + RETURN * trust * dynamics.PRIOR
    believed = softmax(np.log(dynamics.together(weights, state.class_weights[m])) + score)
    class_weights = softmax(np.log(state.class_weights[m]) + score)
    realised = _normalised(dynamics.mixed(believed, counted))
    precision, evidence = sizes.learned(
        state.precision[m], state.evidence[m], rates.ready[:, m], sized, expected, spread
    )
    part = Measured(
        expected,
        spread + float(rates.absent[m]),
        prior,
        counts,
        sized,
        realised,
        redrawn,
        shared,
        float(state.laws.each[m]),
        float(state.sizes.each[m]),
    )
    return Due(
        part=part,
        law=_normalised(dynamics.mixed(believed, after)),
        absent=_missing(state, m, sized, realised),
        spread=spread,
        left=left,
        share=measured.share,
        weights=softmax(np.log(weights) + score),
        class_weights=(1 - CLASS_RETURN) * class_weights + CLASS_RETURN * dynamics.PRIOR,
        precision=precision,
        evidence=evidence,
        drift=state.drift.of_class(counts, size, forecast[-1]),
        sizes=state.sizes.after(m, sized.seen - expected, spread, sized.seen_variance),
    )


def _missing(state: CellsState, m: int, sized: sizes.Sized, realised: Gaussians) -> Gaussians:
    """Who of a class was not there: all who had entered it less those who were measured, bin by bin."""
    paid, before = state.cells[PAID, m], state.absent[m]
    size = float(paid.size)
    people = before.mean + size * paid.mean - sized.size * realised.mean
    doubt = before.variance + size**2 * (paid.variance + paid.doubt * paid.mean**2)
    doubt = doubt + sized.size**2 * realised.variance + sized.variance * realised.mean**2
    return Gaussians(np.maximum(people, 0.0), doubt)


def _normalised(belief: Gaussians) -> Gaussians:
    return belief.rescaled(1 / float(belief.mean.sum()))
