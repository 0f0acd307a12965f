"""The filter: Kalman in form, with learned gains; one function of numpy, or of JAX where it is trained.

State of a stream: how many active users are expected in each histogram and bin, a factor of each phase of a declared
season (of bins, and of totals), and small memories of each histogram and of each histogram and bin. A slot:

1. Totals are compared with what was expected, plain and matched to the expected law. Their gain is k = σ²/(σ² + noise²)
   with a learned σ.
2. Each bin moves by k = π²/(π² + 2), where π is the learned prior deviation in units of the noise, whose variance is 2.
   So high signal is exact by arithmetic, low signal is averaged, and no weight can make a step unbounded.
3. A learned part of the step stays in the level and in the factor of the phase; the rest was of this slot alone.
4. Heads say shares and their scale, numbers of users and theirs. Users who paid move on to the next histogram.

One set of weights for any number of bins, which are exchangeable, and of users: inputs are dimensionless. Sees public
numbers alone: prices, which histograms were due, and sums after noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpi_research.learn.prices import HISTOGRAMS as G
from dpi_research.learn.shapes import MEMORY, NUMBERS, OF_BIN, Weights

Array = Any
"""An array of numpy, or of JAX."""
CHUNK = 1 << 11
"""Bins that numpy works on at a time, so that intermediates stay in the cache."""
MOST = 1e9
"""Counts are bounded by it."""


TINY = 1e-6
"""Keeps square roots away from zero, where their slope is infinite."""


class State(NamedTuple):
    """What is remembered: all of it public."""

    level: Array
    """G × B: expected active users, without the season."""
    memory: Array
    """G × MEMORY."""
    of_bin: Array
    """OF_BIN × G × B."""
    lifts: Array
    """P × B: logarithms of the season's factors of shares."""
    rhythm: Array
    """P: logarithms of the season's factors of totals."""
    met: Array
    """P: how often a phase was met."""
    doubt: Array
    """B: the logarithm of the relative scale with which the next measurement is forecast."""
    doubt_total: Array
    age: Array
    """G: slots since the histogram was measured."""
    slots: Array


class Measurement(NamedTuple):
    """What was measured in a slot."""

    sums: Array
    """G × B: payments plus noise of scale one; zero where a histogram was not due."""
    due: Array
    """G: one or zero."""
    price: Array
    """G: what a user is expected to pay, in units of the noise."""
    phase: Array
    """The phase of the declared season, or 0."""
    season: Array
    """One if a season is declared, else zero."""
    partial: Array
    """One if accounts may be empty, else zero."""
    mask: Array = 1.0
    """B: one for bins, zero for padding; a plain one without padding."""


class Posterior(NamedTuple):
    """What is known after a slot. Scales are those of a Student law of `FREEDOM` degrees."""

    shares: Array
    share_scale: Array
    """B: logarithms."""
    numbers: Array
    """Logarithms of one plus active users, newcomers, returning users."""
    number_scale: Array
    """Logarithms of the scales of these logarithms."""
    members: Array
    """G: active users by histogram."""
    forecast: Array
    """B: what was forecast of this measurement, summed over due histograms, before it was seen."""
    forecast_scale: Array
    forecast_total: Array
    forecast_total_scale: Array


FREEDOM = 4.0
QUANTILE = 2.7764451
"""The 97.5 % quantile of a Student law of four degrees."""


def initial_state(bins: int, period: int = 1, xp: Any = np) -> State:
    """Return the state before the first slot."""

    def zeros(*shape: int) -> Array:
        return xp.zeros(shape, dtype=xp.float32)

    return State(
        zeros(G, bins), zeros(G, MEMORY), zeros(OF_BIN, G, bins), zeros(period, bins), zeros(period), zeros(period),
        zeros(bins), zeros(), zeros(G), zeros(),
    )  # fmt: skip


