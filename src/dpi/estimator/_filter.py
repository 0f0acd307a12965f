"""The filter: Kalman in form, with learned deviations; one function of numpy, or of JAX where it is trained.

State of a stream: how many active users are expected in each histogram and bin, and the variance of that; the variance
of what is common to all histograms of a bin; a factor of each phase of a declared season (of bins, and of totals); and
small memories of each histogram and of each histogram and bin. A slot:

1. Totals are compared with what was expected, plain and matched to the expected distribution. Their gain is
   σ²/(σ² + noise²), where σ² was carried from the last measurement, and grows by a learned drift.
2. Bins move by one factor that all histograms share, and each by itself (`_bins`). Four variances decide how far: what
   drifts, what is of this slot alone (chance), the season's, and the noise. Drift and chance are learned of each
   histogram; a measurement that is far from its forecast widens what was known of its bin, by a learned function.
3. What is of this slot alone is in the release and not in the level; the season's part goes to the factor of the phase.
4. Heads say shares and their scale, numbers of users and theirs. Users who paid move on to the next histogram.

So averages over slots and measurements of high signal are exact by arithmetic, and no weight can make a step unbounded.
One set of weights for any number of bins, which are exchangeable, and of users: inputs are dimensionless. Sees public
numbers alone: prices, which histograms were due, and sums after noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpi.estimator._bins import MOST, move_bins
from dpi.estimator._layers import Array, Weights, dense, in_chunks, put, soft, unit
from dpi.estimator._state import RECENT, Measurement, Posterior, State
from dpi.estimator._weights import HISTOGRAMS as G
from dpi.estimator._weights import NUMBERS, OF_BIN

FIRST = 2.0
"""The deviation of bins before the first measurement, relative to an even spread."""
REPLACED = 3.0
"""Users leave at most so many times as fast as newcomers come; numbers that are measured fall as fast as they do."""
TINY = 1e-6
"""Keeps square roots away from zero, where their slope is infinite."""


class _Slot(NamedTuple):
    """A measurement, with what many steps need of it."""

    sums: Array
    due: Array
    price: Array
    phase: Array
    season: Array
    partial: Array
    width: Array
    mask: Array
    bins: Array
    """How many bins there are, as a number of the array's kind."""
    first: Array
    """Whether it is the first slot."""
    times: Array
    """The logarithm of how many slots there were."""
    met: Array
    """The same of the phase."""


class _Expected(NamedTuple):
    """What is expected of a slot before it is looked at, its season included."""

    counts: Array
    spread: Array
    total: Array
    """Of each histogram."""
    forecast: Array
    forecast_scale: Array
    forecast_total: Array
    forecast_total_scale: Array


class _Totals(NamedTuple):
    """What totals say of each histogram."""

    memory: Array
    out: Array
    """What the network said, a column for each histogram."""
    moved: Array
    """The logarithm of the factor by which the total moved."""
    total: Array
    spread: Array
    """The relative variance of the total."""


