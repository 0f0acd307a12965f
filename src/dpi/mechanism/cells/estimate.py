"""One slot of the clocked ledger's estimator: measure classes, age cells, release the PDF of all active users.

The release is the sum of all parts by their sizes: newcomers, the classes that were due, and cells that are carried
forward. Everything here is a pure function of a state and measurements, so it is post-processing and costs no privacy.
Sees counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpi.errors import StateError
from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.cells import activity, everybody, law, phases, release, season, sizes
from dpi.mechanism.cells.classes import Due, carried, due
from dpi.mechanism.cells.counts import ClassCounts, Counts
from dpi.mechanism.cells.everybody import Common
from dpi.mechanism.cells.factors import LAWS_ALIKE, SIZES_ALIKE
from dpi.mechanism.cells.law import Law, Table
from dpi.mechanism.cells.moves import moved
from dpi.mechanism.cells.parts import Measured
from dpi.mechanism.cells.release import Doubt
from dpi.mechanism.cells.sizes import Rates, Sized
from dpi.mechanism.cells.state import CellsState, sealed
from dpi.mechanism.filtering.changed import replace
from dpi.mechanism.filtering.gaussians import Gaussians

FIRST_LOOKS = 4
"""Times that the population of levels is learned from the first measurement.

Source: by trial; not measured by itself.
"""

HALF = 0.5
"""A class teaches the pooled law if it is more likely than this that it has anybody, and newcomers teach the population
of levels if they are clearer than this.

Source: by trial; measured by benchmarks/clocked.py (churn 0 %, 2,000 slots).
"""


def measured(state: CellsState, slot: int, counts: Sequence[ClassCounts]) -> tuple[CellsState, Estimate]:
    """A slot with the noisy counts of its due classes, the lowest first."""
    if not 0 < len(counts) <= state.classes or any(one.values.shape != (state.bins,) for one in counts):
        raise StateError("the measurement has another number of classes or bins than the state.")
    known = state
    state, steps = phases.entered(state, slot)
    state, table = _later(state, slot)
    state, new, table = _newcomers(state, table, counts[0].of_users(1.0))
    rates = _rates(known.returning, state)
    state = replace(state, drift=state.drift.newcomers(new.counts, max(new.size, 1e-2)))
    pool = _pooled(state.pool, table, new)
    classes: dict[int, Due] = {}
    for m, one in enumerate(counts[1:], 1):
        if state.cells.size[:, m].sum() > 0:
            classes[m] = due(state, m, one, rates, _common(pool, state.everybody, table))
            pool = _pooled(pool, table, classes[m].part)
            state = replace(state, sizes=classes[m].sizes, drift=classes[m].drift)
    common = _common(pool, state.everybody, table)
    kept = carried(state, len(counts), rates, common)
    parts = [each.part for each in classes.values()]
    regulars = [each.part for m, each in classes.items() if m > 1]  # who has paid once may have been passing by
    active, now = activity.told(state.activity, regulars)
    kept = kept.scaled(now)
    before = Common(state.veterans, state.everybody, state.moments)
    old = sum(part.size for part in parts) + kept.users
    said = everybody.opinions(before, table, new, max(old, 1e-3))
    after = everybody.polled(before, table, new, parts, kept, said)
    weights = everybody.weights(replace(before, moments=after.moments))
    compared = [new, *parts] if known.known else []
    change = release.changed(new, parts, kept, said, weights)
    doubt = _doubt(state, rates)
    estimate, heard = release.released(new, parts, kept, change, doubt, state.heard, compared)
    state = replace(
        _compared(state, classes, change),
        heard=heard,
        activity=active,
        veterans=after.veterans,
        everybody=after.everybody,
        moments=after.moments,
    )
    if law.clear(new.size * new.prior.mean, new.counts.noise) > HALF:
        best = law.leader(pool)
        population = table.readout.learned(best, law.levels(best, table.readout), reach=3 * new.counts.noise / new.size)
        state = replace(state, population=population)
    told = (True, True, after.veterans is not before.veterans, after.everybody is not before.everybody)
    state = replace(moved(state, new, counts[0].share, classes), pool=pool)
    state = phases.left(known, state, len(counts), told, steps)
    if state.season.period:
        state = replace(state, season=season.learned(state.season, slot % state.season.period, new, parts))
    return sealed(state), estimate


def unmeasured(state: CellsState, slot: int) -> tuple[CellsState, Estimate]:
    """A slot that was not looked at: newcomers are as many as expected, all others are carried.

    Before the first measurement nothing is known: the release is uniform, and the number of users NaN.
    """
    if not state.known:
        even = np.full(state.bins, 1 / state.bins)
        nothing = float("nan")
        return state, Estimate(even, even * (1 - even), np.ones(state.bins), nothing, nothing, carried=1.0)
    known = state
    state, steps = phases.entered(state, slot)
    state, table = _later(state, slot)
    rates = _rates(known.returning, state)
    expected = table.gaussians(state.newcomers)
    inflow = state.inflow
    size = max(inflow.size, 0.0) * sizes.not_empty(inflow.size, inflow.variance)
    spread = inflow.variance + inflow.change * size**2
    drawn = Gaussians(expected.mean, expected.variance + expected.mean / max(size, 1.0))
    new = Measured(
        size, spread, expected, Counts(size * expected.mean, 1.0), Sized(size, spread, size, spread), drawn, 1.0
    )
    common = _common(state.pool, state.everybody, table)
    _, now = activity.told(state.activity, [])
    kept = carried(state, 1, rates, common).scaled(now)
    common_laws = Common(state.veterans, state.everybody, state.moments)
    said = everybody.opinions(common_laws, table, new, max(kept.users, 1e-3))
    change = release.changed(new, [], kept, said, everybody.weights(common_laws))
    doubt = _doubt(state, rates)
    estimate, _ = release.released(new, [], kept, change, doubt, state.heard, [])
    return sealed(phases.left(known, state, 0, (False,) * 4, steps)), replace(estimate, carried=1.0)


def _later(state: CellsState, slot: int) -> tuple[CellsState, Table]:
    """The state, aged to a slot, and the table in which its laws are read."""
    laws = phases.laws(state)
    table = law.table(state.population, laws)
    if not state.known:
        return replace(state, slot=slot), table
    elapsed = max(slot - state.slot, 1)
    aged = law.aged(laws, table.readout, elapsed)
    table.read_all(aged)
    cells = replace(state.cells, age=state.cells.age + elapsed)
    return replace(
        phases.with_laws(state, aged),
        slot=slot,
        cells=cells,
        activity=activity.later(state.activity, elapsed),
        drift=state.drift.later(elapsed),
    ), table


def _rates(returning: tuple[Floats, Floats], state: CellsState) -> Rates:
    """Who of every cell is active in the state's slot, by rates of return and by the activity of its phase."""
    rates = sizes.active(returning, state.cells, state.missing, state.looked)
    if not state.season.period:
        return rates
    now = season.active(state.season, state.slot % state.season.period)
    return replace(rates, active=now * rates.active, ready=now * rates.ready)


