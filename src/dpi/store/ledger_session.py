"""The accounts of a store while streams pay from them: between streams, which write bills, and a store of bytes.

A store object has one session, and all its streams share it, and by it one set of accounts for each ledger. A stream
with a quota has a set of its own, which a store keeps as it keeps a ledger, under `DeclaredOptions.accounts`. Here is
what they must agree on while they live: what accounts hold, whether a write was interrupted so that only the store
knows, and in which order live streams close their slots. Nothing of it is stored.

**Guarantee.** No stream pays from accounts that lack a debit which the store has: Σ_t ε_t·w_{u,t} ≤ ε, over all streams
of a ledger, also after interruptions. *Why:* a debit is in the store before it is in memory; whatever happens in
between leaves the session in doubt; and a session in doubt reads every ledger anew before any of its streams goes on. A
write that the store refuses because another process has written (`dpi.store._write_guard`) leaves it in doubt as well.

What accounts hold is private; that a session is in doubt follows from failures alone, never from what was drawn.

**The order of slots is public.** What a slot of one stream takes from an account, a slot of another that pays from it
cannot take any more. If the order followed from which stream is ready first, it would be a matter of how much data each
has, and one user's flood would change what everybody else pays where. So slots of live streams close by their closing
time, and by the name of their stream where that is the same; a later one waits. A stream with accounts of its own (a
quota, a ledger of its own, a series) waits for no other, and no other for it (`dpi.budget.billing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from dpi.budget.account_table import AccountsByName, AccountTable
from dpi.budget.accounts import Accounts
from dpi.budget.charge import Charge
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Ledger
from dpi.certificates.declared import assigned, declared
from dpi.errors import OptionError, StateError
from dpi.store.base import PaidSlot, Store


class LiveStream(Protocol):
    """A stream that is fed as events arrive."""

    @property
    def name(self) -> str:
        """Its name in the store."""

    @property
    def accounts(self) -> str | None:
        """The accounts that pay; None without any."""

    @property
    def upcoming(self) -> tuple[int, str]:
        """When its next slot closes, and its name."""


class LedgerSession:
    """The live accounts of one store object, for as long as that lives; `LedgerSession.of` gives it."""

    def __init__(self, store: Store) -> None:
        self._store = ref(store)  # whoever uses the session holds the store
        self._live: WeakValueDictionary[str, LiveStream] = WeakValueDictionary()
        self.settled = 0
        """How often all was read anew: a stream that has read before that is no longer where it thinks it is."""
        self._accounts: dict[str, Accounts] = {}
        self.in_doubt = False
        """Whether a write was interrupted, so that only the store knows what happened."""

    @classmethod
    def of(cls, store: Store) -> LedgerSession:
        """Return the one session of a store object."""
        with _OPENING:
            return _SESSIONS.setdefault(store, cls(store))

    @property
    def store(self) -> Store:
        """Where payments are kept."""
        return _store(self._store)

    def accounts(self, ledger: str, budget: Ledger, epsilon: Epsilon) -> Accounts:
        """Return the accounts of a ledger, one object for all streams that share it."""
        accounts = budget.accounts(epsilon, self.store.key)
        if ledger not in self._accounts:
            self._read(ledger, accounts)
            self._accounts[ledger] = accounts
        if self._accounts[ledger].description != accounts.description:
            raise OptionError("`epsilon`, `policy` and `period` must be those of the ledger that streams share.")
        return self._accounts[ledger]

    def pay(self, paid: PaidSlot, ledger: str | None, charge: Charge | None) -> None:
        """Keep a measurement and debit the accounts, if there are any: in the store, and then in memory."""
        with self.writing():
            self.store.pay(  # records of a large slot are much memory, so the store alone holds them
                paid,
                ledger or "",
                b"" if charge is None else charge.records(),
                None if charge is None or charge.payments_after is None else charge.payments(),
            )
            if ledger is not None and charge is not None:
                self._accounts[ledger].apply(charge)

    @property
    def in_use(self) -> bool:
        """Whether streams of this store object pay from accounts, or are fed as events arrive."""
        return bool(self._accounts or self._live)

    def join(self, stream: LiveStream) -> None:
        """From now on other live streams wait for this one, until it leaves or is gone."""
        self._live[stream.name] = stream

    def leave(self, stream: LiveStream) -> None:
        """Nobody waits for the stream any more."""
        if self._live.get(stream.name) is stream:
            del self._live[stream.name]

    def is_turn_of(self, stream: LiveStream) -> bool:
        """Whether no other live stream with these accounts has a slot that closes earlier."""
        others = [each for each in self._live.values() if each is not stream and each.accounts == stream.accounts]
        return stream.accounts is None or all(stream.upcoming < each.upcoming for each in others)

    def doubt(self, *ledgers: str | None) -> None:
        """Read anew what is in memory, before the next call: these accounts, or all, were moved or paid from."""
        self.in_doubt |= any(ledger in self._accounts for ledger in ledgers or self._accounts)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around every write: after an interruption only the store knows what happened, so the next call asks it."""
        try:
            yield
        except BaseException:
            self.in_doubt = True
            raise

    def settle(self) -> None:
        """After a write that was interrupted or refused, read what is stored, before any stream pays again.

        Streams that share the accounts keep sharing them: one that went on with accounts that lack another's debit
        would write them back, and the debit would be lost. Every stream then reads its own state anew as well.
        """
        if self.in_doubt:
            self.store.catch_up()
            for ledger, accounts in self._accounts.items():
                self._read(ledger, accounts)
            self.store.testify()
            self.in_doubt, self.settled = False, self.settled + 1

    def _read(self, ledger: str, accounts: Accounts) -> None:
        store, weak, last_paid = self.store, self._store, dict[str, int]()
        for name, options in declared(store.streams()).items():
            if options.accounts == ledger:
                pending, reached = store.pending(name), store.reached(name)
                if pending is not None:
                    last_paid[name] = pending.slot
                elif reached is not None:
                    last_paid[name] = reached[0]
        _resume(accounts, store, ledger, accounts.description, last_paid, lambda name: _store(weak).new_payments(name))


def _store(weak: ref[Store]) -> Store:
    store = weak()
    if store is None:
        raise StateError("the store of these accounts is gone.")
    return store


def stored_accounts(store: Store, ledger: str) -> Accounts:
    """Return the accounts of a ledger as a store has them: to be read, not paid from. Private."""
    options = store.ledgers()[ledger]
    accounts = Accounts.of_description(options, store.key)
    _resume(accounts, store, ledger, options, {})
    accounts.assign(assigned(ledger, declared(store.streams())))
    return accounts


def _resume(
    accounts: Accounts,
    store: Store,
    ledger: str,
    options: str,
    slots: dict[str, int],
    begun: Callable[[str], AccountsByName] | None = None,
) -> None:
    """Go on with accounts as a store has them, and with what they have paid in each stream that measures by class.

    `begun` is a stream's table before it pays, for whoever pays from them; it does not keep the store alive.
    """
    paying = begun is not None
    table, levies = store.ledger_table(ledger, options, paying=paying)
    streams = [name for name, each in declared(store.streams()).items() if each.accounts == ledger]
    tables = {name: store.payment_table(name, paying=paying) for name in streams}
    own = {name: payments for name, payments in tables.items() if payments is not None}
    accounts.resume_tables(table, own, slots, [], begun or (lambda _: AccountTable()))
    for levy in levies:
        accounts.levy(levy.units, levy.slot)


_SESSIONS: WeakKeyDictionary[Store, LedgerSession] = WeakKeyDictionary()
"""The sessions of all store objects that live."""
_OPENING = Lock()
