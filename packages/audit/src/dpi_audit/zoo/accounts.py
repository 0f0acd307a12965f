"""Accounts: one user with two of them, refills by a restart, an old save or a race, payments that are not charged."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dpi
from dpi.budget.account_records import to_records
from dpi.budget.account_table import AccountsByName
from dpi.budget.accounts import Accounts
from dpi.budget.allocation import Allocation, IndexSet, NearestUnused
from dpi.budget.charge import Bill, Charge, LostSlots
from dpi.budget.classes import level
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.policy import clocked
from dpi.budget.series import Series
from dpi.errors import StateError, StoreBusy
from dpi.exact.integers import Integers
from dpi.noise import RandomSource
from dpi.testing.laws import Law
from dpi_audit import neighbours
from dpi_audit.lives import KEY, SHARE, WHOLE, AccountLife, account_life, by_class, by_cost, in_groups
from dpi_audit.neighbours import Rows, staying
from dpi_audit.session import SeveralStreams, StoreFile, StreamSession, Wrap
from dpi_audit.small import EPSILON, VALUES
from dpi_audit.zoo.base import COST, EVERY, RETURNING, SLOTS, Balances, Pair, on, stream, stream_session

TYPES = neighbours.types(SLOTS, VALUES)


class _Keys(Balances):
    """A ledger whose accounts are kept by what an id looks like in Python: 7, "7" and 7.0 are three users."""

    def _name(self, row: tuple[object, object]) -> str:
        return repr(row[0])


class _Restart(StreamSession):
    """A stream that starts anew after a restart: every account is full again."""

    claimed = EPSILON

    def restart(self) -> None:
        self.stream = self._open()


class _Save(StreamSession):
    """A stream that goes back to its first save again and again: what was spent since then is spent anew."""

    claimed = EPSILON
    _saved: bytes | None = None

    def restart(self) -> None:
        """Save once; later, put the old save back."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            if self._saved is None:
                self.stream.save(path)
                self._saved = path.read_bytes()
            else:
                path.write_bytes(self._saved)
                self._put_back(path)

    def _put_back(self, path: Path) -> None:
        self.stream = self._open()
        self.stream.load(path)


class _KeptSave(_Save):
    """A stream that went on refuses its old save, and goes on."""

    def _put_back(self, path: Path) -> None:
        with contextlib.suppress(StateError):
            self.stream.load(path)


DEAR = dpi.Ledger(per_slot=COST)
DEAR_STREAM = stream(budget=DEAR)


def _two(shared: bool) -> Callable[[], SeveralStreams]:
    def open_both() -> SeveralStreams:
        store = dpi.MemoryStore() if shared else None
        return SeveralStreams([stream(budget=DEAR, store=store, name=n) for n in ("visits", "orders")], EPSILON)

    return open_both


class _Writers(SeveralStreams):
    """Two streams with one ledger in one file, each opened by a writer of its own whose lock was lost."""

    def __init__(self) -> None:
        self._file = StoreFile(self)
        super().__init__([partial(self._make, name) for name in ("visits", "orders")], EPSILON)

    def _make(self, name: str, wrap: Wrap) -> dpi.Stream:
        store = self._file.open()
        store.engine.give_up()
        return stream(budget=DEAR, store=store, name=name)(wrap)


class _StaleWriters(_Writers):
    """Each writer pays from the accounts in its own memory, and does not compare them with those that are stored."""

    def look(self, rows: Rows) -> Law:
        for store in self._file.opened:
            store._compare = lambda ledger: None  # type: ignore[method-assign]
        return super().look(rows)


class _CarefulWriters(_Writers):
    """A writer that is behind is refused, shows nothing, and reads the accounts anew."""

    def look(self, rows: Rows) -> Law:
        """Return the law of the writer whose turn it is, after it was refused: the other one has written since."""
        session = self._sessions[self._turn]
        session.look(rows)
        try:
            session.force(np.zeros(len(VALUES), dtype=np.int64))
        except StoreBusy:
            return super().look(rows)
        raise StateError("a writer that was behind has paid.")


class _Nearest(NearestUnused):
    """Forgets what it has drawn."""

    def draw(self, source: RandomSource) -> Epsilon:
        self._used = IndexSet()
        return super().draw(source)


@dataclass(frozen=True, init=False, repr=False)
class _Replaced(dpi.budget.RBA):
    """Random budget allocation by the nearest element, used or not: nothing bounds the sum."""

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        return _Nearest(series, epsilon, self.rate)


RBA = dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(4))


class _Uncharged(Accounts):
    """Accounts that do not charge for some payments, by how often the user has paid before."""

    def __init__(self, free: Callable[[Integers], npt.NDArray[np.bool_]], epsilon: Epsilon, **options: Any) -> None:
        super().__init__(epsilon, **options)
        self._free = free

    def charge(self, bill: Bill) -> Charge:
        made = super().charge(bill)
        before = self._standing(made.positions, bill.slot)
        free = self._free(before["active"].astype(np.int64))
        made.standing["spent"][free] = before["spent"][free]
        return made


class _Cheapest(Accounts):
    """Accounts that charge everybody in a shared histogram by its cheapest class, though its noise is the dearest's."""

    def charge(self, bill: Bill) -> Charge:
        cheapest = [min([due.epsilon for due in group.classes]) for group in bill.groups]
        charged = zip(bill.groups, cheapest, strict=True)
        return super().charge(replace(bill, groups=tuple([replace(group, epsilon=price) for group, price in charged])))


