"""The boosting itself: how much each expert is believed, by the log score of its forecasts of the noisy counts.

Weights are posterior probabilities over experts that may take over from each other in any slot (fixed share: Herbster
and Warmuth 1998): a constant part of the weight flows back to the prior, so that a beaten expert can return.

Sees log scores only; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpi.mechanism.base import Floats
from dpi.mechanism.boosted.jumps import CERTAIN

SHARE = 0.01
"""Weight that flows back to the prior over experts in every slot.

Source: by trial; not measured by itself.
"""

BEATEN = 1e-3
"""An expert below this weight has no say in the release, and a tracker below it starts again from the leader's
messages.

Source: by trial; not measured by itself.
"""


@dataclass(frozen=True, eq=False)
class Weights:
    """Posterior weights of the experts, with sum one."""

    experts: Floats
    restart: int
    """Which of them started again when all was new."""
    newborn: bool
    """Whether it is more likely that all is new in this slot than that all was new before."""

    @property
    def all_new(self) -> bool:
        """Whether that is certain: the trackers then forget what they knew."""
        return bool(self.experts[self.restart] > 1 / (1 + np.exp(-CERTAIN)))

    @property
    def leader(self) -> int:
        """The most likely of those that know the past, or the restart if all is new."""
        return self.restart if self.all_new else int(np.argmax(self.experts[: self.restart]))

    def heard(self) -> Floats:
        """Weights in the release: zero for those that are beaten."""
        weights = np.where(self.experts < BEATEN, 0, self.experts)
        return np.asarray(weights / weights.sum())

    def shared(self, prior: Floats, learned: float) -> Floats:
        """Log weights for the next slot; a slot drowned in noise (`learned` near 0) moves no weight to the prior.

        Where all is new the trackers have become what the restart was, and have its weight.
        """
        share, experts = SHARE * learned, self.experts.copy()
        if self.all_new:
            experts[self.restart] = 0
            experts += self.experts[self.restart] * prior
        return np.asarray(np.log(np.maximum((1 - share) * experts + share * prior, 1e-300)))


def reweigh(before: Floats, evidence: Floats, novelty: float, restart: int, rate: float, trust: float) -> Weights:
    """Bayes' rule on the log scores, raised to the power `trust`.

    `novelty` is the log score of a fresh start above the best expert's, `rate` its log probability. One that starts now
    takes the place of the old one where that is the likelier of the two.
    """
    log = np.log(before) + trust * evidence
    anew = float(rate + log.max() + trust * novelty)
    newborn = bool(anew > log[restart])
    log[restart] = np.logaddexp(log[restart], anew)
    log -= log.max()
    weights = np.exp(log)
    return Weights(np.maximum(weights / weights.sum(), 1e-300), restart, newborn)
