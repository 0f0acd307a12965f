"""Budgets that are saved up in most slots and spent in the others, as often as the tracked drift allows.

**Guarantee.** What a slot gets is a function of its number, past budgets and past releases, fixed before the slot is
looked at. The ledger's guarantee, which holds path by path, is not touched (`dpi.budget.accounts`).

Sees released numbers; no account, no user.
"""

from __future__ import annotations

from dpi.budget.allocation import DAMAGED, SPREAD, Allocation, not_before
from dpi.budget.epsilon import Amount, Epsilon
from dpi.errors import StateError
from dpi.noise import RandomSource

SHORTEST, LONGEST = 2, 3
"""For how many slots is saved at least, and at most. Tracked drifts are up to twice too large or too small, so that m*
up to five was worse than equal budgets on one of two seeds of a stream of 20 bins (docs/research-log.md)."""
BEGINNING = 15
"""Slots that spend what they save: without them the first 60 slots of 20 bins were 40 % worse."""
JUMPED = 0.5
"""A drift from which on a stream has jumped."""


class Saving(Allocation):
    """Saves in most slots, and spends what is saved in the others: in as few slots as the tracked drift allows.

    Budgets add up, but the precision of a measurement grows with the square of its budget: what is spent in every m-th
    slot says more than the same in all of them, until the stream has moved too far in between. With q the square of
    the step by which a log-probability moves in a slot, b = 1/ε the noise, λ the users in a bin that matters and
    i = λ²/(2b² + λ) what one slot tells, the variance of a tracker is about √(q/(m·i)) + q·(m - 1)/2, which is least
    at m* = (q·i)^(-1/3).

    *The rule.* Every slot saves `per_slot`. If the last slot that spent all was m slots ago or more, this one spends
    all that is saved; any other spends the part `SPREAD` of `per_slot`. m is m* rounded, between `SHORTEST` and
    `LONGEST`, and computed anew after every release. It is one in the first slots, whose releases know little yet;
    where no drift is tracked; and after a jump, which a mechanism tells as a drift of one: what was saved is then spent
    at once. After t slots at most t · `per_slot` is spent, because a slot spends from what was saved.

    >>> from dpi.noise import SystemSource
    >>> saving, spent = Saving(0.05, Epsilon.at_most(1)), []
    >>> for _ in range(22):
    ...     spent.append(round(float(saving.draw(SystemSource())), 6))
    ...     saving.observe(users=50_000.0, bins=200.0, drift=0.01)
    >>> spent[14:]
    [0.05, 0.015, 0.015, 0.12, 0.015, 0.015, 0.12, 0.015]
    """

    def __init__(self, per_slot: Amount, largest: Epsilon) -> None:
        self._mean, self._largest = Epsilon.at_most(per_slot, "per_slot"), largest
        self._drawn = self._saved = self._waited = 0
        self._wanted = 1
        self.description = f"saving {self._mean.units} {largest.units}"

    def draw(self, source: RandomSource) -> Epsilon:
        """Return all that is saved, if enough slots have saved for it; a part of what a slot saves otherwise."""
        self._drawn, self._saved = self._drawn + 1, self._saved + self._mean.units
        units = min(self._saved, self._largest.units)
        if self._waited + 1 < self._wanted:
            units = min(units, int(self._mean.units * SPREAD))
            self._waited += 1
        else:
            self._waited = 0
        self._saved -= units
        return Epsilon(units)

    def observe(self, users: float, bins: float, drift: float | None = None) -> None:
        """Choose for how many slots to save from now on."""
        level, epsilon = max(users, 0.0) / bins, float(self._mean)
        told = (level * epsilon) ** 2 / (2 + level * epsilon**2)
        if drift is None or drift >= JUMPED or self._drawn < BEGINNING:
            self._wanted = 1
        else:
            best = max(drift**2 * told, LONGEST**-3.0) ** (-1 / 3)
            self._wanted = max(SHORTEST, round(best))

    def _state(self) -> object:
        return [self._drawn, self._saved, self._waited, self._wanted]

    def _resume(self, state: object) -> None:
        match state:
            case [int(drawn), int(saved), int(waited), int(wanted)] if min(drawn, saved, waited) >= 0 < wanted:
                self._drawn = not_before(drawn, self._drawn)
                self._saved, self._waited, self._wanted = saved, waited, wanted
            case _:
                raise StateError(DAMAGED)
