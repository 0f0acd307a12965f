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
    xp: Any, weights: Weights, e: Array, d: Array, bias: Array, law: Array, mean: Array, part: Array, season: Array,
    *rows: Array,
) -> tuple[Array, ...]:  # fmt: skip
    """Move each bin: its posterior in this slot, what stays as level with its variance, memory, season, common part."""
    sums, expected, spread, of_bin, lifts, common, seen, change, mask = rows
    size = sums.shape[-1]
    drift, least, chance, brief, coupled = law[:5, :, None]
    shared = (law[5:9] * part).sum(-1)
    rare = (law[10:13] * part).sum(-1)
    scale, d, mean = e[:, None], d[:, None] * mask, mean[:, None]
    # all in units of the noise, whose variance is 2
    em = scale * expected
    drift = xp.exp(xp.clip(drift, -4, 4) - 3.5) * em + xp.exp(xp.clip(least, -4, 4) - 4) * mean
    spread = xp.minimum(scale * scale * spread, 1e18) + drift * drift
    brief = xp.exp(xp.clip(brief, -4, 3) - 4.5) * em
    alone = xp.exp(xp.clip(chance, -5, 3)) * scale * em + brief * brief
    common = common + xp.exp(2 * xp.clip(shared[0], -4, 4) - 9)
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
            together / (2 + xp.abs(together)), xp.log(common + 1e-6) * 0.1, lifts, xp.log(told + 0.01) * 0.1,
        )],
    ])  # fmt: skip
    around = xp.broadcast_to(of_bin.mean(1, keepdims=True), of_bin.shape)
    into = xp.concatenate([features, of_bin, around]).reshape(-1, G * size)
    hidden = (weights["bin_in"] @ into).reshape(-1, G, size) + (bias + weights["bin_in.b"][:, None])[:, :, None]
    hidden = xp.maximum(hidden, 0).reshape(-1, G * size)
    out = dense(weights, "bin_out", hidden).reshape(-1, G, size)
    gate = unit(xp, out[:OF_BIN] - 1)
    of_bin = of_bin + gate * (soft(xp, out[OF_BIN : 2 * OF_BIN]) - of_bin)
    out = out[2 * OF_BIN :]
    # widened
    appeared = xp.exp(xp.clip(2 * out[1], -6, 6) - 6) * mean
    spread = spread * xp.exp(xp.clip(3 * out[0], -2, 9)) + appeared * appeared
    spread = xp.minimum(spread, 9 * (em + mean) ** 2)
    common = xp.minimum(common * xp.exp(xp.clip(3 * (out[2] * part[:, None]).sum(0), -2, 9)), 9.0)
    width = 2 + spread + alone
    # what all histograms share
    told = (d * em * em / width).sum(0)
    sure = xp.exp(xp.clip(shared[2:4], -2, 2) + 2.4)  # squares of deviations from which on it has changed
    out_of = r * xp.maximum(1 - CHANGED / (xp.abs(r) + 1e-9), 0)  # by how much more than noise is
    beyond = (d * em * out_of / width).sum(0) ** 2 / (told * (1 + common * told) + 1e-9) / sure[0] - 1
    common = xp.minimum(common + xp.maximum(beyond, 0) * (1 + common * told) / (told + 1e-9), 9.0)
    # what of it is the season's: few bins have one, so that it takes evidence
    possible = xp.exp(2 * xp.clip(shared[1], -3, 2) - 2.4)
    _, here = _season(xp, seen, possible, rare[0])
    here = here * season
    both = common + here
    score = (d * em * r / width).sum(0)
    u = both * score / (1 + both * told)
    u = xp.clip(u, -0.97, 30) * mask
    lasts = u * common / (both + 1e-12)
    after = both / (1 + both * told)
    left = common * (1 + here * told) / (1 + both * told)
    clear = 1 / (1 + common * told)
    seen = xp.stack([seen[0] + (score + told * lifts) * clear, seen[1] + told * clear]) * (1 - 1 / VISITS) * mask
    lift = xp.clip(_season(xp, seen, possible, rare[0])[0] * season, -3, 3) * mask
    # or a change that lasts, since some slots
    weight = xp.minimum(1, ROBUST * xp.sqrt(0.5 * width) / (far + 1e-9))
    clear = 1 / (1 + here * told)
    of_change = (d * weight * em * r / width).sum(0) * clear
    told_change = (d * weight * em * em / width).sum(0) * clear
    kept_of = xp.asarray(np.array(RECENT, np.float32)[:, None])
    count = len(RECENT)
    told_of = kept_of * change[count:] + told_change
    score_of = kept_of * change[:count] + of_change
    wide = xp.exp(2 * xp.clip(rare[1], -2, 1) - 0.7)
    moved = xp.clip(wide * score_of / (1 + wide * told_of), -0.95, 20)
    odds = xp.clip(rare[2], -6, 6) - 7 + xp.minimum(
        0.5 * wide * score_of**2 / (1 + wide * told_of) - 0.5 * xp.log(1 + wide * told_of), 40.0
    )  # fmt: skip
    most = xp.maximum(odds.max(0), 0)
    likely = xp.exp(odds - most)
    likely = likely / (likely.sum(0) + xp.exp(-most)) * mask
    more = (likely * (moved - lasts)).sum(0)
    between = (likely * (moved - lasts) ** 2).sum(0) - more**2 + (likely * wide / (1 + wide * told_of)).sum(0)
    between = xp.maximum(between, 0)
    stays = 1 - likely.sum(0)
    common_after = xp.minimum(stays * left + between, 9.0)
    after = stays * after + between
    season_part = u - lasts
    lasts = xp.clip(lasts + more, -0.97, 30)
    u = xp.clip(lasts + season_part, -0.97, 30)
    grown = 1 + lasts
    change = xp.concatenate([(score_of - told_of * lasts) * grown, told_of * grown * grown])
    change = xp.clip(change, -1e9, 1e9) * mask
    # and each by itself
    load = d + (1 - d) * unit(xp, coupled + 1)
    rest = r - em * u
    far = xp.maximum(xp.abs(rest) - CHANGED, 0)
    spread = spread + d * xp.minimum(xp.maximum(far * far / sure[1] - width, 0), 9 * (em + mean) ** 2)
    free, width = spread + alone, 2 + spread + alone
    k, unread = d * free / width, (2 + (1 - d) * free) / width  # together one, without a difference of like numbers
    own = k * rest / scale
    variance = (free * unread + (em * unread) ** 2 * after) / (scale * scale)
    edge = 0.3 * xp.exp(2 * soft(xp, out[3])) * xp.sqrt(variance + 1e-12) + 1e-4 * mean / scale
    slot = expected * (1 + load * u) + own
    kept = expected * (1 + load * lasts) + own * spread / (free + 1e-12)
    slot, kept = ((x + xp.sqrt(x * x + 4 * edge * edge)) * (0.5 * mask) for x in (slot, kept))
    return (
        xp.clip(slot, 0, MOST), xp.clip(kept * xp.exp(-lifts), 0, MOST),
        xp.minimum(
            spread * (2 + alone + (1 - d) * spread) / width * xp.exp(-2 * lifts) / (scale * scale), MOST * MOST
        ),
        xp.minimum(variance, 1e17), of_bin, lift, common_after, xp.clip(seen, -1e9, 1e9), change,
    )  # fmt: skip


def _season(xp: Any, seen: Array, possible: Array, odds: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of a phase's factor: none, or one of the variance that is possible."""
    score, told = seen
    odds = xp.clip(odds, -4, 4) - 1 + xp.minimum(
        0.5 * possible * score**2 / (1 + possible * told) - 0.5 * xp.log(1 + possible * told), 40.0
    )  # fmt: skip
    likely = 1 / (1 + xp.exp(-odds))
    mean, variance = possible * score / (1 + possible * told), possible / (1 + possible * told)
    return likely * mean, likely * variance + likely * (1 - likely) * mean**2