def _common(pool: Law, everybody: Law, table: Table) -> Gaussians:
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
    return replace(
        state,
        laws=laws,
        laws_alike=state.laws_alike.after(of_laws),
        sizes_alike=state.sizes_alike.after(of_sizes),
    )


def _newcomers(state: CellsState, table: Table, counts: Counts) -> tuple[CellsState, Measured, Table]:
    """Class 0, which is due in every slot; its first measurement is where the population of levels is learned from."""
    if not state.known:
        return _first(state, counts)
    reading = table.read(state.newcomers)
    prior = Gaussians(reading.pdf, reading.variance)
    inflow, sized = sizes.newcomers(state.inflow, counts, prior)
    learned = law.assimilated(state.newcomers, reading, counts, max(sized.size, 1e-2))
    new = Measured(max(state.inflow.size, 1e-3), state.inflow.variance, prior, counts, sized, learned.realised, 1.0)
    return replace(state, newcomers=learned.law, inflow=inflow), new, table


def _first(state: CellsState, counts: Counts) -> tuple[CellsState, Measured, Table]:
    inflow, sized = sizes.first(counts)
    scale = max(counts.total, counts.total_variance**0.5, 1.0)  # of levels: never less than the noise of the sum
    begun = law.begun(state.newcomers, counts, scale)
    messages, population = law.leader(begun), state.population
    table = law.table(population, (begun,))
    for _ in range(FIRST_LOOKS):
        levels = law.levels(messages, table.readout)
        population = table.readout.learned(messages, levels, reach=3 * counts.noise / scale)
        table = law.table(population, (begun,))
    noise = np.full(state.bins, 2 * (counts.noise / scale) ** 2)
    realised = law.levels(Gaussians(messages.mean, noise), table.readout)
    realised = realised.rescaled(1 / float(realised.mean.sum()))
    even = Gaussians(np.full(state.bins, 1 / state.bins), np.full(state.bins, 1 / state.bins**2))
    new = Measured(sized.size, sized.variance, even, counts, sized, realised, 1.0)
    return replace(state, newcomers=begun, inflow=inflow, population=population), new, table


def _pooled(pool: Law, table: Table, part: Measured) -> Law:
    """The pooled law after one class; one that is likely empty would teach it noise."""
    if not pool.known:
        return law.begun(pool, part.counts, max(part.counts.total, part.counts.total_variance**0.5, 1.0))
    if sizes.not_empty(part.size, part.sized.variance) < HALF:
        return pool
    reading = table.read(pool)
    size = law.refitted(reading, part.counts, part.size, part.sized.variance)
    return law.assimilated(pool, reading, part.counts, size).law
