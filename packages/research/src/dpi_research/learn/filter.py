"""The filter: Kalman in form, with learned deviations; one function of numpy, or of JAX where it is trained.

State of a stream: how many active users are expected in each histogram and bin, and the variance of that; the variance
of what is common to all histograms of a bin; a factor of each phase of a declared season (of bins, and of totals); and
small memories of each histogram and of each histogram and bin. A slot:

1. Totals are compared with what was expected, plain and matched to the expected law. Their gain is σ²/(σ² + noise²),
   where σ² was carried from the last measurement, and grows by a learned drift.
2. Bins move by one factor that all histograms share, and each by itself. Four variances decide how far: what drifts,
   what is of this slot alone (chance), the season's, and the noise. Drift and chance are learned of each histogram; a
   measurement that is far from its forecast widens what was known of its bin, by a learned function.
3. What is of this slot alone is in the release and not in the level; the season's part goes to the factor of the phase.
4. Heads say shares and their scale, numbers of users and theirs. Users who paid move on to the next histogram.

So averages over slots and measurements of high signal are exact by arithmetic, and no weight can make a step unbounded.
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


FIRST = 2.0
"""The deviation of bins before the first measurement, relative to an even spread."""
CHANGED = 6.0
"""A measurement is noise, and not a change, up to so many scales of the noise: Laplace's density falls by e for each,
so that this asks for odds of 400 to 1, once for each bin and slot."""
REPLACED = 3.0
"""Users leave at most so many times as fast as newcomers come; numbers that are measured fall as fast as they do."""
TINY = 1e-6
"""Keeps square roots away from zero, where their slope is infinite."""


class State(NamedTuple):
    """What is remembered: all of it public."""

    level: Array
    """G × B: expected active users, without the season."""
    spread: Array
    """G × B: the variance of the level."""
    common: Array
    """B: the relative variance of what all histograms share."""
    total_spread: Array
    """G: the relative variance of totals."""
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
    informed: Array
    """B: how much a slot tells of the factor that histograms share, on average: an inverse variance."""
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
    width: Array = 0.0
    """G: how many payments users of a histogram make before they move on, or zero."""
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
        zeros(G, bins), zeros(G, bins), zeros(bins), zeros(G), zeros(G, MEMORY), zeros(OF_BIN, G, bins),
        zeros(period, bins), zeros(period), zeros(period), zeros(bins), zeros(bins), zeros(), zeros(G), zeros(),
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
    guess = xp.where(_column(xp, 0) > 0, guess, 1e-3 / nb)[:, None]
    level = xp.where(first, guess, state.level) * mask
    spread = xp.where(first, (FIRST * guess) ** 2, state.spread) * mask
    # 1. what was expected
    lifts = state.lifts[phase]
    factor = xp.exp(lifts) * mask
    total = level.sum(-1)
    rhythm = xp.exp(state.rhythm[phase])
    factor = factor * (total / ((level * factor).sum(-1) + 1e-9) * rhythm)[:, None]
    expected, spread = level * factor, spread * factor * factor
    total = total * rhythm
    ed, dc = (e * d)[:, None], d.sum()
    forecast = (ed * expected).sum(0)
    known = 2 * dc + (ed * ed * spread).sum(0)
    forecast_scale = xp.sqrt(known + (xp.exp(state.doubt) * forecast) ** 2 + TINY)
    forecast_total = forecast.sum()
    forecast_total_scale = xp.sqrt(2 * nb * dc + (xp.exp(state.doubt_total) * forecast_total) ** 2 + TINY)
    # 2. totals
    mu = e * total
    square = (e * e) * (expected * expected).sum(-1)
    rel1, sd1 = (plain - mu) / (mu + 1), xp.sqrt(2 * nb) / (mu + 1)
    rel2 = (e * (sums * expected).sum(-1) - square) / (square + 1e-2)
    sd2 = xp.sqrt(2 * square + 1e-12) / (square + 1e-2) + 1e-6
    ones, times = xp.ones_like(d), xp.minimum(xp.log(1 + state.slots), 8.0)
    # how unlike bins are, and by how much their measurements leave what was expected
    energy, own = ((sums - e[:, None] * expected * mask) ** 2).sum(-1), (e * e) * spread.sum(-1)
    uneven = xp.log(square * nb / (mu * mu + 1e-9) + 0.1)
    features = xp.stack([
        d, xp.log(e) * 0.3, xp.log(mu + 0.1) * 0.3, xp.log(total + 0.1) * 0.2,
        xp.arcsinh(rel1 / sd1) * d, xp.log(sd1) * 0.3, xp.clip(rel1, -2, 5) * d,
        xp.arcsinh(rel2 / sd2) * d, xp.log(sd2) * 0.3, xp.clip(rel2, -2, 5) * d,
        xp.log(1 + state.age) * 0.5, xp.log(nb) * 0.3 * ones, times * 0.2 * ones, first * ones,
        measured.season * ones, xp.log(1 + state.met[phase]) * 0.3 * ones, state.rhythm[phase] * ones,
        measured.partial * ones, xp.log(state.total_spread + 1e-6) * 0.2, uneven * 0.3,
        xp.arcsinh((energy - 2 * nb) / xp.sqrt(20 * nb)) * 0.5 * d,
        (xp.log(energy + 1) - xp.log(2 * nb + own + 1)) * d, xp.log(1 + measured.width) * 0.3 * ones,
    ])  # fmt: skip
    around = xp.broadcast_to(state.memory.mean(0), state.memory.shape)
    into = xp.concatenate([features, xp.eye(G, dtype=xp.float32), state.memory.T, around.T])
    hidden = xp.maximum(_dense(weights, "total_in", into), 0)
    gate = _unit(xp, _dense(weights, "total_gate", hidden) - 1)
    memory = ((1 - gate) * state.memory.T + gate * xp.tanh(_dense(weights, "total_new", hidden))).T
    out = _dense(weights, "total_out", xp.concatenate([hidden, memory.T]))
    prior = xp.where(first, 1.0, state.total_spread) + xp.exp(2 * xp.clip(out[0], -4, 4) - 5)  # σ², relative
    # more than three deviations off: it has changed, by about as much
    prior = prior + d * xp.minimum(xp.maximum(rel1 * rel1 / 9 - prior - sd1**2, 0), 4.0)
    k1, k2, by_law = prior / (prior + sd1**2), prior / (prior + sd2**2), _unit(xp, out[1])
    moved = 1 + d * (k1 * xp.clip(rel1, -0.95, 20) * (1 - by_law) + by_law * k2 * xp.clip(rel2, -0.95, 20))
    up = xp.clip(xp.log(xp.maximum(moved, 0.05)) + 0.5 * (1 - d) * xp.tanh(out[2]), -2, 3)
    up = xp.where(first, 0.0, up)
    grown = xp.exp(up)[:, None]
    expected, spread = xp.clip(expected * grown, 0, MOST), xp.minimum(spread * grown * grown, MOST * MOST)
    wanted = total * xp.exp(up)
    noise = xp.minimum(sd1, sd2) ** 2
    total_spread = xp.minimum(xp.where(d > 0, prior * noise / (prior + noise), prior), 4.0)
    total_variance = total_spread * wanted**2
    # 3. bins
    part = wanted / (wanted.sum() + 1e-9)
    mean = e * wanted / nb
    context = xp.concatenate([memory.T, xp.eye(G, dtype=xp.float32), xp.stack([
        d, xp.log(e) * 0.3, xp.log(1 + state.age) * 0.5, xp.log(nb) * 0.3 * ones, part, up, xp.log(mean + 0.1) * 0.3,
        measured.season * ones, xp.log(1 + state.met[phase]) * 0.3 * ones, measured.partial * ones, times * 0.2 * ones,
    ])])  # fmt: skip
    bias = _dense(weights, "bin_context", context)  # BIN_HIDDEN × G
    law = _dense(weights, "law", context)
    share_context = xp.concatenate([memory.T @ part, xp.stack([
        xp.log(wanted.sum() + 1) * 0.2, xp.log(nb) * 0.3, (part * d).sum(), measured.season,
    ])])  # fmt: skip
    scale_bias = _dense(weights, "scale_context", share_context[:, None])
    seasonal = xp.where(first, 0.0, measured.season)
    spread = xp.where(first, xp.exp(2 * xp.clip(law[9], -3, 2))[:, None], 1.0) * spread
    fixed: tuple[Array, ...] = (weights, e, d, bias, law, mean, part, seasonal, state.met[phase], state.slots)
    rows = (sums, expected, spread, state.of_bin, lifts, state.common, state.informed, mask)
    slot, kept, spread, variance, of_bin, lift, common, informed = _in_chunks(
        xp, _bins, fixed, rows, (G, G, G, G, OF_BIN * G, 0, 0, 0)
    )
    # 4. the whole, drawn towards even spread where measurements say no more
    summed = slot.sum(-1)
    even = xp.exp(xp.clip(2 * out[7] - 7, -14, 0))
    slot = slot + even[:, None] * ((summed / nb)[:, None] * mask - slot)
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
    back = (ratio * xp.exp(-state.rhythm[phase]))[:, None]
    level, spread = kept * back, spread * back * back
    # of the last histogram no more leave than newcomers could replace: what nobody measures does not fade away
    most = xp.where(_column(xp, G - 1) > 0, REPLACED * members[0] / n, 1.0)
    paid, stay = (_unit(xp, out[4] - 1) * d)[:, None], (1 - xp.minimum(_unit(xp, out[5] - 3), most))[:, None]
    none = xp.zeros_like(level[:1])
    inflow = paid * level
    before, come = level.sum(-1), xp.concatenate([none[:, 0], inflow.sum(-1)[:-1]])
    carried = xp.concatenate([none[:, 0], (total_spread * inflow.sum(-1) ** 2)[:-1]])
    unsure = xp.exp(2 * xp.clip(out[8], -4, 4) - 6)  # of how many of those who move on will come again
    moved_spread = total_spread * (stay[:, 0] * before) ** 2 + carried + unsure * come**2
    total_spread = xp.minimum(moved_spread / ((stay[:, 0] * before + come) ** 2 + TINY), 4.0)
    level = xp.clip(level * stay + xp.concatenate([none, inflow[:-1]]), 0, MOST)
    spread = xp.minimum(spread * stay * stay + xp.concatenate([none, (paid * paid * spread)[:-1]]), MOST * MOST)
    gain = _unit(xp, out[6] - 1) * d
    change = (part * gain * xp.log((members + 1e-3) / (total + 1e-3))).sum() * measured.season
    rhythm_after = xp.clip(state.rhythm[phase] + xp.where(first, 0.0, change), -4, 4)
    after = State(
        level, spread, common, total_spread, memory, of_bin, _put(xp, state.lifts, phase, lift),
        _put(xp, state.rhythm, phase, rhythm_after), _put(xp, state.met, phase, xp.minimum(state.met[phase] + 1, 1000)),
        informed, doubt, 4 * xp.tanh(told[-1] / 4) - 1.5, xp.where(d > 0, 0.0, xp.minimum(state.age + 1, 1000)),
        state.slots + 1,
    )  # fmt: skip
    return after, Posterior(
        shares, share_scale, numbers, number_scale, members, forecast, forecast_scale, forecast_total,
        forecast_total_scale,
    )  # fmt: skip


def _bins(
    xp: Any, weights: Weights, e: Array, d: Array, bias: Array, law: Array, mean: Array, part: Array, season: Array,
    met: Array, slots: Array, *rows: Array,
) -> tuple[Array, ...]:  # fmt: skip
    """Move each bin: its posterior in this slot, what stays as level with its variance, memory, season, common part."""
    sums, expected, spread, of_bin, lifts, common, informed, mask = rows
    size = sums.shape[-1]
    drift, least, chance, brief, coupled = law[:5, :, None]
    shared = (law[5:9] * part).sum(-1)
    scale, d, mean = e[:, None], d[:, None] * mask, mean[:, None]
    # all in units of the noise, whose variance is 2
    em = scale * expected
    drift = xp.exp(xp.clip(drift, -4, 4) - 3.5) * em + xp.exp(xp.clip(least, -4, 4) - 4) * mean
    spread = xp.minimum(scale * scale * spread, 1e18) + drift * drift
    brief = xp.exp(xp.clip(brief, -4, 3) - 4.5) * em
    alone = xp.exp(xp.clip(chance, -5, 3)) * scale * em + brief * brief
    common = common + xp.exp(2 * xp.clip(shared[0], -4, 4) - 9)
    lasting = xp.exp(2 * xp.clip(shared[1], -3, 2) - 2.4)
    r = (sums - em) * d
    # how far it is from what was forecast
    width = 2 + spread + alone
    told = (d * em * em / width).sum(0)
    z = r / xp.sqrt(width + em * em * common)
    together = (d * em * r / width).sum(0) / xp.sqrt(told * (1 + common * told) + 1e-9)
    far = xp.abs(r)
    features = xp.stack([
        z / (2 + xp.abs(z)), r / (em + 1 + far), xp.log(em + 0.1) * 0.3, xp.log(spread + 0.01) * 0.15,
        em / (expected.sum(0) * scale + 1e-9), xp.log(em / (mean + 1e-9) + 0.01) * 0.3,
        *[xp.broadcast_to(row, sums.shape) for row in (
            together / (2 + xp.abs(together)), xp.log(common + 1e-6) * 0.1, lifts, xp.log(informed + 0.01) * 0.1,
        )],
    ])  # fmt: skip
    around = xp.broadcast_to(of_bin.mean(1, keepdims=True), of_bin.shape)
    into = xp.concatenate([features, of_bin, around]).reshape(-1, G * size)
    hidden = (weights["bin_in"] @ into).reshape(-1, G, size) + (bias + weights["bin_in.b"][:, None])[:, :, None]
    hidden = xp.maximum(hidden, 0).reshape(-1, G * size)
    out = _dense(weights, "bin_out", hidden).reshape(-1, G, size)
    gate = _unit(xp, out[:OF_BIN] - 1)
    of_bin = of_bin + gate * (_soft(xp, out[OF_BIN : 2 * OF_BIN]) - of_bin)
    out = out[2 * OF_BIN :]
    # widened
    appeared = xp.exp(xp.clip(2 * out[1], -6, 6) - 6) * mean
    spread = spread * xp.exp(xp.clip(3 * out[0], -2, 9)) + appeared * appeared
    spread = xp.minimum(spread, 9 * (em + mean) ** 2)
    common = xp.minimum(common * xp.exp(xp.clip(3 * (out[2] * part[:, None]).sum(0), -2, 9)), 9.0)
    width = 2 + spread + alone
    # what all histograms share, and what of it is the season's
    told = (d * em * em / width).sum(0)
    sure = xp.exp(xp.clip(shared[2:4], -2, 2) + 2.4)  # squares of deviations from which on it has changed
    out_of = r * xp.maximum(1 - CHANGED / (xp.abs(r) + 1e-9), 0)  # by how much more than noise is
    beyond = (d * em * out_of / width).sum(0) ** 2 / (told * (1 + common * told) + 1e-9) / sure[0] - 1
    common = xp.minimum(common + xp.maximum(beyond, 0) * (1 + common * told) / (told + 1e-9), 9.0)
    here = lasting * season / (1 + met * lasting * informed)
    both = common + here
    u = both * (d * em * r / width).sum(0) / (1 + both * told)
    u = xp.clip(u, -0.97, 30) * mask
    lasts = u * common / (both + 1e-12)
    after = both / (1 + both * told)
    lift = xp.clip(lifts + xp.log(1 + u - lasts), -3, 3) * mask
    informed = informed + (told / (1 + common * told) - informed) / xp.minimum(slots + 1, 40.0)
    # and each by itself
    load = d + (1 - d) * _unit(xp, coupled + 1)
    left = r - em * u
    far = xp.maximum(xp.abs(left) - CHANGED, 0)
    spread = spread + d * xp.minimum(xp.maximum(far * far / sure[1] - width, 0), 9 * (em + mean) ** 2)
    free, width = spread + alone, 2 + spread + alone
    k, unread = d * free / width, (2 + (1 - d) * free) / width  # together one, without a difference of like numbers
    own = k * left / scale
    variance = (free * unread + (em * unread) ** 2 * after) / (scale * scale)
    edge = 0.3 * xp.exp(2 * _soft(xp, out[3])) * xp.sqrt(variance + 1e-12) + 1e-4 * mean / scale
    slot = expected * (1 + load * u) + own
    kept = expected * (1 + load * lasts) + own * spread / (free + 1e-12)
    slot, kept = ((x + xp.sqrt(x * x + 4 * edge * edge)) * (0.5 * mask) for x in (slot, kept))
    return (
        xp.clip(slot, 0, MOST), xp.clip(kept * xp.exp(-lifts), 0, MOST),
        xp.minimum(
            spread * (2 + alone + (1 - d) * spread) / width * xp.exp(-2 * lifts) / (scale * scale), MOST * MOST
        ),
        xp.minimum(variance, 1e17), of_bin, lift, common * (1 + here * told) / (1 + both * told),
        xp.clip(informed, 0, 1e9),
    )  # fmt: skip


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
