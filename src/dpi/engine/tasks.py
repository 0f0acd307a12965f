"""The slot job: what a worker does with a bucket of accounts, wherever it runs.

    ingest         some events                                     →  sections of a file: rows by slot and bucket
    close_rows     one bucket's rows of a slot, and its accounts   →  grains, and what changes on the accounts
    close_bucket   the same on files                               →  grains, and new runs of accounts

None of them draws, pays or publishes anything: that is the driver's (`dpi.engine.bucket_slot_closer`), once for a slot.
So each may be run again, twice at the same time, or on another machine, and what is made of the results is the same
bytes. A worker reads and writes the store's folder and nothing else; who closes buckets has the key of seals, and none
that names a user. A result is small but for its grains, and what a worker has written is nobody's before the driver
lists it.

**Guarantee.** The grains of all buckets add up to those of the embedded stream, and the changed accounts are the same.
*Why.* A user's account is in one bucket, so all rows of the user meet there; what they add, and what the account pays,
is a function of these rows, the account and public numbers (`dpi.stream.closing.weigh`); and whole numbers are added
exactly, in any order. So a bucket's result does not depend on others, nor on how rows were cut into batches.

`ingest` sees users, the others names of accounts; none sees randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpi.budget.account_records import Buckets
from dpi.budget.charge import Charge
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Ledger
from dpi.errors import StateError
from dpi.events.identity import KEY_BYTES
from dpi.events.rows import Rows, changes
from dpi.events.slots import FOR_EVER, Window
from dpi.exact.integers import MOST, Integers
from dpi.exact.silence import silence
from dpi.histogram.grouping import Groups
from dpi.sources import Admission, Events, FileEvents
from dpi.store.account_files import Run, RunFiles
from dpi.store.arrival_files import Section, read_segments, sorted_by_bucket, write_sections
from dpi.store.base import Levy
from dpi.store.folder import Folder
from dpi.stream.closing import Counting, Offer, weigh

INCOMPLETE = "not all buckets of the slot were closed once, or not all of its events were read: nothing was paid."


@dataclass(frozen=True, repr=False)
class Ingest:
    """How batches of events become sections of files."""

    admission: Admission
    buckets: Buckets
    folder: Folder
    attempt: str
    durable: bool
    """Whether a store will list them; otherwise they are for the process that holds the sections."""


@silence()
def ingest(how: Ingest, batch: tuple[Events, Window]) -> list[Section]:
    """Write the events of a batch that count: a file, of which nobody knows before its sections are listed."""
    rows, buckets = presum(how.admission.admit(*batch), how.buckets)
    return write_sections(how.folder, how.attempt, rows, buckets, durable=how.durable)


@silence()
def ingest_piece(how: Ingest, piece: FileEvents) -> list[Section]:
    """Read a piece of a file, and write its events that count."""
    return [section for events in piece.batches() for section in ingest(how, (events, FOR_EVER))]


def presum(rows: Rows, buckets: Buckets) -> tuple[Rows, Integers]:
    """Return rows by slot and bucket, and their buckets; equal ones are one row, but for a few.

    Slot, first bits of the name, bin and the row's number are sorted as one word, so that equal ones are neighbours
    unless another name begins alike. That is fast, and enough: it is there to make a flood small, and `close_rows`
    adds up the rest.
    """
    size, first = len(rows), int(rows.slots.min()) if len(rows) else 0
    spare, width = max(1, size - 1).bit_length(), int(rows.bins.max(initial=0)).bit_length()
    high_bits = 64 - spare - width - (int(rows.slots.max()) - first if size else 0).bit_length()
    if high_bits < max(1, buckets.bits):
        return sorted_by_bucket(rows, buckets)
    words = (rows.slots - first).astype(np.uint64) << np.uint64(high_bits)
    words |= rows.names[:, 0] >> np.uint64(64 - high_bits)
    words = (words << np.uint64(width)) | rows.bins.astype(np.uint64)
    words = (words << np.uint64(spare)) | np.arange(size, dtype=np.uint64)
    words.sort()
    rows = rows.only((words & np.uint64((1 << spare) - 1)).astype(np.int64))
    kept = np.flatnonzero(changes(*rows.names.T, rows.slots, rows.bins))
    counts = np.minimum(np.add.reduceat(rows.counts, kept) if kept.size else rows.counts, MOST)
    rows = rows.only(kept)
    return Rows(rows.names, rows.slots, rows.bins, counts), buckets.of(rows.names)


@dataclass(frozen=True, repr=False)
class Closing:
    """A slot that is closed: public, but for the key of a `truncate`. No key of accounts is in it."""

    counting: Counting
    offer: Offer
    slot: int
    budget: Ledger | None
    """What accounts are spent by; None if the stream has none."""
    epsilon: Epsilon
    """What each user may lose."""
    levies: tuple[Levy, ...] = ()
    assigned: int = 0
    """What the accounts do not hold of ε, since it is in other quotas, or in the rest: units."""


def close_rows(
    rows: Rows, bucket: int, buckets: Buckets, closing: Closing, records: bytes = b"", payments: bytes = b""
) -> tuple[Integers, Charge | None]:
    """Return what one bucket's rows of a slot add, and change on its accounts: nothing is drawn, paid or written.

    `records` are its accounts in the order in which they were written, `payments` what they have paid in this stream,
    if it measures by class. Rows of one account and bin are made one, however they came: two would be rounded apart,
    and add other grains. Raises `StateError` if a row is of another bucket or slot.
    """
    if (rows.slots != closing.slot).any() or (buckets.of(rows.names) != bucket).any():
        raise StateError("the slot's events are damaged: some are of another slot or bucket.")
    accounts = None
    if closing.budget is not None:
        accounts = closing.budget.accounts(closing.epsilon, bytes(KEY_BYTES))  # users are named already
        accounts.resume(records, {}, [], {closing.counting.stream: payments} if closing.offer.groups else {})
        accounts.assign(closing.assigned)
        for levy in closing.levies:
            accounts.levy(levy.units, levy.slot)
    return weigh(closing.counting, Groups(rows, closing.counting.codes), accounts, closing.offer, closing.slot)


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
    rows: int = 0
    events: int = 0
    """How many rows were read, and of how many events."""
    run: Run | None = None
    payments: Run | None = None
    """None if nobody of the bucket pays."""


@silence()
def close_bucket(work: SlotWork, task: BucketWork) -> BucketResult:
    """Close a slot for one bucket, and write its new runs: durable when this returns, and listed by nobody."""
    first = task.bucket
    parts = [part for section in work.sections for part in read_segments(work.folder, section, first, first + 1)]
    if not parts:
        return BucketResult(first, close_rows(Rows.empty(), first, work.buckets, work.closing)[0])
    rows = Rows.join(parts)
    held, paid = _read(work.accounts, task.runs), _read(work.payments, task.payments)
    grains, charge = close_rows(rows, first, work.buckets, work.closing, b"".join(held), b"".join(paid))
    run = payments = None
    if work.accounts is not None and charge is not None and (records := charge.records()):
        run = work.accounts.append(work.attempt, first, task.runs, held, records)
    if work.payments is not None and charge is not None and (records := charge.payments()):
        payments = work.payments.append(work.attempt, first, task.payments, paid, records)
    if run is not None or payments is not None:
        work.folder.sync()
    return BucketResult(first, grains, len(rows), int(rows.counts.sum()), run, payments)


def _read(files: RunFiles | None, runs: Sequence[Run]) -> list[bytes]:
    return [] if files is None else [files.read(run) for run in runs]


@dataclass(eq=False, repr=False)
class BucketTotals:
    """The results of a slot's buckets, added up as they come: memory holds one histogram."""

    grains: Integers
    runs: list[Run] = field(default_factory=list)
    payments: list[Run] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _rows: int = 0
    _events: int = 0

    def add(self, result: BucketResult) -> None:
        """Take in the result of a bucket; refuses a second one."""
        if result.bucket in self._seen or result.grains.shape != self.grains.shape:
            raise StateError(INCOMPLETE)
        self._seen.add(result.bucket)
        self._rows += result.rows
        self._events += result.events
        self.grains += result.grains
        self.runs += [] if result.run is None else [result.run]
        self.payments += [] if result.payments is None else [result.payments]

    def check(self, buckets: Buckets, sections: Sequence[Section]) -> None:
        """Refuse results that are not those of every bucket, or did not read every row that arrived.

        Which of both it is, and how many rows are missing, is private.
        """
        expected = sum(section.rows for section in sections), sum(section.events for section in sections)
        if self._seen != set(range(buckets.number)) or (self._rows, self._events) != expected:
            raise StateError(INCOMPLETE)
