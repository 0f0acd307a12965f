"""What is said beside shares and numbers of a slot: people across slots, and errors of sums, means and differences.

The filter is as it is; these functions take what it released, and no more. `next_people` follows reach, distinct users
of the last slots, retention and stickiness: averages of released numbers, between bounds that hold whatever people do,
and learned where between them. `sum_scale` and `difference_scale` say how far a weighted sum of shares, and the change
of a share, may be off: the arithmetic of independent errors times a learned factor, since they are not independent.

Numpy, or JAX where they are trained; one set of weights for any number of bins, and of users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpi_research.learn.filter import FREEDOM, Array, _dense, _soft, _unit
from dpi_research.learn.returns import WINDOWS
from dpi_research.learn.shapes import PEOPLE_MEMORY, Weights

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
    hidden = xp.maximum(_dense(weights, "people_in", xp.concatenate([features, state.memory])[:, None]), 0)
    gate = _unit(xp, _dense(weights, "people_gate", hidden) - 1)[:, 0]
    memory = state.memory + gate * (xp.tanh(_dense(weights, "people_new", hidden))[:, 0] - state.memory)
    out = _dense(weights, "people_out", xp.concatenate([hidden, memory[:, None]]))[:, 0]
    distinct = xp.log(low) + _unit(xp, out[:2]) * room
    base = said.scales[0]
    told = Told(
        xp.log(reach) + 2 * _soft(xp, out[2]), base + 5 * _soft(xp, out[3]),
        distinct, base + 5 * _soft(xp, out[4:6]),
        xp.log(n) - distinct, -3 + 5 * _soft(xp, out[6:8]),
        _unit(xp, out[8:11] - 1), -3 + 5 * _soft(xp, out[11:14]),
    )  # fmt: skip
    return People(memory, active, newcomers, reach, xp.minimum(state.slots + 1, 1e6)), told


def sum_scale(weights: Weights, shares: Array, scales: Array, users: Array, of: Array, xp: Any = np) -> Array:
    """Return the logarithm of the scale with which Σ `of`·share is off: of sums over bins, and of means.

    `shares` and the logarithms of their `scales` are those of a release with so many `users`. Bins whose errors are
    independent, and whose shares are one together, have the variance Σ (`of` - mean)²·scale².
    """
    centred = of - (of * shares).sum(-1, keepdims=True)
    parts = centred**2 * xp.exp(2 * xp.maximum(scales, -30.0))
    variance, chance = parts.sum(-1) + 1e-24, (centred**2 * shares).sum(-1) / (users + 1) + 1e-24
    bins = float(shares.shape[-1])
    features = xp.stack([
        -xp.log(((parts / variance[..., None]) ** 2).sum(-1) + 1e-6) * 0.2, xp.log(variance / chance) * 0.2,
        xp.log(variance / ((centred**2 * shares**2).sum(-1) + 1e-24)) * 0.1,
        xp.log(users + 1) * 0.1, xp.log(bins) * 0.2 * xp.ones_like(variance),
        parts.max(-1) / variance,
    ])  # fmt: skip
    return 0.5 * xp.log(variance) + _factor(xp, weights, "sum", features)


def difference_scale(
    weights: Weights, now: Array, now_scale: Array, then: Array, then_scale: Array, apart: Array, users: Array,
    xp: Any = np,
) -> Array:  # fmt: skip
    """Return the logarithm of the scale with which the change of each share is off, since a release so long ago."""
    base = 0.5 * xp.log(xp.exp(2 * xp.maximum(now_scale, -30.0)) + xp.exp(2 * xp.maximum(then_scale, -30.0)))
    some = xp.log(0.5 * (now + then) + 1e-9)
    features = xp.stack([
        now_scale - then_scale, (base - some) * 0.3, xp.log(now + 1e-9) - xp.log(then + 1e-9),
        xp.log(apart) * 0.3 + xp.zeros_like(base), (some + xp.log(users + 1)) * 0.1,
        xp.log(users + 1) * 0.1 + xp.zeros_like(base),
    ])  # fmt: skip
    return base + _factor(xp, weights, "difference", features)


def rose(difference: Array, scale: Array) -> Array:
    """Return the probability that a share is larger than it was: compared with the same phase, against its season.

    The law of Student of four degrees has a distribution function in closed form.
    """
    t = np.asarray(difference) * np.exp(-np.asarray(scale))
    square = 1 + t * t / FREEDOM
    root = t / np.sqrt(square)
    return 0.5 + 0.375 * root * (1 - (t * t / square) / 12)


def _factor(xp: Any, weights: Weights, name: str, features: Array) -> Array:
    columns = xp.clip(features, -8, 8).reshape(len(features), -1)
    hidden = xp.maximum(_dense(weights, name + "_in", columns), 0)
    return 3 * _soft(xp, _dense(weights, name + "_out", hidden)[0]).reshape(features.shape[1:])