def step(weights: Weights, state: State, measured: Measurement, xp: Any = np) -> tuple[State, Posterior]:
    """Return the next state, and what is known of the slot."""
    slot = _look(xp, state, measured)
    expected = _expect(xp, state, slot)
    totals = _follow_totals(xp, weights, state, slot, expected)
    out, part = totals.out, totals.total / (totals.total.sum() + 1e-9)
    grown = xp.exp(totals.moved)[:, None]
    counts = xp.clip(expected.counts * grown, 0, MOST)
    spread = xp.minimum(expected.spread * grown * grown, MOST * MOST)
    bias, law = _contexts(xp, weights, state, slot, totals, part)
    spread = xp.where(slot.first, xp.exp(2 * xp.clip(law[9], -3, 2))[:, None], 1.0) * spread
    seasonal, mean = xp.where(slot.first, 0.0, slot.season), slot.price * totals.total / slot.bins
    now, kept, spread, variance, of_bin, lift, common, seen, change = in_chunks(
        xp, move_bins,
        (weights, slot.price, slot.due, bias, law, mean, part, seasonal),
        (slot.sums, counts, spread, state.of_bin, state.lifts[slot.phase], state.common, state.seen[:, slot.phase],
         state.change, slot.mask),
        ((G,), (G,), (G,), (G,), (OF_BIN, G), (), (), (2,), (2 * len(RECENT),)),
    )  # fmt: skip
    # drawn towards even spread where measurements say no more
    summed = now.sum(-1)
    even = xp.exp(xp.clip(2 * out[7] - 7, -14, 0))
    now = now + even[:, None] * ((summed / slot.bins)[:, None] * slot.mask - now)
    members = totals.total + unit(xp, out[3]) * slot.due * (summed - totals.total)
    ratio, users = members / (summed + 1e-9), members.sum() + 1e-9
    scale_bias = _scale_context(xp, weights, slot, totals, part)
    shares, share_scale, doubt = in_chunks(
        xp, _say_shares, (weights, ratio, users, slot.bins, scale_bias), (now, variance, of_bin, lift, slot.mask),
        ((), (), ()),
    )  # fmt: skip
    numbers, number_scale, doubt_total = _say_numbers(xp, weights, state, slot, totals, members)
    # on to the next slot
    back = (ratio * xp.exp(-state.rhythm[slot.phase]))[:, None]
    level, spread, total_spread = _move_on(xp, slot, totals, kept * back, spread * back * back, members)
    gain = unit(xp, out[6] - 1) * slot.due
    turned = (part * gain * xp.log((members + 1e-3) / (expected.total + 1e-3))).sum() * slot.season
    rhythm = xp.clip(state.rhythm[slot.phase] + xp.where(slot.first, 0.0, turned), -4, 4)
    after = State(
        level, spread, common, total_spread, totals.memory, of_bin, put(xp, state.lifts, slot.phase, lift),
        put(xp, state.seen.swapaxes(0, 1), slot.phase, seen).swapaxes(0, 1), change,
        put(xp, state.rhythm, slot.phase, rhythm),
        put(xp, state.met, slot.phase, xp.minimum(state.met[slot.phase] + 1, 1000)), doubt, doubt_total,
        xp.where(slot.due > 0, 0.0, xp.minimum(state.age + 1, 1000)), state.slots + 1,
    )  # fmt: skip
    return after, Posterior(shares, share_scale, numbers, number_scale, members, *expected[3:])


def _look(xp: Any, state: State, measured: Measurement) -> _Slot:
    mask = measured.mask
    bins = xp.sum(mask) if xp.ndim(mask) else xp.asarray(float(state.level.shape[-1]), dtype=xp.float32)
    return _Slot(
        measured.sums * mask, measured.due, xp.maximum(measured.price, 1e-7), measured.phase, measured.season,
        measured.partial, measured.width, mask, bins, state.slots == 0,
        xp.minimum(xp.log(1 + state.slots), 8.0) * 0.2, xp.log(1 + state.met[measured.phase]) * 0.3,
    )  # fmt: skip


def _expect(xp: Any, state: State, slot: _Slot) -> _Expected:
    """Return what is expected: levels in their season; of the first slot an even spread of what was measured."""
    price, due, bins = slot.price, slot.due, slot.bins
    guess = xp.maximum(slot.sums.sum(-1), xp.sqrt(2 * bins)) / price / bins
    guess = xp.where(xp.eye(G, dtype=xp.float32)[0] > 0, guess, 1e-3 / bins)[:, None]
    level = xp.where(slot.first, guess, state.level) * slot.mask
    spread = xp.where(slot.first, (FIRST * guess) ** 2, state.spread) * slot.mask
    factor = xp.exp(state.lifts[slot.phase]) * slot.mask
    total, rhythm = level.sum(-1), xp.exp(state.rhythm[slot.phase])
    factor = factor * (total / ((level * factor).sum(-1) + 1e-9) * rhythm)[:, None]
    counts, spread = level * factor, spread * factor * factor
    paid = (price * due)[:, None]
    forecast = (paid * counts).sum(0)
    known = 2 * due.sum() + (paid * paid * spread).sum(0)
    forecast_total = forecast.sum()
    return _Expected(
        counts,
        spread,
        total * rhythm,
        forecast,
        xp.sqrt(known + (xp.exp(state.doubt) * forecast) ** 2 + TINY),
        forecast_total,
        xp.sqrt(2 * bins * due.sum() + (xp.exp(state.doubt_total) * forecast_total) ** 2 + TINY),
    )


