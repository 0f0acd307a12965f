"""Long lives: one user's hundreds and thousands of payments, set against what their own account says was paid.

An account that is debited rightly twenty times may be debited wrongly the 65th time. A transcript of 24 slots cannot
tell. Here a user pays so often that thresholds in the number of payments, in classes or in slots are crossed, and the
claim is the narrowest there is: the least of what the account says was taken from it and of what is said in public.
One payment that is not charged for is then a violation in the slot in which it happens, long before ε is exceeded.

`AccountLife` is the ledger alone, as `dpi.budget` has it: one bill and one debit a step, so that thousands of payments
take seconds. By class it goes from one slot in which the user's class is due to the next, and so reaches the top class;
or classes share histograms, and are due by another rule than the clock's.
`PaidSession` is a whole stream, with its store, for hundreds of payments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count

import numpy as np
import polars as pl

import dpi
from dpi.budget.accounts import Accounts
from dpi.budget.charge import Bill
from dpi.budget.class_allocation import ClassAllocation
from dpi.budget.classes import GroupBudget, PaymentRequest, level, next_due
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.policy import Policy, clocked, fade, spend_first
from dpi.events.identity import Digests
from dpi.testing.class_sums import ClassSums, SumsState
from dpi.testing.laws import Joint, Laplace, Law
from dpi_audit.exact import Finding, Open, worst_of
from dpi_audit.neighbours import TARGET, Rows, staying, straying
from dpi_audit.session import MakeStream, SeveralStreams, StoredSession, StreamSession
from dpi_audit.small import EPSILON, VALUES, stream

USER = pl.Series([TARGET], dtype=pl.String)
WHOLE = Epsilon.at_most(EPSILON)
KEY = bytes(range(32))
SHARE = Fraction(1, 256)
"""So small a share of what is left that thousands of payments leave something."""


@dataclass(frozen=True)
class Due:
    """What one slot of a ledger may take, and what is said in public of all that a user can have lost after it."""

    slot: int
    epsilon: Epsilon
    said: int
    """Units."""
    share: Fraction = Fraction(1)
    stream: str = ""
    groups: tuple[GroupBudget, ...] = ()


Course = Callable[[], Iterator[Due]]
"""The slots of a life, one after the other."""


def by_cost(parts: int, *, share: Fraction = Fraction(1), period: int | None = None) -> Iterator[Due]:
    """Every slot costs so small a part of ε; with `period`, all of ε can be lost in every epoch."""
    cost = Epsilon.at_most(EPSILON / parts)
    for slot in count():
        epochs, within = divmod(slot + 1, period or 1 << 62)
        yield Due(slot, cost, epochs * WHOLE.units + min(WHOLE.units, within * cost.units), share)


def by_class(top: int, share: Fraction, stream: str = "") -> Iterator[Due]:
    """From one slot to the next in which somebody who was in all of them is due, in classes up to `top`."""
    allocation, slot = ClassAllocation(WHOLE, top), -1
    for payments in count():
        slot = next_due(slot, min(payments, top))
        drawn = allocation.draw_classes(slot, tuple([((m, share),) for m in range(level(slot, top) + 1)]))
        yield Due(slot, drawn, allocation.bounds.most_spent, stream=stream, groups=allocation.groups)


def in_groups(top: int, share: Fraction) -> Iterator[Due]:
    """In turns: all classes in one histogram, for which newcomers pay most; the others apart; newcomers alone."""
    allocation, newcomers = ClassAllocation(WHOLE, top), ((0, Fraction(1, 2)),)
    others = tuple([(m, share) for m in range(1, top + 1)])
    turns: tuple[PaymentRequest, ...] = (((*newcomers, *others),), (newcomers, others), (newcomers,))
    for slot in count():
        drawn = allocation.draw_classes(slot, turns[slot % len(turns)])
        yield Due(slot, drawn, allocation.bounds.most_spent, groups=allocation.groups)


def in_turn() -> Iterator[Due]:
    """Two streams of one ledger: one by class, one with a cost."""
    said = [0, 0]
    for dues in zip(by_class(4, SHARE, "visits"), by_cost(4096), strict=True):
        for number, due in enumerate(dues):
            said[number] = due.said
            yield Due(due.slot, due.epsilon, sum(said), due.share, due.stream, due.groups)


class AccountLife:
    """The ledger alone under audit: each step bills and debits one slot, and lets out the noisy sum of its weights."""

    def __init__(self, accounts: Accounts, course: Iterator[Due]) -> None:
        self._accounts, self._course = accounts, course
        self._names: dict[frozenset[str], Digests] = {}
        self._bill: Bill | None = None
        self._due: Due | None = None
        self._past = 0

    def look(self, rows: Rows) -> Law:
        """Return the law of the weights of the slot's users, added up in each group of classes."""
        due, period = next(self._course), self._accounts.period
        if period and due.slot % period == 0:
            self._past += self._taken
        self._due = due
        self._bill = bill = self._accounts.bill(
            self._named(rows), due.epsilon, due.slot, share=due.share, stream=due.stream, groups=due.groups
        )
        if bill.group_index is None:
            return Laplace(bill.weights.sum(keepdims=True), due.epsilon.scale)
        sums = np.zeros(len(due.groups), dtype=np.int64)
        np.add.at(sums, bill.group_index, bill.weights)
        parts = zip(np.split(sums, sums.size), due.groups, strict=True)
        return Joint(tuple(Laplace(total, each.epsilon.scale) for total, each in parts))

    def _named(self, rows: Rows) -> Digests:
        """Return the names of the slot's accounts; making them takes longer than paying."""
        users = frozenset(str(user) for user, _ in rows)
        if users not in self._names:
            self._names[users] = self._accounts.names(pl.Series(sorted(users), dtype=pl.String))
        return self._names[users]

    def force(self, output: object) -> object:
        """Debit; nothing is seen besides."""
        assert self._bill is not None  # noqa: S101 - `look` has written it
        self._accounts.debit(self._bill)
        return None

    @property
    def _taken(self) -> int:
        """What was taken from the user's account in the epoch of the last slot, in units."""
        return 0 if self._due is None else WHOLE.units - _left(self._accounts, self._due.slot)

    @property
    def claimed(self) -> Fraction:
        """The least of what was taken from the account and what is said in public."""
        said = 0 if self._due is None else self._due.said
        return Fraction(min(self._past + self._taken, said), UNITS)