def step(weights: Weights, state: State, measured: Measurement, xp: Any = np) -> tuple[State, Posterior]:
    """Return the next state, and what is known of the slot."""
    e, d, mask, phase = xp.maximum(measured.price, 1e-7), measured.due, measured.mask, measured.phase
    bins = state.level.shape[-1]
    nb = xp.sum(mask) if xp.ndim(mask) else xp.asarray(float(bins), dtype=xp.float32)
    sums = measured.sums * mask
    plain = sums.sum(-1)
    first = state.slots == 0
    guess = xp.maximum(plain, xp.sqrt(2 * nb)) / e / nb  # of newcomers, before anything is known
    level = xp.where(first, xp.where(_column(xp, 0) > 0, guess, 1e-3 / nb)[:, None], state.level) * mask
    # 1. what was expected
    lifts = state.lifts[phase]
    factor = xp.exp(lifts) * mask
    total = level.sum(-1)
    rhythm = xp.exp(state.rhythm[phase])
    scale = total / ((level * factor).sum(-1) + 1e-9) * rhythm
    expected = level * factor * scale[:, None]
    total = total * rhythm
    forecast = ((e * d)[:, None] * expected).sum(0)
    forecast_scale = xp.sqrt(2 * d.sum() + (xp.exp(state.doubt) * forecast) ** 2 + TINY)
    forecast_total = forecast.sum()
    forecast_total_scale = xp.sqrt(2 * nb * d.sum() + (xp.exp(state.doubt_total) * forecast_total) ** 2 + TINY)
    # 2. totals
    mu = e * total
    square = (e * e) * (expected * expected).sum(-1)
    rel1, sd1 = (plain - mu) / (mu + 1), xp.sqrt(2 * nb) / (mu + 1)
    rel2 = (e * (sums * expected).sum(-1) - square) / (square + 1e-2)
    sd2 = xp.sqrt(2 * square + 1e-12) / (square + 1e-2) + 1e-6
    ones, times = xp.ones_like(d), xp.minimum(xp.log(1 + state.slots), 8.0)
    features = xp.stack([
        d, xp.log(e) * 0.3, xp.log(mu + 0.1) * 0.3, xp.log(total + 0.1) * 0.2,
        xp.arcsinh(rel1 / sd1) * d, xp.log(sd1) * 0.3, xp.clip(rel1, -2, 5) * d,
        xp.arcsinh(rel2 / sd2) * d, xp.log(sd2) * 0.3, xp.clip(rel2, -2, 5) * d,
        xp.log(1 + state.age) * 0.5, xp.log(nb) * 0.3 * ones, times * 0.2 * ones, first * ones,
        measured.season * ones, xp.log(1 + state.met[phase]) * 0.3 * ones, state.rhythm[phase] * ones,
        measured.partial * ones,
    ])  # fmt: skip
    around = xp.broadcast_to(state.memory.mean(0), state.memory.shape)
    into = xp.concatenate([features, xp.eye(G, dtype=xp.float32), state.memory.T, around.T])
    hidden = xp.maximum(_dense(weights, "total_in", into), 0)
    gate = _unit(xp, _dense(weights, "total_gate", hidden) - 1)
    memory = ((1 - gate) * state.memory.T + gate * xp.tanh(_dense(weights, "total_new", hidden))).T
    out = _dense(weights, "total_out", xp.concatenate([hidden, memory.T]))
    prior = xp.exp(2 * xp.clip(out[0], -4, 4) - 3)  # σ², relative
    k1, k2, by_law = prior / (prior + sd1**2), prior / (prior + sd2**2), _unit(xp, out[1])
    moved = 1 + d * (k1 * xp.clip(rel1, -0.95, 20) * (1 - by_law) + by_law * k2 * xp.clip(rel2, -0.95, 20))
    up = xp.clip(xp.log(xp.maximum(moved, 0.05)) + 0.5 * xp.tanh(out[2]), -2, 3)
    up = xp.where(first, 0.0, up)
    expected = xp.clip(expected * xp.exp(up)[:, None], 0, MOST)
    wanted = total * xp.exp(up)
    noise = xp.minimum(sd1, sd2) ** 2
    total_variance = xp.where(d > 0, prior * noise / (prior + noise), prior) * wanted**2
    # 3. bins
    part = wanted / (wanted.sum() + 1e-9)
    mean = e * wanted / nb
    context = xp.concatenate([memory.T, xp.eye(G, dtype=xp.float32), xp.stack([
        d, xp.log(e) * 0.3, xp.log(1 + state.age) * 0.5, xp.log(nb) * 0.3 * ones, part, up, xp.log(mean + 0.1) * 0.3,
        measured.season * ones, xp.log(1 + state.met[phase]) * 0.3 * ones, measured.partial * ones,
    ])])  # fmt: skip
    bias = _dense(weights, "bin_context", context)  # BIN_HIDDEN × G
    share_context = xp.concatenate([memory.T @ part, xp.stack([
        xp.log(wanted.sum() + 1) * 0.2, xp.log(nb) * 0.3, (part * d).sum(), measured.season,
    ])])  # fmt: skip
    scale_bias = _dense(weights, "scale_context", share_context[:, None])
    fixed: tuple[Array, ...] = (weights, e, d, bias, mean, measured.season)
    slot, kept, variance, of_bin, lift = _in_chunks(
        xp, _bins, fixed, (sums, expected, state.of_bin, lifts, mask), (G, G, G, OF_BIN * G, 0)
    )
    # 4. the whole
    summed = slot.sum(-1)
    members = wanted + _unit(xp, out[3]) * d * (summed - wanted)
    ratio = members / (summed + 1e-9)
    n = members.sum() + 1e-9
    fixed = (weights, ratio, n, nb, scale_bias)
    shares, share_scale, doubt = _in_chunks(xp, _heads, fixed, (slot, variance, of_bin, lift, mask), (0, 0, 0))
    members_part = members / n
    base = xp.sqrt(total_variance.sum() + TINY) / n
    memories = [memory.T @ members_part, memory.mean(0), memory[0]]
    found = xp.concatenate([*memories, members_part * d, members_part, xp.stack([
        xp.log(n + 1) * 0.2, xp.log(base + 1e-4) * 0.3, measured.partial, measured.season, times * 0.2,
        xp.log(1 + state.age[1]) * 0.5,
    ])])  # fmt: skip
    told = _dense(weights, "number_out", xp.maximum(_dense(weights, "number_in", found[:, None]), 0))[:, 0]
    count = len(NUMBERS)
    bases = xp.stack([members.sum(), members[0] + 0.02 * n, members[1:].sum() + 0.02 * n])
    reach = xp.asarray([0.5, 4.0, 4.0], dtype=xp.float32)
    numbers = xp.log(bases + 1) + reach * xp.tanh(told[:count] / reach)
    number_scale = xp.log(base + 1e-3) + 5 * xp.tanh(told[count : 2 * count] / 5)
    # on to the next slot
    level = kept * (ratio * xp.exp(-state.rhythm[phase]))[:, None]
    paid, gone = _unit(xp, out[4] - 1) * d, _unit(xp, out[5] - 3)
    inflow = xp.concatenate([xp.zeros_like(level[:1]), (paid[:, None] * level)[:-1]])
    level = xp.clip(level * (1 - gone)[:, None] + inflow, 0, MOST)
    gain = _unit(xp, out[6] - 1) * d
    change = (part * gain * xp.log((members + 1e-3) / (total + 1e-3))).sum() * measured.season
    rhythm_after = xp.clip(state.rhythm[phase] + xp.where(first, 0.0, change), -4, 4)
    after = State(
        level, memory, of_bin, _put(xp, state.lifts, phase, xp.where(first, 0.0, lift)),
        _put(xp, state.rhythm, phase, rhythm_after), _put(xp, state.met, phase, xp.minimum(state.met[phase] + 1, 1000)),
        doubt, 4 * xp.tanh(told[-1] / 4) - 1.5, xp.where(d > 0, 0.0, xp.minimum(state.age + 1, 1000)), state.slots + 1,
    )  # fmt: skip
    return after, Posterior(
        shares, share_scale, numbers, number_scale, members, forecast, forecast_scale, forecast_total,
        forecast_total_scale,
    )  # fmt: skip


