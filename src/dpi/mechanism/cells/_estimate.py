"""One slot of the clocked ledger's estimator: measure classes, age cells, release the PDF of all active users.

The release is the sum of all parts by their sizes: newcomers, the classes that were due, and cells that are carried. A
part's variance is that foreseen, times the factor of its class, shrunk by what was seen; what parts have in common adds
up as deviations. A pure function of a state and measurements, so it is post-processing and costs no privacy. Sees
counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpi.errors import StateError
from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.cells._classes import (
    Common,
    Due,
    carry_cells,
    common_opinions,
    common_weights,
    measure_class,
    move_users,
    poll_laws,
)
from dpi.mechanism.cells._factors import LAWS_ALIKE, SIZES_ALIKE, SUREST, confirm_laws
from dpi.mechanism.cells._law import (
    SHARPEST,
    ClassCounts,
    Law,
    LawTable,
    age_laws,
    assimilate_law,
    begin_law,
    clearness,
    leading_messages,
    make_table,
    read_levels,
    refit_size,
)
from dpi.mechanism.cells._season import learn_phase, phase_activity
from dpi.mechanism.cells._sizes import (
    Carried,
    Measured,
    Rates,
    Sized,
    active_users,
    age_activity,
    first_inflow,
    learn_activity,
    not_empty,
    size_newcomers,
)
from dpi.mechanism.cells._state import CellsState, all_laws, enter_phase, leave_phase, seal_state, with_laws
from dpi.mechanism.filtering._gaussians import Gaussians, fast_replace
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts, fisher_information

FLOOR = 0.0005
"""Uniform share of every release: nothing is impossible. Source: by trial."""
LARGEST_RATIO = 10.0
"""The laws of all correct a probability by no more than this factor, up or down. Source: by trial."""
SILENT = 100.0
"""Prior odds, times the width of the alternatives in deviations, against users who do not stand out from noise. Source:
by calculation."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is not known beside the parts' own variances."""

    absent: Floats
    """Variance of each class for those who may have returned unheard."""
    laws: float
    """The share of the variances of laws that cells have in common, beside the laws of all, and"""
    sizes: float
    """that of sizes: they rest on the same rates of return, and on some days all are more active, or less."""


def common_change(new: Measured, parts: Sequence[Measured], kept: Carried, said: Floats, weights: Floats) -> Floats:
    """By what share the laws of all correct forecasts, bin by bin."""
    veterans = np.add.reduce(kept.size[:, None] * kept.law.mean)
    prior = veterans.copy()
    for part in parts:
        veterans += part.size * part.realised.mean
        prior += part.size * part.prior.mean
    total = new.size + float(veterans.sum())
    ratio = said * (np.add.reduce(prior) / np.maximum(prior, 1e-12 * total))
    np.maximum(ratio, 1 / LARGEST_RATIO, out=ratio)
    np.minimum(ratio, LARGEST_RATIO, out=ratio)
    return np.asarray(weights @ (ratio - 1))


