"""How far a store had come when this process last read or wrote it: what tells that another one has written since.

One process writes to a store. Should two do so nevertheless (a lock was removed, the server ended a session and gave
the right to another), each holds accounts in memory that lack the other's debits, and would write them back over them;
or both would draw the same element of a series. So every write begins with a comparison, inside its own transaction:
the head of the chain, the last slot that each stream has paid for, and for a payment the seal of its ledger must be as
this process knows them. Otherwise nothing is written, and everything is read anew before the next attempt.

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

from dataclasses import dataclass, field

from dpi.certificates.chain import Head
from dpi.errors import StateError, StoreBusy
from dpi.store._engine import OTHER_WRITER, Engine
from dpi.store._schema import fact, set_fact

TERM = "term"
"""The fact that says in which term the store is written to."""
SUPERSEDED = "another process leads by now, so nothing was written: this one is to open the store again and wait."


@dataclass(eq=False, repr=False)
class WriteGuard:
    """What one process knows of a store that it writes to."""

    engine: Engine
    head: Head = field(default_factory=Head)
    """The end of the chain."""
    paid: dict[str, int] = field(default_factory=dict)
    """The last slot that each stream has paid for."""
    seals: dict[str, bytes] = field(default_factory=dict)
    """The seals of the ledgers whose accounts are in memory."""
    term: int | None = None
    """The term in which this process leads; None if it takes no turns with others."""

    def lead(self) -> None:
        """Begin a term, inside a transaction: whoever led before writes no more."""
        self.term = self.stored_term() + 1
        set_fact(self.engine, TERM, str(self.term))

    def compare_term(self) -> None:
        """Raise `StoreBusy` if another process leads."""
        if self.term is not None and self.stored_term() != self.term:
            raise StoreBusy(SUPERSEDED)

    def stored_term(self) -> int:
        """The term as it is stored; 0 before the first."""
        return int(fact(self.engine, TERM) or 0)

    def read(self) -> None:
        """Look how far the store has come; before anything else is read anew, so that a later write is noticed.

        No ledger counts as read until it is read anew.
        Raises `StateError` if the store has gone back behind what this process knows: it would refill accounts.
        """
        self.compare_term()
        paid, head = self.stored_paid(), self.stored_head()
        if not self._holds(self.head) or any(paid.get(name, slot - 1) < slot for name, slot in self.paid.items()):
            raise StateError(
                "the store has gone back behind what this process has written to it, as if an old copy was put in its "
                "place: stop all processes that write to it, and put the newest copy back."
            )
        self.head, self.paid, self.seals = head, paid, {}

    def compare(self, ledger: str | None) -> None:
        """Raise `StoreBusy` if the store, or this ledger of it, is not as this process knows it."""
        if self.term is not None:
            self.compare_term()
        same = self.stored_head() == self.head and self.stored_paid() == self.paid
        if not same or (ledger in self.seals and self.seal(ledger) != self.seals[ledger]):
            raise StoreBusy(OTHER_WRITER)

    def seal(self, ledger: str | None) -> bytes | None:
        """The seal of a ledger as it is stored; None if there is no such ledger."""
        rows = self.engine.rows("SELECT seal FROM ledgers WHERE ledger = ?", (ledger,))
        return bytes(rows[0][0]) if rows else None

    def stored_head(self) -> Head:
        """The end of the chain as it is stored."""
        rows = self.engine.rows("SELECT entry, digest FROM chain ORDER BY entry DESC LIMIT 1")
        return Head(int(rows[0][0]), str(rows[0][1])) if rows else Head()

    def stored_paid(self) -> dict[str, int]:
        """The last slot that each stream has paid for, as it is stored."""
        rows = self.engine.rows(
            "SELECT stream, (SELECT MAX(slot) FROM measurements WHERE measurements.stream = streams.stream) "
            "FROM (SELECT DISTINCT stream FROM streams) AS streams"
        )
        return {str(name): int(slot) for name, slot in rows if slot is not None}

    def _holds(self, head: Head) -> bool:
        rows = self.engine.rows("SELECT digest FROM chain WHERE entry = ?", (head.sequence,))
        return head.sequence < 0 or (bool(rows) and str(rows[0][0]) == head.digest)
