"""The ledger inside the database: runs of accounts are rows, in parts that one row can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpi.budget.account_table import merged
from dpi.errors import StateError
from dpi.store.account_log import AccountLog
from dpi.store.runs import Run

PART = 1 << 24
"""Bytes of a run that are kept in one row."""


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddedLog(AccountLog):
    """Accounts as rows of the database: as simple as can be, for whoever holds all of them in memory."""

    def parts(self, ledger: str) -> Iterator[bytes]:
        """All records at once."""
        yield b"".join(self._run(ledger, run) for run, _ in self._runs(ledger))

    def append(self, ledger: str, charge: bytes, pages: Sequence[Run] = ()) -> None:
        """Add a run; merge it with those before it that are not much larger."""
        runs = self._runs(ledger)
        number = runs[-1][0] + 1 if runs else 0
        while runs and runs[-1][1] <= 2 * len(charge):
            number = runs.pop()[0]
            charge = merged(self._run(ledger, number), charge)
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ? AND run >= ?", (ledger, number))
        self._insert(ledger, number, charge)
        self.reseal(ledger)

    def _insert(self, ledger: str, number: int, records: bytes) -> None:
        """Add the rows of a run."""
        for part, start in enumerate(range(0, len(records), PART)):
            data = records[start : start + PART]
            self.engine.execute(
                "INSERT INTO account_runs (ledger, run, part, size, seal, data) VALUES (?, ?, ?, ?, ?, ?)",
                (ledger, number, part, len(data), self._part_seal(ledger, number, part, data), data),
            )

    def clear(self, ledger: str) -> None:
        """Forget all runs of a log, which is laid out anew."""
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ?", (ledger,))

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
        return bytes(parts[0][0]) if len(parts) == 1 else b"".join(bytes(data) for data, _ in parts)

    def _part_seal(self, ledger: str, run: int, part: int, data: bytes) -> bytes:
        where = hashlib.blake2b(f"{ledger}/{run}/{part}".encode(), key=self.key, digest_size=16).digest()
        return hashlib.blake2b(data, key=self.key, salt=where, person=b"dpi accounts", digest_size=32).digest()

    def _listed(self, ledger: str) -> object:
        parts = self.engine.rows(
            "SELECT run, part, size, seal FROM account_runs WHERE ledger = ? ORDER BY run, part", (ledger,)
        )
        return [(int(run), int(part), int(size), bytes(seal).hex()) for run, part, size, seal in parts]
