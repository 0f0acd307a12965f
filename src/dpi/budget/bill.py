"""What the users of a slot are about to pay, and what that changes: private, and nothing is paid yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpi.budget.account_table import Place, Standings, to_records
from dpi.budget.classes import ClassBudget
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import Integers


@dataclass(frozen=True, eq=False)
class Bill:
    """What the users of one slot are about to pay: private, and not yet paid."""

    weights: Integers = field(repr=False)
    epsilon: Epsilon
    slot: int
    stream: str
    place: Place = field(repr=False)
    version: object = field(repr=False)
    """The state of the accounts that this bill was written on."""
    classes: tuple[ClassBudget, ...] = field(default=(), repr=False)
    """With classes: the budgets of those that are due …"""
    member: Integers | None = field(default=None, repr=False)
    """… and which of them each user is in; 0 for one who is in none, and has weight zero."""
    own: Place | None = field(default=None, repr=False)
    """Where the users stand in the stream's own table of payments."""

    def units(self, users: Integers) -> int | Integers:
        """What weight one costs, in units: the same for all, or for each of some users by their class."""
        if self.member is None:
            return self.epsilon.units
        return np.array([due.epsilon.units for due in self.classes])[self.member[users]]


@dataclass(frozen=True, eq=False, repr=False)
class Charge:
    """What a bill changes: the accounts that pay, and what they hold afterwards. Private."""

    slot: int
    stream: str
    version: object
    """The state of the accounts that it changes."""
    place: Place
    standing: Standings
    own: tuple[Place, Standings] | None = None
    """With classes: what the stream's own table of payments holds afterwards."""

    def records(self) -> bytes:
        """The changed accounts, for a store."""
        return to_records(self.place.names, self.standing)

    def payments(self) -> bytes:
        """What changes in the stream's own table of payments, for a store."""
        return b"" if self.own is None else to_records(self.own[0].names, self.own[1])
