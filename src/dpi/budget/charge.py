"""What a slot makes of accounts: users' weights, the bill that they are about to pay, and what that changes.

**Guarantee.** A weight is a function of the user's own account, of public budgets, and of nothing else; what it costs
is at most what is left (`dpi.budget.billing`, where the rounding is proved). No bill is refused:
`no_bill_is_refused`, `proofs/Trace.v`.

Sees what accounts hold; no id. Private.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.budget.account_records import Standings, select, to_records
from dpi.budget.account_table import AccountPositions
from dpi.budget.billing import affordable, left, part, parts
from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import Epsilon
from dpi.budget.policy import Policy
from dpi.exact.integers import GRAINS, Integers


def weights_by_policy(
    policy: Policy, epsilon: Epsilon, share: Fraction, standing: Standings, available: int
) -> Integers:
    """Return the weight of each user, in grains: the policy's, as far as the account can pay it."""
    if epsilon.units == 0:
        return np.zeros(standing.size, dtype=np.int64)
    grains = policy.grains(standing["active"].astype(np.int64))
    limit = part(left(available, standing["spent"]), share)
    short = np.flatnonzero(limit < epsilon.units)
    grains[short] = affordable(grains[short], limit[short], epsilon.units)
    return grains


def weights_by_class(
    groups: tuple[GroupBudget, ...], left: Integers, paid: npt.NDArray[np.uint32], top: int
) -> tuple[Integers, Integers]:
    """Return each user's weight, and the number of the group that has their class, by how often they have paid.

    A class is asked for a share of what is left, and its users weigh what they can pay of the group's price.
    """
    table = np.array([[1], [0], [0]]).repeat(top + 1, axis=1)  # nothing is asked of a class that is not due
    for number, group in enumerate(groups):
        for due in group.classes:
            table[:, due.number] = group.epsilon.units, due.steps, number
    prices, steps, group_index = table[:, np.minimum(paid.astype(np.int64), top)]
    limit = parts(left, steps)
    grains = np.where(limit > 0, GRAINS, 0)
    short = np.flatnonzero((limit > 0) & (limit < prices))
    grains[short] = affordable(grains[short], limit[short], prices[short])
    return grains, group_index


def after_payment(standing: Standings, cost: Integers, paying: npt.NDArray[np.bool_]) -> Standings:
    """Return what those who pay hold afterwards."""
    standing["spent"] += cost
    standing["active"] += 1
    return standing if paying.all() else select(standing, paying)


@dataclass(frozen=True, eq=False)
class Bill:
    """What the users of one slot are about to pay: private, and not yet paid."""

    weights: Integers = field(repr=False)
    epsilon: Epsilon
    slot: int
    stream: str
    positions: AccountPositions = field(repr=False)
    version: object = field(repr=False)
    """The state of the accounts that this bill was written on."""
    groups: tuple[GroupBudget, ...] = field(default=(), repr=False)
    """With classes: the budgets of the groups in which the classes that are due are measured."""
    group_index: Integers | None = field(default=None, repr=False)
    """With classes: the group of each user; 0 for one who is in none, and has weight zero."""
    payments_positions: AccountPositions | None = field(default=None, repr=False)
    """Those of the users in the stream's own table of payments."""

    def units(self, users: Integers) -> int | Integers:
        """Return what weight one costs, in units: the same for all, or for each of some users by their group."""
        if self.group_index is None:
            return self.epsilon.units
        return np.array([group.epsilon.units for group in self.groups])[self.group_index[users]]


@dataclass(frozen=True, eq=False, repr=False)
class Charge:
    """What a bill changes: the accounts that pay, and what they hold afterwards. Private."""

    slot: int
    stream: str
    version: object
    """The state of the accounts that it changes."""
    positions: AccountPositions
    standing: Standings
    payments_after: tuple[AccountPositions, Standings] | None = None
    """With classes: what the stream's own table of payments holds afterwards."""

    def records(self) -> bytes:
        """Encode the changed accounts, for a store."""
        return to_records(self.positions.names, self.standing)

    def payments(self) -> bytes:
        """Encode what changes in the stream's own table of payments, for a store."""
        if self.payments_after is None:
            return b""
        positions, standing = self.payments_after
        return to_records(positions.names, standing)


@dataclass(frozen=True)
class LostSlots:
    """Slots of one stream whose payments no account remembers: public."""

    slots: range
    units: int
    """What they have cost together, where users are not measured by class."""
    largest: tuple[int, ...] | None = None
    """With classes: the largest share of what is left that each was asked for, in steps."""
    restored: tuple[int, ...] = ()
    """The slots among these after which an old copy of the accounts went on before."""