def release_parts(
    new: Measured,
    parts: Sequence[Measured],
    kept: Carried,
    change: Floats,
    doubt: Doubt,
    heard: float,
    compared: Sequence[Measured],
) -> tuple[Estimate, float]:
    """The estimate of a slot."""
    bins = change.size
    carried = np.add.reduce(kept.size[:, None] * kept.law.mean)
    veterans = carried.copy()
    for part in parts:
        veterans += part.size * part.realised.mean
    total = new.size + float(veterans.sum())
    counts = new.size * new.realised.mean + veterans + carried * change
    for part in parts:
        foreseen = part.size**2 * part.prior.variance + part.size * part.prior.mean + 1e-12
        unseen = np.maximum(1 - foreseen * fisher_information(foreseen, part.counts.noise), 0)
        counts += np.minimum(unseen, 1) * part.size * part.prior.mean * change
    pdf = np.maximum(counts, 1e-9 * total)
    pdf = (1 - FLOOR) * pdf / pdf.sum() + FLOOR / bins

    weight = float(carried.sum())
    doubts = [_size_doubt(part) for part in parts]
    spreads = kept.size_factor * kept.spread
    variance = np.minimum(new.size**2 * new.realised.variance, 2 * new.counts.noise**2 + new.counts.doubt)
    variance += new.sized.variance * (new.realised.mean - pdf) ** 2
    in_common = np.zeros(bins)
    for part, spread in zip(parts, doubts, strict=True):
        foreseen = part.factor * part.foreseen
        seen = fisher_information(foreseen, part.counts.noise)
        left = np.minimum(np.maximum(1 - foreseen * seen, SHARPEST), 2 * part.counts.noise**2 / foreseen)
        shared = left * np.minimum(part.factor**0.5 * part.size * part.shared, np.sqrt(foreseen))
        in_common += shared
        variance += foreseen * left - shared**2
        variance += spread * (part.realised.mean - pdf) ** 2
    users = (np.sqrt(kept.factor) * kept.size)[:, None]
    of_laws = users**2 * kept.law.variance
    of_sizes = spreads[:, None] * (kept.law.mean - pdf) ** 2
    apart = (1 - doubt.laws) * np.maximum(of_laws - (users * kept.shared) ** 2, 0.0)
    in_common += np.add.reduce(np.sqrt(of_laws - apart))
    variance += np.add.reduce(apart + of_sizes)
    variance += in_common**2
    old = [*doubts, *spreads.tolist(), *doubt.absent.tolist()]
    together = (1 - doubt.sizes) * sum(old) + doubt.sizes * sum([spread**0.5 for spread in old]) ** 2
    total_variance = float(new.sized.variance + together)
    # So many users would stand out from the noise of one slot, by their sum or by their shape; the largest of `bins`
    # draws of noise has a shape too.
    unheard = 2 * new.counts.noise**2 * min(bins, 2 * math.log(bins + 1) / float(pdf @ pdf))
    there, even = not_empty(total, unheard, SILENT), 1 / bins
    if there < SUREST:
        there = max(there, confirm_laws(heard, compared))
    mixed = there * pdf + (1 - there) * even
    variance = there * (variance / total**2 + (pdf - mixed) ** 2)
    variance += (1 - there) * (even**2 + (even - mixed) ** 2)  # what is not heard may be anywhere
    estimate = Estimate(
        pdf=mixed,
        variance=np.minimum(np.maximum(variance, 0.0), np.maximum(mixed * (1 - mixed), 0.0)),
        skew=np.full(bins, 1 - there),
        total=total,
        total_variance=total_variance,
        carried=weight / total,
        age=sum((kept.size * kept.age).tolist()) / weight if weight > 0 else 0.0,
    )
    return estimate, there


def _size_doubt(part: Measured) -> float:
    """Variance of a measured class's size: by its factor, but no more than what the counts alone leave."""
    found, seen = part.sized.variance, part.sized.seen_variance
    with_absent = part.spread * seen / (part.spread + seen)
    return min(part.size_factor * max(found, with_absent), max(found, seen))


FIRST_LOOKS = 4
"""Times that the population of levels is learned from the first measurement. Source: by trial."""
HALF = 0.5
"""A class teaches the pooled law if it is more likely than this that it has anybody, and newcomers teach the population
of levels if they are clearer than this. Source: by trial (benchmarks/clocked.py)."""