@dataclass(frozen=True)
class SparingGroup(ClassSums):
    """Sums of all classes in one histogram, each asked for so small a share."""

    def request_payments(self, state: SumsState, slot: int) -> PaymentRequest:
        """Return one group."""
        return (tuple([(m, SHARE) for m in range(state.classes)]),)


@dataclass(frozen=True)
class SparingSums(ClassSums):
    """Sums by class that ask every class for so small a share."""

    def request_payments(self, state: SumsState, slot: int) -> PaymentRequest:
        """Return the same for all that are due."""
        return tuple([((m, SHARE),) for m in range(level(slot, state.classes - 1) + 1)])


class PaidSession(StreamSession):
    """A stream under audit that admits to no more than what the user's own account has paid."""

    _taken = 0

    def force(self, output: object) -> str:
        """Return the release; what the account has less afterwards, over a restart too, was taken from it."""
        slot = self._slots
        before = self._left(slot)
        seen = super().force(output)
        self._taken += before - self._left(slot)
        return seen

    def _left(self, slot: int) -> int:
        accounts = self.stream._accounts
        return 0 if accounts is None else _left(accounts, slot)

    @property
    def claimed(self) -> Fraction:
        """The least of what the account has paid and what the certificate says; without accounts, the latter."""
        said = super().claimed
        return said if self.stream._accounts is None else min(said, Fraction(self._taken, UNITS))


class StoredPaidSession(PaidSession, StoredSession):
    """The same in a store on disk."""


