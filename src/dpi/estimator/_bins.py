"""How each bin moves in a slot: by what all histograms share, by what lasts since some slots, and by itself.

In units of the noise, whose variance is 2. Three questions are asked of a residual, and learned odds answer them:

* Is it of the phase of a declared season? Few bins have one, so that a phase's factor is none, or of a variance that is
  possible: what its visits told so far decides, as odds.
* Did the bin's level change some slots ago, for good? What `RECENT` of recent slots told together decides, as odds;
  residuals count up to `ROBUST` scales there, so that noise alone never says so.
* Or is it far out in this slot alone? From `CHANGED` scales on what was known of the bin is widened at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpi.estimator._layers import Array, Weights, dense, soft, unit
from dpi.estimator._state import RECENT
from dpi.estimator._weights import HISTOGRAMS as G
from dpi.estimator._weights import OF_BIN

MOST = 1e9
"""Counts are bounded by it."""
CHANGED = 6.0
"""A measurement is noise, and not a change, up to so many scales of the noise: Laplace's density falls by e for each,
so that this asks for odds of 400 to 1, once for each bin and slot."""
ROBUST = 4.0
"""A residual counts up to so many scales of Laplace noise: z² / 2 of a Gaussian is then never more than what the
logarithm of Laplace's density allows."""
VISITS = 100.0
"""A phase's factor is averaged over about so many of its visits."""


def move_bins(
    xp: Any, weights: Weights, price: Array, due: Array, bias: Array, law: Array, mean: Array, part: Array,
    season: Array, *rows: Array,
) -> tuple[Array, ...]:  # fmt: skip
    """Move each bin: its posterior in this slot, what stays as level with its variance, memory, season, common part."""
    sums, counts, spread, of_bin, lifts, common, seen, change, mask = rows
    drift, least, chance, brief, coupled = law[:5, :, None]
    shared, rare = (law[5:9] * part).sum(-1), (law[10:13] * part).sum(-1)
    scale, due, mean = price[:, None], due[:, None] * mask, mean[:, None]
    expected = scale * counts
    drift = xp.exp(xp.clip(drift, -4, 4) - 3.5) * expected + xp.exp(xp.clip(least, -4, 4) - 4) * mean
    spread = xp.minimum(scale * scale * spread, 1e18) + drift * drift
    brief = xp.exp(xp.clip(brief, -4, 3) - 4.5) * expected
    alone = xp.exp(xp.clip(chance, -5, 3)) * scale * expected + brief * brief
    common = common + xp.exp(2 * xp.clip(shared[0], -4, 4) - 9)
    off = (sums - expected) * due
    in_bin = expected / (counts.sum(0) * scale + 1e-9)  # the part of each histogram in what is expected of a bin
    of_bin, out = _ask_network(
        xp, weights, bias, mean, in_bin, off, expected, spread, alone, due, of_bin, lifts, common
    )
    # widened by what the network says
    appeared = xp.exp(xp.clip(2 * out[1], -6, 6) - 6) * mean
    spread = spread * xp.exp(xp.clip(3 * out[0], -2, 9)) + appeared * appeared
    spread = xp.minimum(spread, 9 * (expected + mean) ** 2)
    common = xp.minimum(common * xp.exp(xp.clip(3 * (out[2] * part[:, None]).sum(0), -2, 9)), 9.0)
    width = 2 + spread + alone
    # what all histograms share: a score, and how much it tells
    score, told = (due * expected * off / width).sum(0), (due * expected * expected / width).sum(0)
    sure = xp.exp(xp.clip(shared[2:4], -2, 2) + 2.4)  # squares of deviations from which on it has changed
    out_of = off * xp.maximum(1 - CHANGED / (xp.abs(off) + 1e-9), 0)  # by how much more than noise is
    beyond = (due * expected * out_of / width).sum(0) ** 2 / (told * (1 + common * told) + 1e-9) / sure[0] - 1
    common = xp.minimum(common + xp.maximum(beyond, 0) * (1 + common * told) / (told + 1e-9), 9.0)
    # what of it is the season's
    possible = xp.exp(2 * xp.clip(shared[1], -3, 2) - 2.4)
    _, here = _season(xp, seen, possible, rare[0])
    here = here * season
    both = common + here
    moved = xp.clip(both * score / (1 + both * told), -0.97, 30) * mask
    lasting = moved * common / (both + 1e-12)
    of_phase, doubt = moved - lasting, both / (1 + both * told)
    clear = 1 / (1 + common * told)
    seen = xp.stack([seen[0] + (score + told * lifts) * clear, seen[1] + told * clear]) * (1 - 1 / VISITS) * mask
    lift = xp.clip(_season(xp, seen, possible, rare[0])[0] * season, -3, 3) * mask
    # or a change that lasts, since some slots
    weight = due * xp.minimum(1, ROBUST * xp.sqrt(0.5 * width) / (xp.abs(off) + 1e-9)) * expected / width
    clear = 1 / (1 + here * told)
    change, stays, more, between = _follow_change(
        xp, change, (weight * off).sum(0) * clear, (weight * expected).sum(0) * clear, rare[1:], lasting, mask
    )
    common = xp.minimum(stays * common * (1 + here * told) / (1 + both * told) + between, 9.0)
    doubt = stays * doubt + between
    lasting = xp.clip(lasting + more, -0.97, 30)
    moved = xp.clip(lasting + of_phase, -0.97, 30)
    # and each by itself
    load = due + (1 - due) * unit(xp, coupled + 1)
    rest = off - expected * moved
    far = xp.maximum(xp.abs(rest) - CHANGED, 0)
    spread = spread + due * xp.minimum(xp.maximum(far * far / sure[1] - width, 0), 9 * (expected + mean) ** 2)
    free, width = spread + alone, 2 + spread + alone
    gain, unread = due * free / width, (2 + (1 - due) * free) / width  # together one, without a difference
    own = gain * rest / scale
    variance = (free * unread + (expected * unread) ** 2 * doubt) / (scale * scale)
    edge = 0.3 * xp.exp(2 * soft(xp, out[3])) * xp.sqrt(variance + 1e-12) + 1e-4 * mean / scale
    now = counts * (1 + load * moved) + own
    kept = counts * (1 + load * lasting) + own * spread / (free + 1e-12)
    now, kept = ((x + xp.sqrt(x * x + 4 * edge * edge)) * (0.5 * mask) for x in (now, kept))
    left = spread * (2 + alone + (1 - due) * spread) / width * xp.exp(-2 * lifts) / (scale * scale)
    return (
        xp.clip(now, 0, MOST), xp.clip(kept * xp.exp(-lifts), 0, MOST), xp.minimum(left, MOST * MOST),
        xp.minimum(variance, 1e17), of_bin, lift, common, xp.clip(seen, -1e9, 1e9), change,
    )  # fmt: skip


