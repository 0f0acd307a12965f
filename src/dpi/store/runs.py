"""Runs of accounts in files: what a payment appends to a bucket, sealed with a key that names nobody.

A run is some changed accounts of one bucket of one log (36 bytes each), and the last record of an account counts.
Appending merges with the runs before it that are not much larger, so that a bucket of n accounts has O(log n) runs and
an account is written O(log n) times. Whoever writes a run has read the bucket's runs and checked their seals.

A seal is bound to the ledger, the bucket and the file's name, so that no run stands in for another; the store's own
seal covers the list of all runs (`dpi.store.account_log`), so that none can be left out or put back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpi.budget.account_table import merged
from dpi.errors import StateError
from dpi.store.folder import MISSING, Folder

RATIO = 4
"""A run is merged with the one before it if that is at most so many times as large.

So each run that stays is more than four times as large as the one after it, and all together hold less than 4/3 of the
records of the first, which has no account twice: at most 48 bytes on disk for an account of 36.
"""


@dataclass(frozen=True)
class Run:
    """A run of a bucket, as a manifest lists it."""

    bucket: int
    number: int
    """Runs of a bucket are read in the order of their numbers."""
    name: str
    size: int = field(repr=False)
    seal: bytes = field(repr=False)


@dataclass(frozen=True, repr=False)
class RunFiles:
    """Reads and writes the runs of one log (a ledger's accounts, or a stream's payments)."""

    folder: Folder
    log: str
    key: bytes

    def read(self, runs: Sequence[Run]) -> list[bytes]:
        """Records of some runs of one bucket, each in turn; raises `StateError` if one is not as it was sealed."""
        return [self._checked(run, self.folder.read(run.name, 0, run.size)) for run in runs]

    def _checked(self, run: Run, data: bytes) -> bytes:
        if self._seal(run.bucket, run.name, data) != run.seal:
            raise StateError(MISSING)
        return data

    def append(self, attempt: str, bucket: int, runs: Sequence[Run], held: Sequence[bytes], records: bytes) -> Run:
        """Write a new run that takes the place of the last ones of a bucket, from its own number on.

        `held` are the records of `runs`, which are all that the bucket has.
        """
        kept, data = appended(held, records)
        number = runs[kept].number if kept < len(runs) else runs[-1].number + 1 if runs else 0
        name = self.folder.write(attempt, data)
        return Run(bucket, number, name, len(data), self._seal(bucket, name, data))

    def _seal(self, bucket: int, name: str, data: bytes) -> bytes:
        where = hashlib.blake2b(f"{self.log}/{bucket}/{name}".encode(), key=self.key, digest_size=16).digest()
        return hashlib.blake2b(data, key=self.key, salt=where, person=b"dpi accounts", digest_size=32).digest()


def appended(held: Sequence[bytes], records: bytes) -> tuple[int, bytes]:
    """How many of a bucket's runs, oldest first, stay as they are when records are added, and what the new run holds.

    >>> held = [bytes(36 * 9), bytes(36)]
    >>> appended(held, bytes(36))[0], appended(held[:1], bytes(36))[0]
    (1, 1)
    """
    kept = len(held)
    while kept and len(held[kept - 1]) <= RATIO * len(records):
        kept -= 1
        records = merged(held[kept], records)
    return kept, records


def run_key(key: bytes) -> bytes:
    """The key of seals, for those who work on buckets: from it that of the accounts' names cannot be told."""
    return hashlib.blake2b(key=key, digest_size=32, person=b"dpi run seals").digest()
