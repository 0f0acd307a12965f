"""What the boosted mechanism remembers, when the domain changes.

A bin that is the same in both domains keeps its messages, bit for bit. Bins that become one add up. A bin that is split
shares its level m evenly, and m² is added to the variance of each part. A bin that overlaps nothing old is unknown.

A pure function of a state and two public domains, so it is post-processing and costs no privacy. Sees messages after
noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpi.domain import Domain
from dpi.domain.overlap import Overlap
from dpi.domain.partition import Partition
from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted._experts import QUIET, Walked, merge_pool, whole_pool
from dpi.mechanism.boosted._state import HUGE, BoostedState, View, Views
from dpi.mechanism.filtering._gaussians import UNKNOWN, Gaussians
from dpi.mechanism.filtering._population import STEP, grid_levels, initial_population
from dpi.mechanism.users import UsersState


def move_state(state: BoostedState, overlap: Overlap) -> BoostedState:
    """The state for the new bins of an overlap."""
    kept = 1.0 if overlap.lossless else _kept(state.leading.mean, overlap)
    every = whole_pool(Walked(state.pool, state.walk), state.loud)
    rows = Walked(_rows(every.messages, overlap), np.stack([_parts(row, overlap) for row in every.walk]))
    pool, loud = (rows, None) if overlap.sizes[1] < HUGE else merge_pool(rows, state.leader)
    phases = (None if phase is None else _messages(phase, overlap).rescaled(1 / kept) for phase in state.season)
    return replace(
        state,
        pool=pool.messages,
        walk=pool.walk,
        loud=loud,
        season=tuple(phases),
        odds=_odds(state.odds, overlap),
        population=_population(state.population, overlap),
        mass=state.mass * kept,
    )


def move_users(state: UsersState, overlap: Overlap) -> UsersState:
    """The state of users by class: laws bin by bin, numbers of users stay."""
    laws, season, bins = state.laws, state.season, overlap.sizes[1]
    mean = np.moveaxis(laws.mean, 1, -1)
    covariance = np.moveaxis(laws.covariance, 1, -1)
    split = np.where(overlap.share < 1, 1.0, 0.0)
    here, there = overlap.old, overlap.new

    def spread(rows: Floats, by: Floats) -> Floats:
        flat = rows.reshape(-1, rows.shape[-1])
        moved = np.array([np.bincount(there, row[here] * by, bins) for row in flat])
        return moved.reshape(*rows.shape[:-1], bins)

    square = mean[..., :, None, :] * mean[..., None, :, :]
    doubt = spread(covariance, overlap.share**2) + spread(square, split)
    unknown = ~overlap.known
    levels = spread(mean, overlap.share)
    levels[..., unknown] = 1 / bins
    doubt[..., unknown] = 0.0
    each = np.arange(mean.shape[1])
    doubt[:, each, each] += np.where(unknown, 1.0, 0.0)
    whole = np.maximum(levels.sum(-1, keepdims=True), 1e-9)
    level = np.where(overlap.known, overlap.spread(laws.level), 1 / bins)
    return replace(
        state,
        laws=replace(
            laws,
            mean=np.moveaxis(levels / whole, -1, 1).astype(np.float32),
            covariance=np.moveaxis(doubt / (whole[:, :, None] * whole[:, None]), -1, 1).astype(np.float32),
            population=_population(laws.population, overlap),
            level=level / level.sum(),
            noisy=np.ones((len(laws.noisy), bins), dtype=np.float32),
        ),
        season=replace(season, counts=np.array([overlap.spread(row) for row in season.counts]).reshape(-1, bins)),
    )


def move_views(
    before: BoostedState | Views, fresh: Views, overlap: Overlap, old: Sequence[Partition], new: Sequence[Partition]
) -> Views:
    """The states of all views; one whose partition is new starts as in `fresh`, and with it the weights of all."""
    if not isinstance(before, Views):
        return replace(fresh, states=(*fresh.states[:-1], move_state(before, overlap)))
    states = [move_state(before.states[-1], overlap)]
    for at, partition in reversed([*enumerate(new)]):
        if partition not in old:
            states.insert(0, fresh.states[at])
            continue
        where = list(old).index(partition)
        labels = _labels(before.layout.views[where]), _labels(fresh.layout.views[at])
        states.insert(0, move_state(before.states[where], overlap.of_blocks(*labels)))
    if list(old) != list(new):
        return replace(fresh, states=tuple(states))
    return Views(fresh.layout, tuple(states), before.log_weights, before.credit, before.turn)


def order_partitions(partitions: Sequence[Partition], domain: Domain) -> list[Partition]:
    """Partitions in the order of a layout's views."""
    return sorted(partitions, key=lambda partition: int(partition.labels(domain).max()))


def _labels(view: View) -> Integers:
    assert view.labels is not None  # noqa: S101 - the last view is that of the bins, and is none of these
    return view.labels


def _rows(pool: Gaussians, overlap: Overlap) -> Gaussians:
    """The messages of several experts."""
    return Gaussians.stacked([_messages(row, overlap) for row in pool.rows()])


def _messages(messages: Gaussians, overlap: Overlap) -> Gaussians:
    """One expert's messages."""
    bins, known = overlap.sizes[1], overlap.known
    return Gaussians(
        np.where(known, overlap.spread(messages.mean), 1 / bins),
        np.where(known, np.minimum(_doubt(messages, overlap), UNKNOWN), UNKNOWN),
    )


def _doubt(beliefs: Gaussians, overlap: Overlap) -> Floats:
    """Variance in every new bin: of the parts, and of what is not known of a bin that was split."""
    split = np.where(overlap.share < 1, beliefs.mean[overlap.old] ** 2, 0.0)
    return _parts(beliefs.variance, overlap) + np.bincount(overlap.new, split, overlap.sizes[1])


def _parts(variance: Floats, overlap: Overlap) -> Floats:
    """Variance in every new bin, of the parts alone."""
    return np.asarray(np.bincount(overlap.new, variance[overlap.old] * overlap.share**2, overlap.sizes[1]))


def _odds(odds: Floats, overlap: Overlap) -> Floats:
    """Log odds of a jump: a whole bin's go on, the largest of those that become one; parts of one have none."""
    moved, whole = np.full(overlap.sizes[1], QUIET), overlap.share == 1
    np.maximum.at(moved, overlap.new[whole], odds[overlap.old[whole]])
    return moved


def _kept(levels: Floats, overlap: Overlap) -> float:
    """The part of the levels that lies in bins which are still there."""
    return float(np.clip(overlap.spread(levels).sum() / max(levels.sum(), 1e-12), 0.01, 1.0))


def _population(shares: Floats, overlap: Overlap) -> Floats:
    """Shares of the levels on the grid of another number of bins; of bins that came in addition nothing is known."""
    old, new = overlap.sizes
    if old == new:
        return shares
    before, after = np.log(grid_levels(old)), np.log(grid_levels(new))
    place = np.clip((before - after[0]) / STEP, 0, after.size - 1)
    left = np.minimum(place.astype(np.int64), after.size - 2)
    right = place - left
    carried = np.zeros(after.size)
    np.add.at(carried, left, shares * (1 - right))
    np.add.at(carried, left + 1, shares * right)
    if new > old:
        carried = (old * carried + (new - old) * initial_population(new)) / new
    return np.asarray(carried / carried.sum())
