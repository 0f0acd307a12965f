"""A budget per slot chosen from the public transcript: enough signal for a typical bin, more where spending is free.

How much a slot should spend depends on how often users come back, which is private. What is public are the past
budgets and the past releases; so the choice uses only those, and the ledger's guarantee, which holds path by path, is
not touched (see `dpi.budget.accounts`).

*The rule.* The first slot spends a quarter of ε. Let u be the estimated paying users (smoothed over slots) and B =
e^H the number of bins that matter in the last release (H its entropy, at least an eighth of all bins). The next slot
spends

    ε_t = g · 25 · B / u,  between ε/40 and ε,

so that a typical bin gets a signal of g·25 times the noise. The gain g starts at 1. Once Σ ε_s ≥ ε, users who were
there from the start have nothing left, so the number of paying users tells whether there are newcomers: while it
stays at 95 % of its highest, log g rises; while it falls below, log g falls again. A slot takes at most the share 1 -
0.3/g of what is left on an account: where users come back, everybody keeps something for later; where they do not,
all of it is used.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpi.budget.allocation import Allocation, not_before
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.errors import StateError
from dpi.noise import RandomSource

FIRST = 0.25
SMALLEST = 0.025
SIGNAL = 25.0
FEWEST_BINS = 0.125
SMOOTHING = 0.5
STEADY = 0.95
RATE = 2.0
LARGEST_LOG_GAIN = 6.0
RESERVE = 0.3
_STEPS = 1 << 12


class Auto(Allocation):
    """Chooses ε_t from past budgets and releases.

    >>> from dpi.noise import SystemSource
    >>> auto = Auto(Epsilon.at_most(2), bins=100)
    >>> auto.draw(SystemSource())
    Epsilon(0.5)
    >>> auto.observe(users=100_000.0, bins=80.0)
    >>> auto.draw(SystemSource())
    Epsilon(0.05)
    """

    def __init__(self, epsilon: Epsilon, bins: int) -> None:
        self._epsilon, self._bins = epsilon, bins
        self._total = float(epsilon)
        self._next = FIRST * self._total
        self._users: float | None = None
        self._highest = self._spent = self._log_gain = 0.0

    def draw(self, source: RandomSource) -> Epsilon:
        """The budget that the transcript so far asks for."""
        units = min(self._epsilon.units, max(1, int(self._next * UNITS)))
        self.share = self._share()
        return Epsilon(units)

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

    @property
    def description(self) -> str:
        """The total and the bins."""
        return f"auto {self._epsilon.units} {self._bins}"

    def _follows(self, rule: str) -> bool:
        return rule.split(" ")[0] == "auto"  # of another number of bins, or with a larger quota: it goes on

    def _state(self) -> object:
        return [self._next, self._users, self._highest, self._spent, self._log_gain]

    def _resume(self, state: object) -> None:
        try:
            following, users, highest, spent, gain = (None if x is None else float(x) for x in state)  # type: ignore[attr-defined]
        except (ValueError, TypeError):
            raise StateError("the saved allocation is damaged.") from None
        if following is None or highest is None or spent is None or gain is None or not following > 0:
            raise StateError("the saved allocation is damaged.")
        self._spent = not_before(spent, self._spent)
        self._next, self._users, self._highest, self._log_gain = following, users, highest, gain
        self.share = self._share()

    def _share(self) -> Fraction:
        reserve = RESERVE * math.exp(-self._log_gain)
        return Fraction(math.ceil((1 - reserve) * _STEPS), _STEPS)
