"""What each slot of a clocked ledger costs: a budget for every class that is due, by public shares and public bounds.

The shares f_m are the mechanism's, chosen from what it has released so far; which classes are due is the clock's. So
budgets are functions of the slot's number and the transcript: nothing is drawn, and a slot that is tried again has the
same. A snapshot holds the bounds L_m and S_m (`dpi.budget.classes`) and the budgets of the slot that was drawn last, so
that a slot that is paid for can be released from what is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpi.budget.allocation import OLDER, Allocation
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import Bounds, ClassBudget
from dpi.budget.epsilon import Epsilon
from dpi.errors import ClockError, OptionError, StateError
from dpi.noise import RandomSource

_RULE = "classes"
_DAMAGED = "the saved allocation is damaged."
_LAST = 16
"""Snapshots that are read once, however often a slot asks: those of the last slots, which are public texts."""


class ClassAllocation(Allocation):
    """Budgets for the classes of a clocked ledger.

    >>> from dpi.noise import SystemSource
    >>> allocation = ClassAllocation(Epsilon.at_most(1), top=20)
    >>> allocation.hear(1, [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4)])
    >>> allocation.draw(SystemSource()), [round(float(due.epsilon), 4) for due in allocation.classes]
    (Epsilon(0.5), [0.5, 0.125, 0.0938, 0.0703, 0.0527])
    """

    def __init__(self, epsilon: Epsilon, top: int, period: int | None = None) -> None:
        self.bounds = Bounds.initial(epsilon, top, period)
        self._heard: tuple[int, tuple[Fraction, ...]] | None = None
        self._told: tuple[Bounds, tuple[ClassBudget, ...], str] | None = None

    def hear(self, slot: int, shares: Sequence[Fraction]) -> None:
        """Hear the number of the next slot, and what share each class that is due in it is asked for."""
        self._heard = slot, tuple(shares)

    def draw(self, source: RandomSource) -> Epsilon:
        """The largest of the classes' budgets; `classes` has all of them."""
        if self._heard is None:
            raise ClockError("budgets of classes need the slot's number and shares: `hear` comes before `draw`.")
        slot, shares = self._heard
        self.bounds, self._heard = self.bounds.after(slot, shares), None
        self.classes = self.bounds.budgets(shares)
        return largest(self.classes)

    @property
    def description(self) -> str:
        """ε, the top class and, with refills, the period."""
        return _rule(self.bounds)

    def succeed(self, text: str) -> None:
        """Go on where a snapshot was taken; of accounts that held less, as their quota grew, with what was added."""
        before, here = bounds_of(text), self.bounds
        if before is not None and (before.top, before.period) == (here.top, here.period):
            self.restore(text if before.epsilon == here.epsilon else with_bounds(text, before.grown(here.epsilon)))

    def snapshot(self) -> str:
        """All that was drawn; a slot asks twice, and it is written once."""
        told = self._told
        if told is None or told[0] is not self.bounds or told[1] is not self.classes:
            told = self._told = self.bounds, self.classes, super().snapshot()
        return told[2]

    def _state(self) -> object:
        return _written(self.bounds, self.classes)

    def _resume(self, state: object) -> None:
        bounds, classes = _read(state, self.bounds)
        if not bounds.follows(self.bounds):
            raise StateError(OLDER)
        self.bounds, self.classes = bounds, classes


def largest(classes: Sequence[ClassBudget]) -> Epsilon:
    """What a slot costs at most: the largest of its classes' budgets."""
    return max(due.epsilon for due in classes)


def classes_of(snapshot: str) -> tuple[ClassBudget, ...]:
    """The budgets of the slot that a snapshot was taken for; none if its allocation knows no classes."""
    return _known(snapshot)[1]


def bounds_of(snapshot: str) -> Bounds | None:
    """The bounds in a snapshot; None if its allocation knows no classes, or there is none."""
    return _known(snapshot)[0]


@lru_cache(maxsize=_LAST)
def _known(snapshot: str) -> tuple[Bounds | None, tuple[ClassBudget, ...]]:
    saved = json.loads(snapshot) if snapshot else {}
    name, *numbers = str(saved.get("rule")).split(" ")
    if name != _RULE:
        return None, ()
    epsilon, top, *period = (int(number) for number in numbers)
    return _read(saved["state"], Bounds(epsilon, top, (), (), period=period[0] if period else None))


def with_bounds(snapshot: str, bounds: Bounds) -> str:
    """A snapshot with other bounds, after slots that no account remembers: no slot was drawn last."""
    return json.dumps({**json.loads(snapshot), "rule": _rule(bounds), "state": _written(bounds, ())})


def _rule(bounds: Bounds) -> str:
    return f"{_RULE} {bounds.epsilon} {bounds.top}" + ("" if bounds.period is None else f" {bounds.period}")


def _written(bounds: Bounds, classes: Sequence[ClassBudget]) -> dict[str, object]:
    return {
        "left": bounds.left,
        "spent": bounds.spent,
        "largest": bounds.largest,
        "epoch": bounds.epoch,
        "past": bounds.past,
        "restored": bounds.restored,
        "drawn": [[due.epsilon.units, due.steps, due.most_left] for due in classes],
    }


def _read(state: object, of: Bounds) -> tuple[Bounds, tuple[ClassBudget, ...]]:
    match state:
        case {
            "left": list(left),
            "spent": list(spent),
            "largest": list(steps),
            "drawn": list(drawn),
            "past": int(past),
            "restored": list(restored),
            "epoch": int() | None as epoch,
        }:
            pass
        case _:
            raise StateError(_DAMAGED)
    if not left or not spent or not all(type(number) is int for number in [*left, *spent, *steps, *restored]):
        raise StateError(_DAMAGED)
    try:
        classes = [ClassBudget(Epsilon(units), Fraction(share, SHARE_STEPS), most) for units, share, most in drawn]
    except (OptionError, ValueError, TypeError):
        raise StateError(_DAMAGED) from None
    public = {"left": left, "spent": spent, "largest": steps, "restored": restored}
    tuples = {name: tuple(numbers) for name, numbers in public.items()}
    bounds = replace(of, epoch=epoch, past=past, **tuples)  # type: ignore[arg-type]
    return bounds, tuple(classes)
