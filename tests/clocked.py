"""Clocked accounts in a few lines: what slots ask of classes, slots that are billed and paid; mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import polars as pl
from hypothesis import strategies as st

from dpi.budget import Accounts, Epsilon, clocked
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.class_allocation import ClassAllocation
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


def divide(chosen):
    """What a slot asks: of each class the steps of its share, in the group of its name; below 0 it is not due."""
    groups = {}
    for m, (number, name) in enumerate(chosen):
        if m == 0 or name >= 0:
            groups.setdefault(name, []).append((m, Fraction(number, SHARE_STEPS)))
    return tuple(map(tuple, groups.values()))


divisions = st.lists(st.tuples(steps, st.integers(-1, 2)), min_size=TOP + 1, max_size=TOP + 1).map(divide)
histories = st.lists(st.tuples(users, divisions), min_size=1, max_size=30)
"""For each slot: who is there, and what it asks of which classes in which groups."""


def separate(shares):
    """What a slot asks of the classes 0, 1, … with a histogram for each."""
    return tuple(((m, share),) for m, share in enumerate(shares))


def by_clock(slot, top=TOP, first=FIRST, later=LATER):
    """What a slot asks of the classes that are due by the clock: half of newcomers and a quarter of others."""
    return separate([later if m else first for m in range(level(slot, top) + 1)])


def shares_of(asked):
    """The share of each class that is due."""
    return {m: share for group in asked for m, share in group}


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

    def pay(self, active, asked=None):
        """One slot: {user: (group, grains, price in units)} of those in a due class; the clock's by default."""
        epsilon = self.allocation.draw_classes(self.slot, asked or by_clock(self.slot, self.top))
        present = sorted(active)
        groups = self.allocation.groups
        series = pl.Series(present, dtype=pl.Int64)
        bill = self.accounts.bill(series, epsilon, self.slot, stream=self.stream, groups=groups)
        self.accounts.debit(bill)
        self.slot += 1
        seen = zip(present, bill.group_index.tolist(), bill.weights.tolist(), strict=True)
        return {user: (row, grains, groups[row].epsilon.units) for user, row, grains in seen if grains}

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
