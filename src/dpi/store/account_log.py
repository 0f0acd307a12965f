"""The accounts of a store's ledgers: buckets of names, and for each bucket a list of runs.

Accounts are not rows. A debit adds a run of changed accounts (36 bytes each) to every bucket that has any, and takes
in runs of similar size before it (`dpi.store.account_files`). There is one layout. A store without a folder has one
bucket, whose runs are rows of the database. With a folder there are more buckets, and a run is a row or a file: an
engine's tasks write files, and a process that pays by itself writes rows until memory is full, and then files
(`dpi.store._paged_table`). What one of them has written the other goes on from.

Every run is sealed with the ledger's key, and the ledger is sealed over its options, the list of its runs and its
levies. So a flipped bit is found, and so is a run that was dropped, moved to another ledger or put back: each of them
would refill accounts. What is in the list is all there is: a bucket without a run has no accounts, and a run whose file
is missing, changed or another's is refused. A payment which was made from another state of the list is told by the
seal alone (`dpi.store._write_guard`).

What accounts have paid in a stream that measures by class, and how often, is a log of the same kind, named by the
stream: a payment appends to both in one transaction.

**Guarantee.** No account has less spent than it has paid. *Why:* an account is told by the last record of its name in
the runs of its bucket, in the order of their numbers; a new run has the largest number, or takes the place of all runs
from its number on, and has taken in what they say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap, takewhile
from typing import Any

import numpy as np

from dpi.budget.account_records import RECORD, Buckets, by_bucket, merged, split
from dpi.budget.account_table import AccountsByName, AccountTable
from dpi.errors import StateError
from dpi.events.identity import KEY_BYTES
from dpi.store._engine import Engine
from dpi.store._paged_table import PLACE, PagedTable, TooMany
from dpi.store.account_files import Run, RunFiles, run_key, take_in
from dpi.store.base import Levy
from dpi.store.folder import Folder

PART = 1 << 24
"""Bytes of a run that are kept in one row."""
GROWN = 1 << 24
"""Bytes of a ledger's runs that are merged beside files: larger ones wait until a file takes them in."""
MANY = 16
"""So many small runs beside the files of a bucket are merged."""


def is_payments(ledger: str) -> bool:
    """Return whether a log holds a stream's payments: no ledger has such a name (`stream …`, or none)."""
    return ledger.startswith(payments_log(""))


def payments_log(stream: str) -> str:
    """Return the name of the log of a stream's payments."""
    return f"payments {stream}"


