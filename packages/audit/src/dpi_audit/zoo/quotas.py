"""Quotas: sums of them, and what happens to what was given."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from fractions import Fraction

import dpi
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.testing.laws import Laplace, Law
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.session import MakeStream, SeveralStreams, StreamSession
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream
from dpi_audit.zoo.base import Pair, on, units

EVERY = neighbours.every_slot(SLOTS, VALUES)
COST = Fraction(1, 5)
LATER = SLOTS // 2


class BrokenSum:
    """Two streams in turn, each with accounts of its own: three quarters of ε for each."""

    def __init__(self) -> None:
        self._spent: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
        self._steps = 0

    def held(self, turn: int) -> Fraction:
        """What accounts of a stream hold."""
        return EPSILON * 3 / 4

    def look(self, rows: Rows) -> Law:
        """Weights by what is left on the accounts of the stream whose turn it is."""
        turn = self._steps % 2
        users = {str(user) for user, _ in rows}
        left = {user: max(Fraction(0), self.held(turn) - self._spent[turn, user]) for user in users}
        self._weights = {user: min(Fraction(1), each / COST) for user, each in left.items()}
        return Laplace(units(rows, self._weights), GRAINS / COST)

    def force(self, output: object) -> object:
        """Debit."""
        for user, weight in self._weights.items():
            self._spent[self._steps % 2, user] += weight * COST
        self._steps += 1
        return None

    @property
    def claimed(self) -> Fraction:
        """ε, for both."""
        return EPSILON


class BrokenShrinking(BrokenSum):
    """Quotas that sum to one at all times, but one of them shrinks after it was spent, and the other one grows."""

    def held(self, turn: int) -> Fraction:
        """Three quarters for the first one at first, then for the second."""
        return EPSILON * (3 if (turn == 0) == (self._steps < LATER) else 1) / 4


class BrokenRest(BrokenSum):
    """A quota of half of ε, given when users had paid all of it to a stream without one."""

    def held(self, turn: int) -> Fraction:
        """All for the stream without a quota, until there is one."""
        given = EPSILON / 2 if self._steps >= LATER else Fraction(0)
        return given if turn else EPSILON - given


def _part(store: dpi.MemoryStore, name: str, quota: str | None = None, **options: object) -> MakeStream:
    """A stream of a store, for which a slot costs 0.2; with a quota, or without."""
    return stream(budget=dpi.Ledger(per_slot="0.2", quota=quota), store=store, name=name, **options)


def _halves() -> SeveralStreams:
    """Two streams with quotas that sum to one; a third is refused."""
    store = dpi.MemoryStore()
    both = SeveralStreams([_part(store, name, "0.5") for name in ("visits", "orders")], EPSILON)
    with contextlib.suppress(OptionError):
        StreamSession(_part(store, "clicks", "0.5"))
    return both


class CorrectGrowth(SeveralStreams):
    """Quotas of a half and a quarter: later the first one would shrink, which is refused, and the second grows."""

    def __init__(self) -> None:
        self._store, self._steps = dpi.MemoryStore(), 0
        quotas = {"visits": "0.5", "orders": "0.25"}
        super().__init__([_part(self._store, name, quota) for name, quota in quotas.items()], EPSILON)

    def force(self, output: object) -> object:
        """Change quotas half-way."""
        seen = super().force(output)
        self._steps += 1
        if self._steps == LATER:
            with contextlib.suppress(OptionError):
                self._sessions[0] = StreamSession(_part(self._store, "visits", "0.25", change=True))
            self._sessions[1] = StreamSession(_part(self._store, "orders", "0.5", change=True))
        return seen


class CorrectRest(SeveralStreams):
    """A stream without a quota, and later one with what the first one cannot have spent; more is refused."""

    def __init__(self) -> None:
        self._store, self._steps = dpi.MemoryStore(), 0
        super().__init__([_part(self._store, "visits")], EPSILON)

    def force(self, output: object) -> object:
        """Give a quota after two slots of 0.2."""
        seen = super().force(output)
        self._steps += 1
        if self._steps == 2:
            with contextlib.suppress(OptionError):
                StreamSession(_part(self._store, "orders", "0.75"))
            self._sessions.append(StreamSession(_part(self._store, "orders", "0.5")))
        return seen


PAIRS = (
    Pair(
        "quotas that sum to more than one",
        "Σ q_s ≤ 1 is checked when a stream is declared, and by whoever verifies the chain (dpi.budget.billing)",
        on(BrokenSum, EVERY),
        on(_halves, EVERY),
    ),
    Pair(
        "a quota that shrinks after it was spent",
        "a quota grows out of what no other has, and never shrinks (dpi.budget.billing)",
        on(BrokenShrinking, EVERY),
        on(CorrectGrowth, EVERY),
    ),
    Pair(
        "a quota of what was spent without one",
        "a quota is given of what streams without one cannot have spent (dpi.budget.billing)",
        on(BrokenRest, EVERY),
        on(CorrectRest, EVERY),
    ),
)