def _follow_totals(xp: Any, weights: Weights, state: State, slot: _Slot, expected: _Expected) -> _Totals:
    """Move each histogram's total: by its plain sum, and by what fits the expected distribution best."""
    price, due, bins, counts = slot.price, slot.due, slot.bins, expected.counts
    paid, square = price * expected.total, (price * price) * (counts * counts).sum(-1)
    off, noise = (slot.sums.sum(-1) - paid) / (paid + 1), xp.sqrt(2 * bins) / (paid + 1)
    fit_off = (price * (slot.sums * counts).sum(-1) - square) / (square + 1e-2)
    fit_noise = xp.sqrt(2 * square + 1e-12) / (square + 1e-2) + 1e-6
    # how unlike bins are, and by how much their measurements leave what was expected
    energy = ((slot.sums - price[:, None] * counts * slot.mask) ** 2).sum(-1)
    own = (price * price) * expected.spread.sum(-1)
    uneven = xp.log(square * bins / (paid * paid + 1e-9) + 0.1)
    ones = xp.ones_like(due)
    features = xp.stack([
        due, xp.log(price) * 0.3, xp.log(paid + 0.1) * 0.3, xp.log(expected.total + 0.1) * 0.2,
        xp.arcsinh(off / noise) * due, xp.log(noise) * 0.3, xp.clip(off, -2, 5) * due,
        xp.arcsinh(fit_off / fit_noise) * due, xp.log(fit_noise) * 0.3, xp.clip(fit_off, -2, 5) * due,
        xp.log(1 + state.age) * 0.5, xp.log(bins) * 0.3 * ones, slot.times * ones, slot.first * ones,
        slot.season * ones, slot.met * ones, state.rhythm[slot.phase] * ones,
        slot.partial * ones, xp.log(state.total_spread + 1e-6) * 0.2, uneven * 0.3,
        xp.arcsinh((energy - 2 * bins) / xp.sqrt(20 * bins)) * 0.5 * due,
        (xp.log(energy + 1) - xp.log(2 * bins + own + 1)) * due, xp.log(1 + slot.width) * 0.3 * ones,
    ])  # fmt: skip
    around = xp.broadcast_to(state.memory.mean(0), state.memory.shape)
    into = xp.concatenate([features, xp.eye(G, dtype=xp.float32), state.memory.T, around.T])
    hidden = xp.maximum(dense(weights, "total_in", into), 0)
    gate = unit(xp, dense(weights, "total_gate", hidden) - 1)
    memory = ((1 - gate) * state.memory.T + gate * xp.tanh(dense(weights, "total_new", hidden))).T
    out = dense(weights, "total_out", xp.concatenate([hidden, memory.T]))
    prior = xp.where(slot.first, 1.0, state.total_spread) + xp.exp(2 * xp.clip(out[0], -4, 4) - 5)
    # more than three deviations off: it has changed, by about as much
    prior = prior + due * xp.minimum(xp.maximum(off * off / 9 - prior - noise**2, 0), 4.0)
    gain, fit_gain, by_fit = prior / (prior + noise**2), prior / (prior + fit_noise**2), unit(xp, out[1])
    moved = gain * xp.clip(off, -0.95, 20) * (1 - by_fit) + by_fit * fit_gain * xp.clip(fit_off, -0.95, 20)
    moved = xp.log(xp.maximum(1 + due * moved, 0.05)) + 0.5 * (1 - due) * xp.tanh(out[2])
    moved = xp.where(slot.first, 0.0, xp.clip(moved, -2, 3))
    left = xp.minimum(noise, fit_noise) ** 2
    spread = xp.minimum(xp.where(due > 0, prior * left / (prior + left), prior), 4.0)
    return _Totals(memory, out, moved, expected.total * xp.exp(moved), spread)


def _contexts(
    xp: Any, weights: Weights, state: State, slot: _Slot, totals: _Totals, part: Array
) -> tuple[Array, Array]:
    """Return what bins are told of their histogram: for the network of bins, and variances and odds."""
    ones = xp.ones_like(slot.due)
    context = xp.concatenate([totals.memory.T, xp.eye(G, dtype=xp.float32), xp.stack([
        slot.due, xp.log(slot.price) * 0.3, xp.log(1 + state.age) * 0.5, xp.log(slot.bins) * 0.3 * ones, part,
        totals.moved, xp.log(slot.price * totals.total / slot.bins + 0.1) * 0.3, slot.season * ones, slot.met * ones,
        slot.partial * ones, slot.times * ones,
    ])])  # fmt: skip
    return dense(weights, "bin_context", context), dense(weights, "law", context)


def _scale_context(xp: Any, weights: Weights, slot: _Slot, totals: _Totals, part: Array) -> Array:
    context = xp.concatenate([totals.memory.T @ part, xp.stack([
        xp.log(totals.total.sum() + 1) * 0.2, xp.log(slot.bins) * 0.3, (part * slot.due).sum(), slot.season,
    ])])  # fmt: skip
    return dense(weights, "scale_context", context[:, None])


