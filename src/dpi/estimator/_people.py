"""People across slots: reach, distinct users of the last slots, retention and stickiness.

From numbers that were released, and no more: averages of them, between bounds that hold whatever people do, and learned
where between them. Numpy, or JAX where it is trained.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpi.estimator._layers import Array, Weights, dense, soft, unit
from dpi.estimator._weights import PEOPLE_MEMORY

WINDOWS, AFTER = (7, 28), (1, 7, 30)
"""Slots, this one included, whose distinct users are told; and after how many slots retention is."""
RING = WINDOWS[-1]


class Released(NamedTuple):
    """What the filter released of a slot."""

    numbers: Array
    """Logarithms of one plus active users, newcomers, returning users."""
    scales: Array
    """Logarithms of the scales of these logarithms."""
    members: Array
    """Active users by histogram."""
    signal: Array
    """By histogram: the price times the members, over the noise of their sum; zero if it was not due."""
    season: Array
    partial: Array


class People(NamedTuple):
    """What is remembered of people: all of it public."""

    memory: Array
    active: Array
    """Released active users of the last slots, the newest first …"""
    newcomers: Array
    """… and newcomers."""
    reach: Array
    slots: Array


class Told(NamedTuple):
    """What is known of people across slots. Scales are logarithms of those of a Student law of `FREEDOM` degrees."""

    reach: Array
    """The logarithm of distinct users so far …"""
    reach_scale: Array
    """… and the scale of it."""
    distinct: Array
    """Logarithms of the distinct users of the last slots, for each of `WINDOWS` …"""
    distinct_scale: Array
    stickiness: Array
    """… and of active users over these."""
    stickiness_scale: Array
    retention: Array
    """The share of newcomers of so many slots ago who are active, for each of `AFTER`."""
    retention_scale: Array


def no_people(xp: Any = np) -> People:
    """Return what is remembered before the first slot."""

    def zeros(*shape: int) -> Array:
        return xp.zeros(shape, dtype=xp.float32)

    return People(zeros(PEOPLE_MEMORY), zeros(RING), zeros(RING), zeros(), zeros())


def next_people(weights: Weights, state: People, said: Released, xp: Any = np) -> tuple[People, Told]:
    """Return what is remembered after a slot, and what is known."""
    counts = xp.maximum(xp.exp(xp.minimum(said.numbers, 40.0)) - 1, 0)
    n, new = counts[0] + 1e-2, counts[1]
    active = xp.concatenate([n[None], state.active[:-1]])
    newcomers = xp.concatenate([new[None], state.newcomers[:-1]])
    reach = xp.maximum(state.reach + new, n)
    # whatever people do, distinct users of a window are between these
    low = xp.stack([xp.maximum(active[:window].max(), newcomers[:window].sum()) for window in WINDOWS])
    high = xp.stack([xp.minimum(active[:window].sum(), reach) for window in WINDOWS])
    high = xp.maximum(high, low)
    room = xp.log(high / low + 1e-3)
    age = xp.log(1 + state.slots)
    features = xp.concatenate([
        xp.log(said.members / n + 1e-3) * 0.3, xp.log(said.signal + 0.1) * 0.3, said.scales * 0.5, room,
        xp.log(low / n), xp.log(xp.stack([newcomers[:window].sum() for window in WINDOWS]) / n + 1e-3) * 0.3,
        xp.stack([
            xp.log(new / n + 1e-3) * 0.3, xp.log(counts[2] / n + 1e-3) * 0.3, xp.log(reach / n) * 0.3,
            xp.log(n) * 0.2, age * 0.2, xp.minimum(state.slots / RING, 1.0), said.season, said.partial,
        ]),
    ])  # fmt: skip
    hidden = xp.maximum(dense(weights, "people_in", xp.concatenate([features, state.memory])[:, None]), 0)
    gate = unit(xp, dense(weights, "people_gate", hidden) - 1)[:, 0]
    memory = state.memory + gate * (xp.tanh(dense(weights, "people_new", hidden))[:, 0] - state.memory)
    out = dense(weights, "people_out", xp.concatenate([hidden, memory[:, None]]))[:, 0]
    distinct = xp.log(low) + unit(xp, out[:2]) * room
    base = said.scales[0]
    told = Told(
        xp.log(reach) + 2 * soft(xp, out[2]), base + 5 * soft(xp, out[3]),
        distinct, base + 5 * soft(xp, out[4:6]),
        xp.log(n) - distinct, -3 + 5 * soft(xp, out[6:8]),
        unit(xp, out[8:11] - 1), -3 + 5 * soft(xp, out[11:14]),
    )  # fmt: skip
    return People(memory, active, newcomers, reach, xp.minimum(state.slots + 1, 1e6)), told