def _bins(
    xp: Any, weights: Weights, e: Array, d: Array, bias: Array, mean: Array, season: Array, *rows: Array
) -> tuple[Array, ...]:
    """Move each bin: its posterior in this slot, what stays as level, its variance, its memory, its season's factor."""
    sums, expected, of_bin, lifts, mask = rows
    size = sums.shape[-1]
    e, d, mean = e[:, None], d[:, None] * mask, mean[:, None]
    em = e * expected
    r = (sums - em) * d
    far = xp.abs(r)
    z = r / xp.sqrt(2 + em * e)
    near, relative = r / (2 + far), r / (em + 1 + far)
    whole = expected.sum(0) + 1e-9
    features = xp.stack([
        near, r / (20 + far), z / (2 + xp.abs(z)), relative, xp.log(em + 0.1) * 0.3, expected / whole,
        *[xp.broadcast_to(row, sums.shape) for row in (near.sum(0), relative.sum(0), lifts)],
    ])  # fmt: skip
    around = xp.broadcast_to(of_bin.mean(1, keepdims=True), of_bin.shape)
    into = xp.concatenate([features, of_bin, around]).reshape(-1, G * size)
    hidden = (weights["bin_in"] @ into).reshape(-1, G, size) + (bias + weights["bin_in.b"][:, None])[:, :, None]
    hidden = xp.maximum(hidden, 0).reshape(-1, G * size)
    out = _dense(weights, "bin_out", hidden).reshape(-1, G, size)
    gate = _unit(xp, out[:OF_BIN] - 1)
    of_bin = of_bin + gate * (_soft(xp, out[OF_BIN : 2 * OF_BIN]) - of_bin)
    out = out[2 * OF_BIN :]
    prior = xp.exp(xp.clip(out[0], -6, 4) - 1.5) * (em + xp.exp(xp.clip(out[1], -5, 3) - 2) * mean)
    square = prior * prior
    k = square / (square + 2) * d
    variance = xp.where(d > 0, 2 * k, square) / (e * e)
    drift = xp.exp(0.5 * _soft(xp, out[2]))
    slot = expected + k * (sums / e - expected)
    edge = 0.3 * xp.sqrt(variance + 1e-12) + 1e-4 * mean / e
    slot = 0.5 * (slot + xp.sqrt(slot * slot + 4 * edge * edge)) * drift * mask
    slot = xp.clip(slot, 0, MOST)
    stays, seasonal = _unit(xp, out[3] + 1), _unit(xp, out[4] - 2)
    kept = expected + stays * (slot - expected)
    here = slot.sum(0)
    change = xp.log((here + 1e-3 * whole + 1e-9) / (whole + 1e-3 * whole)) * season
    gain = (seasonal * slot).sum(0) / (here + 1e-9)
    lift = xp.clip(lifts + gain * change, -3, 3) * mask
    return slot, kept * xp.exp(-lift), xp.minimum(variance, 1e17), of_bin, lift


