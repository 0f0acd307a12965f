"""From the experts' beliefs to the release: a mixture of posterior PDFs, and what the slot itself deviated from them.

A slot's PDF is its rate plus a deviation of its own (people are random). The experts know rates; the slope of the log
score says which part of a surprise belongs to the slot. Sees beliefs and counts after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.assimilation import Slot
from dpi.mechanism.boosted.experts import Expert, blocks
from dpi.mechanism.boosted.laplace_gauss import information, score

SLACK = 1.35
"""The variance of a slot's own deviation counts this much more, because the dispersion is itself an estimate.

Source: by trial; the coverage that it leads to is in docs/utility.md, Synthetic streams (benchmarks/utility.py).
"""

TAIL = 0.7
"""What was averaged over few draws of Laplace noise has longer tails than a Gaussian of the same variance: a rate whose
variance is that of one draw counts as this much more uncertain, one that is known better as proportionally less.

Source: by trial; the coverage that it leads to is in docs/utility.md, Synthetic streams (benchmarks/utility.py).
"""

LARGEST_SCALE_VARIANCE = 0.01
"""The scale's relative variance counts up to this in the variance of a probability.

Source: by trial; not measured by itself.
"""


@dataclass(frozen=True, eq=False)
class Opinion:
    """One expert's belief after the slot, and its weight."""

    weight: float
    expert: Expert
    slope: Floats
    known: Floats
    """Variance of the expert's reading before the slot."""

    def __getitem__(self, here: slice) -> Opinion:
        expert = Expert(self.expert.messages[here], self.expert.reading[here])
        return Opinion(self.weight, expert, self.slope[here], self.known[here])


@dataclass(frozen=True, eq=False)
class Belief:
    """A PDF with the variance of each probability.

    `skew` is the share of each bin that is prior, `mass` the sum of the levels before they were normalised.
    """

    pdf: Floats
    variance: Floats
    skew: Floats
    mass: float


def pooled(opinions: Sequence[Opinion], slot: Slot) -> Belief:
    """The weighted mixture of the experts' posteriors of the slot's PDF."""
    mean, released, variance, skew = np.zeros((4, slot.counts.values.size))
    for here in blocks(mean.size):
        mean[here], released[here], variance[here], skew[here] = _pooled([o[here] for o in opinions], slot)
    mass = float(mean.sum())
    released /= released.sum()
    variance /= mass**2
    return Belief(released, variance, skew, mass)


def _pooled(opinions: Sequence[Opinion], slot: Slot) -> Floats:
    """Sums of one block of bins: the rate's mean, the slot's mean, its variance, and the share that is prior."""
    mean, second, skew, deviation, spread = np.zeros((5, opinions[0].slope.size))
    for opinion in opinions:
        weight, (messages, reading) = opinion.weight, opinion.expert
        level, rate_variance = reading.mean, reading.variance
        mean += weight * level
        few = np.minimum(rate_variance * (slot.scale / slot.counts.noise) ** 2, 1)
        second += weight * ((1 + TAIL * few) * rate_variance + level**2)
        skew += weight * np.maximum(1 - rate_variance / messages.variance, 0)
        deviation += (weight * slot.coverage * slot.dispersion) * (level * opinion.slope)
        own = slot.dispersion * slot.scale * level
        known = slot.scale**2 * opinion.known
        both = known + own
        seen = information(both, slot.counts.noise)
        both += known
        seen *= both
        spread += weight * (own * np.maximum(1 - seen, 0.05))
    variance = np.maximum(second - mean**2, 0) + SLACK / slot.scale**2 * spread + slot.doubt(mean)
    return np.stack([mean, np.maximum(mean + deviation, 0.1 * mean), variance, skew])


@dataclass(frozen=True, eq=False)
class Uniform:
    """The expert for which all bins are alike: its log score and its posterior of the slot's PDF."""

    evidence: float
    dispersion_score: float
    dispersion_information: float
    pdf: Floats
    variance: float

    @classmethod
    def of(cls, slot: Slot, size: float) -> Uniform:
        """For a slot of `size` users."""
        bins, noise = slot.counts.values.size, slot.counts.noise
        expected = size / bins
        own = slot.dispersion * expected
        pdf, sums = np.empty(bins), np.zeros(3)
        for here in blocks(bins):
            residual = slot.counts.values[here] - expected
            log, slope, heat = score(residual, float(slot.scatter(np.array(expected))), noise)
            pdf[here] = np.maximum(1 + slot.coverage * slot.dispersion * slope, 0.1)
            heat *= expected
            sums += [log.sum(dtype=np.float64), heat.sum(dtype=np.float64), heat @ heat]
        variance = SLACK * own * (1 - own * float(information(own, noise))) / size**2
        evidence, score_sum, information_sum = sums.tolist()
        return cls(evidence, score_sum, information_sum, pdf / pdf.sum(), variance)


def bounded(variance: Floats, pdf: Floats) -> Floats:
    """The variance, but at most p(1 - p): nothing between 0 and 1 with mean p varies more."""
    return np.minimum(variance, np.maximum(pdf * (1 - pdf), 0))


def blend(belief: Belief, uniform: Uniform, weight: float, scale_variance: float) -> Belief:
    """The two groups together: `weight` for the uniform expert, the rest for the pool."""
    rest = 1 - weight
    pdf = rest * belief.pdf + weight * uniform.pdf
    variance = rest * (belief.variance + (belief.pdf - pdf) ** 2)
    variance += weight * (uniform.variance + (uniform.pdf - pdf) ** 2)
    variance += (pdf * (1 - pdf)) ** 2 * min(scale_variance, LARGEST_SCALE_VARIANCE)
    pdf /= pdf.sum()
    return Belief(pdf, bounded(variance, pdf), rest * belief.skew, belief.mass)
