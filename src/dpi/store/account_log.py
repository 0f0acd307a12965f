"""The ledger on disk: a log of runs of changed accounts.

Accounts are not rows. A debit appends one run of changed accounts (36 bytes each) to a log; runs of similar size are
merged, so that a ledger of n accounts has O(log n) runs and an account is written O(log n) times.

Every part of a run is sealed with the ledger's key, and the ledger is sealed over its options, the list of its parts
and its levies. So a flipped bit is found, and so is a run that was dropped, moved to another ledger or put back: each
of them would refill accounts.

What accounts have paid in a stream that measures by class, and how often, is a log of the same kind, named by the
stream: a payment appends to both in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from dpi.budget.account_table import merged
from dpi.errors import StateError
from dpi.store.base import Levy
from dpi.store.engine import Engine

PART = 1 << 24
"""Bytes of a run that are kept in one row."""


def is_payments(ledger: str) -> bool:
    """Whether a log holds a stream's payments: no ledger has such a name (`stream …`, or none)."""
    return ledger.startswith(_payments(""))


def _payments(stream: str) -> str:
    return f"payments {stream}"


@dataclass(frozen=True, eq=False, repr=False)
class AccountLog:
    """The accounts of a store's ledgers; who calls what writes has begun a transaction."""

    engine: Engine
    key: bytes

    def begin(self, ledger: str, options: str) -> None:
        """Open a ledger without accounts."""
        self.engine.execute(
            "INSERT INTO ledgers (ledger, options, seal) VALUES (?, ?, ?)",
            (ledger, options, self._seal(ledger, options)),
        )

    def read(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Records in the order of the log, and levies; raises `StateError` if anything is not as it was sealed."""
        rows = self.engine.rows("SELECT seal FROM ledgers WHERE ledger = ?", (ledger,))
        if not rows or bytes(rows[0][0]) != self._seal(ledger, options):
            raise StateError("the store's ledger is damaged: its seal does not match what it holds.")
        records = b"".join(self._run(ledger, run) for run, _ in self._runs(ledger))
        return records, [Levy(slot, units) for _, slot, units in self._levies(ledger)]

    def append(self, ledger: str, charge: bytes) -> None:
        """Add a run; merge it with those before it that are not much larger."""
        runs = self._runs(ledger)
        number = runs[-1][0] + 1 if runs else 0
        while runs and runs[-1][1] <= 2 * len(charge):
            number = runs.pop()[0]
            charge = merged(self._run(ledger, number) + charge)
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ? AND run >= ?", (ledger, number))
        for part, start in enumerate(range(0, len(charge), PART)):
            data = charge[start : start + PART]
            self.engine.execute(
                "INSERT INTO account_runs (ledger, run, part, size, seal, data) VALUES (?, ?, ?, ?, ?, ?)",
                (ledger, number, part, len(data), self._part_seal(ledger, number, part, data), data),
            )
        self._reseal(ledger)

    def payments(self, stream: str) -> bytes | None:
        """The records of a stream's payments; None before the first slot that was paid by class."""
        name = _payments(stream)
        rows = self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (name,))
        return self.read(name, str(rows[0][0]))[0] if rows else None

    def append_payments(self, stream: str, payments: bytes) -> None:
        """Add a run to a stream's payments, of which there is a log even if nobody has paid."""
        name = _payments(stream)
        if not self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (name,)):
            self.begin(name, "")
        if payments:
            self.append(name, payments)

    def levy(self, ledger: str, entry: int, levy: Levy) -> None:
        """Charge every account of a ledger, as an entry of the chain says."""
        self.engine.execute(
            "INSERT INTO levies (ledger, entry, slot, units) VALUES (?, ?, ?, ?)",
            (ledger, entry, levy.slot, levy.units),
        )
        self._reseal(ledger)

    def _runs(self, ledger: str) -> list[tuple[int, int]]:
        """Numbers and sizes of a ledger's runs, oldest first."""
        rows = self.engine.rows(
            "SELECT run, SUM(size) FROM account_runs WHERE ledger = ? GROUP BY run ORDER BY run", (ledger,)
        )
        return [(int(run), int(size)) for run, size in rows]

    def _run(self, ledger: str, run: int) -> bytes:
        parts = self.engine.rows(
            "SELECT data, seal FROM account_runs WHERE ledger = ? AND run = ? ORDER BY part", (ledger, run)
        )
        for number, (data, seal) in enumerate(parts):
            if bytes(seal) != self._part_seal(ledger, run, number, bytes(data)):
                raise StateError("the store's ledger is damaged: a seal does not match its accounts.")
        return b"".join(bytes(data) for data, _ in parts)

    def _levies(self, ledger: str) -> list[tuple[int, int, int]]:
        rows = self.engine.rows("SELECT entry, slot, units FROM levies WHERE ledger = ? ORDER BY entry", (ledger,))
        return [(int(entry), int(slot), int(units)) for entry, slot, units in rows]

    def _part_seal(self, ledger: str, run: int, part: int, data: bytes) -> bytes:
        where = hashlib.blake2b(f"{ledger}/{run}/{part}".encode(), key=self.key, digest_size=16).digest()
        return hashlib.blake2b(data, key=self.key, salt=where, person=b"dpi accounts", digest_size=32).digest()

    def _seal(self, ledger: str, options: str) -> bytes:
        parts = self.engine.rows(
            "SELECT run, part, size, seal FROM account_runs WHERE ledger = ? ORDER BY run, part", (ledger,)
        )
        listed = [(int(run), int(part), int(size), bytes(seal).hex()) for run, part, size, seal in parts]
        text = json.dumps([ledger, options, listed, self._levies(ledger)])
        return hashlib.blake2b(text.encode(), key=self.key, person=b"dpi ledger", digest_size=32).digest()

    def _reseal(self, ledger: str) -> None:
        options = str(self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (ledger,))[0][0])
        self.engine.execute("UPDATE ledgers SET seal = ? WHERE ledger = ?", (self._seal(ledger, options), ledger))