def measured(state: CellsState, slot: int, counts: Sequence[ClassCounts]) -> tuple[CellsState, Estimate]:
    """A slot with the noisy counts of its due classes, the lowest first."""
    if not 0 < len(counts) <= state.classes or any(one.values.shape != (state.bins,) for one in counts):
        raise StateError("the measurement has another number of classes or bins than the state.")
    known = state
    state, steps = enter_phase(state, slot)
    state, table = _later(state, slot)
    state, new, table = _newcomers(state, table, counts[0].of_users(1.0))
    rates = _rates(known.returning, state)
    state = fast_replace(state, drift=state.drift.newcomers(new.counts, max(new.size, 1e-2)))
    pool = _pooled(state.pool, table, new)
    classes: dict[int, Due] = {}
    for m, one in enumerate(counts[1:], 1):
        if state.cells.size[:, m].sum() > 0:
            classes[m] = measure_class(state, m, one, rates, _common(pool, state.everybody, table))
            pool = _pooled(pool, table, classes[m].part)
            state = fast_replace(state, sizes=classes[m].sizes, drift=classes[m].drift)
    common = _common(pool, state.everybody, table)
    kept = carry_cells(state, len(counts), rates, common)
    parts = [each.part for each in classes.values()]
    regulars = [each.part for m, each in classes.items() if m > 1]  # who has paid once may have been passing by
    active, now = learn_activity(state.activity, regulars)
    kept = kept.scaled(now)
    before = Common(state.veterans, state.everybody, state.moments)
    old = sum(part.size for part in parts) + kept.users
    said = common_opinions(before, table, new, max(old, 1e-3))
    after = poll_laws(before, table, new, parts, kept, said)
    weights = common_weights(fast_replace(before, moments=after.moments))
    compared = [new, *parts] if known.known else []
    change = common_change(new, parts, kept, said, weights)
    doubt = _doubt(state, rates)
    estimate, heard = release_parts(new, parts, kept, change, doubt, state.heard, compared)
    state = fast_replace(
        _compared(state, classes, change),
        heard=heard,
        activity=active,
        veterans=after.veterans,
        everybody=after.everybody,
        moments=after.moments,
    )
    if clearness(new.size * new.prior.mean, new.counts.noise) > HALF:
        best = leading_messages(pool)
        population = table.readout.learned(
            best, read_levels(best, table.readout), reach=3 * new.counts.noise / new.size
        )
        state = fast_replace(state, population=population)
    told = (True, True, after.veterans is not before.veterans, after.everybody is not before.everybody)
    state = fast_replace(move_users(state, new, counts[0].share, classes), pool=pool)
    state = leave_phase(known, state, len(counts), told, steps)
    if state.season.period:
        state = fast_replace(state, season=learn_phase(state.season, slot % state.season.period, new, parts))
    return seal_state(state), estimate


def unmeasured(state: CellsState, slot: int) -> tuple[CellsState, Estimate]:
    """A slot that was not looked at: newcomers are as many as expected, all others are carried."""
    if not state.known:
        even = np.full(state.bins, 1 / state.bins)
        nothing = float("nan")
        return state, Estimate(even, even * (1 - even), np.ones(state.bins), nothing, nothing, carried=1.0)
    known = state
    state, steps = enter_phase(state, slot)
    state, table = _later(state, slot)
    rates = _rates(known.returning, state)
    expected = table.gaussians(state.newcomers)
    inflow = state.inflow
    size = max(inflow.size, 0.0) * not_empty(inflow.size, inflow.variance)
    spread = inflow.variance + inflow.change * size**2
    drawn = Gaussians(expected.mean, expected.variance + expected.mean / max(size, 1.0))
    new = Measured(
        size, spread, expected, NoisyCounts(size * expected.mean, 1.0), Sized(size, spread, size, spread), drawn, 1.0
    )
    common = _common(state.pool, state.everybody, table)
    _, now = learn_activity(state.activity, [])
    kept = carry_cells(state, 1, rates, common).scaled(now)
    common_laws = Common(state.veterans, state.everybody, state.moments)
    said = common_opinions(common_laws, table, new, max(kept.users, 1e-3))
    change = common_change(new, [], kept, said, common_weights(common_laws))
    doubt = _doubt(state, rates)
    estimate, _ = release_parts(new, [], kept, change, doubt, state.heard, [])
    return seal_state(leave_phase(known, state, 0, (False,) * 4, steps)), fast_replace(estimate, carried=1.0)


def _later(state: CellsState, slot: int) -> tuple[CellsState, LawTable]:
    """The state, aged to a slot, and the table in which its laws are read."""
    laws = all_laws(state)
    table = make_table(state.population, laws)
    if not state.known:
        return fast_replace(state, slot=slot), table
    elapsed = max(slot - state.slot, 1)
    aged = age_laws(laws, table.readout, elapsed)
    table.read_all(aged)
    cells = fast_replace(state.cells, age=state.cells.age + elapsed)
    return fast_replace(
        with_laws(state, aged),
        slot=slot,
        cells=cells,
        activity=age_activity(state.activity, elapsed),
        drift=state.drift.later(elapsed),
    ), table