def _say_shares(
    xp: Any, weights: Weights, ratio: Array, users: Array, bins: Array, bias: Array, *rows: Array
) -> tuple[Array, ...]:
    """Return each bin's share, the logarithm of its scale, and that of the next forecast's relative scale."""
    now, variance, of_bin, lift, mask = rows
    count = (ratio[:, None] * now).sum(0)
    shares = (count + 1e-5 * users / bins) * mask / (users * (1 + 1e-5))
    base = xp.sqrt(variance.sum(0) + TINY) / users
    relative = base / (shares + 1e-12)
    features = xp.stack([
        xp.log(relative + 1e-3) * 0.3, xp.log(shares * bins + 0.01) * 0.3, xp.log(shares * users + 0.1) * 0.2, lift,
        relative / (1 + relative), now[0] / (now.sum(0) + 1e-9), of_bin[0].max(0), of_bin[1].max(0),
    ])  # fmt: skip
    into = xp.concatenate([features, of_bin.mean(1)])
    hidden = xp.maximum(dense(weights, "scale_in", into) + bias, 0)
    out = dense(weights, "scale_out", hidden)
    least = 0.02 * shares + 0.03 * xp.sqrt(shares / (users + 1) + 1e-16) + 1e-12
    return shares, xp.log(base + least) + 5 * soft(xp, out[0] / 5), 4 * soft(xp, out[1] / 4) - 1.5


def _say_numbers(
    xp: Any, weights: Weights, state: State, slot: _Slot, totals: _Totals, members: Array
) -> tuple[Array, Array, Array]:
    """Return the logarithms of numbers of users and of their scales, and that of the next total's relative scale."""
    users = members.sum() + 1e-9
    part, base = members / users, xp.sqrt((totals.spread * totals.total**2).sum() + TINY) / users
    into = xp.concatenate([
        totals.memory.T @ part, totals.memory.mean(0), totals.memory[0], part * slot.due, part,
        xp.stack([
            xp.log(users + 1) * 0.2, xp.log(base + 1e-4) * 0.3, slot.partial, slot.season, slot.times,
            xp.log(1 + state.age[1]) * 0.5,
        ]),
    ])  # fmt: skip
    out = dense(weights, "number_out", xp.maximum(dense(weights, "number_in", into[:, None]), 0))[:, 0]
    count = len(NUMBERS)
    bases = xp.stack([members.sum(), members[0] + 0.02 * users, members[1:].sum() + 0.02 * users])
    reach = xp.asarray([0.5, 4.0, 4.0], dtype=xp.float32)
    numbers = xp.log(bases + 1) + reach * xp.tanh(out[:count] / reach)
    scale = xp.log(base + 1e-3) + 5 * xp.tanh(out[count : 2 * count] / 5)
    return numbers, scale, 4 * xp.tanh(out[-1] / 4) - 1.5


def _move_on(
    xp: Any, slot: _Slot, totals: _Totals, level: Array, spread: Array, members: Array
) -> tuple[Array, Array, Array]:
    """Return levels, their variances, and those of totals, after those who paid enough are a histogram further on."""
    out = totals.out
    # of the last histogram no more leave than newcomers could replace: what nobody measures does not fade away
    most = xp.where(xp.eye(G, dtype=xp.float32)[G - 1] > 0, REPLACED * members[0] / (members.sum() + 1e-9), 1.0)
    paid, stay = unit(xp, out[4] - 1) * slot.due, 1 - xp.minimum(unit(xp, out[5] - 3), most)
    inflow = paid[:, None] * level
    before, come = level.sum(-1), _next_row(xp, inflow.sum(-1))
    carried = _next_row(xp, totals.spread * inflow.sum(-1) ** 2)
    unsure = xp.exp(2 * xp.clip(out[8], -4, 4) - 6)  # of how many of those who move on will come again
    moved = totals.spread * (stay * before) ** 2 + carried + unsure * come**2
    total_spread = xp.minimum(moved / ((stay * before + come) ** 2 + TINY), 4.0)
    level = xp.clip(level * stay[:, None] + _next_row(xp, inflow), 0, MOST)
    spread = spread * (stay * stay)[:, None] + _next_row(xp, (paid * paid)[:, None] * spread)
    return level, xp.minimum(spread, MOST * MOST), total_spread


def _next_row(xp: Any, rows: Array) -> Array:
    """Return rows, each a place further on: nobody comes into the first."""
    return xp.concatenate([xp.zeros_like(rows[:1]), rows[:-1]])