def _heads(
    xp: Any, weights: Weights, ratio: Array, n: Array, nb: Array, bias: Array, *rows: Array
) -> tuple[Array, ...]:
    """Return each bin's share, the logarithm of its scale, and that of the next forecast's relative scale."""
    slot, variance, of_bin, lift, mask = rows
    count = (ratio[:, None] * slot).sum(0)
    shares = (count + 1e-5 * n / nb) * mask / (n * (1 + 1e-5))
    base = xp.sqrt(variance.sum(0) + TINY) / n
    relative = base / (shares + 1e-12)
    features = xp.stack([
        xp.log(relative + 1e-3) * 0.3, xp.log(shares * nb + 0.01) * 0.3, xp.log(shares * n + 0.1) * 0.2, lift,
        relative / (1 + relative), slot[0] / (slot.sum(0) + 1e-9), of_bin[0].max(0), of_bin[1].max(0),
    ])  # fmt: skip
    into = xp.concatenate([features, of_bin.mean(1)])
    hidden = xp.maximum(_dense(weights, "scale_in", into) + bias, 0)
    out = _dense(weights, "scale_out", hidden)
    least = 0.02 * shares + 0.03 * xp.sqrt(shares / (n + 1) + 1e-16) + 1e-12
    scale = xp.log(base + least) + 5 * _soft(xp, out[0] / 5)
    return shares, scale, 4 * _soft(xp, out[1] / 4) - 1.5


def _in_chunks(
    xp: Any, function: Any, fixed: tuple[Array, ...], rows: tuple[Array, ...], kinds: tuple[int, ...]
) -> Any:
    """Apply a function of single bins: to all at once, or, with numpy, to so many that the cache holds."""
    bins = rows[0].shape[-1]
    if xp is not np or bins <= CHUNK:
        return function(xp, *fixed, *rows)
    shapes = {0: (bins,), G: (G, bins), OF_BIN * G: (OF_BIN, G, bins)}
    results = tuple(np.empty(shapes[kind], dtype=np.float32) for kind in kinds)
    for start in range(0, bins, CHUNK):
        here = slice(start, start + CHUNK)
        pieces = function(xp, *fixed, *[row[..., here] if np.ndim(row) else row for row in rows])
        for result, piece in zip(results, pieces, strict=True):
            result[..., here] = piece
    return results


def _dense(weights: Weights, name: str, into: Array) -> Array:
    return weights[name] @ into + weights[name + ".b"][:, None]


def _soft(xp: Any, x: Array) -> Array:
    """Return x/(1 + |x|): a cheap tanh."""
    return x / (1 + xp.abs(x))


def _unit(xp: Any, x: Array) -> Array:
    """Return a number between 0 and 1: a cheap logistic function."""
    return 0.5 + 0.5 * x / (1 + xp.abs(x))


def _column(xp: Any, number: int) -> Array:
    return xp.eye(G, dtype=xp.float32)[number]


def _put(xp: Any, array: Array, index: Array, row: Array) -> Array:
    if xp is not np:
        return array.at[index].set(row)
    result = array.copy()
    result[index] = row
    return result
