"""A database of which one process knows how far it has come: every write notices whether another one has written.

One process writes to a store. Should two do so nevertheless (a lock was removed, the server ended a session and gave
the right to another), each holds accounts in memory that lack the other's debits, and would write them back over them;
or both would draw the same element of a series. So every write begins with a comparison, inside its own transaction:
the head of the chain, the ledger's key, the last slot that each stream has paid for, and for a payment the seal of its
ledger must be as this process knows them. Otherwise nothing is written, and everything is read anew before the next
attempt.

Where replicas take turns (`dpi.service._leader`), each begins a *term* when it takes over: a number that grows, which
every write compares first. Who led in an earlier term is refused for good, also if nothing was written since.

**Guarantee.** Whatever writers there are, payments form one sequence, in which each was made from the accounts, the
allocation and the options that the one before it left. So Σ_t ε_t·w_{u,t} ≤ ε as with one writer. *Why:* engines run
transactions that write one after the other, and a payment changes what the next one compares.

**A refusal tells nothing.** It is decided by what stood in the store and in this process before the refused write,
never by the measurement that was drawn for it, nor by the accounts: the head and the paid slots are public and move
with every payment, whoever took part. (The seal alone would not do: a slot for which nobody pays leaves it as it was,
so that a refusal would say that somebody did.) The measurement is thrown away unseen and unpaid; what is drawn instead
is independent of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpi.budget.account_records import Buckets
from dpi.certificates.chain import Head, Link
from dpi.errors import StateError, StoreBusy
from dpi.store._engine import OTHER_WRITER, Engine
from dpi.store._paged_table import PagedTable
from dpi.store._schema import KEY, fact, fingerprint, prepare, set_fact
from dpi.store.account_log import AccountLog
from dpi.store.base import PaidSlot, Store
from dpi.store.folder import MEMORY, Folder, Layout, layout_of

TERM = "term"
"""The fact that says in which term the store is written to."""
CONFIRMED = "confirmed"
"""The fact that says how much of the chain the witness has seen."""
SUPERSEDED = "another process leads by now, so nothing was written: this one is to open the store again and wait."


@dataclass(eq=False, repr=False)
class GuardedTables(Store):
    """A database with the tables of a store, for the process that writes to it or, read-only, for any other."""

    engine: Engine
    secret: bytes | None
    memory: int = MEMORY
    """Bytes that accounts in files may take in memory."""

    def __post_init__(self) -> None:
        self.secret = prepare(self.engine, self.secret)
        # What this process knows: the end of the chain, the ledger's key, the last slot that each stream has paid for,
        # and the seals of the ledgers whose accounts are in memory.
        self._known = Head()
        self._named_by = None if self.secret is None else fingerprint(self.secret)
        self._paid: dict[str, int] = {}
        self._seals: dict[str, bytes] = {}
        self._confirmed: int | None = None
        self._term: int | None = None  # in which this process leads; None if it takes no turns with others
        self._folder: Folder | None = None
        self._tables: dict[str, PagedTable] = {}
        self._streams: dict[str, str] | None = None
        if not self.engine.read_only:
            self.catch_up()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine!r})"

    @property
    def key(self) -> bytes:
        if self.secret is None:
            raise StateError("the store was opened without its key: it can be read, not written to.")
        return self.secret

    # Where accounts are.

    @property
    def layout(self) -> Layout | None:
        return layout_of(self.engine)

    @property
    def folder(self) -> Folder | None:
        """The folder of bucket files: one object, which knows what is being written."""
        return self._folder_of(self.layout)

    def _folder_of(self, layout: Layout | None) -> Folder | None:
        if layout is None:
            return None
        if self._folder is None or (self._folder.path, self._folder.mark) != (Path(layout.path), layout.mark):
            self._folder = Folder(Path(layout.path), layout.mark)
        return self._folder

    @property
    def _accounts(self) -> AccountLog:
        layout = self.layout
        buckets = Buckets(0) if layout is None else layout.buckets
        return AccountLog(self.engine, self.key, self._folder_of(layout), buckets, self.memory, self._tables)

    def erase(self) -> None:
        """Have the engine erase what was deleted, and remove files that no list names any more."""
        self.engine.erase()
        self.remove_unlisted()

    def remove_unlisted(self) -> None:
        """Remove files in the folder that no list of the store names, and nobody of this process is writing."""
        with self.engine.turn:  # before the folder's own lock, as in a transaction that writes files
            if self.folder is not None:
                self.folder.sweep(self._own_files)

    def _own_files(self) -> set[str]:
        """Return the names of all files that the store needs, if it is as this process knows it."""
        self._compare(None)
        return self._listed_files()

    def _listed_files(self) -> set[str]:
        """Return the names of all files that the store needs."""
        rows = self.engine.rows("SELECT name FROM account_runs WHERE name <> '' UNION SELECT name FROM arrivals")
        return {str(name) for (name,) in rows}

    # Writing.

    def catch_up(self) -> None:
        """Look how far the store has come; before anything else is read anew, so that a later write is noticed.

        No ledger counts as read until it is read anew.
        Raises `StateError` if the store has gone back behind what this process knows: it would refill accounts.
        """
        with self.engine.turn:
            self._streams = None
            self._tables.clear()
            self.renew()
            paid, head = self._stored_paid(), self.head()
            rows = self.engine.rows("SELECT digest FROM chain WHERE entry = ?", (self._known.sequence,))
            holds = self._known.sequence < 0 or (bool(rows) and str(rows[0][0]) == self._known.digest)
            if not holds or any(paid.get(name, slot - 1) < slot for name, slot in self._paid.items()):
                raise StateError(
                    "the store has gone back behind what this process has written to it, as if an old copy was put in "
                    "its place: stop all processes that write to it, and put the newest copy back."
                )
            self._known, self._paid, self._seals = head, paid, {}

    @contextmanager
    def _writing(
        self, link: Link | None = None, ledger: str | None = None, paid: PaidSlot | None = None
    ) -> Iterator[None]:
        """Begin a transaction on the store as this process knows it, which then knows what it wrote.

        That is an entry of the chain, or a slot that is paid for from a ledger's accounts.
        """
        with self.engine.turn:  # another thread must not compare between a commit and what is known of it
            with self.engine.transaction():
                self._compare(ledger)
                yield
                seals = {} if ledger not in self._seals else {ledger: self._seal(ledger)}
            self._known = self._known if link is None else link.head
            self._paid = self._paid if paid is None else self._paid | {paid.stream: paid.slot}
            self._seals = self._seals | seals

    def _compare(self, ledger: str | None) -> None:
        """Raise `StoreBusy` if the store, or this ledger of it, is not as this process knows it."""
        self.renew()
        same = self._stored_head() == (self._known, self._named_by) and self._stored_paid() == self._paid
        if not same or (ledger in self._seals and self._seal(ledger) != self._seals[ledger]):
            raise StoreBusy(OTHER_WRITER)

    def _hold(self, ledger: str) -> None:
        """Know a ledger as it is; before its accounts are read, so that what another writes in between is noticed."""
        self._seals[ledger] = self._seal(ledger)

    def _seal(self, ledger: str) -> bytes:
        """Return the seal of a ledger as it is stored; none, if there is no such ledger."""
        rows = self.engine.rows("SELECT seal FROM ledgers WHERE ledger = ?", (ledger,))
        return bytes(rows[0][0]) if rows else b""

    def _stored_paid(self) -> dict[str, int]:
        """Return the last slot that each stream has paid for, as it is stored."""
        rows = self.engine.rows(
            "SELECT stream, (SELECT MAX(slot) FROM measurements WHERE measurements.stream = streams.stream) "
            "FROM (SELECT DISTINCT stream FROM streams) AS streams"
        )
        return {str(name): int(slot) for name, slot in rows if slot is not None}

    def head(self) -> Head:
        rows = self.engine.rows("SELECT entry, digest FROM chain ORDER BY entry DESC LIMIT 1")
        return Head(int(rows[0][0]), str(rows[0][1])) if rows else Head()

    def _stored_head(self) -> tuple[Head, str | None]:
        """Return the end of the chain, and the fingerprint of the key by which accounts are named."""
        rows = self.engine.rows(
            "SELECT entry, digest, (SELECT value FROM facts WHERE name = ?) FROM chain ORDER BY entry DESC LIMIT 1",
            (KEY,),
        )
        return (Head(int(rows[0][0]), str(rows[0][1])), str(rows[0][2])) if rows else (Head(), self._named_by)

    # Taking turns with others.

    def lead(self, lease: float) -> None:
        """Write from now on in a term of its own, and for as long as `renew` is called once in `lease` seconds.

        Whoever led before can write nothing any more.
        """
        self.engine.lease(lease)
        with self.engine.transaction():
            self._term = self._stored_term() + 1
            set_fact(self.engine, TERM, str(self._term))

    def renew(self) -> None:
        """Say that this process is still there; raises `StoreError` if the store is lost, or another leads."""
        if self._term is not None:
            with self.engine.turn:
                if self._stored_term() != self._term:
                    raise StoreBusy(SUPERSEDED)

    def _stored_term(self) -> int:
        return int(fact(self.engine, TERM) or 0)

    # Life.

    def snapshot(self) -> AbstractContextManager[None]:
        return self.engine.snapshot()

    @property
    def witnessed_by(self) -> str | None:
        """The name of the witness that this store is never continued without; None if it has none."""
        return fact(self.engine, "witness")

    @witnessed_by.setter
    def witnessed_by(self, name: str) -> None:
        with self._writing():
            set_fact(self.engine, "witness", name)

    @property
    def confirmed(self) -> int:
        """The last entry of the chain that the witness is known to have seen; without a witness the last of all."""
        if self.witnessed_by is None:
            return self.head().sequence
        return int(fact(self.engine, CONFIRMED) or -1)

    @confirmed.setter
    def confirmed(self, sequence: int) -> None:
        if sequence == self._confirmed:
            return
        with self._writing():
            set_fact(self.engine, CONFIRMED, str(sequence))
        self.erase()  # so that the file has it, and not its log alone
        self._confirmed = sequence

    def close(self) -> None:
        """Let go of the database and of the right to write to it."""
        self.engine.close()
