"""What the boosted mechanism remembers, when the domain changes.

A bin that is the same in both domains keeps its messages, bit for bit. Bins that become one add up. A bin that is
split, as `other` is among the values that are new in the list, shares its level m evenly: of each part nothing is
known but that it lies between 0 and m, so m² is added to its variance. A bin that overlaps nothing old is unknown.
Experts keep their weights, and so do the facts that they share: the size of slots, its dispersion, who pays.

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
from dpi.mechanism.boosted import population
from dpi.mechanism.boosted.experts import UNKNOWN, Gaussians
from dpi.mechanism.boosted.layout import View
from dpi.mechanism.boosted.state import BoostedState
from dpi.mechanism.boosted.views import Views


def moved(state: BoostedState, overlap: Overlap) -> BoostedState:
    """The state for the new bins of an overlap."""
    leader = int(np.argmax(state.log_weights[: len(state.trackers.mean)]))
    kept = 1.0 if overlap.lossless else _kept(state.trackers[leader].mean, overlap)
    phases = (None if phase is None else _messages(phase, overlap).rescaled(1 / kept) for phase in state.season)
    return replace(
        state,
        trackers=Gaussians.stacked([_messages(row, overlap) for row in state.trackers.rows()]),
        season=tuple(phases),
        population=_population(state.population, overlap),
        mass=state.mass * kept,
    )


def moved_views(
    before: BoostedState | Views,
    fresh: Views,
    overlap: Overlap,
    old: Sequence[Partition],
    new: Sequence[Partition],
) -> Views:
    """The states of all views; one whose partition is new starts as in `fresh`, and with it the weights of all."""
    if not isinstance(before, Views):
        return replace(fresh, states=(*fresh.states[:-1], moved(before, overlap)))
    states = [moved(before.states[-1], overlap)]
    for at, partition in reversed([*enumerate(new)]):
        if partition not in old:
            states.insert(0, fresh.states[at])
            continue
        where = list(old).index(partition)
        labels = _labels(before.layout.views[where]), _labels(fresh.layout.views[at])
        states.insert(0, moved(before.states[where], overlap.of_blocks(*labels)))
    if list(old) != list(new):
        return replace(fresh, states=tuple(states))
    return Views(fresh.layout, tuple(states), before.log_weights, before.credit, before.turn)


def ordered(partitions: Sequence[Partition], domain: Domain) -> list[Partition]:
    """Partitions in the order of a layout's views."""
    return sorted(partitions, key=lambda partition: int(partition.labels(domain).max()))


def _labels(view: View) -> Integers:
    assert view.labels is not None  # noqa: S101 - the last view is that of the bins, and is none of these
    return view.labels


def _messages(messages: Gaussians, overlap: Overlap) -> Gaussians:
    """One expert's messages."""
    split = np.where(overlap.share < 1, messages.mean[overlap.old] ** 2, 0.0)
    parts = messages.variance[overlap.old] * overlap.share**2 + split
    bins, known = overlap.sizes[1], overlap.known
    variance = np.minimum(np.bincount(overlap.new, parts, bins), UNKNOWN)
    return Gaussians(
        np.where(known, overlap.spread(messages.mean), 1 / bins),
        np.where(known, variance, UNKNOWN),
    )


def _kept(levels: Floats, overlap: Overlap) -> float:
    """The part of the levels that lies in bins which are still there."""
    return float(np.clip(overlap.spread(levels).sum() / max(levels.sum(), 1e-12), 0.01, 1.0))


def _population(shares: Floats, overlap: Overlap) -> Floats:
    """Shares of the levels on the grid of another number of bins; of bins that came in addition nothing is known."""
    old, new = overlap.sizes
    if old == new:
        return shares
    before, after = np.log(population.levels(old)), np.log(population.levels(new))
    place = np.clip((before - after[0]) / population.STEP, 0, after.size - 1)
    left = np.minimum(place.astype(np.int64), after.size - 2)
    right = place - left
    carried = np.zeros(after.size)
    np.add.at(carried, left, shares * (1 - right))
    np.add.at(carried, left + 1, shares * right)
    if new > old:
        carried = (old * carried + (new - old) * population.initial(new)) / new
    return np.asarray(carried / carried.sum())
