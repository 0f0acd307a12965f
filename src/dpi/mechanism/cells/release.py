"""From the parts to the release: the PDF of all active users with its posterior variance, and how many they are.

A part's realised counts have a variance that was foreseen, times the factor that forecasts of its class have shown;
measured, that shrinks by what was seen, and is never more than the noise. Laws that are shrunk to a law of all are off
together if it is, and so are cells that rest on the same measurements: that part of their deviations adds up, not their
variances. Sizes are uncertain too: an error there moves the PDF towards or away from a part's own.

Sees sizes and laws made of counts after noise; no histogram, no user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.cells.heard import SUREST, confirmed
from dpi.mechanism.cells.law import SHARPEST
from dpi.mechanism.cells.parts import Carried, Measured
from dpi.mechanism.cells.sizes import not_empty
from dpi.mechanism.filtering import laplace_gauss

FLOOR = 0.0005
"""Uniform share of every release: nothing is impossible.

Source: by trial; not measured by itself.
"""

LARGEST_RATIO = 10.0
"""The laws of all correct a probability by no more than this factor, up or down.

Source: by trial; not measured by itself.
"""

SILENT = 100.0
"""Prior odds, times the width of the alternatives in deviations, against users who do not stand out from noise.

Source: by calculation; one user in a hundred bins then costs about a hundredth more than a uniform guess.
"""


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is not known beside the parts' own variances."""

    absent: Floats
    """Variance of each class for those who may have returned unheard."""
    laws: float
    """The share of the variances of laws that cells have in common, beside the laws of all, and"""
    sizes: float
    """that of sizes: they rest on the same rates of return, and on some days all are more active, or less."""


def changed(new: Measured, parts: Sequence[Measured], kept: Carried, said: Floats, weights: Floats) -> Floats:
    """By what share the laws of all correct forecasts, bin by bin.

    `said` is what they say of the veterans' PDF, (3, bins), with their `weights`.
    """
    veterans = np.add.reduce(kept.size[:, None] * kept.law.mean)
    prior = veterans.copy()
    for part in parts:
        veterans += part.size * part.realised.mean
        prior += part.size * part.prior.mean
    total = new.size + float(veterans.sum())
    ratio = said * (np.add.reduce(prior) / np.maximum(prior, 1e-12 * total))
    np.maximum(ratio, 1 / LARGEST_RATIO, out=ratio)
    np.minimum(ratio, LARGEST_RATIO, out=ratio)
    return np.asarray(weights @ (ratio - 1))


def released(
    new: Measured,
    parts: Sequence[Measured],
    kept: Carried,
    change: Floats,
    doubt: Doubt,
    heard: float,
    compared: Sequence[Measured],
) -> tuple[Estimate, float]:
    """The estimate of a slot.

    `change` is by what share the laws of all correct forecasts. `heard` is the probability, before the slot, that laws
    know more than a uniform guess; unless the release stands out by itself, the forecasts of the classes `compared`
    tell. The second result is that probability after the slot.
    """
    bins = change.size
    carried = np.add.reduce(kept.size[:, None] * kept.law.mean)
    veterans = carried.copy()
    for part in parts:
        veterans += part.size * part.realised.mean
    total = new.size + float(veterans.sum())
    counts = new.size * new.realised.mean + veterans + carried * change
    for part in parts:
        foreseen = part.size**2 * part.prior.variance + part.size * part.prior.mean + 1e-12
        unseen = np.maximum(1 - foreseen * laplace_gauss.information(foreseen, part.counts.noise), 0)
        counts += np.minimum(unseen, 1) * part.size * part.prior.mean * change
    pdf = np.maximum(counts, 1e-9 * total)
    pdf = (1 - FLOOR) * pdf / pdf.sum() + FLOOR / bins

    weight = float(carried.sum())
    doubts = [_doubt(part) for part in parts]
    spreads = kept.size_factor * kept.spread
    variance = np.minimum(new.size**2 * new.realised.variance, 2 * new.counts.noise**2 + new.counts.doubt)
    variance += new.sized.variance * (new.realised.mean - pdf) ** 2
    in_common = np.zeros(bins)
    for part, spread in zip(parts, doubts, strict=True):
        foreseen = part.factor * part.foreseen
        seen = laplace_gauss.information(foreseen, part.counts.noise)
        left = np.minimum(np.maximum(1 - foreseen * seen, SHARPEST), 2 * part.counts.noise**2 / foreseen)
        shared = left * np.minimum(part.factor**0.5 * part.size * part.shared, np.sqrt(foreseen))
        in_common += shared
        variance += foreseen * left - shared**2
        variance += spread * (part.realised.mean - pdf) ** 2
    users = (np.sqrt(kept.factor) * kept.size)[:, None]
    of_laws = users**2 * kept.law.variance
    of_sizes = spreads[:, None] * (kept.law.mean - pdf) ** 2
    apart = (1 - doubt.laws) * np.maximum(of_laws - (users * kept.shared) ** 2, 0.0)
    in_common += np.add.reduce(np.sqrt(of_laws - apart))
    variance += np.add.reduce(apart + of_sizes)
    variance += in_common**2
    old = [*doubts, *spreads.tolist(), *doubt.absent.tolist()]
    together = (1 - doubt.sizes) * sum(old) + doubt.sizes * sum(spread**0.5 for spread in old) ** 2
    total_variance = float(new.sized.variance + together)
    # So many users would stand out from the noise of one slot, by their sum or by their shape; the largest of `bins`
    # draws of noise has a shape too.
    unheard = 2 * new.counts.noise**2 * min(bins, 2 * math.log(bins + 1) / float(pdf @ pdf))
    there, even = not_empty(total, unheard, SILENT), 1 / bins
    if there < SUREST:
        there = max(there, confirmed(heard, compared))
    mixed = there * pdf + (1 - there) * even
    variance = there * (variance / total**2 + (pdf - mixed) ** 2)
    variance += (1 - there) * (even**2 + (even - mixed) ** 2)  # what is not heard may be anywhere
    estimate = Estimate(
        pdf=mixed,
        variance=np.minimum(np.maximum(variance, 0.0), np.maximum(mixed * (1 - mixed), 0.0)),
        skew=np.full(bins, 1 - there),
        total=total,
        total_variance=total_variance,
        carried=weight / total,
        age=sum((kept.size * kept.age).tolist()) / weight if weight > 0 else 0.0,
    )
    return estimate, there


def _doubt(part: Measured) -> float:
    """Variance of a measured class's size: by its factor, but no more than what the counts alone leave."""
    found, seen = part.sized.variance, part.sized.seen_variance
    with_absent = part.spread * seen / (part.spread + seen)
    return min(part.size_factor * max(found, with_absent), max(found, seen))
