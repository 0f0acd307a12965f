"""The slot job on files: what a worker does, wherever it runs.

A worker reads and writes the store's folder and nothing else; it knows no database, draws nothing and pays nothing.
Who closes buckets has the key of seals, and none that names a user. A result is small but for its grains, and what a
worker has written is nobody's before the driver lists it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpi.budget.account_table import Buckets
from dpi.engine.job import FOR_EVER, Closing, Control, Holdings, Reading, arrivals, closed, stored
from dpi.errors import StateError
from dpi.events.clock import Window
from dpi.exact.integers import Integers
from dpi.sources import FileEvents
from dpi.store.arrival_files import Section, read_segments, write_sections
from dpi.store.base import OpenEvents
from dpi.store.folder import Folder
from dpi.store.runs import Run, RunFiles
from dpi.stream.admission.events import Events

INCOMPLETE = "not all buckets of the slot were closed once, or not all of its events were read: nothing was paid."


@dataclass(frozen=True, repr=False)
class Ingest:
    """How batches of events become sections of files."""

    reading: Reading
    folder: Folder
    attempt: str
    durable: bool
    """Whether a store will list them; otherwise they are for the process that holds the sections."""


def ingest(how: Ingest, batch: tuple[Events, Window]) -> list[Section]:
    """Write the events of a batch that count: a file, of which nobody knows before its sections are listed."""
    rows = arrivals(*batch, how.reading)
    return write_sections(how.folder, how.attempt, stored(rows), rows["bucket"].to_numpy(), durable=how.durable)


def ingest_piece(how: Ingest, piece: FileEvents) -> list[Section]:
    """Read a piece of a file, and write its events that count."""
    batches = (Events(*batch, piece.unit) for batch in piece.batches())
    return [section for events in batches for section in ingest(how, (events, FOR_EVER))]


@dataclass(frozen=True, repr=False)
class SlotWork:
    """What all buckets of a slot have in common."""

    closing: Closing
    folder: Folder
    attempt: str
    buckets: Buckets
    sections: tuple[Section, ...]
    """Everything that arrived for the slot."""
    accounts: RunFiles | None
    payments: RunFiles | None
    """How runs of the ledger, and of the stream's payments by class, are read and written; None if there are none."""


@dataclass(frozen=True, repr=False)
class BucketWork:
    """A bucket, and where its accounts are."""

    bucket: int
    runs: Sequence[Run] = ()
    payments: Sequence[Run] = ()


@dataclass(frozen=True, eq=False, repr=False)
class BucketResult:
    """What a bucket adds, and which runs take the place of its last ones: private."""

    bucket: int
    grains: Integers
    control: Control
    run: Run | None = None
    payments: Run | None = None
    """None if nobody of the bucket pays."""


def close_bucket(work: SlotWork, task: BucketWork) -> BucketResult:
    """Close a slot for one bucket, and write its new runs: durable when this returns, and listed by nobody."""
    first = task.bucket
    parts = [part for section in work.sections for part in read_segments(work.folder, section, first, first + 1)]
    if not parts:
        nothing = closed(OpenEvents.none(), first, work.buckets, Holdings(), work.closing)
        return BucketResult(first, nothing.grains, nothing.control)
    rows = OpenEvents.joined(parts)
    held, paid = _read(work.accounts, task.runs), _read(work.payments, task.payments)
    result = closed(rows, first, work.buckets, Holdings(b"".join(held), b"".join(paid)), work.closing)
    run = payments = None
    if work.accounts is not None and result.records:
        run = work.accounts.append(work.attempt, first, task.runs, held, result.records)
    if work.payments is not None and result.payments:
        payments = work.payments.append(work.attempt, first, task.payments, paid, result.payments)
    if run is not None or payments is not None:
        work.folder.sync()
    return BucketResult(first, result.grains, result.control, run, payments)


def _read(files: RunFiles | None, runs: Sequence[Run]) -> list[bytes]:
    return [] if files is None else files.read(runs)


@dataclass(eq=False, repr=False)
class Gathered:
    """The results of a slot's buckets, added up as they come: memory holds one histogram."""

    grains: Integers
    runs: list[Run] = field(default_factory=list)
    payments: list[Run] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _control: Control = field(default=Control())

    def add(self, result: BucketResult) -> None:
        """Take in the result of a bucket; refuses a second one."""
        if result.bucket in self._seen or result.grains.shape != self.grains.shape:
            raise StateError(INCOMPLETE)
        self._seen.add(result.bucket)
        self._control = self._control.plus(result.control)
        self.grains += result.grains
        self.runs += [] if result.run is None else [result.run]
        self.payments += [] if result.payments is None else [result.payments]

    def check(self, buckets: Buckets, expected: Control) -> None:
        """Refuse results that are not those of every bucket, or did not read every row that arrived.

        Which of both it is, and how many rows are missing, is private.
        """
        if self._seen != set(range(buckets.number)) or self._control != expected:
            raise StateError(INCOMPLETE)
