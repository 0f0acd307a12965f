"""Driving a slot whose accounts are in buckets: the order of `dpi.stream.driver`, with the work on users done by tasks.

    offer      the slot's public budget, once, and one state of the manifest
    close      every bucket by a task: seals checked, weighed, charged, a new run written
    check      each bucket once, and every row that arrived was read
    measure    the grains of all buckets, finished once on the total; noise is drawn here alone
    pay        one transaction: manifest as it was, measurement kept, pointers replaced, events dropped
    publish    as ever; then files that no list names are removed

What the driver does for a slot is a matter of buckets, bins and batches, never of users.

**Guarantee.** That of `dpi.stream.driver`, for all users of all buckets. *Why:* tasks draw and list nothing, so that
whatever becomes of them before the payment leaves files that nobody names and a slot that is open; their results add
up to the embedded stream's (`dpi.engine.job`); and a payment is refused if the ledger's seal is another than that of
the manifest which the tasks were given. A slot whose results are incomplete is refused before noise is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

import numpy as np

from dpi.budget.account_table import Buckets
from dpi.budget.ledger import Ledger
from dpi.certificates.signature import Signer
from dpi.engine.executor import Executor
from dpi.engine.job import FOR_EVER, Closing, Control, Reading
from dpi.engine.tasks import BucketWork, Gathered, Ingest, SlotWork, close_bucket, ingest, ingest_piece
from dpi.errors import StateError
from dpi.events.clock import Window
from dpi.events.identity import digests
from dpi.events.identity import users as canonical_users
from dpi.events.slots import Slots
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.sources import SlotRows
from dpi.sources.source import Progress
from dpi.store.account_log import payments_log
from dpi.store.arrival_files import Section, sorted_by_bucket, write_sections
from dpi.store.bank import Bank
from dpi.store.base import OpenEvents
from dpi.store.folder import Folder
from dpi.store.layout import Layout
from dpi.store.sql import Held, SQLStore
from dpi.stream.admission.events import Events, Names
from dpi.stream.closing import Counting, counted, measured
from dpi.stream.driver import Closings, Driver, Played
from dpi.stream.options import StreamOptions


class BucketDriver(Driver):
    """Closes the slots of a stream by tasks over buckets; holds no account itself."""

    def __init__(
        self, newest: StreamOptions, bank: Bank, signer: Signer | None, source: RandomSource, executor: Executor
    ) -> None:
        assert isinstance(bank.store, SQLStore)  # noqa: S101 - `dpi.engine.engine` has looked
        self._sql, self._executor = bank.store, executor
        super().__init__(newest, bank, signer, source)

    def _open_accounts(self) -> None:
        """Look at the list of the ledger's runs; no account is held."""
        self._held()

    @property
    def layout(self) -> Layout:
        """Where the buckets are."""
        layout = self._sql.layout
        if layout is None or layout.buckets is None:
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
        assert self.layout.buckets is not None  # noqa: S101 - `layout` has looked
        return self.layout.buckets

    @property
    def _budget(self) -> Ledger | None:
        """What accounts are spent by; None if everybody pays every slot of a series."""
        return self.newest.budget if isinstance(self.newest.budget, Ledger) else None

    def _held(self) -> Held:
        """The ledger's runs and levies as they are now: whatever changes them before the payment refuses it."""
        if self._budget is None:
            return Held({}, ())
        assert self.newest.accounts is not None  # noqa: S101 - a ledger budget has a ledger
        described = self._budget.accounts(self.newest.epsilon, self._sql.key).description
        return self._sql.hold_ledger(self.newest.accounts, described)

    # Events.

    def reading(self, slots: Slots, first: int | None = None, last: int | None = None) -> Reading:
        """How events of the slots from `first`, or the next one, to before `last` are read."""
        names = Names(self._sql.key, self._sql.identity_rule)
        return Reading(slots, self.domains, self.following(first), last, names, self.buckets)

    def ingested(
        self, batches: Iterable[tuple[Events, Window]], reading: Reading, attempt: str, *, durable: bool
    ) -> Iterator[list[Section]]:
        """The sections of each batch, written by tasks."""
        how = Ingest(reading, self.folder, attempt, durable)
        return self._executor.map(partial(ingest, how), batches)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Keep the events that a window admits; False if the (producer, sequence) was there already."""
        with self.folder.attempt() as attempt:
            how = Ingest(self.reading(slots), self.folder, attempt, durable=True)
            return self.keep_sections(ingest(how, (events, window)), producer, sequence)

    def keep_sections(self, sections: Sequence[Section], producer: str, sequence: int) -> bool:
        """List what tasks have written of a batch; False if the (producer, sequence) was there already.

        Inside the attempt under whose name they were written.
        """
        with self.bank.writing():
            return self._sql.append_sections(self.newest.name, sections, producer, sequence)

    def close_kept(self, number: int) -> Release:
        """Close a slot with the events that were kept for it, in files and in rows of the store."""
        with self.passing() as attempt:
            rows = self._written(self._sql.stored_events(self.newest.name, number), attempt)
            return self.close_sections(number, [*self._sql.sections(self.newest.name, number), *rows])

    def close_rows(self, number: int, rows: SlotRows) -> Release:
        """Close a slot with rows that a source gave."""
        ids = canonical_users(rows.users, self._sql.identity_rule)
        valid = np.flatnonzero((rows.bins >= 0) & ids.is_not_null().to_numpy())
        names = digests(ids.gather(valid), self._sql.key)
        slots = np.full(valid.size, number, dtype=np.int64)
        events = OpenEvents.together([OpenEvents(names, slots, rows.bins[valid], rows.counts[valid])])
        with self.passing() as attempt:
            return self.close_sections(number, self._written(events, attempt))

    @contextmanager
    def passing(self) -> Iterator[str]:
        """An attempt at files that no store will list: they are removed when it ends."""
        with self.folder.attempt() as attempt:
            yield attempt
        self._sql.remove_unlisted()

    def _written(self, events: OpenEvents, attempt: str) -> list[Section]:
        """Events in a file for the tasks of this process."""
        return write_sections(self.folder, attempt, *sorted_by_bucket(events, self.buckets), durable=False)

    def play(
        self, events: Played, slots: Slots, first: int, last: int, memory: int, progress: Progress | None
    ) -> Closings:
        """The slots `first`, which is next, to before `last` with what closes each; all events are read before that."""
        reading = self.reading(slots, first, last)
        return self.close_read(lambda attempt: self._played(events, reading, attempt, progress), first, last)

    def close_read(self, read: Callable[[str], Iterable[Sequence[Section]]], first: int, last: int) -> Closings:
        """The slots `first` to before `last` with what closes each, of sections that are read under an attempt's name.

        What was read lies encrypted in the folder, and its keys in this process alone: they are gone when it ends.
        """
        with self.passing() as attempt:
            found = dict[int, list[Section]]()
            for section in chain.from_iterable(read(attempt)):
                found.setdefault(section.slot, []).append(section)
            for number in range(first, last):
                yield number, partial(self.close_sections, number, found.pop(number, []))

    def _played(
        self, events: Played, reading: Reading, attempt: str, progress: Progress | None
    ) -> Iterator[list[Section]]:
        """The sections of all events: files that can be read in pieces are, by tasks; others are handed to them."""
        pieces = events.pieces()
        if not pieces:
            batches = (
                (Events(users, times, values, events.unit), FOR_EVER)
                for users, times, values in events.batches(progress=progress)
            )
            yield from self.ingested(batches, reading, attempt, durable=False)
            return
        how = Ingest(reading, self.folder, attempt, durable=False)
        for number, sections in enumerate(self._executor.map(partial(ingest_piece, how), pieces), 1):
            if progress is not None:
                progress(events.size * number // len(pieces))
            yield sections

    # Closing.

    def close_sections(self, number: int, sections: Sequence[Section]) -> Release:
        """Close a slot with sections of files; they are readable as long as this runs."""
        counting, offer, held = Counting.of(self.options), self._offered(number), self._held()
        ledger = None if self._budget is None else self.newest.accounts
        assigned = 0 if ledger is None else self._assigned()
        by_class = self._sql.hold_payments(self.newest.name) if offer.classes else {}
        with self.folder.attempt() as attempt:
            work = SlotWork(
                closing=Closing(counting, offer, number, self._budget, self.newest.epsilon, held.levies, assigned),
                folder=self.folder,
                attempt=attempt,
                buckets=self.buckets,
                sections=tuple(sections),
                accounts=None if ledger is None else self._sql.run_files(ledger),
                payments=self._sql.run_files(payments_log(self.newest.name)) if offer.classes else None,
            )
            tasks = (
                BucketWork(bucket, held.runs.get(bucket, ()), by_class.get(bucket, ()))
                for bucket in range(self.buckets.number)
            )
            gathered = Gathered(np.zeros(offer.histograms * counting.bins, dtype=np.int64))
            for result in self._executor.map(partial(close_bucket, work), tasks):
                gathered.add(result)
            gathered.check(self.buckets, _expected(sections))
            paid = measured(self.state, counted(counting, gathered.grains, offer), offer, number, self.source)
            with self.bank.writing():
                self.bank.pay_runs(paid, ledger, gathered.runs, gathered.payments if offer.classes else None)
                return self._publish(paid)


def _expected(sections: Sequence[Section]) -> Control:
    """The control totals of everything that arrived."""
    return Control(sum(section.rows for section in sections), sum(section.events for section in sections))
