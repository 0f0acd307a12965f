"""Bins that jump: for every bin the odds that its level has nothing to do with its past any more.

Beside the trackers, which know all of a bin's past, stands a *challenger*, which knows what was measured since the bin
may have jumped, and the log odds of that. In every slot a bin jumps with a small probability. The slot's log scores
then move the odds; where a jump in this very slot is the likeliest, the challenger starts again from the slot alone.
So a jump is found that shows in one slot, as well as one that shows only after many, and a bin that is far too small
in all trackers comes back: their log-walks would take for ever (sequential change detection, Page 1954; Bayesian with
one run length kept, Adams and MacKay 2007).

Sees log scores and messages made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.mechanism.base import Floats
from dpi.mechanism.filtering.laplace_gauss import Reals

JUMP = 1e-4
"""Probability that a bin jumps, in a slot.

Source: by trial; not measured by itself.
"""

ANEW = 1e-3
"""Probability that all of them do.

Source: by trial; not measured by itself.
"""

CERTAIN = 3.0
"""Log odds from which a bin has jumped, or all have: the trackers then forget what they knew.

Source: 95 %; until then the release is a mixture of both.
"""

SMALL = 1e-3
"""Up to here log(1 + x) is x - x²/2, up to a part of 3.4·10⁻⁷. Less than that must not be neglected: a slot has many
bins, and whoever can jump would lose to whoever cannot, a little in every slot.

Source: by calculation.
"""

LIMIT = 40.0
"""The largest log odds: a density may be 0 in floating point.

Source: by calculation; e^-40 is far below all that a slot can tell.
"""

QUIET = float(np.log(JUMP))
"""Log odds of a bin of which nothing else is known."""


def rate(probability: float, learned: float) -> float:
    """Log probability of a jump in a slot that says so much: one drowned in noise shows none, and time is not counted.

    Late slots of a converging series would otherwise make all that is known doubtful, one after the other.
    """
    return float(np.log(max(probability * learned, 1e-300)))


@dataclass(frozen=True, eq=False)
class Jumps:
    """What a slot said of the jumps of some bins."""

    before: Reals
    """Log odds of a jump, this slot's included, before the slot was looked at."""
    density: Reals
    """Log density of every count if its bin has jumped."""
    newborn: npt.NDArray[np.bool_]
    """Whether a jump in this very slot is more likely than one before."""

    @classmethod
    def of(cls, odds: Floats, challenger: Reals, fresh: Reals, rate: float) -> Jumps:
        """From the odds after the last slot, and the log densities of the challenger and of a fresh level.

        `rate` is the log odds of a jump in this slot.
        """
        single = challenger.dtype
        chance = np.exp(odds.astype(single))
        chance += single.type(np.exp(rate))  # the odds of a jump before or in this slot
        earlier, now = (odds + challenger).astype(single), (rate + fresh).astype(single)
        return cls(np.log(chance), _log_sum(earlier, now) - np.log(chance), now > earlier)

    def either(self, stays: Reals, trust: float) -> tuple[Reals, Reals]:
        """Log densities of the counts where bins may or may not have jumped; and the probabilities that they have.

        `stays` are the log densities if not, for each expert: a count may be a jump to one and no surprise to another.
        The probabilities are those after the slot, whose log scores count so much (`trust`).
        """
        odds = (self.density - stays).astype(stays.dtype)
        trusted = odds * trust
        trusted += self.before
        after = np.exp(np.maximum(np.minimum(trusted, LIMIT, out=trusted), -LIMIT, out=trusted))
        jumped = after / (after + 1)
        odds += self.before
        if trust != 1:
            after = np.exp(np.minimum(odds, LIMIT))
        either = _log_one_plus(after)
        either -= _log_one_plus(np.exp(self.before))
        either += np.maximum(np.subtract(odds, LIMIT, out=odds), 0, out=odds)
        either += stays
        return either, jumped


def _log_sum(one: Reals, other: Reals) -> Reals:
    """log(e^one + e^other)."""
    high = np.maximum(one, other)
    low = np.minimum(one, other)
    low -= high
    np.exp(low, out=low)
    low += 1
    np.log(low, out=low)
    low += high
    return low


def _log_one_plus(x: Reals) -> Reals:
    """log(1 + x) for x ≥ 0: most are so small that two terms are all there is of it."""
    near = x * -0.5
    near += 1
    near *= x
    flat, small = near.reshape(-1), x.reshape(-1)
    at = np.flatnonzero(small > SMALL)
    flat[at] = np.log1p(small[at])
    return near


def log_odds(probability: Floats) -> Floats:
    """Of a jump, for the next slot."""
    held = np.minimum(probability, 1 - 1e-16)
    return np.asarray(np.clip(np.log(held / (1 - held)), -LIMIT, LIMIT))
