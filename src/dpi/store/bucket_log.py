"""The ledger in files by bucket: the database has the list of runs, the manifest, and seals it.

What is in the manifest is all there is: a bucket without a run in it has no accounts, and a run in it whose file is
missing, changed or another's is refused. The seal of a ledger covers its manifest, so that a payment which was made
from another state of it is told by that alone (`dpi.store.known`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpi.budget.account_table import Buckets, by_bucket, merged
from dpi.store.account_log import AccountLog
from dpi.store.folder import Folder
from dpi.store.runs import Run, RunFiles, run_key


@dataclass(frozen=True, eq=False, repr=False)
class BucketLog(AccountLog):
    """Accounts as run files in a folder."""

    folder: Folder
    buckets: Buckets

    def files(self, log: str) -> RunFiles:
        """The run files of a log."""
        return RunFiles(self.folder, log, run_key(self.key))

    def manifest(self, log: str) -> dict[int, list[Run]]:
        """The runs of each bucket that has any, oldest first."""
        found: dict[int, list[Run]] = {}
        for run in self._rows(log):
            found.setdefault(run.bucket, []).append(run)
        return found

    def _rows(self, log: str) -> Iterator[Run]:
        rows = self.engine.rows(
            "SELECT bucket, run, name, size, seal FROM manifest WHERE ledger = ? ORDER BY bucket, run", (log,)
        )
        for bucket, number, name, size, seal in rows:
            yield Run(int(bucket), int(number), str(name), int(size), bytes(seal))

    def parts(self, ledger: str) -> Iterator[bytes]:
        """Records bucket by bucket."""
        files = self.files(ledger)
        for runs in self.manifest(ledger).values():
            yield b"".join(files.read(runs))

    def append(self, ledger: str, charge: bytes, pages: Sequence[Run] = ()) -> None:
        """Add a run to every bucket that the charge has accounts of."""
        known, files = self.manifest(ledger), self.files(ledger)
        with self.folder.attempt() as attempt:
            runs = []
            for bucket, records in by_bucket(charge, self.buckets):
                before = known.get(bucket, [])
                runs.append(files.append(attempt, bucket, before, files.read(before), records))
            self.folder.sync()
            self.put(ledger, runs)

    def put(self, log: str, runs: Sequence[Run]) -> None:
        """List new runs, each in the place of those of its bucket from its number on, and seal the log."""
        self.folder.check_files(run.name for run in runs)
        self.engine.execute_many(
            "DELETE FROM manifest WHERE ledger = ? AND bucket = ? AND run >= ?",
            [(log, run.bucket, run.number) for run in runs],
        )
        self.engine.execute_many(
            "INSERT INTO manifest (ledger, bucket, run, name, size, seal) VALUES (?, ?, ?, ?, ?, ?)",
            [(log, run.bucket, run.number, run.name, run.size, run.seal) for run in runs],
        )
        self.reseal(log)

    def lay_out(self, attempt: str, log: str, parts: Iterable[bytes]) -> list[Run]:
        """Write accounts that came in another layout: nothing is listed yet. Memory has to hold one part."""
        files, made = self.files(log), dict[int, list[Run]]()
        for part in parts:
            for bucket, records in by_bucket(part, self.buckets):
                known = made.setdefault(bucket, [])
                run = files.append(attempt, bucket, known, files.read(known), merged(records))
                known[:] = [*(each for each in known if each.number < run.number), run]
        self.folder.sync()
        return [run for runs in made.values() for run in runs]

    def clear(self, ledger: str) -> None:
        """Forget all runs of a log, which is laid out anew."""
        self.engine.execute("DELETE FROM manifest WHERE ledger = ?", (ledger,))

    def _listed(self, ledger: str) -> object:
        runs = self._rows(ledger)
        listed = [(run.bucket, run.number, run.name, run.size, run.seal.hex()) for run in runs]
        return ["buckets", self.buckets.bits, listed]
