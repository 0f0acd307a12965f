"""Closing slots whose accounts are in buckets: the order of `dpi.stream.slot_closer`, with work on users done by tasks.

    offer      the slot's public budget, once, and one state of the manifest
    close      every bucket by a task: seals checked, weighed, charged, a new run written
    check      each bucket once, and every row that arrived was read
    measure    the grains of all buckets, finished once on the total; noise is drawn here alone
    pay        one transaction: manifest as it was, measurement kept, pointers replaced, events dropped
    publish    as ever; then files that no list names are removed

What the driver does for a slot is a matter of buckets, bins and batches, never of users.

**Guarantee.** That of `dpi.stream.slot_closer`, for all users of all buckets. *Why:* tasks draw and list nothing, so
that whatever becomes of them before the payment leaves files that nobody names and a slot that is open; their results
add up to the embedded stream's (`dpi.engine.tasks`); and a payment is refused if the ledger's seal is another than that
of the manifest which the tasks were given. A slot whose results are incomplete is refused before noise is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import cast

import numpy as np

from dpi.budget.account_records import Buckets
from dpi.budget.ledger import Ledger
from dpi.certificates.signature import Signer
from dpi.engine.executor import Executor
from dpi.engine.tasks import BucketTotals, BucketWork, Closing, Ingest, SlotWork, close_bucket, ingest, ingest_piece
from dpi.errors import StateError
from dpi.events.rows import Rows
from dpi.events.slots import FOR_EVER, Slots, Window
from dpi.histogram.compression import finish
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.sources import Events, Progress
from dpi.store.account_log import payments_log
from dpi.store.arrival_files import Section, sorted_by_bucket, write_sections
from dpi.store.folder import Folder, Layout
from dpi.store.ledger_session import LedgerSession
from dpi.store.sql import SQLStore
from dpi.store.sql_accounts import Held
from dpi.stream.closing import Counting, measure
from dpi.stream.options import StreamOptions
from dpi.stream.slot_closer import Played, SlotCloser, SlotRows

PlayedSections = Generator[tuple[int, SlotRows], None, None]
"""Number and sections of one slot after the other."""


class BucketSlotCloser(SlotCloser):
    """Closes the slots of a stream by tasks over buckets; holds no account itself."""

    def __init__(
        self,
        newest: StreamOptions,
        session: LedgerSession,
        signer: Signer | None,
        source: RandomSource,
        executor: Executor,
    ) -> None:
        self._sql, self._executor = cast("SQLStore", session.store), executor  # no other has a layout
        super().__init__(newest, session, signer, source)

    def _open_accounts(self) -> None:
        """Look at the list of the ledger's runs; no account is held."""
        self._held()

    @property
    def layout(self) -> Layout:
        """Where the buckets are."""
        layout = self._sql.layout
        if layout is None:
            raise StateError("the store's accounts were moved out of buckets, which an engine needs them in.")
        return layout

    @property
    def folder(self) -> Folder:
        """The folder of bucket files."""
        self.layout  # noqa: B018 - says why there is none
        assert self._sql.folder is not None  # noqa: S101 - a layout has a folder
        return self._sql.folder

    @property
    def buckets(self) -> Buckets:
        """How accounts are divided."""
        return self.layout.buckets

    @property
    def _budget(self) -> Ledger | None:
        """What accounts are spent by; None if everybody pays every slot of a series."""
        return self.newest.budget if isinstance(self.newest.budget, Ledger) else None

    def _held(self) -> Held:
        """Return the ledger's runs and levies as they are now: whatever changes them before the payment refuses it."""
        if self._budget is None:
            return Held({}, ())
        assert self.newest.accounts is not None  # noqa: S101 - a ledger budget has a ledger
        described = self._budget.accounts(self.newest.epsilon, self._sql.key).description
        return self._sql.hold_ledger(self.newest.accounts, described)

    # Events.

    def ingest(
        self, slots: Slots, attempt: str, first: int | None = None, last: int | None = None, *, durable: bool = True
    ) -> Ingest:
        """Return how tasks write events of the slots from `first`, or the next one, to before `last`."""
        return Ingest(self.admission(slots, first, last), self.buckets, self.folder, attempt, durable)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Keep the events that a window admits; False if the (producer, sequence) was there already."""
        with self.folder.attempt() as attempt:
            return self.keep_sections(ingest(self.ingest(slots, attempt), (events, window)), producer, sequence)

    def keep_sections(self, sections: Sequence[Section], producer: str, sequence: int) -> bool:
        """List what tasks have written of a batch; False if the (producer, sequence) was there already.

        Inside the attempt under whose name they were written.
        """
        with self.session.writing():
            return self._sql.append_sections(self.newest.name, sections, producer, sequence)

    def kept(self, number: int) -> SlotRows:
        """Return what was kept for a slot, in rows of the store and in files."""
        name = self.newest.name
        return [self._sql.stored_events(name, number), *self._sql.sections(name, number)]

    @contextmanager
    def passing(self) -> Iterator[str]:
        """Attempt files that no store will list: they are removed when the attempt ends."""
        with self.folder.attempt() as attempt:
            yield attempt
        self._sql.remove_unlisted()

    def play(
        self, events: Played, slots: Slots, first: int, last: int, memory: int, progress: Progress | None
    ) -> PlayedSections:
        """Yield number and sections of the slots `first`, which is next, to before `last`; all are read before."""

        def read(attempt: str) -> Iterator[list[Section]]:
            how = self.ingest(slots, attempt, first, last, durable=False)
            pieces = events.pieces()
            if not pieces:  # others are handed to tasks
                batches = ((batch, FOR_EVER) for batch in events.batches(progress=progress))
                yield from self._executor.map(partial(ingest, how), batches)
            for number, sections in enumerate(self._executor.map(partial(ingest_piece, how), pieces), 1):
                if progress is not None:
                    progress(events.size * number // len(pieces))
                yield sections

        return self.play_sections(read, first, last)

    def play_sections(
        self, read: Callable[[str], Iterable[Sequence[Section]]], first: int, last: int
    ) -> PlayedSections:
        """Yield the slots `first` to before `last`, of sections that are read under an attempt's name.

        What was read lies encrypted in the folder, and its keys in this process alone: they are gone when it ends.
        """
        with self.passing() as attempt:
            by_slot = dict[int, list[Section]]()
            for section in chain.from_iterable(read(attempt)):
                by_slot.setdefault(section.slot, []).append(section)
            for number in range(first, last):
                yield number, by_slot.pop(number, [])

    # Closing.

    def close(self, number: int, rows: SlotRows) -> Release:
        """Close a slot; rows that are at hand go to the tasks of this process in a file that passes.

        What tasks that failed or ran twice have written is removed with it.
        """
        parts = [rows] if isinstance(rows, Rows) else rows
        sections = [part for part in parts if isinstance(part, Section)]
        loose = Rows.sum([part for part in parts if isinstance(part, Rows)])
        with self.passing() as attempt:
            if len(loose):
                sections += write_sections(self.folder, attempt, *sorted_by_bucket(loose, self.buckets), durable=False)
            return self._close(number, sections)

    def _close(self, number: int, sections: Sequence[Section]) -> Release:
        """Close a slot with sections of files; they are readable as long as this runs."""
        counting, offer, held = Counting.of(self.state.setting), self._offered(number), self._held()
        ledger, promise = None if self._budget is None else self.newest.accounts, self._promise()
        by_class = self._sql.hold_payments(self.newest.name) if offer.groups else {}
        with self.folder.attempt() as attempt:
            work = SlotWork(
                closing=Closing(
                    counting, offer, number, self._budget, self.newest.epsilon, held.levies, promise.assigned
                ),
                folder=self.folder,
                attempt=attempt,
                buckets=self.buckets,
                sections=tuple(sections),
                accounts=None if ledger is None else self._sql.run_files(ledger),
                payments=self._sql.run_files(payments_log(self.newest.name)) if offer.groups else None,
            )
            tasks = (
                BucketWork(bucket, held.runs.get(bucket, ()), by_class.get(bucket, ()))
                for bucket in range(self.buckets.number)
            )
            totals = BucketTotals(np.zeros(offer.histograms * counting.bins, dtype=np.int64))
            for result in self._executor.map(partial(close_bucket, work), tasks):
                totals.add(result)
            totals.check(self.buckets, sections)
            clean = finish(totals.grains, counting.compression, offer.histograms)
            paid = measure(self.state, clean, offer, number, self.source)
            with self.session.writing():
                self._sql.pay_runs(paid, ledger, totals.runs, totals.payments if offer.groups else None)
                self.session.doubt(ledger)
                return self._publish(paid, promise)