class PaidStreams(SeveralStreams):
    """Streams that take turns, and admit together to no more than what the user's own accounts have paid."""

    session = PaidSession

    @property
    def claimed(self) -> Fraction:
        """The sum over the streams."""
        return sum((session.claimed for session in self._sessions), Fraction(0))


def _left(accounts: Accounts, slot: int) -> int:
    """Return what the user has left, in units."""
    (left,) = accounts.remaining(USER, slot)
    return int(left * UNITS)


@dataclass(frozen=True)
class Life:
    """A budget under which one user pays for long: how to open it, and for how many slots in the two forms."""

    name: str
    open: Open
    slots: int
    quick: int

    def worst(self, quick: bool) -> Finding:
        """Return the worst finding for a user who stays and, in the whole form, for one who comes and goes."""
        slots, families = (self.quick, (staying,)) if quick else (self.slots, (staying, straying))
        return worst_of(self.open, [family(slots, VALUES) for family in families], both=False)


def account_life(
    course: Course, policy: Policy = spend_first, *, period: int | None = None, kind: Callable[..., Accounts] = Accounts
) -> Open:
    """Return how to open sessions of a ledger alone; `kind` is for twins that are broken."""
    return lambda: AccountLife(kind(WHOLE, key=KEY, policy=policy, period=period), course())


def _ledger(name: str, life: Open, slots: int = 3_500, quick: int = 1_100) -> Life:
    return Life(f"thousands of payments, {name}", life, slots, quick)


def _stream(name: str, life: Open) -> Life:
    return Life(f"hundreds of payments, {name}", life, 400, 150)


def _paid(budget: dpi.Ledger | dpi.Converging, mechanism: ClassSums = SparingSums()) -> Open:  # noqa: B008 - frozen
    return lambda: PaidSession(stream(budget=budget, mechanism=mechanism))


def _on_disk() -> StoredPaidSession:
    options = {"budget": dpi.Ledger(per_slot=EPSILON / 128), "mechanism": SparingSums()}
    return StoredPaidSession(lambda store: stream(store=store, **options), restart_every=40)


def _quotas() -> PaidStreams:
    store = dpi.MemoryStore(secret=KEY, history=1)

    def make(name: str, quota: str | None) -> MakeStream:
        ledger = dpi.Ledger(per_slot=EPSILON / 256, quota=quota)
        return stream(budget=ledger, mechanism=SparingSums(), store=store, name=name)

    return PaidStreams([make("visits", "0.125"), make("rest", None)], EPSILON)


LIVES: tuple[Life, ...] = (
    _ledger("a 3,000th of ε a slot", account_life(partial(by_cost, 3_000))),
    _ledger("a share of what is left", account_life(partial(by_cost, 100, share=SHARE))),
    _ledger("weights that fade", account_life(partial(by_cost, 2), fade(dpi.budget.LogSquared()))),
    _ledger("refilled every 400 slots", account_life(partial(by_cost, 300, period=400), period=400)),
    _ledger("by class", account_life(partial(by_class, 4, SHARE), clocked(4))),
    _ledger("by 40 classes", account_life(partial(by_class, 40, Fraction(1, 16)), clocked(40)), 400, 120),
    _ledger("by class, in shared histograms", account_life(partial(in_groups, 4, SHARE), clocked(4))),
    _ledger("a stream by class and one with a cost", account_life(in_turn, clocked(4))),
    _stream("ledger, a 128th of ε a slot", _paid(dpi.Ledger(per_slot=EPSILON / 128))),
    _stream("clocked ledger", _paid(dpi.Ledger(policy=clocked(1)))),
    _stream("clocked ledger, shared histograms", _paid(dpi.Ledger(policy=clocked(4)), SparingGroup())),
    _stream("Zeta(2) in order", _paid(dpi.Converging(dpi.budget.Zeta(2)))),
    _stream("in a store on disk, reopened after every 40 slots", _on_disk),
    _stream("a stream with a quota and one without", _quotas),
)
