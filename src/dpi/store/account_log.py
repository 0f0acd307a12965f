"""The ledger on disk: a log of runs of changed accounts.

Accounts are not rows. A debit appends one run of changed accounts (36 bytes each) to a log; runs of similar size are
merged, so that a ledger of n accounts has O(log n) runs and an account is written O(log n) times. Where the runs are is
the store's layout: rows of the database (`dpi.store.embedded_log`), or files by bucket (`dpi.store.bucket_log`).

Every run is sealed with the ledger's key, and the ledger is sealed over its options, the list of its runs and its
levies. So a flipped bit is found, and so is a run that was dropped, moved to another ledger or put back: each of them
would refill accounts.

What accounts have paid in a stream that measures by class, and how often, is a log of the same kind, named by the
stream: a payment appends to both in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpi.errors import StateError
from dpi.store.base import Levy
from dpi.store.engine import Engine
from dpi.store.runs import Run


def is_payments(ledger: str) -> bool:
    """Whether a log holds a stream's payments: no ledger has such a name (`stream …`, or none)."""
    return ledger.startswith(payments_log(""))


def payments_log(stream: str) -> str:
    """The name of the log of a stream's payments."""
    return f"payments {stream}"


@dataclass(frozen=True, eq=False, repr=False)
class AccountLog(ABC):
    """The accounts of a store's ledgers; who calls what writes has begun a transaction."""

    engine: Engine
    key: bytes

    @abstractmethod
    def parts(self, ledger: str) -> Iterator[bytes]:
        """Records of accounts in the order of the log, a part of the accounts at a time: no account is in two parts."""

    @abstractmethod
    def append(self, ledger: str, charge: bytes, pages: Sequence[Run] = ()) -> None:
        """Add a run; merge it with those before it that are not much larger.

        `pages` are files that were written with it, where the ledger is in pages.
        """

    def append_each(self, ledger: str, charges: Iterable[bytes]) -> None:
        """Add several runs, of different accounts."""
        for charge in charges:
            if charge:
                self.append(ledger, charge)

    @abstractmethod
    def clear(self, ledger: str) -> None:
        """Forget all runs of a log, which is laid out anew."""

    @abstractmethod
    def _listed(self, ledger: str) -> object:
        """The list of runs, as the seal has it."""

    def begin(self, ledger: str, options: str) -> None:
        """Open a ledger without accounts."""
        self.engine.execute(
            "INSERT INTO ledgers (ledger, options, seal) VALUES (?, ?, ?)",
            (ledger, options, self._seal(ledger, options)),
        )

    def names(self) -> dict[str, str]:
        """All logs, those of payments too, with their options."""
        return {str(name): str(text) for name, text in self.engine.rows("SELECT ledger, options FROM ledgers")}

    def check(self, ledger: str, options: str) -> None:
        """Raise `StateError` if the list of a ledger's runs, its options or its levies are not as they were sealed."""
        rows = self.engine.rows("SELECT seal FROM ledgers WHERE ledger = ?", (ledger,))
        if not rows or bytes(rows[0][0]) != self._seal(ledger, options):
            raise StateError("the store's ledger is damaged: its seal does not match what it holds.")

    def read(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Records in the order of the log, and levies; raises `StateError` if anything is not as it was sealed."""
        self.check(ledger, options)
        return b"".join(self.parts(ledger)), self.levies(ledger)

    def payments(self, stream: str) -> Iterator[bytes] | None:
        """The records of a stream's payments, by parts; None before the first slot that was paid by class."""
        name = payments_log(stream)
        rows = self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (name,))
        if not rows:
            return None
        self.check(name, str(rows[0][0]))
        return self.parts(name)

    def append_payments(self, stream: str, payments: bytes, pages: Sequence[Run] = ()) -> None:
        """Add a run to a stream's payments, of which there is a log even if nobody has paid."""
        self.begin_payments(stream)
        if payments:
            self.append(payments_log(stream), payments, pages)

    def begin_payments(self, stream: str) -> None:
        """Open the log of a stream's payments, if there is none."""
        name = payments_log(stream)
        if not self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (name,)):
            self.begin(name, "")

    def levies(self, ledger: str) -> list[Levy]:
        """What every account of a ledger was charged."""
        return [Levy(slot, units) for _, slot, units in self._levies(ledger)]

    def levy(self, ledger: str, entry: int, levy: Levy) -> None:
        """Charge every account of a ledger, as an entry of the chain says."""
        self.engine.execute(
            "INSERT INTO levies (ledger, entry, slot, units) VALUES (?, ?, ?, ?)",
            (ledger, entry, levy.slot, levy.units),
        )
        self.reseal(ledger)

    def _levies(self, ledger: str) -> list[tuple[int, int, int]]:
        rows = self.engine.rows("SELECT entry, slot, units FROM levies WHERE ledger = ? ORDER BY entry", (ledger,))
        return [(int(entry), int(slot), int(units)) for entry, slot, units in rows]

    def _seal(self, ledger: str, options: str) -> bytes:
        text = json.dumps([ledger, options, self._listed(ledger), self._levies(ledger)])
        return hashlib.blake2b(text.encode(), key=self.key, person=b"dpi ledger", digest_size=32).digest()

    def reseal(self, ledger: str) -> None:
        """Seal a ledger as it is now."""
        options = str(self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (ledger,))[0][0])
        self.engine.execute("UPDATE ledgers SET seal = ? WHERE ledger = ?", (self._seal(ledger, options), ledger))