def _ask_network(
    xp: Any, weights: Weights, bias: Array, mean: Array, part: Array, off: Array, expected: Array, spread: Array,
    alone: Array, due: Array, of_bin: Array, lifts: Array, common: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Return each bin's memory after a slot, and by what its variances are widened."""
    width = 2 + spread + alone
    told = (due * expected * expected / width).sum(0)
    z = off / xp.sqrt(width + expected * expected * common)
    together = (due * expected * off / width).sum(0) / xp.sqrt(told * (1 + common * told) + 1e-9)
    size = off.shape[-1]
    features = xp.stack([
        z / (2 + xp.abs(z)), off / (expected + 1 + xp.abs(off)), xp.log(expected + 0.1) * 0.3,
        xp.log(spread + 0.01) * 0.15, part, xp.log(expected / (mean + 1e-9) + 0.01) * 0.3,
        *[xp.broadcast_to(row, off.shape) for row in (
            together / (2 + xp.abs(together)), xp.log(common + 1e-6) * 0.1, lifts, xp.log(told + 0.01) * 0.1,
        )],
    ])  # fmt: skip
    around = xp.broadcast_to(of_bin.mean(1, keepdims=True), of_bin.shape)
    into = xp.concatenate([features, of_bin, around]).reshape(-1, G * size)
    hidden = (weights["bin_in"] @ into).reshape(-1, G, size) + (bias + weights["bin_in.b"][:, None])[:, :, None]
    out = dense(weights, "bin_out", xp.maximum(hidden, 0).reshape(-1, G * size)).reshape(-1, G, size)
    gate = unit(xp, out[:OF_BIN] - 1)
    return of_bin + gate * (soft(xp, out[OF_BIN : 2 * OF_BIN]) - of_bin), out[2 * OF_BIN :]


def _evidence(xp: Any, score: Array, told: Array, possible: Array) -> tuple[Array, Array, Array]:
    """Return the logarithm of the odds that there is one of this variance, its mean if so, and its variance."""
    mean, variance = possible * score / (1 + possible * told), possible / (1 + possible * told)
    return xp.minimum(0.5 * score * mean - 0.5 * xp.log(1 + possible * told), 40.0), mean, variance


def _season(xp: Any, seen: Array, possible: Array, odds: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of a phase's factor: none, or one of the variance that is possible."""
    evidence, mean, variance = _evidence(xp, seen[0], seen[1], possible)
    likely = 1 / (1 + xp.exp(-(xp.clip(odds, -4, 4) - 1 + evidence)))
    return likely * mean, likely * variance + likely * (1 - likely) * mean**2


def _follow_change(
    xp: Any, change: Array, score: Array, told: Array, rare: Array, lasting: Array, mask: Array
) -> tuple[Array, Array, Array, Array]:
    """Return what recent slots tell after this one, and what of a change for good they say.

    How likely there was none, by how much more the level moves, and the variance between what may have been.
    """
    keep, count = xp.asarray(np.array(RECENT, np.float32)[:, None]), len(RECENT)
    told, score = keep * change[count:] + told, keep * change[:count] + score
    evidence, mean, variance = _evidence(xp, score, told, xp.exp(2 * xp.clip(rare[0], -2, 1) - 0.7))
    mean, odds = xp.clip(mean, -0.95, 20), xp.clip(rare[1], -6, 6) - 7 + evidence
    most = xp.maximum(odds.max(0), 0)
    likely = xp.exp(odds - most)
    likely = likely / (likely.sum(0) + xp.exp(-most)) * mask
    apart = mean - lasting
    more = (likely * apart).sum(0)
    between = (likely * (apart * apart + variance)).sum(0) - more * more
    grown = 1 + xp.clip(lasting + more, -0.97, 30)
    change = xp.concatenate([(score - told * (grown - 1)) * grown, told * grown * grown])
    return xp.clip(change, -1e9, 1e9) * mask, 1 - likely.sum(0), more, xp.maximum(between, 0)
