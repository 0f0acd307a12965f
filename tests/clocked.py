"""Clocked accounts in a few lines: shares for the classes that are due, slots that are billed and paid; mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import polars as pl
from hypothesis import strategies as st

from dpi.budget import Accounts, Epsilon, clocked
from dpi.budget.adaptive_allocation import ClassAllocation
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.classes import level
from dpi.budget.epsilon import UNITS
from dpi.testing.class_sums import ClassSums

KEY = bytes(range(32))
TOP = 4
ONE = Epsilon(UNITS)
FIRST, LATER = Fraction(1, 2), Fraction(1, 4)

steps = st.integers(1, SHARE_STEPS)
"""A share in steps of 2^-12."""
users = st.sets(st.integers(0, 6))
histories = st.lists(st.tuples(users, st.lists(steps, min_size=TOP + 1, max_size=TOP + 1)), min_size=1, max_size=30)
"""For each slot: who is there, and the share that each class would be asked for."""


def due_shares(slot, top=TOP, chosen=None):
    """The shares of the classes that are due: half for newcomers and a quarter for others, or the chosen steps."""
    due = range(level(slot, top) + 1)
    if chosen is None:
        return tuple(LATER if m else FIRST for m in due)
    return tuple(Fraction(chosen[m], SHARE_STEPS) for m in due)


@dataclass(frozen=True)
class OneClass(ClassSums):
    """A mechanism that knows no classes."""

    by_class = False


class Clocked:
    """Accounts with an allocation of their own, slot after slot."""

    def __init__(self, epsilon=ONE, top=TOP, period=None, stream="", accounts=None):
        self.accounts = accounts or Accounts(epsilon, key=KEY, policy=clocked(top), period=period)
        self.allocation = ClassAllocation(self.accounts.epsilon, top, period)
        self.top, self.stream, self.slot = top, stream, 0

    def pay(self, active, chosen=None):
        """One slot: {user: (class, grains, ε of the class in units)} of those who are in a due class."""
        epsilon = self.allocation.draw_classes(self.slot, due_shares(self.slot, self.top, chosen))
        present = sorted(active)
        classes = self.allocation.classes
        series = pl.Series(present, dtype=pl.Int64)
        bill = self.accounts.bill(series, epsilon, self.slot, stream=self.stream, classes=classes)
        self.accounts.debit(bill)
        self.slot += 1
        seen = zip(present, bill.member.tolist(), bill.weights.tolist(), strict=True)
        return {user: (m, grains, classes[m].epsilon.units) for user, m, grains in seen if grains}

    @property
    def bounds(self):
        """The public bounds so far."""
        return self.allocation.bounds

    def standings(self, users):
        """For each user what is left, in units, and how often was paid: asked for together, which takes less time."""
        series = pl.Series([*users], dtype=pl.Int64)
        left = [int(amount * UNITS) for amount in self.accounts.remaining(series, self.slot)]
        return [*zip(left, self.accounts.payments(series, self.slot, self.stream), strict=True)]

    def left(self, user):
        """What a user has left, in units."""
        return self.standings([user])[0][0]

    def payments(self, user):
        """How often a user has paid."""
        return self.standings([user])[0][1]


def go_on(accounts: Accounts, before: Accounts) -> None:
    """Let accounts go on from all records of others, as from a store."""
    payments = {stream: table.to_bytes() for stream, table in before._payments.items()}
    accounts.resume(before._table.to_bytes(), dict(before._slots), list(before._levies), payments)
