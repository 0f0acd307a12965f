"""One class in one slot: due, its cells are merged and compared with what was measured; otherwise they are carried.

Who paid goes on to the next class; who was absent stays behind, with the law just measured or, if users have a bin for
life, with what is missing in it. Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.cells import dynamics, law, sizes
from dpi.mechanism.cells.calibration import Calibration
from dpi.mechanism.cells.cells import BEHIND, PAID
from dpi.mechanism.cells.counts import ClassCounts
from dpi.mechanism.cells.dynamics import Cell
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
    left: float
    """What they had left before they paid, as a share of ε, and"""
    share: float
    """the fraction of it that they paid."""
    weights: Floats
    class_weights: Floats
    precision: Floats
    evidence: Floats
    laws: Calibration
    sizes: Calibration


def _cells(state: CellsState, m: int, rates: Rates) -> list[Cell]:
    """The two cells of a class."""
    cells = state.cells[:, m]
    active = rates.active[:, m].tolist()
    size, age = cells.size.tolist(), cells.age.tolist()
    kin = Gaussians(cells.mean[BEHIND], cells.variance[BEHIND]) if size[BEHIND] > 0 else None
    missing = state.absent[m]
    users = float(missing.mean.sum())
    absent = None
    if users**2 > 1 + float(missing.variance.sum()):  # otherwise nothing is known of who is missing
        absent = Gaussians(missing.mean / users, (missing.variance + missing.mean) / users**2)
    return [
        Cell(
            Gaussians(cells.mean[i], cells.variance[i]),
            size[i],
            age[i],
            active[i],
            kin,
            age[BEHIND],
            absent if i == BEHIND else None,
        )
        for i in (PAID, BEHIND)
    ]


def carried(state: CellsState, m: int, rates: Rates, pool: Gaussians) -> Iterator[Carried]:
    """The cells of a class that is not due."""
    for i, cell in enumerate(_cells(state, m, rates)):
        if cell.active >= NEGLIGIBLE:
            weights = dynamics.together(state.cells.weights[i, m], state.class_weights[m])
            rows, few = dynamics.condensed(weights)
            mixed = dynamics.mixed(few, dynamics.forecast(cell, pool, rows))
            drawn = float(weights @ dynamics.REDRAWN[:, 0]) * mixed.mean / max(cell.active, 1.0)
            law_now = Gaussians(mixed.mean, mixed.variance + drawn)
            yield Carried(cell.active, rates.spread(state.cells, m, i), law_now, cell.age)


def due(state: CellsState, m: int, measured: ClassCounts, rates: Rates, pool: Gaussians) -> Due:
    """A class that was measured; `pool` is the pooled law."""
    cells = state.cells[:, m]
    pair = _cells(state, m, rates)
    active = rates.active[:, m]
    expected = max(float(active.sum()), 1e-3)
    portion = active / active.sum() if active.sum() > 0 else np.array([0.5, 0.5])
    each = [dynamics.forecast(cell, pool) for cell in pair]
    forecast = Gaussians(
        portion[0] * each[0].mean + portion[1] * each[1].mean,
        portion[0] ** 2 * each[0].variance + portion[1] ** 2 * each[1].variance,
    )
    weights = portion @ cells.weights
    left = float(portion @ cells.left)
    counts = measured.of_users(left)
    believed = dynamics.together(weights, state.class_weights[m])
    prior = dynamics.mixed(believed, forecast)
    redrawn = float(believed @ dynamics.REDRAWN[:, 0])

    spread = rates.spread(state.cells, m)
    sized = sizes.measured(counts, prior, expected, spread, float(cells.size.sum()))
    size = sized.size

    known = size**2 * forecast.variance
    both = known + dynamics.REDRAWN * size * forecast.mean + 1e-9
    residual = counts.values - size * forecast.mean
    scored = laplace_gauss.score(residual, both, counts.noise)
    slope, seen = law.lumpy(scored, residual, both, counts.noise)
    least = LEAST * forecast.mean
    after = Gaussians(
        np.maximum(forecast.mean + known * slope / size, least),
        np.maximum(forecast.variance - forecast.variance * known * seen, law.SHARPEST * forecast.variance),
    )
    counted = Gaussians(
        np.maximum(forecast.mean + both * slope / size, least),
        np.maximum(both - both * both * seen, law.SHARPEST * both) / size**2,
    )

    trust = law.clear(size * prior.mean, counts.noise)
    score = trust * scored.log_density.sum(1, dtype=np.float64)
    weights = (1 - RETURN * trust) * weights + RETURN * trust * dynamics.PRIOR
    believed = softmax(np.log(dynamics.together(weights, state.class_weights[m])) + score)
    class_weights = softmax(np.log(state.class_weights[m]) + score)
    realised = _normalised(dynamics.mixed(believed, counted))
    precision, evidence = sizes.learned(state.precision[m], state.evidence[m], rates.ready[:, m], sized, expected)
    part = Measured(expected, prior, counts, sized, realised, redrawn)
    missed = counts.values - size * prior.mean
    weight = min(size / max(float(rates.active.sum()), 1.0), 1.0)
    return Due(
        part=part,
        law=_normalised(dynamics.mixed(believed, after)),
        absent=_missing(state, m, sized, realised),
        left=left,
        share=measured.share,
        weights=softmax(np.log(weights) + score),
        class_weights=(1 - CLASS_RETURN) * class_weights + CLASS_RETURN * dynamics.PRIOR,
        precision=precision,
        evidence=evidence,
        laws=state.laws.after(missed, part.foreseen, 2 * counts.noise**2, weight),
        sizes=state.sizes.after(sized.seen - expected, spread, sized.seen_variance, weight),
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
