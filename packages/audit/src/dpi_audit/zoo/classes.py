"""Classes of users by their payments: what decides them, and which are measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import dpi
from dpi.budget.classes import level
from dpi.exact.integers import GRAINS
from dpi.testing.class_sums import ClassSums
from dpi.testing.laws import Joint, Laplace, Law, Point
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream_session
from dpi_audit.zoo.base import Pair, on, units

TOP = 3
EVERY = neighbours.every_slot(SLOTS, VALUES)
ALONE = neighbours.alone(SLOTS, VALUES)
OTHERS = neighbours.classes(SLOTS, VALUES)


class Halves:
    """A clocked ledger in a few lines: who has paid m times pays half of what is left in slots of level m or more."""

    def __init__(self) -> None:
        self._left: dict[str, Fraction] = defaultdict(lambda: EPSILON)
        self._paid: dict[str, int] = defaultdict(int)
        self._slot = 0

    def look(self, rows: Rows) -> Law:
        """Which classes are measured, and the noisy counts of each."""
        users = sorted({str(user) for user, _ in rows})
        member = {user: min(self._class(user, users), TOP) for user in users}
        due = self._due(self._level(users), [*member.values()])
        self._paying = [user for user in users if member[user] in due]
        scale = GRAINS / (EPSILON / 2)
        counts = []
        for m in due:
            mine = {user: self._left[user] / EPSILON for user in self._paying if member[user] == m}
            counts.append(Laplace(units(tuple(row for row in rows if str(row[0]) in mine), mine), scale))
        return Joint((Point(tuple(due)), *counts))

    def _class(self, user: str, users: Sequence[str]) -> int:
        """The number of the user's own payments."""
        return self._paid[user]

    def _level(self, users: Sequence[str]) -> int:
        """The public clock."""
        return level(self._slot, TOP)

    def _due(self, highest: int, members: Sequence[int]) -> Sequence[int]:
        """All classes up to the level, whether or not somebody is there."""
        return range(highest + 1)

    def force(self, output: object) -> object:
        """Debit: half of what was left, of everybody who was measured."""
        for user in self._paying:
            self._left[user] /= 2
            self._paid[user] += 1
        self._slot += 1
        return None

    @property
    def claimed(self) -> Fraction:
        """ε."""
        return EPSILON


class BrokenClass(Halves):
    """Classes by the payments of everybody who is there: one user more moves others to another histogram."""

    def _class(self, user: str, users: Sequence[str]) -> int:
        return sum(self._paid[each] for each in users) // len(users)


class BrokenClock(Halves):
    """A clock that counts users instead of slots: which classes are due tells how many there were."""

    _seen = 0

    def _level(self, users: Sequence[str]) -> int:
        self._seen += len(users)
        return level(self._seen, TOP)


class BrokenSkip(Halves):
    """Classes in which nobody is are not measured: that one is measured says that somebody is there."""

    def _due(self, highest: int, members: Sequence[int]) -> Sequence[int]:
        return [m for m in range(highest + 1) if m in members]


CORRECT = on(
    stream_session(budget=dpi.Ledger(policy=dpi.budget.clocked(TOP)), mechanism=ClassSums()), EVERY, ALONE, OTHERS
)

PAIRS = (
    Pair(
        "a class that depends on another user",
        "the class of a user is the number of their own payments (dpi.budget.accounts)",
        on(BrokenClass, EVERY, OTHERS),
        CORRECT,
    ),
    Pair(
        "a clock of payments that depends on the data",
        "which classes are due follows from the slot's number (dpi.budget.classes)",
        on(BrokenClock, EVERY),
        CORRECT,
    ),
    Pair(
        "classes without users are not measured",
        "every class that is due is measured, an empty one too (dpi.budget.classes)",
        on(BrokenSkip, ALONE, OTHERS),
        on(Halves, EVERY, ALONE, OTHERS),
    ),
)
