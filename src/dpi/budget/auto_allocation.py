"""Budgets that are chosen by the signal of past releases: enough for a typical bin, more where spending is free.

**Guarantee.** What a slot gets is a function of its number, past budgets and past releases, fixed before the slot is
looked at. The ledger's guarantee, which holds path by path, is not touched (`dpi.budget.accounts`).

Sees released numbers; no account, no user.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpi.budget.allocation import DAMAGED, Allocation, not_before
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.errors import StateError
from dpi.noise import RandomSource

FIRST, SMALLEST, RESERVE = 0.25, 0.025, 0.3
SIGNAL, FEWEST_BINS = 25.0, 0.125
SMOOTHING, STEADY, RATE, LARGEST_LOG_GAIN = 0.5, 0.95, 2.0, 6.0


class Auto(Allocation):
    """Chooses ε_t from past budgets and releases: enough signal for a typical bin, more where spending is free.

    How much a slot should spend depends on how often users come back, which is private; so the choice uses public
    numbers alone. *The rule.* The first slot spends a quarter of ε. Let u be the estimated paying users (smoothed over
    slots) and B = e^H the number of bins that matter in the last release (H its entropy, at least an eighth of all
    bins). The next slot spends ε_t = g · 25 · B / u, between ε/40 and ε, so that a typical bin gets a signal of g·25
    times the noise. The gain g starts at 1. Once Σ ε_s ≥ ε, users who were there from the start have nothing left, so
    the number of paying users tells whether there are newcomers: while it stays at 95 % of its highest, log g rises;
    while it falls below, log g falls again. A slot takes at most the share 1 - 0.3/g of what is left on an account:
    where users come back, everybody keeps something for later; where they do not, all of it is used.

    >>> from dpi.noise import SystemSource
    >>> auto = Auto(Epsilon.at_most(2), bins=100)
    >>> auto.draw(SystemSource())
    Epsilon(0.5)
    >>> auto.observe(users=100_000.0, bins=80.0)
    >>> auto.draw(SystemSource())
    Epsilon(0.05)
    """

    def __init__(self, epsilon: Epsilon, bins: int) -> None:
        self._epsilon, self._bins, self._total = epsilon, bins, float(epsilon)
        self._next = FIRST * self._total
        self._users: float | None = None
        self._highest = self._spent = self._log_gain = 0.0
        self.description = f"auto {epsilon.units} {bins}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return the budget that the transcript so far asks for."""
        self.share = self._share()
        return Epsilon(min(self._epsilon.units, max(1, int(self._next * UNITS))))

    def observe(self, users: float, bins: float, drift: float | None = None) -> None:
        """Move to the next slot's budget."""
        paying = min(self._next, float(self.share) * self._total) / self._next
        seen = max(users, 0.0) / paying
        self._users = seen if self._users is None else SMOOTHING * self._users + (1 - SMOOTHING) * seen
        self._highest = max(self._highest, self._users)
        if self._spent >= self._total and self._highest > 0:
            change = RATE * (self._users / self._highest - STEADY)
            self._log_gain = min(max(self._log_gain + change, 0.0), LARGEST_LOG_GAIN)
        self._spent += self._next
        wanted = math.exp(self._log_gain) * SIGNAL * max(bins, FEWEST_BINS * self._bins) / max(self._users, 1e-9)
        # What exceeds ε cannot be spent: take the gain back, or it would keep winding up.
        self._log_gain = max(0.0, self._log_gain - max(0.0, math.log(wanted / self._total)))
        self._next = min(max(wanted, SMALLEST * self._total), self._total)

    def _follows(self, rule: str) -> bool:
        return rule.split(" ")[0] == "auto"  # of another number of bins, or with a larger quota: it goes on

    def _state(self) -> object:
        return [self._next, self._users, self._highest, self._spent, self._log_gain]

    def _resume(self, state: object) -> None:
        match state:
            case [float(following), float() | None as users, float(highest), float(spent), float(gain)] if (
                following > 0
            ):
                self._spent = not_before(spent, self._spent)
                self._next, self._users, self._highest, self._log_gain = following, users, highest, gain
                self.share = self._share()
            case _:
                raise StateError(DAMAGED)

    def _share(self) -> Fraction:
        reserve = RESERVE * math.exp(-self._log_gain)
        return Fraction(math.ceil((1 - reserve) * SHARE_STEPS), SHARE_STEPS)
