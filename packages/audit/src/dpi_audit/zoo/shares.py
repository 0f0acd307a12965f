"""Shares of ε: quotas of streams, their sums and what was given before; classes of users by their payments."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from fractions import Fraction

import dpi
from dpi.budget.classes import level
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.testing.class_sums import SharedSums
from dpi.testing.laws import Joint, Laplace, Law, Point
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.session import MakeStream, SeveralStreams, StreamSession
from dpi_audit.small import EPSILON, VALUES
from dpi_audit.zoo.base import ALONE, COST, EVERY, SLOTS, Balances, Frame, Pair, on, stream, stream_session, units

LATER = SLOTS // 2
TOP = 3
OTHERS = neighbours.classes(SLOTS, VALUES)


class _Sum(Balances):
    """Two streams in turn, each with accounts of its own: three quarters of ε for each."""

    def _key(self, user: str) -> Hashable:
        return self.step % 2, user

    def _held(self) -> Fraction:
        return EPSILON * 3 / 4


class _Shrinking(_Sum):
    """Quotas that sum to one at all times, but one of them shrinks after it was spent, and the other one grows."""

    def _held(self) -> Fraction:
        return EPSILON * (3 if (self.step % 2 == 0) == (self.step < LATER) else 1) / 4


class _Rest(_Sum):
    """A quota of half of ε, given when users had paid all of it to a stream without one."""

    def _held(self) -> Fraction:
        given = EPSILON / 2 if self.step >= LATER else Fraction(0)
        return given if self.step % 2 else EPSILON - given


class _Quotas(SeveralStreams):
    """Streams with quotas in one store, for which a slot costs 0.2: a third stream of a half is refused."""

    quotas: dict[str, str | None] = {"visits": "0.5", "orders": "0.5"}  # noqa: RUF012 - constants
    changes = 0

    def __init__(self) -> None:
        self._store, self._steps = dpi.MemoryStore(), 0
        super().__init__([self._part(name, quota) for name, quota in self.quotas.items()], EPSILON)

    def _part(self, name: str, quota: str | None = None, **options: object) -> MakeStream:
        return stream(budget=dpi.Ledger(per_slot=COST, quota=quota), store=self._store, name=name, **options)

    def force(self, output: object) -> object:
        seen = super().force(output)
        if self._steps == self.changes:
            self._change()
        self._steps += 1
        return seen

    def _change(self) -> None:
        with contextlib.suppress(OptionError):
            StreamSession(self._part("clicks", "0.5"))


class _Growth(_Quotas):
    """Quotas of a half and a quarter: later the first one would shrink, which is refused, and the second grows."""

    quotas = {"visits": "0.5", "orders": "0.25"}  # noqa: RUF012 - constants
    changes = LATER - 1

    def _change(self) -> None:
        with contextlib.suppress(OptionError):
            self._sessions[0] = StreamSession(self._part("visits", "0.25", change=True))
        self._sessions[1] = StreamSession(self._part("orders", "0.5", change=True))


class _Left(_Quotas):
    """A stream without a quota, and after two slots one with what the first cannot have spent; more is refused."""

    quotas = {"visits": None}  # noqa: RUF012 - constants
    changes = 1

    def _change(self) -> None:
        with contextlib.suppress(OptionError):
            StreamSession(self._part("orders", "0.75"))
        self._sessions.append(StreamSession(self._part("orders", "0.5")))


class _Halves(Frame):
    """A clocked ledger in a few lines: who has paid m times pays half of what is left in slots of level m or more."""

    def __init__(self) -> None:
        self._left: dict[str, Fraction] = defaultdict(lambda: EPSILON)
        self._paid: dict[str, int] = defaultdict(int)

    def look(self, rows: Rows) -> Law:
        """Which classes are measured, and the noisy counts of each."""
        users = sorted({str(user) for user, _ in rows})
        member = {user: min(self._class(user, users), TOP) for user in users}
        due = self._due(self._level(users), [*member.values()])
        self._paying = [user for user in users if member[user] in due]
        counts = []
        for m in due:
            mine = {user: self._left[user] / EPSILON for user in self._paying if member[user] == m}
            counts.append(Laplace(units(tuple(row for row in rows if str(row[0]) in mine), mine), 2 * GRAINS / EPSILON))
        return Joint((Point(tuple(due)), *counts))

    def _class(self, user: str, users: Sequence[str]) -> int:
        """Return the number of the user's own payments."""
        return self._paid[user]

    def _level(self, users: Sequence[str]) -> int:
        """Return the public clock."""
        return level(self.step, TOP)

    def _due(self, highest: int, members: Sequence[int]) -> Sequence[int]:
        """All classes up to the level, whether or not somebody is there."""
        return range(highest + 1)

    def force(self, output: object) -> object:
        """Debit: half of what was left, of everybody who was measured."""
        for user in self._paying:
            self._left[user] /= 2
            self._paid[user] += 1
        return super().force(output)


class _Class(_Halves):
    """Classes by the payments of everybody who is there: one user more moves others to another histogram."""

    def _class(self, user: str, users: Sequence[str]) -> int:
        return sum(self._paid[each] for each in users) // len(users)


class _Clock(_Halves):
    """A clock that counts users instead of slots: which classes are due tells how many there were."""

    _seen = 0

    def _level(self, users: Sequence[str]) -> int:
        self._seen += len(users)
        return level(self._seen, TOP)


class _Count(_Halves):
    """Classes are due by how many users the slot itself has: what is asked is told before any noise."""

    def _level(self, users: Sequence[str]) -> int:
        return min(len(users), TOP)


class _Skip(_Halves):
    """Classes in which nobody is are not measured: that one is measured says that somebody is there."""

    def _due(self, highest: int, members: Sequence[int]) -> Sequence[int]:
        return [m for m in range(highest + 1) if m in members]


CLOCKED = stream_session(budget=dpi.Ledger(policy=dpi.budget.clocked(TOP)))
CORRECT = on(CLOCKED, EVERY, ALONE, OTHERS)
SHARED = stream_session(budget=dpi.Ledger(policy=dpi.budget.clocked(TOP)), mechanism=SharedSums())

PAIRS = (
    Pair("a class that depends on another user",
         "the class of a user is the number of their own payments (dpi.budget.accounts)",
         on(_Class, EVERY, OTHERS), CORRECT),
    Pair("a clock of payments that depends on the data",
         "the clock's level of a slot follows from its number (dpi.budget.classes)",
         on(_Clock, EVERY), CORRECT),
    Pair("classes that are due by the slot's own count",
         "which classes are due follows from the slot's number and earlier releases (dpi.budget.classes)",
         on(_Count, ALONE, OTHERS), on(SHARED, EVERY, ALONE, OTHERS)),
    Pair("classes without users are not measured",
         "every class that is due is measured, an empty one too (dpi.budget.classes)",
         on(_Skip, ALONE, OTHERS), on(_Halves, EVERY, ALONE, OTHERS)),
    Pair("quotas that sum to more than one",
         "Σ q_s ≤ 1 is checked when a stream is declared, and by whoever verifies the chain (dpi.budget.billing)",
         on(_Sum, EVERY), on(_Quotas, EVERY)),
    Pair("a quota that shrinks after it was spent",
         "a quota grows out of what no other has, and never shrinks (dpi.budget.billing)",
         on(_Shrinking, EVERY), on(_Growth, EVERY)),
    Pair("a quota of what was spent without one",
         "a quota is given of what streams without one cannot have spent (dpi.budget.billing)",
         on(_Rest, EVERY), on(_Left, EVERY)),
)  # fmt: skip
