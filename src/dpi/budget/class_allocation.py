"""Budgets for the classes of a clocked ledger, and the snapshots that hold their bounds.

**Guarantee.** What a slot gets is a function of its number, past budgets and past releases, fixed before the slot is
looked at. The ledger's guarantee, which holds path by path, is not touched (`dpi.budget.accounts`).

Sees released numbers; no account, no user.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpi.budget.allocation import DAMAGED, OLDER, Allocation
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import Bounds, ClassBudget, GroupBudget, PaymentRequest
from dpi.budget.epsilon import Epsilon
from dpi.errors import ClockError, OptionError, StateError
from dpi.noise import RandomSource

_RULE = "classes"
_LAST = 16
"""Snapshots that are read once, however often a slot asks: those of the last slots, which are public texts."""


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

    def draw_classes(self, slot: int, asked: PaymentRequest) -> Epsilon:
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
