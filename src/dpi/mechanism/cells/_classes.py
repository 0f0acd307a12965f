"""One class in one slot: due, its cells are compared with what was measured; otherwise they are carried.

Who paid goes on to the next class; who was absent stays behind. Beside the cells, two laws of everybody and of all
veterans track polls, slots in which most who are active were measured; their weights, and that of a uniform law, are
found by regression of what the cells missed. Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.cells._dynamics import (
    BEHIND,
    DYNAMICS_PRIOR,
    PAID,
    REDRAWN,
    CellBatch,
    Cells,
    CommonDrift,
    condense_dynamics,
    forecast_laws,
    join_weights,
    mix_dynamics,
)
from dpi.mechanism.cells._factors import Factors
from dpi.mechanism.cells._law import (
    ClassCounts,
    Law,
    LawTable,
    assimilate_law,
    begin_law,
    clearness,
    correct_counts,
    correct_crowds,
    fit_size,
    lumpy_slope,
    refit_size,
    softmax,
)
from dpi.mechanism.cells._sizes import Carried, Measured, Rates, Sized, learn_absence, learn_rates, measure_size
from dpi.mechanism.cells._state import CellsState
from dpi.mechanism.filtering._gaussians import Gaussians, fast_replace
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts, score_evidence

WEIGHTS, PRECISIONS = (0.2, 0.3, 0.0), (8.0, 8.0, 80.0)
"""Prior weights of the laws of veterans, of everybody and of the uniform one, and the precisions of these. Source: by
trial (benchmarks/clocked.py)."""

_PRIOR: Floats = np.column_stack([np.multiply(PRECISIONS, WEIGHTS), np.diag(PRECISIONS)])
"""The same as moments."""
HEARD = 0.2
"""A class counts as measured if its size is this many deviations of the noise of its sum. Source: by trial."""
MOST = 0.5
"""Share of those who are active that a poll needs. Source: by trial (benchmarks/clocked.py)."""
SWEEPS = 30
"""Rounds of coordinate descent, at most: enough for three weights. Source: by trial
(tests/mechanism/cells/test_everybody.py)."""
MEMORY = 0.7
"""Share of the regression that is kept from poll to poll. Source: by trial."""


@dataclass(frozen=True, eq=False)
class Common:
    """The two laws, and the regression behind their weights."""

    veterans: Law
    everybody: Law
    moments: Floats
    """(3, 4): for each of three laws, the product with what was missed, then with what each would have changed."""


def common_weights(common: Common) -> Floats:
    """Weights of the three laws, none negative, together at most one; an unknown law has none."""
    (own, aa, ab, ac), (theirs, ba, bb, bc), (even, ca, cb, cc) = (common.moments + _PRIOR).tolist()
    known = (common.veterans.known, common.everybody.known, common.everybody.known)
    a = b = c = 0.0
    for _ in range(SWEEPS):
        before = a, b, c
        a = max((own - (ab * b + ac * c)) / aa, 0.0) if known[0] else 0.0
        b = max((theirs - (ba * a + bc * c)) / bb, 0.0) if known[1] else 0.0
        c = max((even - (ca * a + cb * b)) / cc, 0.0) if known[2] else 0.0
        if abs(a - before[0]) < 1e-9 and abs(b - before[1]) < 1e-9 and abs(c - before[2]) < 1e-9:
            break
    return np.array([a, b, c]) / max(a + b + c, 1.0)


def common_opinions(common: Common, table: LawTable, new: Measured, old: float) -> Floats:
    """What each law says of the PDF of `old` veterans, (3, bins): that of everybody, less the newcomers."""
    own, all_of_them = (table.read(one).pdf for one in (common.veterans, common.everybody))
    rest = np.maximum((old + new.size) * all_of_them - new.size * new.realised.mean, 0.1 * old * all_of_them)
    return np.array([own, rest / rest.sum(), np.full(own.size, 1 / own.size)])


def poll_laws(
    common: Common, table: LawTable, new: Measured, parts: Sequence[Measured], kept: Carried, said: Floats
) -> Common:
    """After a slot: `said` is what the laws had said of the veterans."""
    good = [part for part in parts if part.size > HEARD * part.counts.total_variance**0.5]
    size, mean = kept.size[:, None], kept.law.mean
    variance = size**2 * kept.law.variance + kept.spread[:, None] * mean**2
    rest = Gaussians(np.add.reduce(size * mean), np.add.reduce(variance))
    for part in parts:
        if part not in good:
            rest = Gaussians(rest.mean + part.size * part.realised.mean, rest.variance + part.foreseen)
    heard = sum(part.size for part in good)
    old = max(heard + float(rest.mean.sum()), 1e-3)
    everybody, veterans, moments = common.everybody, common.veterans, common.moments
    if heard + new.size > MOST * (old + new.size):
        everybody = _assimilated(everybody, table, [new, *good], rest, old + new.size)
    if good and heard > MOST * old:
        if veterans.known:
            moments = MEMORY * moments + _moments(good, rest, old, said)
        else:
            veterans = common.everybody  # who they were when they were new
        veterans = _assimilated(veterans, table, good, rest, old)
    return Common(veterans, everybody, moments)


def _moments(parts: Sequence[Measured], rest: Gaussians, old: float, said: Floats) -> Floats:
    counts = _poll(parts, rest)
    cells = rest.mean + np.sum([part.expected * part.prior.mean for part in parts], axis=0)
    pdf = cells / cells.sum()
    size = max(fit_size(counts, pdf, np.zeros_like(pdf), old)[0], 0.2 * old)
    away = old * (said - pdf)
    precise = away / (2 * counts.noise**2 + rest.variance + old * pdf)
    return np.column_stack([precise @ (counts.values - size * pdf), precise @ away.T])


def _poll(parts: Sequence[Measured], rest: Gaussians) -> NoisyCounts:
    """The sum of classes that were measured; the others count as they were estimated."""
    noise = sum(part.counts.noise**2 for part in parts) ** 0.5
    values = rest.mean + np.sum([part.counts.values for part in parts], axis=0)
    return NoisyCounts(values, float(noise), rest.variance)


def _assimilated(one: Law, table: LawTable, parts: Sequence[Measured], rest: Gaussians, size: float) -> Law:
    counts, size = _poll(parts, rest), max(size, 1.0)
    if not one.known:
        return begin_law(one, counts, max(size, counts.total_variance**0.5))
    reading = table.read(one)
    return assimilate_law(one, reading, counts, refit_size(reading, counts, size, 0.0)).law


RETURN = 0.02
CLASS_RETURN = 0.05
"""Share of weight that flows back to the prior with a clear measurement: of a cell's dynamics, and of its class's.
Source: by trial."""
LEAST = 0.2
"""A measurement lowers a probability to no less than this share of what was expected: a bin may only look empty.
Source: by trial."""
NEGLIGIBLE = 0.01
"""A cell with fewer active users is not carried. Source: by definition."""


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


def _cells(state: CellsState, kind: Integers, m: Integers, rates: Rates) -> CellBatch:
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
    return CellBatch(
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
            np.where(told, missing / users, own.mean), np.where(told, (spread + missing) / (users * users), apart)
        ),
        along=state.drift.along(_rows(cells.walk, here, shape), age),
    )


def _rows(array: Floats, at: Integers, shape: tuple[int, int, int]) -> Floats:
    """Rows of bins by their numbers, as (cells, 1, bins)."""
    return array.reshape(-1, shape[2]).take(at, 0).reshape(shape)


def carry_cells(state: CellsState, lowest: int, rates: Rates, common: Gaussians) -> Carried:
    """The cells of the classes from `lowest` on, which are not due."""
    m, kind = np.nonzero(rates.active.T[lowest:] >= NEGLIGIBLE)
    m += lowest
    if m.size == 0:
        return Carried.nobody(state.bins)
    cells = _cells(state, kind, m, rates)
    weights = join_weights(state.cells.weights[kind, m], state.class_weights[m])
    rows, few = condense_dynamics(weights)
    single = np.float32
    forecast = forecast_laws(cells.astype(single), common.astype(single), rows.astype(single))
    few = few.astype(single)
    mixed = mix_dynamics(few, forecast.laws).astype(np.float64)
    shared = forecast.in_common(few[:, None])[:, 0].astype(np.float64)
    active = cells.active[:, 0, 0]
    drawn = weights @ REDRAWN * mixed.mean / np.maximum(active, 1.0)[:, None]
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


def measure_class(state: CellsState, m: int, measured: ClassCounts, rates: Rates, common: Gaussians) -> Due:
    """A class that was measured; `common` has the laws of all to which cells are shrunk."""
    cells = state.cells[:, m]
    active = rates.active[:, m]
    whole = float(active[0] + active[1])
    expected, portion = max(whole, 1e-3), active / whole if whole > 0 else np.array([0.5, 0.5])
    both = forecast_laws(_cells(state, np.array([PAID, BEHIND]), np.array([m, m]), rates), common)
    each = both.laws
    forecast = Gaussians(
        portion[0] * each.mean[0] + portion[1] * each.mean[1],
        portion[0] ** 2 * each.variance[0] + portion[1] ** 2 * each.variance[1],
    )
    weights = portion @ cells.weights
    left = float(portion @ cells.left)
    counts = measured.of_users(left)
    believed = join_weights(weights, state.class_weights[m])
    prior = mix_dynamics(believed, forecast)
    shared = portion @ both.in_common(believed)
    redrawn = float(believed @ REDRAWN[:, 0])

    spread = rates.spread(state.cells, m)
    sized = measure_size(counts, prior, expected, spread, float(cells.size.sum()))
    size = sized.size

    people, known = size * forecast.mean, size**2 * forecast.variance
    wide = REDRAWN * people
    wide += known
    wide += 1e-9
    residual = counts.values - people
    scored = score_evidence(residual, wide, counts.noise)
    slope, seen = lumpy_slope(scored, residual, wide, counts.noise)
    users, of_users = correct_counts(people, wide, slope, seen, LEAST * people)
    users, of_users = correct_crowds(users, of_users, scored.log_density, counts, size)
    counted = Gaussians(users, of_users).rescaled(1 / size)
    people, of_users = correct_counts(people, known, slope, seen, LEAST * people)
    after = Gaussians(people, of_users).rescaled(1 / size)

    trust = clearness(size * prior.mean, counts.noise)
    score = trust * scored.log_density.sum(1, dtype=np.float64)
    weights = (1 - RETURN * trust) * weights + RETURN * trust * DYNAMICS_PRIOR
    believed = softmax(np.log(join_weights(weights, state.class_weights[m])) + score)
    class_weights = softmax(np.log(state.class_weights[m]) + score)
    realised = _normalised(mix_dynamics(believed, counted))
    precision, evidence = learn_rates(state.precision[m], state.evidence[m], rates.ready[:, m], sized, expected, spread)
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
        law=_normalised(mix_dynamics(believed, after)),
        absent=_missing(state, m, sized, realised),
        spread=spread,
        left=left,
        share=measured.share,
        weights=softmax(np.log(weights) + score),
        class_weights=(1 - CLASS_RETURN) * class_weights + CLASS_RETURN * DYNAMICS_PRIOR,
        precision=precision,
        evidence=evidence,
        drift=state.drift.of_class(counts, size, forecast[-1]),
        sizes=state.sizes.after(m, sized.seen - expected, spread, sized.seen_variance),
    )


def _missing(state: CellsState, m: int, sized: Sized, realised: Gaussians) -> Gaussians:
    """Who of a class was not there: all who had entered it less those who were measured, bin by bin."""
    paid, before = state.cells[PAID, m], state.absent[m]
    size = float(paid.size)
    people = before.mean + size * paid.mean - sized.size * realised.mean
    doubt = before.variance + size**2 * (paid.variance + paid.doubt * paid.mean**2)
    doubt = doubt + sized.size**2 * realised.variance + sized.variance * realised.mean**2
    return Gaussians(np.maximum(people, 0.0), doubt)


def _normalised(belief: Gaussians) -> Gaussians:
    return belief.rescaled(1 / float(belief.mean.sum()))


def move_users(state: CellsState, new: Measured, share: float, classes: Mapping[int, Due]) -> CellsState:
    """The state after newcomers paid a share of all they had, and the due classes what they were asked for."""
    cells, walk = state.cells.copied(), state.drift.mean
    absent = Gaussians(state.absent.mean.copy(), state.absent.variance.copy())
    class_weights, precision, evidence = state.class_weights.copy(), state.precision.copy(), state.evidence.copy()
    missing, looked = state.missing.copy(), state.looked.copy()
    for m, due in classes.items():
        looked[m] = learn_absence(float(looked[m]), float(missing[m]), due.part.sized, due.part.expected)
        entered = float(missing[m] + cells.size[PAID, m])
        missing[m] = max(entered - due.part.size, 0.0)
        _put(cells, BEHIND, m, due.part.sized, 0.0, due.left, due.weights, due.law, walk)
        cells.size[PAID, m] = 0.0
        absent.mean[m], absent.variance[m] = due.absent.mean, due.absent.variance
        class_weights[m], precision[m], evidence[m] = due.class_weights, due.precision, due.evidence
    _join(cells, 1, new.sized, 1 - share, DYNAMICS_PRIOR, new.realised, walk)
    for m, due in classes.items():
        _join(cells, m + 1, due.part.sized, due.left * (1 - due.share), due.weights, due.law, walk)
    return fast_replace(
        state,
        cells=cells,
        absent=absent,
        missing=missing,
        looked=looked,
        class_weights=class_weights,
        precision=precision,
        evidence=evidence,
    )


def _join(cells: Cells, m: int, sized: Sized, left: float, weights: Floats, law: Gaussians, walk: Floats) -> None:
    """Add users to those who have paid m times since that class was measured; the top class takes all further ones."""
    m = min(m, cells.size.shape[1] - 1)
    before = cells[PAID, m]
    size = float(before.size)
    both = size + sized.size
    old, new = size / both, sized.size / both
    mean = old * before.mean + new * law.mean
    variance = old**2 * before.variance + new**2 * law.variance
    spread = size**2 * float(before.doubt) + sized.variance
    joined = Sized(both, spread, both, spread)
    age, rest = old * float(before.age), old * float(before.left) + new * left
    _put(
        cells,
        PAID,
        m,
        joined,
        age,
        rest,
        old * before.weights + new * weights,
        Gaussians(mean, variance),
        old * before.walk + new * walk,
    )


def _put(
    cells: Cells,
    kind: int,
    m: int,
    sized: Sized,
    age: float,
    left: float,
    weights: Floats,
    law: Gaussians,
    walk: Floats,
) -> None:
    cells.size[kind, m], cells.doubt[kind, m] = sized.size, sized.variance / sized.size**2
    cells.age[kind, m], cells.left[kind, m] = age, left
    cells.weights[kind, m], cells.mean[kind, m], cells.variance[kind, m] = weights, law.mean, law.variance
    cells.walk[kind, m] = walk