def _rates(returning: tuple[Floats, Floats], state: CellsState) -> Rates:
    """Who of every cell is active in the state's slot, by rates of return and by the activity of its phase."""
    rates = active_users(returning, state.cells, state.missing, state.looked)
    if not state.season.period:
        return rates
    now = phase_activity(state.season, state.slot % state.season.period)
    return fast_replace(rates, active=now * rates.active, ready=now * rates.ready)


def _common(pool: Law, everybody: Law, table: LawTable) -> Gaussians:
    """The laws to which cells are shrunk, (2, bins); before everybody was polled, both are the pooled one."""
    both = [table.gaussians(one) for one in (pool, everybody if everybody.known else pool)]
    return Gaussians(np.array([one.mean for one in both]), np.array([one.variance for one in both]))


def _doubt(state: CellsState, rates: Rates) -> Doubt:
    return Doubt(rates.unheard, state.laws_alike.share(LAWS_ALIKE), state.sizes_alike.share(SIZES_ALIKE))


def _compared(state: CellsState, classes: Mapping[int, Due], change: Floats) -> CellsState:
    """The state after forecasts, corrected as in the release, were compared with the counts of the due classes."""
    laws, of_laws, of_sizes = state.laws, [], []
    for m, each in classes.items():
        part, noise = each.part, 2 * each.part.counts.noise**2
        missed = part.counts.values - part.size * part.prior.mean * (1 + change)
        foreseen = part.foreseen
        laws = laws.after(m, missed, foreseen, noise)
        of_laws.append((missed, part.factor * foreseen, noise))
        sized = part.sized
        of_sizes.append((sized.seen - part.expected, part.size_factor * each.spread, sized.seen_variance))
    return fast_replace(
        state, laws=laws, laws_alike=state.laws_alike.after(of_laws), sizes_alike=state.sizes_alike.after(of_sizes)
    )


def _newcomers(state: CellsState, table: LawTable, counts: NoisyCounts) -> tuple[CellsState, Measured, LawTable]:
    """Class 0, which is due in every slot; its first measurement is where the population of levels is learned from."""
    if not state.known:
        return _first(state, counts)
    reading = table.read(state.newcomers)
    prior = Gaussians(reading.pdf, reading.variance)
    inflow, sized = size_newcomers(state.inflow, counts, prior)
    learned = assimilate_law(state.newcomers, reading, counts, max(sized.size, 1e-2))
    new = Measured(max(state.inflow.size, 1e-3), state.inflow.variance, prior, counts, sized, learned.realised, 1.0)
    return fast_replace(state, newcomers=learned.law, inflow=inflow), new, table


def _first(state: CellsState, counts: NoisyCounts) -> tuple[CellsState, Measured, LawTable]:
    inflow, sized = first_inflow(counts)
    scale = max(counts.total, counts.total_variance**0.5, 1.0)  # of levels: never less than the noise of the sum
    begun = begin_law(state.newcomers, counts, scale)
    messages, population = leading_messages(begun), state.population
    table = make_table(population, (begun,))
    for _ in range(FIRST_LOOKS):
        levels = read_levels(messages, table.readout)
        population = table.readout.learned(messages, levels, reach=3 * counts.noise / scale)
        table = make_table(population, (begun,))
    noise = np.full(state.bins, 2 * (counts.noise / scale) ** 2)
    realised = read_levels(Gaussians(messages.mean, noise), table.readout)
    realised = realised.rescaled(1 / float(realised.mean.sum()))
    even = Gaussians(np.full(state.bins, 1 / state.bins), np.full(state.bins, 1 / state.bins**2))
    new = Measured(sized.size, sized.variance, even, counts, sized, realised, 1.0)
    return fast_replace(state, newcomers=begun, inflow=inflow, population=population), new, table


def _pooled(pool: Law, table: LawTable, part: Measured) -> Law:
    """The pooled law after one class; one that is likely empty would teach it noise."""
    if not pool.known:
        return begin_law(pool, part.counts, max(part.counts.total, part.counts.total_variance**0.5, 1.0))
    if not_empty(part.size, part.sized.variance) < HALF:
        return pool
    reading = table.read(pool)
    size = refit_size(reading, part.counts, part.size, part.sized.variance)
    return assimilate_law(pool, reading, part.counts, size).law