COSTS, CLASSES, GROUPS = partial(by_cost, 3_000), partial(by_class, 40, SHARE), partial(in_groups, 4, SHARE)
COPIED, LOST = 20, range(21, 24)
"""The slot after which accounts are copied, and those that the copy has forgotten when it goes on."""


class _Copies(AccountLife):
    """Shared histograms, and an old copy of the accounts that goes on, charged for slots that it has forgotten.

    The account alone is claimed: it must say at least what was lost, in slots that it does not remember too.
    """

    def __init__(self) -> None:
        super().__init__(self._open(), GROUPS())
        self._largest = [0] * 5

    def _open(self) -> Accounts:
        return Accounts(WHOLE, key=KEY, policy=clocked(4))

    def force(self, output: object) -> object:
        """Debit; then make the copy, or go back to it."""
        seen, due = super().force(output), self._due
        assert due is not None  # noqa: S101 - `look` has set it
        for each in [each for group in due.groups for each in group.classes]:
            self._largest[each.number] = max(self._largest[each.number], each.steps)
        if due.slot == COPIED:
            self._copy = self._continue(self._accounts)
        if due.slot == LOST[-1]:
            lost = {"": LostSlots(self._charged_for(LOST), 0, tuple(self._largest))}
            levy, records = self._copy.charge_lost(lost, due.slot)
            self._accounts = self._continue(self._copy, b"".join(records))
            self._accounts.levy(levy, due.slot)
        return seen

    def _charged_for(self, slots: range) -> range:
        """All of them."""
        return slots

    def _continue(self, before: Accounts, records: bytes = b"") -> Accounts:
        """Accounts that go on from all records of others, and further ones."""
        after, payments = self._open(), {stream: _records(table) for stream, table in before._payments.items()}
        after.resume(_records(before._table) + records, {}, list(before._levies), payments)
        return after

    @property
    def claimed(self) -> Fraction:
        """What was taken from the account."""
        return Fraction(self._taken, UNITS)


def _records(table: AccountsByName) -> bytes:
    return b"".join([to_records(*part) for part in table.parts()])


class _ByClock(_Copies):
    """Who stays is in the top class: charged only for slots of its level, though others asked it for a share too."""

    def _charged_for(self, slots: range) -> range:
        return range(0) if max([level(slot, 4) for slot in slots]) < 4 else slots


THOUSAND = staying(1_020, VALUES)
CHARGED = on(account_life(COSTS), THOUSAND)


def _life(name: str, free: Callable[[Integers], npt.NDArray[np.bool_]], slots: int) -> Pair:
    why = "what a slot takes of an account does not depend on how often it has paid (dpi.budget.charge)"
    return Pair(name, why, on(account_life(COSTS, kind=partial(_Uncharged, free)), THOUSAND.first(slots)), CHARGED)


def _high_classes(active: Integers) -> npt.NDArray[np.bool_]:
    """One stream, in which the number of payments is the class."""
    return active > 20


PAIRS = (
    Pair("a ledger that keys one user twice", "an id has one canonical encoding",
         on(_Keys, TYPES), on(stream_session(budget=DEAR), TYPES)),
    Pair("accounts refilled on restart", "accounts are state; deletion is a refill",
         on(lambda: _Restart(DEAR_STREAM, restart_every=8), EVERY),
         on(stream_session(8, budget=DEAR), EVERY, RETURNING)),
    Pair("an old save restores spent budget", "a stream does not go back behind what it has released",
         on(lambda: _Save(DEAR_STREAM, restart_every=2), EVERY),
         on(lambda: _KeptSave(DEAR_STREAM, restart_every=2), EVERY, RETURNING)),
    Pair("two streams with two silent ledgers", "ε is per store: streams share one ledger, or say that they do not",
         on(_two(shared=False), EVERY), on(_two(shared=True), EVERY)),
    _life("nothing is charged after 64 payments", lambda active: active >= 64, 80),
    _life("nothing is charged after a thousand payments", lambda active: active >= 1000, 1_020),
    _life("every hundredth payment is free", lambda active: np.equal(active % 100, 99), 120),
    Pair("nothing is charged in high classes", "every class pays its share of what is left (dpi.budget.classes)",
         on(account_life(CLASSES, clocked(40), kind=partial(_Uncharged, _high_classes)), staying(60, VALUES)),
         on(account_life(CLASSES, clocked(40)), staying(60, VALUES))),
    Pair("a shared histogram charged by its cheapest class",
         "who weighs w in a histogram pays its price times w, whatever class they are of (dpi.budget.accounts)",
         on(account_life(GROUPS, clocked(4), kind=_Cheapest), staying(60, VALUES)),
         on(account_life(GROUPS, clocked(4)), staying(60, VALUES))),
    Pair("a levy by the clock alone",
         "any class may have been due in slots that a copy has forgotten (dpi.budget.classes)",
         on(_ByClock, staying(30, VALUES)), on(_Copies, staying(30, VALUES))),
    Pair("two writers pay from stale accounts",
         "a payment compares the ledger with the one it was made from, in its own transaction",
         on(_StaleWriters, EVERY), on(_CarefulWriters, EVERY)),
    Pair("RBA with replacement", "elements are drawn once each, or their sum has no bound",
         on(stream_session(budget=dpi.Converging(dpi.budget.Zeta(2), _Replaced(4))), EVERY),
         on(stream_session(budget=RBA), EVERY)),
    Pair("RBA state refilled on restart", "the used elements are state",
         on(lambda: _Restart(stream(budget=RBA), restart_every=3), EVERY),
         on(stream_session(3, budget=RBA), EVERY)),
)  # fmt: skip
