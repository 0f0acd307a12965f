"""The ledger in pages: accounts in files of which a slot reads what it needs, and charges since then in the database.

A charge is appended to the log in the database, as in `dpi.store.embedded_log`. A page file holds all accounts of a
part of the names as they were after the runs below its number; what those say of that part is passed over. So the log
has what no file has, and a run that every file covers is deleted. What `dpi.store.paged_table` moves to files is listed
in the transaction that pays.

**Guarantee.** No account has less spent than it has paid. *Why:* an account is told by its part's file and then, in
their order, by the runs from the file's number on. A run's number is above those of all runs before it, and at least
those of all files. A run that takes the place of others has a number above theirs, and of what they say only what no
file covers. Files, numbers and runs are all under the seal of the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpi.budget.account_table import RECORD, Place, merged, newest, parted, to_records
from dpi.budget.recent import PLACE, TooMany
from dpi.store.embedded_log import EmbeddedLog
from dpi.store.folder import Folder
from dpi.store.joining import Records, joined_pieces, together
from dpi.store.paged_table import PagedTable, Part, parts_of, starts_of
from dpi.store.pages import PageFiles
from dpi.store.runs import Run, run_key

MERGED = 1 << 22
"""Bytes of runs that are merged into one: larger ones wait until files cover them."""


@dataclass(frozen=True, eq=False, repr=False)
class PagedLog(EmbeddedLog):
    """Accounts in page files and, since these were written, in rows of the database."""

    folder: Folder
    memory: int
    """Bytes that accounts may take in memory: half of them those of a ledger, half what its streams have been paid."""

    def files(self, ledger: str) -> PageFiles:
        """The page files of a log."""
        return PageFiles(self.folder, ledger, run_key(self.key))

    def pages(self, ledger: str) -> list[Part]:
        """The parts of a log, with their files."""
        return parts_of(list(self._rows(ledger)))

    def _rows(self, ledger: str) -> Iterator[Run]:
        rows = self.engine.rows(
            "SELECT bucket, run, name, size, seal FROM manifest WHERE ledger = ? ORDER BY bucket", (ledger,)
        )
        for part, number, name, size, seal in rows:
            yield Run(int(part), int(number), str(name), int(size), bytes(seal))

    def following(self, ledger: str) -> int:
        """The number of the next run."""
        return max([0, *(run + 1 for run, _ in self._runs(ledger)), *(run.number for run in self._rows(ledger))])

    def table(self, ledger: str) -> PagedTable:
        """The accounts of a log, to look up and to charge."""
        parts, files, room = self.pages(ledger), self.files(ledger), self.memory // 2 // PLACE
        runs = self._uncovered(ledger, parts)
        while True:
            table = PagedTable(files, parts, room)
            try:
                table.load(_by_part(runs, parts))
            except TooMany:  # what the log has does not fit: it was written with more memory
                room = 2 * max(room, 1)
                continue
            return table

    def parts(self, ledger: str) -> Iterator[bytes]:
        """Records of a part of the names at a time."""
        parts, files = self.pages(ledger), self.files(ledger)
        for part, changed in zip(parts, _by_part(self._uncovered(ledger, parts), parts), strict=True):
            yield b"".join(piece.tobytes() for piece in joined_pieces(part.pieces(files), changed))

    def append(self, ledger: str, charge: bytes, pages: Sequence[Run] = ()) -> None:
        """Add a run, and list page files that were written with it."""
        number, since = self.following(ledger), None
        self._list(ledger, pages)
        parts, runs = self.pages(ledger), self._runs(ledger)
        records = _uncovered(np.frombuffer(charge, dtype=RECORD), number, parts)
        while runs and runs[-1][1] <= 2 * records.nbytes and runs[-1][1] + records.nbytes <= MERGED:
            since, _ = runs.pop()
            before = self._beyond(ledger, since, parts)
            records = np.frombuffer(merged(before.tobytes() + records.tobytes()), dtype=RECORD)
        if since is not None:
            self.engine.execute("DELETE FROM account_runs WHERE ledger = ? AND run >= ?", (ledger, since))
        oldest = min(0 if part.run is None else part.run.number for part in parts)
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ? AND run < ?", (ledger, oldest))
        self._insert(ledger, number, records.tobytes())
        self.reseal(ledger)

    def append_each(self, ledger: str, charges: Iterable[bytes]) -> None:
        """Add several runs, each with page files if memory is short."""
        table = self.table(ledger)
        with self.folder.attempt() as attempt:
            for charge in filter(None, charges):
                names, standing = parted(np.frombuffer(merged(charge), dtype=RECORD))
                pages = table.move(attempt, self.following(ledger) + 1, names, standing)
                self.folder.sync()
                self.append(ledger, to_records(names, standing), pages)
                table.put(Place(names, np.arange(len(names)), ()), standing)

    def clear(self, ledger: str) -> None:
        """Forget all runs and files of a log, which is laid out anew."""
        super().clear(ledger)
        self.engine.execute("DELETE FROM manifest WHERE ledger = ?", (ledger,))

    def _uncovered(self, ledger: str, parts: Sequence[Part]) -> list[Records]:
        """What each run says of accounts that no file has said since."""
        return [self._beyond(ledger, number, parts) for number, _ in self._runs(ledger)]

    def _beyond(self, ledger: str, number: int, parts: Sequence[Part]) -> Records:
        """What a run says of accounts that no file has said since, sorted by name."""
        run = self._run(ledger, number)
        high = np.frombuffer(run, dtype=RECORD)["name"]["high"]
        if (high[1:] < high[:-1]).any():  # as it came from another layout, with programs of before 0.2.0
            run = merged(run)
        return _uncovered(np.frombuffer(run, dtype=RECORD), number, parts)

    def _list(self, ledger: str, pages: Sequence[Run]) -> None:
        """List page files, each in the place of that of its part, or of the part that it is of."""
        self.folder.check_files(run.name for run in pages)
        above = {run.bucket >> depth for run in pages for depth in range(run.bucket.bit_length())}
        self.engine.execute_many(
            "DELETE FROM manifest WHERE ledger = ? AND bucket = ?", [(ledger, part) for part in sorted(above)]
        )
        self.engine.execute_many(
            "INSERT INTO manifest (ledger, bucket, run, name, size, seal) VALUES (?, ?, ?, ?, ?, ?)",
            [(ledger, run.bucket, run.number, run.name, run.size, run.seal) for run in pages],
        )

    def _part_seal(self, ledger: str, run: int, part: int, data: bytes) -> bytes:
        """HMAC with SHA-256, which processors help with: all of the log is read when a store is opened."""
        where = f"{ledger}/{run}/{part}".encode()
        return hmac.digest(hashlib.blake2b(where, key=self.key, person=b"dpi paged log").digest(), data, "sha256")

    def _listed(self, ledger: str) -> object:
        files = [(run.bucket, run.number, run.name, run.size, run.seal.hex()) for run in self._rows(ledger)]
        return ["pages", super()._listed(ledger), files]


def _uncovered(records: Records, number: int, parts: Sequence[Part]) -> Records:
    """The records of a run whose part has no file that was written after it."""
    covered = np.array([0 if part.run is None else part.run.number for part in parts])
    if number >= covered.max():
        return records
    cuts = _cuts(records, parts)
    return together([records[cuts[at] : cuts[at + 1]] for at in np.flatnonzero(number >= covered).tolist()])


def _by_part(runs: Sequence[Records], parts: Sequence[Part]) -> Iterator[Records]:
    """What runs, the oldest first, say of the accounts of each part."""
    cuts = [_cuts(run, parts) for run in runs]
    for at in range(len(parts)):
        mine = (run[cut[at] : cut[at + 1]] for run, cut in zip(runs, cuts, strict=True))
        yield newest([np.empty(0, dtype=RECORD), *mine])


def _cuts(records: Records, parts: Sequence[Part]) -> list[int]:
    """Where the records of each part begin in a run, which is sorted by name, and where the last ones end."""
    return [*np.searchsorted(records["name"]["high"], starts_of(parts)).tolist(), records.size]
