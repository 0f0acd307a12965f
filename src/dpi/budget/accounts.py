"""The ledger: every user has an account of ε, and a slot's budget need not shrink.

**Guarantee.** For every user u and every transcript of releases, Σ_t ε_t · w_{u,t} ≤ ε, where w_{u,t} is the weight
with which u's events enter slot t. If each slot's mechanism loses at most ε_t · w_{u,t} about u given the past, all
releases together, for ever, are ε-DP for u.

*Why.* A weight is floor(min(policy, remaining/ε_t) · 2^24) grains, and the debit is ceil(ε_t · grains / 2^24) units.
Since grains ≤ remaining · 2^24/ε_t, the debit is at most `remaining`, which is a whole number: no account falls below
zero (`dpi.budget.billing`, which a solver proves for all amounts). Fix a transcript: given its past, ε_t and every
*other* user's weight are the same functions of the other users' own histories, with and without u; so the likelihood
ratio of slot t is at most e^(ε_t · w_{u,t}), and the product over all slots is at most e^ε. This holds path by path,
so ε_t may be chosen from the public transcript.

With `period`, an account is refilled when the slot's number enters a new period: the guarantee is then ε *per epoch*.
Slots of one stream never go back, so an account is never charged for an epoch before the one it is in; streams that
share accounts count their slots each for itself, so they cannot share accounts with a period.

**By class** (`clocked`). A user of class m = min(payments in this stream, top) is measured in the histogram of the
group of class m, whose price is E, and in no other, with weight floor(min(1, floor(f_m · left)/E) · 2^24) grains; who
is of no due class has weight zero. The debit is ceil(E · grains / 2^24) ≤ floor(f_m · left). *Why that keeps the
promise:* class and weight are functions of the user's own account and of public numbers, so that without u every other
user is in the same class with the same weight; u moves one histogram by at most w, whose noise loses E · w, whoever
else is measured there; the rest is as above. A user whose weight is zero has not paid, and stays in their class.

With quotas (`dpi.budget.billing`) an account here is a user's sub-account: ε above is then what it holds.

On every trace, with levies, restored copies and refills, Coq proves it: `ledger_keeps_epsilon`, `proofs/Trace.v`.

What an account holds is private, and so is how many there are. Accounts are never deleted: that would be a refill.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpi.budget import billing
from dpi.budget.account_records import STANDING, Standings, concatenate, to_records
from dpi.budget.account_table import AccountPositions, AccountsByName, AccountTable, largest
from dpi.budget.charge import (
    Bill,
    Charge,
    LostSlots,
    after_payment,
    weights_by_class,
    weights_by_policy,
)
from dpi.budget.classes import GroupBudget, most_taken
from dpi.budget.epsilon import LARGEST, UNITS, Epsilon
from dpi.budget.policy import Clocked, Policy, policy_of, spend_first
from dpi.errors import BudgetExceeded, ClockError, OptionError, StateError
from dpi.events.identity import Digests, check_chain, digests
from dpi.exact.integers import GRAINS

if TYPE_CHECKING:
    import polars as pl


class Accounts:
    """The accounts of all users of a store, in memory.

    Several streams may share the accounts: then ε covers them all. A slot is paid in steps, so that a store can put
    the payment into one transaction with the noisy measurement: `bill` reads the accounts and gives every active user
    a weight; `charge` says what that changes; `apply` changes it (`debit` does both). Slots follow each other.

    >>> import polars as pl
    >>> accounts = Accounts(Epsilon.at_most("0.12"), key=bytes(32))
    >>> users = pl.Series(["ada", "bob"])
    >>> for slot in range(4):
    ...     bill = accounts.bill(users, Epsilon.at_most("0.05"), slot)
    ...     print((bill.weights / 2**24).round(3).tolist())
    ...     accounts.debit(bill)
    [1.0, 1.0]
    [1.0, 1.0]
    [0.4, 0.4]
    [0.0, 0.0]
    """

    def __init__(
        self, epsilon: Epsilon, *, key: bytes, policy: Policy = spend_first, period: int | None = None
    ) -> None:
        if epsilon.units < 1:
            raise OptionError("`epsilon` must be at least 2^-40.")
        if period is not None and (type(period) is not int or period < 1):
            raise OptionError(f"`period` must be a whole number of slots. Got {period!r}.")
        self.epsilon, self.policy, self.period = epsilon, policy, period
        self._top = policy.top if isinstance(policy, Clocked) else 0
        self._key = check_chain(key)
        self._table: AccountsByName = AccountTable()
        self._payments: dict[str, AccountsByName] = {}
        """For each stream that measures by class: what each account has spent there (`spent`), and in how many payments
        (`active`)."""
        self._begun: Callable[[str], AccountsByName] = lambda stream: AccountTable()
        """The payments of a stream that has none yet."""
        self._slots: dict[str, int] = {}
        self._levies: list[tuple[int, int]] = []
        self.assigned = 0
        self._version = object()

    def __repr__(self) -> str:
        return f"Accounts({self.epsilon!r}, policy={self.policy!r}, period={self.period})"

    def _epoch(self, slot: int) -> int:
        return 0 if self.period is None else slot // self.period

    def _standing(self, positions: AccountPositions, slot: int, table: AccountsByName | None = None) -> Standings:
        """Return what accounts hold in the epoch of `slot`: nothing is spent if they were last used in an older one."""
        standing = (self._table if table is None else table).get(positions)
        if self.period is not None:  # otherwise all there ever is is epoch 0
            standing[standing["epoch"] < self._epoch(slot)] = np.zeros((), dtype=STANDING)
            standing["epoch"] = self._epoch(slot)
        return standing

    def _payments_of(self, stream: str) -> AccountsByName:
        """Return the payments of a stream, or what they are before it has any."""
        return self._payments[stream] if stream in self._payments else self._begun(stream)

    def levy(self, units: int, slot: int) -> tuple[int, int]:
        """Charge every account, future ones included, for slots whose debits were lost; in the epoch of `slot`."""
        if units < 0:
            raise OptionError("a levy must not be negative.")
        self._levies.append((self._epoch(slot), units))
        self._version = object()
        return self._levies[-1]

    def assign(self, units: int) -> None:
        """Hold back this much of ε from every account: it is other streams' (`dpi.budget.billing`).

        Bills that were written before are no longer payable.
        """
        if not 0 <= units <= self.epsilon.units:
            raise OptionError("what is assigned must lie between 0 and ε.")
        if units != self.assigned:
            self.assigned, self._version = units, object()

    @property
    def held(self) -> Epsilon:
        """What an account holds at first: ε, less what is assigned to others. Public."""
        return Epsilon(self.epsilon.units - self.assigned)

    def _available(self, slot: int) -> int:
        """Return what an account holds at first, after levies."""
        levied = sum([units for epoch, units in self._levies if epoch >= self._epoch(slot)]) if self._levies else 0
        return billing.available(self.epsilon.units - self.assigned, levied)

    def names(self, users: pl.Series) -> Digests:
        """Return the accounts' names of canonical ids. Private."""
        return digests(users, self._key)

    def bill(
        self,
        users: pl.Series | Digests,
        epsilon: Epsilon,
        slot: int,
        *,
        share: Fraction = Fraction(1),
        whole: bool = False,
        stream: str = "",
        groups: tuple[GroupBudget, ...] = (),
    ) -> Bill:
        """Give every user of the slot a weight, by their own accounts; nothing is charged yet.

        `users` are different canonical ids, or the names of their accounts. Should two of them share an account (a
        collision of 128-bit digests), one of them gets weight zero, so that the account still pays once. `share`
        (public) is the part of what is left on an account that this slot may take: below one, nobody is silent for
        good. With `whole`, a user who cannot take part with weight one does not take part: for mechanisms whose loss
        does not shrink with the weight. With `groups`, the budgets of the classes that are due, users pay by class, and
        `epsilon` and `share` are theirs.
        """
        slot = operator.index(slot)
        if not isinstance(users, np.ndarray):
            if users.has_nulls():
                raise OptionError("`users` must not have missing ids.")
            users = self.names(users)
        if self.period is not None and self._slots.keys() - {stream}:
            raise OptionError("accounts with a `period` serve one stream: others would count their epochs differently.")
        if slot <= self._slots.get(stream, slot - 1):
            raise ClockError("slots are paid one after the other; this one is not after the last.")
        if not 0 < share <= 1 or share.denominator > billing.SHARE_STEPS:
            raise OptionError("`share` must be a fraction above 0 and at most 1, in steps of 2^-12.")
        highest = max([due.number for group in groups for due in group.classes], default=0)
        if groups and (not isinstance(self.policy, Clocked) or highest > self.policy.top):
            raise OptionError("classes need accounts of the policy `clocked`, and are at most its top class.")
        positions, available = self._table.find(users), self._available(slot)
        table = self._payments_of(stream) if groups else None
        in_payments = None if table is None else table.here(positions)
        grains = np.empty(len(users), dtype=np.int64)
        group_index = np.empty(len(users), dtype=np.int64) if groups else None
        for rows, here in positions.pieces():
            standing = self._standing(here, slot)
            if in_payments is not None and group_index is not None:
                payments = self._standing(in_payments.rows(rows), slot, table)["active"]
                left = billing.left(available, standing["spent"])
                grains[rows], group_index[rows] = weights_by_class(groups, left, payments, self._top)
            else:
                grains[rows] = weights_by_policy(self.policy, epsilon, share, standing, available)
        if whole:
            grains[grains < GRAINS] = 0
        grains[positions.repeated] = 0
        weights = np.empty_like(grains)
        weights[positions.order] = billing.weight(grains)
        weights.setflags(write=False)
        if group_index is not None:
            group_index[positions.order] = group_index.copy()
        return Bill(weights, epsilon, slot, stream, positions, self._version, groups, group_index, in_payments)

    def debit(self, bill: Bill) -> None:
        """Charge a bill: all of it, or nothing if it is not payable."""
        self.apply(self.charge(bill))

    def charge(self, bill: Bill) -> Charge:
        """Return what a bill changes, and change nothing yet; refuse a bill that is not payable."""
        if bill.version is not self._version:
            raise ClockError("this bill is of other accounts, or another slot was paid since; ask for a new one.")
        if bill.weights.size and not (int(bill.weights.min()) >= 0 and int(bill.weights.max()) <= GRAINS):
            raise OptionError("a bill's weights must be between 0 and 2^24 grains.")
        available, everybody = self._available(bill.slot), np.empty(bill.weights.size, dtype=np.bool_)
        worst, table = (0, 0, 0), None if bill.payments_positions is None else self._payments_of(bill.stream)
        after: list[Standings] = []
        after_payments: list[Standings] = []
        for rows, here in bill.positions.pieces():
            standing = self._standing(here, bill.slot)
            cost = billing.debit(bill.units(here.order), bill.weights[here.order])
            paying = everybody[rows] = cost > 0
            missing = np.where(paying, standing["spent"] + cost - available, 0)
            most = int(missing.argmax())
            worst = max(worst, (int(missing[most]), int(cost[most]), int(standing["spent"][most])))
            after.append(after_payment(standing, cost, paying))
            if bill.payments_positions is not None:
                payments = self._standing(bill.payments_positions.rows(rows), bill.slot, table)
                after_payments.append(after_payment(payments, cost, paying))
        if worst[0] > 0:
            _, requested, spent = worst
            raise BudgetExceeded(Fraction(requested, UNITS), Fraction(available - spent, UNITS), public=False)
        everyone = bool(everybody.all())
        positions = bill.positions if everyone else bill.positions.only(everybody)
        payments_after = None
        if (in_payments := bill.payments_positions) is not None:
            payments_after = in_payments if everyone else in_payments.only(everybody), concatenate(after_payments)
        return Charge(bill.slot, bill.stream, bill.version, positions, concatenate(after), payments_after)

    def apply(self, charge: Charge) -> None:
        """Write a charge that was made on these accounts as they are."""
        if charge.version is not self._version:
            raise ClockError("this charge is of other accounts, or another slot was paid since.")
        self._table.put(charge.positions, charge.standing)
        if charge.payments_after is not None:
            self._payments.setdefault(charge.stream, self._payments_of(charge.stream)).put(*charge.payments_after)
        self._slots[charge.stream] = charge.slot
        self._version = object()

    def remaining(self, users: pl.Series, slot: int) -> list[Fraction]:
        """Return what the named users have left in the epoch of `slot`. Private: for the curator alone."""
        positions = self._table.find(self.names(users))
        left = np.empty(positions.order.size, dtype=np.int64)
        left[positions.order] = billing.left(self._available(slot), self._standing(positions, slot)["spent"])
        return [Fraction(int(units), UNITS) for units in left]

    def holders(self, slot: int, due: int) -> tuple[int, int]:
        """Count the accounts that the epoch of `slot` has seen, and those of them with less left than `due` units.

        Private: for the curator alone.
        """
        number = short = 0
        for _, standing in self._table.parts():
            here = standing["epoch"] == self._epoch(slot)
            left = billing.left(self._available(slot), standing["spent"][here])
            number, short = number + left.size, short + int((left < due).sum())
        return number, short

    def payments(self, users: pl.Series, slot: int, stream: str = "") -> list[int]:
        """Return how often the named users have paid in a stream that measures by class. Private: for the curator."""
        table = self._payments_of(stream)
        positions = table.find(self.names(users))
        payments = np.empty(positions.order.size, dtype=np.int64)
        payments[positions.order] = self._standing(positions, slot, table)["active"]
        return [int(number) for number in payments]

    def charge_lost(self, lost: Mapping[str, LostSlots], slot: int) -> tuple[int, Iterator[bytes]]:
        """Charge everybody the most that slots which no account remembers can have cost, and change nothing yet.

        Returns the levy, which a future account is charged, and the records of the accounts there are, some at a time:
        each is charged what the slots can have taken from its own class and amount (`most_taken`), by every stream as
        if that had found all of it. Beside a levy that takes more from everybody, an account may have spent less than
        nothing.
        """
        nobody = np.empty((0, 2), dtype=np.uint64), np.empty(0, dtype=STANDING)
        levy, _ = self._charged(lost, slot, *nobody)
        return levy, (self._charged(lost, slot, *part)[1] for part in self._table.parts())

    def _charged(
        self, lost: Mapping[str, LostSlots], slot: int, names: Digests, standing: Standings
    ) -> tuple[int, bytes]:
        epoch, available = self._epoch(slot), self._available(slot)
        here = standing["epoch"] == epoch  # who was last seen in an older epoch is refilled, as if never seen
        names, standing = names[here], standing[here]
        left = billing.left(available, np.append(standing["spent"], 0))  # the last one is a future account
        taken = np.zeros_like(left)
        for stream, each in lost.items():
            if each.largest is None:
                taken += min(each.units, LARGEST)
                continue
            own = self._payments_of(stream)
            positions, payments = own.find(names), np.zeros_like(left)
            payments[positions.order] = self._standing(positions, slot, own)["active"]
            slots = [number for number in each.slots if self._epoch(number) == epoch]
            taken += most_taken(payments, left, slots, each.largest, self._top, each.restored)
        taken = np.minimum(taken, left)
        levy = int(taken[-1])
        standing["spent"] = available - levy - (left - taken)[:-1]
        return levy, to_records(names, standing)

    def resume(
        self,
        records: bytes,
        slots: dict[str, int],
        levies: list[tuple[int, int]],
        payments: Mapping[str, bytes] | None = None,
    ) -> None:
        """Continue from a store: records of charges in their order, the streams' last slots, levies, and payments.

        Refuses records from before a slot that these accounts have paid for.
        """
        own = {stream: AccountTable.from_bytes(table) for stream, table in (payments or {}).items()}
        self.resume_tables(AccountTable.from_bytes(records), own, slots, levies)

    def resume_tables(
        self,
        table: AccountsByName,
        payments: Mapping[str, AccountsByName],
        slots: dict[str, int],
        levies: list[tuple[int, int]],
        begun: Callable[[str], AccountsByName] = lambda stream: AccountTable(),
    ) -> None:
        """Resume accounts that are read when they are needed (`resume`); `begun` is a stream's table before it pays."""
        if any(slots.get(stream, last - 1) < last for stream, last in self._slots.items()):
            raise StateError("the saved ledger is older than these accounts: restoring it would refill them.")
        self._table, self._payments, self._begun = table, dict(payments), begun
        self._slots, self._levies = slots, levies
        self._version = object()

    @classmethod
    def of_description(cls, text: str, key: bytes) -> Accounts:
        """Return accounts that read what a ledger of this description holds; what they would pay may be another."""
        stated = json.loads(text)
        policy = policy_of(stated["policy"])
        return cls(Epsilon(stated["epsilon"]), key=key, policy=policy, period=stated["period"])

    @property
    def within(self) -> bool:
        """Return whether no account has spent more than it held: what the curator checks. Private."""
        return largest(self._table) <= self.held.units

    @property
    def description(self) -> str:
        """ε, policy and period as text: a store continues accounts of the same description only."""
        stated = {"epsilon": self.epsilon.units, "period": self.period, "policy": self.policy.description}
        return json.dumps(stated)
