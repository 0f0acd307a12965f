"""The boosting itself: how much each expert is believed, by the log score of its forecasts of the noisy counts.

Weights are posterior probabilities over experts that may take over from each other in any slot (fixed share: Herbster
and Warmuth 1998): a constant part of the weight flows back to the prior, so that a beaten expert can return. Beside the
experts stand a fresh start, for the slot in which everything is new, and the uniform PDF.

Sees log scores only; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.assimilation import Dispersion, Scored
from dpi.mechanism.boosted.mixture import Uniform

SHARE = 0.01
"""Weight that flows back to the prior over experts in every slot.

Source: by trial; not measured by itself.
"""

FRESH = 1e-6
"""Probability that all is new: a slot has nothing to do with its past.

Source: by trial; not measured by itself.
"""

UNIFORM_SHARE = 1e-3
"""Weight that flows back to even odds of the uniform expert and the pool.

Source: by trial; not measured by itself.
"""

BEATEN = 1e-3
"""A tracker below this weight starts again from the leader's messages.

Source: by trial; not measured by itself.
"""

HEARD = 3e-3
"""An expert below this weight has no say in the release.

Source: by trial; not measured by itself.
"""


@dataclass(frozen=True, eq=False)
class Weights:
    """Posterior weights: experts and a fresh start sum to one; the uniform expert stands against all of them."""

    experts: Floats
    fresh: float
    uniform: float
    learned: float
    """Between 0 and 1: how much the slot could say. A slot drowned in noise moves no weight back to the prior."""

    @property
    def all_new(self) -> bool:
        """Whether a fresh start is more likely than any expert."""
        return self.fresh > float(self.experts.max())

    @property
    def uniform_odds(self) -> float:
        """Log odds of the uniform expert, for the next slot."""
        return float(np.log(self.uniform / (1 - self.uniform)))

    def heard(self) -> Floats:
        """Weights in the release, of the experts and then of a fresh start: zero below `HEARD`."""
        weights = np.append(self.experts, self.fresh)
        weights[weights < HEARD] = 0
        return np.asarray(weights / weights.sum())

    def shared(self, prior: Floats) -> Floats:
        """Log weights of the experts for the next slot; what a fresh start had goes to all by the prior."""
        share = SHARE * self.learned
        flow = (1 - share) * (self.experts + self.fresh * prior) + share * prior
        return np.asarray(np.log(flow / flow.sum()))


def first(experts: int, fresh: float, uniform: Uniform) -> Weights:
    """Weights after the first slot ever: no expert knew anything, `fresh` is the log score of a fresh start."""
    return Weights(np.zeros(experts), 1.0, _against(0.0, uniform.evidence - fresh, 1.0), 1.0)


def reweigh(
    before: Floats, odds: float, scored: Sequence[Scored], uniform: Uniform, *, trust: float, learned: float
) -> Weights:
    """Bayes' rule on the log scores, raised to the power `trust`; `odds` are the log odds of uniform before the slot.

    A fresh start is scored against the best expert, and only on bins that this expert knows by data: bins that are
    known by the population look the same after everything has changed.
    """
    log = np.log((1 - FRESH) * before) + [trust * s.evidence for s in scored]
    best = scored[int(np.argmax(log))]
    log = np.append(log, np.log(FRESH) + trust * (best.evidence + best.novelty))
    top = float(log.max())
    evidence = top + float(np.log(np.exp(log - top).sum()))
    weights = np.exp(log - evidence)
    uniform_weight = _against(odds, trust * uniform.evidence - evidence, learned)
    return Weights(weights[:-1], float(weights[-1]), uniform_weight, learned)


def _against(odds: float, gain: float, learned: float) -> float:
    """The weight of uniform after a slot in which its log score was `gain` above the pool's."""
    after, share = float(np.clip(odds + gain, -700, 700)), UNIFORM_SHARE * learned
    weight = (1 - share) / (1 + float(np.exp(-after))) + share / 2
    return min(max(weight, 1e-12), 1 - 1e-12)


def starts_anew(expert: Scored) -> bool:
    """Whether a fresh start would have predicted the slot better than the expert did."""
    return float(np.log(FRESH)) + expert.novelty > 0


def dispersed(before: Dispersion, scored: Sequence[Scored], weights: Weights, uniform: Uniform) -> Dispersion:
    """The dispersion after one stochastic Newton step on the mixture's log score."""
    shares = [*((1 - weights.uniform) * weights.experts), weights.uniform]
    parts: list[Scored | Uniform] = [*scored, uniform]
    score = sum(w * part.dispersion_score for w, part in zip(shares, parts, strict=True))
    information = sum(w * part.dispersion_information for w, part in zip(shares, parts, strict=True))
    return before.stepped(float(score), float(information))
