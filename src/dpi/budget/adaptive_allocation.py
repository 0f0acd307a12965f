"""Budgets of a ledger's slots that follow what was released: saved up, chosen by signal, or one for every class.

**Guarantee.** What a slot gets is a function of its number, past budgets and past releases, fixed before the slot is
looked at. The ledger's guarantee, which holds path by path, is not touched (`dpi.budget.accounts`).

Sees released numbers; no account, no user.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpi.budget.allocation import DAMAGED, OLDER, SPREAD, Allocation, not_before
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import Asked, Bounds, ClassBudget, GroupBudget
from dpi.budget.epsilon import UNITS, Amount, Epsilon
from dpi.errors import ClockError, OptionError, StateError
from dpi.noise import RandomSource

SHORTEST, LONGEST = 2, 3
"""For how many slots is saved at least, and at most. Tracked drifts are up to twice too large or too small, so that m*
up to five was worse than equal budgets on one of two seeds of a stream of 20 bins (docs/research-log.md)."""
BEGINNING = 15
"""Slots that spend what they save: without them the first 60 slots of 20 bins were 40 % worse."""
JUMPED = 0.5
"""A drift from which on a stream has jumped."""
FIRST, SMALLEST, RESERVE = 0.25, 0.025, 0.3
SIGNAL, FEWEST_BINS = 25.0, 0.125
SMOOTHING, STEADY, RATE, LARGEST_LOG_GAIN = 0.5, 0.95, 2.0, 6.0
_RULE = "classes"
_LAST = 16
"""Snapshots that are read once, however often a slot asks: those of the last slots, which are public texts."""


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


class ClassAllocation(Allocation):
    """Budgets for the classes of a clocked ledger that are due, by public shares and public bounds.

    Which classes are due, their shares and their groups are the mechanism's, chosen from what it has released so far.
    Nothing is drawn, and a slot that is tried again has the same budgets. A snapshot holds the bounds L_m and S_m
    (`dpi.budget.classes`) and the budgets of the slot that was drawn last, so that a slot that is paid for can be
    released from what is stored.

    >>> allocation = ClassAllocation(Epsilon.at_most(1), top=20)
    >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
    >>> allocation.draw_classes(1, (((0, half),), ((1, quarter), (2, quarter))))
    Epsilon(0.5)
    >>> [(round(float(group.epsilon), 4), len(group.classes)) for group in allocation.groups]
    [(0.5, 1), (0.125, 2)]
    """

    def __init__(self, epsilon: Epsilon, top: int, period: int | None = None) -> None:
        self.bounds = Bounds.initial(epsilon, top, period)
        self.description = _rule(self.bounds)
        self._told: tuple[Bounds, tuple[GroupBudget, ...], str] | None = None

    def draw(self, source: RandomSource) -> Epsilon:
        """Refuse: budgets of classes depend on the slot (`draw_classes`)."""
        raise ClockError("budgets of classes need the slot's number and what it asks: `draw_classes` has both.")

    def draw_classes(self, slot: int, asked: Asked) -> Epsilon:
        """Draw the budgets of the classes due in a slot, by what it asks, as `groups`; return the largest price."""
        self.bounds, self.groups = self.bounds.draw(slot, asked)
        return max([group.epsilon for group in self.groups])

    def succeed(self, text: str) -> None:
        """Go on where a snapshot was taken; of accounts that held less, as their quota grew, with what was added.

        Bounds of another top class or period are refused: to begin anew would forget what users may have paid.
        """
        before, here = read_snapshot(text)[0], self.bounds
        if before is None:
            return
        if (before.top, before.period) != (here.top, here.period):
            raise StateError("the stored bounds are of another top class or period than the stream declares.")
        self.restore(text if before.epsilon == here.epsilon else with_bounds(text, before.grown(here.epsilon)))

    def snapshot(self) -> str:
        """Return all that was drawn; a slot asks twice, and it is written once."""
        told = self._told
        if told is None or told[0] is not self.bounds or told[1] is not self.groups:
            told = self._told = self.bounds, self.groups, super().snapshot()
        return told[2]

    def _state(self) -> object:
        return _written(self.bounds, self.groups)

    def _resume(self, state: object) -> None:
        bounds, groups = _read(state, self.bounds)
        if not bounds.follows(self.bounds):
            raise StateError(OLDER)
        self.bounds, self.groups = bounds, groups


@lru_cache(maxsize=_LAST)
def read_snapshot(snapshot: str) -> tuple[Bounds | None, tuple[GroupBudget, ...]]:
    """Return the bounds in a snapshot, and the budgets by class of the slot that it was taken for; or neither."""
    saved = json.loads(snapshot) if snapshot else {}
    name, *numbers = str(saved.get("rule")).split(" ")
    if name != _RULE:
        return None, ()
    epsilon, top, *period = map(int, numbers)
    return _read(saved["state"], Bounds(epsilon, top, (), (), period=period[0] if period else None))


def with_bounds(snapshot: str, bounds: Bounds) -> str:
    """Return a snapshot with other bounds, after slots that no account remembers: no slot was drawn last."""
    return json.dumps({**json.loads(snapshot), "rule": _rule(bounds), "state": _written(bounds, ())})


def _rule(bounds: Bounds) -> str:
    return f"{_RULE} {bounds.epsilon} {bounds.top}" + ("" if bounds.period is None else f" {bounds.period}")


def _written(bounds: Bounds, groups: Sequence[GroupBudget]) -> dict[str, object]:
    names = ("left", "spent", "largest", "epoch", "past", "restored")
    drawn = [
        [number, due.number, due.epsilon.units, due.steps, due.most_left]
        for number, group in enumerate(groups)
        for due in group.classes
    ]
    return {name: getattr(bounds, name) for name in names} | {"drawn": drawn}


def _read(state: object, of: Bounds) -> tuple[Bounds, tuple[GroupBudget, ...]]:
    match state:
        case {
            "left": [_, *_] as left,
            "spent": [_, *_] as spent,
            "largest": list(steps),
            "drawn": list(drawn),
            "past": int(past),
            "restored": list(restored),
            "epoch": int() | None as epoch,
        } if {*map(type, [*left, *spent, *steps, *restored])} == {int}:
            pass
        case _:
            raise StateError(DAMAGED)
    groups: dict[int, list[ClassBudget]] = {}
    try:
        for number, m, units, share, most in drawn:
            due = ClassBudget(m, Epsilon(units), Fraction(share, SHARE_STEPS), most)
            groups.setdefault(number, []).append(due)
    except (OptionError, ValueError, TypeError):
        raise StateError(DAMAGED) from None
    lists = {"left": left, "spent": spent, "largest": steps, "restored": restored}
    bounds = replace(of, epoch=epoch, past=past, **{name: tuple(numbers) for name, numbers in lists.items()})  # type: ignore[arg-type]
    return bounds, tuple(map(GroupBudget.of, groups.values()))