@dataclass(frozen=True, eq=False, repr=False)
class AccountLog:
    """The accounts of a store's ledgers; who calls what writes has begun a transaction."""

    engine: Engine
    key: bytes
    folder: Folder | None
    buckets: Buckets
    memory: int = 0
    """Bytes that accounts in files may take in memory: half of them those of a ledger, half what streams were paid."""
    tables: dict[str, PagedTable] = field(default_factory=dict)
    """Of the logs that are paid from by this process, where there are files."""

    # Ledgers.

    def begin(self, ledger: str, options: str) -> None:
        """Open a ledger without accounts."""
        self.engine.execute(
            "INSERT INTO ledgers (ledger, options, seal) VALUES (?, ?, ?)",
            (ledger, options, self._seal(ledger, options)),
        )

    def names(self) -> dict[str, str]:
        """Return all logs, those of payments too, with their options."""
        return {str(name): str(text) for name, text in self.engine.rows("SELECT ledger, options FROM ledgers")}

    def check(self, ledger: str, options: str) -> None:
        """Raise `StateError` if the list of a ledger's runs, its options or its levies are not as they were sealed."""
        rows = self.engine.rows("SELECT seal FROM ledgers WHERE ledger = ?", (ledger,))
        if not rows or bytes(rows[0][0]) != self._seal(ledger, options):
            raise StateError("the store's ledger is damaged: its seal does not match what it holds.")

    def levies(self, ledger: str) -> list[Levy]:
        """Return what every account of a ledger was charged."""
        return [Levy(int(slot), int(units)) for _, slot, units in self._levies(ledger)]

    def levy(self, ledger: str, entry: int, levy: Levy) -> None:
        """Charge every account of a ledger, as an entry of the chain says."""
        self.engine.execute(
            "INSERT INTO levies (ledger, entry, slot, units) VALUES (?, ?, ?, ?)",
            (ledger, entry, levy.slot, levy.units),
        )
        self._reseal(ledger)

    def _levies(self, ledger: str) -> list[tuple[Any, ...]]:
        return self.engine.rows("SELECT entry, slot, units FROM levies WHERE ledger = ? ORDER BY entry", (ledger,))

    def _seal(self, ledger: str, options: str) -> bytes:
        layout = None if self.folder is None else self.buckets.bits
        runs = [(*run, bytes(seal).hex()) for *run, seal in self._rows(ledger)]
        text = json.dumps([ledger, options, layout, runs, self._levies(ledger)])
        return hashlib.blake2b(text.encode(), key=self.key[-KEY_BYTES:], person=b"dpi ledger", digest_size=32).digest()

    def _reseal(self, ledger: str) -> None:
        options = str(self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (ledger,))[0][0])
        self.engine.execute("UPDATE ledgers SET seal = ? WHERE ledger = ?", (self._seal(ledger, options), ledger))

    # Reading.

    def files(self, ledger: str) -> RunFiles:
        """Return how the runs of a log are read and written."""
        return RunFiles(self.folder, ledger, run_key(self.key))

    def _rows(self, ledger: str) -> list[tuple[Any, ...]]:
        return self.engine.rows(
            "SELECT bucket, run, name, size, seal FROM account_runs WHERE ledger = ? AND part = 0 ORDER BY bucket, run",
            (ledger,),
        )

    def runs(self, ledger: str, *, loaded: bool = False) -> dict[int, list[Run]]:
        """Return the runs of each bucket that has any, oldest first; with `loaded`, the records of rows as well."""
        by_bucket: dict[int, list[Run]] = {}
        for run in starmap(Run, self._rows(ledger)):
            by_bucket.setdefault(run.bucket, []).append(self._loaded(ledger, run) if loaded else run)
        return by_bucket

    def _loaded(self, ledger: str, run: Run) -> Run:
        """Return a run with its records, if they are rows."""
        if run.name or run.data:
            return run
        rows = self.engine.rows(
            "SELECT data FROM account_runs WHERE ledger = ? AND bucket = ? AND run = ? ORDER BY part",
            (ledger, run.bucket, run.number),
        )
        return replace(run, data=b"".join(data for (data,) in rows))

    def read(self, ledger: str, run: Run) -> bytes:
        """Return the records of a run; raises `StateError` if it is not as it was sealed."""
        return self.files(ledger).read(self._loaded(ledger, run))

    def parts(self, ledger: str) -> Iterator[bytes]:
        """Give records in the order of the log, a bucket at a time: no account is in two of them."""
        for runs in self.runs(ledger).values():
            yield b"".join(self.read(ledger, run) for run in runs)

    def table(self, ledger: str) -> AccountsByName:
        """Return the accounts of a log, to look up and to charge: all of them in memory, unless there are files."""
        if self.folder is None:
            return AccountTable.from_bytes(b"".join(self.parts(ledger)))
        runs, room = self.runs(ledger), self.memory // 2 // PLACE
        files = [[run for run in runs.get(bucket, ()) if run.name] for bucket in range(self.buckets.number)]
        rows = [[run for run in runs.get(bucket, ()) if not run.name] for bucket in range(self.buckets.number)]
        changed = [np.frombuffer(merged(*(self.read(ledger, run) for run in some)), dtype=RECORD) for some in rows]
        while True:
            try:
                return PagedTable(self.files(ledger), files, changed, room)
            except TooMany:  # they were written with more memory
                room = 2 * max(room, 1)

    # Writing.

    def attempt(self) -> AbstractContextManager[str]:
        """Begin names for files that are being written (`Folder.attempt`)."""
        return nullcontext("") if self.folder is None else self.folder.attempt()

    def append(self, ledger: str, charge: bytes) -> None:
        """Add a run to each bucket that a charge has accounts of; buckets that memory is too full of become files."""
        if not charge:
            return
        table, known, made = self.tables.get(ledger), self.runs(ledger), dict[int, Run]()
        with self.attempt() as attempt:
            if table is not None:
                moved = table.move(attempt, *split(np.frombuffer(charge, dtype=RECORD)))
                made = {run.bucket: run for run in moved}
            for bucket, records in by_bucket(charge, self.buckets):
                if bucket not in made:
                    made[bucket] = self._inline(ledger, bucket, known.get(bucket, ()), records)
            self.put(ledger, [*made.values()])

    def _inline(self, ledger: str, bucket: int, runs: Sequence[Run], records: bytes) -> Run:
        """Return a run in the database, which takes in runs of similar size or, beside files, many small ones."""
        files, read = self.files(ledger), partial(self.read, ledger)
        if self.folder is None:
            return files.inline(bucket, *take_in(runs, records, read, lambda run, size: run.size <= 2 * size))
        small = [*takewhile(self._is_small, reversed(runs))][::-1]
        if len(small) < MANY:
            return files.inline(bucket, runs[-1].number + 1 if runs else 0, records)
        return files.inline(bucket, small[0].number, merged(*map(read, small), records))  # all with one sort

    def _is_small(self, run: Run) -> bool:
        return not run.name and run.size < GROWN >> self.buckets.bits

    def append_each(self, ledger: str, charges: Iterable[bytes]) -> None:
        """Add several runs, of different accounts, as files if there is a folder; memory has to hold one."""
        with self.attempt() as attempt:
            self.put(ledger, self.write(attempt, ledger, charges, self.runs(ledger)))

    def write(self, attempt: str, ledger: str, charges: Iterable[bytes], known: dict[int, list[Run]]) -> list[Run]:
        """Return the runs that add accounts to those of buckets, written and listed by nobody yet."""
        made = dict[int, list[Run]]()
        for charge in charges:
            for bucket, records in by_bucket(charge, self.buckets):
                here = [*known.get(bucket, ()), *made.get(bucket, ())]
                if self.folder is None:
                    run = self._inline(ledger, bucket, here, merged(records))
                else:
                    held = [self.read(ledger, each) for each in here]
                    run = self.files(ledger).append(attempt, bucket, here, held, records)
                known[bucket] = [each for each in known.get(bucket, ()) if each.number < run.number]
                made[bucket] = [*(each for each in made.get(bucket, ()) if each.number < run.number), run]
        return [run for runs in made.values() for run in runs]

    def put(self, ledger: str, runs: Sequence[Run]) -> None:
        """List new runs, each in the place of those of its bucket from its number on, and seal the log."""
        if self.folder is not None and (names := [run.name for run in runs if run.name]):
            self.folder.sync()
            self.folder.check_files(names)
        self.engine.execute_many(
            "DELETE FROM account_runs WHERE ledger = ? AND bucket = ? AND run >= ?",
            [(ledger, run.bucket, run.number) for run in runs],
        )
        self.engine.execute_many(
            "INSERT INTO account_runs (ledger, bucket, run, part, name, size, seal, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (ledger, run.bucket, run.number, at // PART, run.name, run.size, run.seal, run.data[at : at + PART])
                for run in runs
                for at in range(0, max(len(run.data), 1), PART)
            ],
        )
        self._reseal(ledger)

    def clear(self, ledger: str) -> None:
        """Forget all runs of a log, which is laid out anew."""
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ?", (ledger,))

    def begin_payments(self, stream: str) -> str:
        """Open the log of a stream's payments, if there is none, even if nobody has paid; return its name."""
        name = payments_log(stream)
        if not self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (name,)):
            self.begin(name, "")
        return name
