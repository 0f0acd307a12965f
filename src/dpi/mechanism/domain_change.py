"""What an estimator remembers, when the domain changes.

A bin that is the same in both domains keeps what is known of it. Bins that become one add up. A bin that is split
shares its level m evenly, and m² is added to the variance of each part. A bin that overlaps nothing old is unknown.

A pure function of a state and two public domains, so it is post-processing and costs no privacy. Sees what is known
after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpi.domain import Domain
from dpi.domain.overlap import Overlap
from dpi.domain.partition import Partition
from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator import Distributions, SingleClassState, UsersState, same_hypotheses
from dpi.mechanism.filtering._population import STEP, grid_levels, initial_population
from dpi.mechanism.rotation import Turns, Views
from dpi.mechanism.view_layout import View

Kept = TypeVar("Kept", UsersState, SingleClassState)


def move_state(state: Kept, overlap: Overlap) -> Kept:
    """Return the state for the new bins of an overlap: laws bin by bin, numbers of users stay."""
    bins, season = overlap.sizes[1], state.season
    if overlap.sizes[0] == bins and np.array_equal(overlap.old, overlap.new) and (overlap.share == 1).all():
        return state
    counts = np.array([overlap.spread(row) for row in season.counts]).reshape(-1, bins)
    laws = _move_laws(state.laws, overlap)
    if isinstance(state, SingleClassState):
        laws = same_hypotheses(laws)
    return replace(state, laws=laws, season=replace(season, counts=counts))


def _move_laws(laws: Distributions, overlap: Overlap) -> Distributions:
    bins = overlap.sizes[1]
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
        laws,
        mean=np.moveaxis(levels / whole, -1, 1).astype(np.float32),
        covariance=np.moveaxis(doubt / (whole[:, :, None] * whole[:, None]), -1, 1).astype(np.float32),
        population=_population(laws.population, overlap),
        level=level / level.sum(),
        noisy=np.ones((len(laws.noisy), bins), dtype=np.float32),
    )


def move_views(
    before: SingleClassState | Views, fresh: Views, overlap: Overlap, old: Sequence[Partition], new: Sequence[Partition]
) -> Views:
    """Return the states of all views; one whose partition is new starts as in `fresh`, and with it all weights."""
    layout, turns = fresh.layout, fresh.turns
    if not isinstance(before, Views):
        return Views(layout, replace(turns, states=(*turns.states[:-1], move_state(before, overlap))))
    states = [move_state(before.turns.states[-1], overlap)]
    for at, partition in reversed([*enumerate(new)]):
        if partition not in old:
            states.insert(0, turns.states[at])
            continue
        where = list(old).index(partition)
        labels = _labels(before.layout.views[where]), _labels(layout.views[at])
        states.insert(0, move_state(before.turns.states[where], overlap.of_blocks(*labels)))
    if list(old) != list(new):
        return Views(layout, replace(turns, states=tuple(states)))
    return Views(layout, Turns(tuple(states), before.turns.log_weights, before.turns.credit, before.turns.turn))


def order_partitions(partitions: Sequence[Partition], domain: Domain) -> list[Partition]:
    """Return partitions in the order of a layout's views."""
    return sorted(partitions, key=lambda partition: int(partition.labels(domain).max()))


def _labels(view: View) -> Integers:
    assert view.labels is not None  # noqa: S101 - the last view is that of the bins, and is none of these
    return view.labels


def _population(shares: Floats, overlap: Overlap) -> Floats:
    """Return shares of the levels on the grid of another number of bins; of additional bins nothing is known."""
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
