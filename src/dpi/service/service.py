"""A service without its network: a store, the streams in it, and the threads that keep, close and read.

Sees everything that one process has of a store, and hands each part to the one room that needs it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Self

from dpi.certificates.declared import DeclaredOptions, declared, pool_of, told_until
from dpi.certificates.signature import Signer, create_pair
from dpi.domain.overlap import by_slot
from dpi.errors import OptionError, StateError
from dpi.events.slots import Window
from dpi.service import logs
from dpi.service._admissions import Admissions
from dpi.service._approvals import Approvals, Unapproved, adds_loss
from dpi.service._batch_writer import BatchWriter
from dpi.service._body import Body, Room
from dpi.service._closing import Closing
from dpi.service._decoding import Decoders
from dpi.service._exports import Exports
from dpi.service._feeding import Feeding
from dpi.service._metrics import Metrics
from dpi.service._oidc import IssuedTokens
from dpi.service._places import Arriving, Places, count_followers
from dpi.service._problems import Problem
from dpi.service._publication import Publication, Reading
from dpi.service._receipts import SILENT, Clock, Receipt, Receipts, Silence, write_moment
from dpi.service._unusable import BROKER, Unusable
from dpi.service._watch_blocks import WatchBlocks
from dpi.service.alerts._alert_threads import make_alert_threads
from dpi.service.audit_log import AuditLog
from dpi.service.config import Config, check_served
from dpi.service.operations import Overview
from dpi.service.tokens import Tokens
from dpi.settings.streams import StreamSettings
from dpi.sources import Admission, Events, Understood
from dpi.store import Store, open_store, store_exists
from dpi.store.base import Arrival
from dpi.store.sql import SQLStore
from dpi.stream import Stream
from dpi.stream.input_positions import system_clock
from dpi.stream.registration import Change

FARTHEST = 10_000
"""Slots before now that a stream may begin with which is opened while others run: those wait until all are closed."""
ANSWERS = 256 << 20
"""Bytes of answers that wait to be read, in all; a quarter of them, or one answer, of one token."""


class Sent(NamedTuple):
    """Events as they were sent. Private."""

    stream: str
    body: Body
    kind: str
    packing: str
    unit: str | None
    sender: str
    """Whose they are, as operators are told."""


class Batch(NamedTuple):
    """A batch as it was received. Private."""

    sent: Sent
    producer: str
    sequence: int
    receipt: Receipt
    complete: int
    """When its last byte was there."""


class Kept(NamedTuple):
    """The answer to a batch: for its producer alone."""

    slot: int | None
    """The first one that was open for it; None if it had been kept before."""
    understood: Understood


def open_signer(config: Config, store: Store) -> Signer | None:
    """Return what signs the chain. A new chain is signed, and its key is made if there is none.

    A chain that began without signatures goes on so, unless a key is named: readers who check all of it would find the
    first entries not signed. One that is signed goes on with its key or not at all.
    """
    last = store.head().sequence
    signed = any(store.link(number).signature is not None for number in {0, last}) if last >= 0 else None
    if signed is False and config.sign is None:
        logs.tell("the chain is not signed, as it began: name a key in `sign` to sign from here on", logging.WARNING)
        return None
    if not config.signing_key.exists():
        if signed:
            raise StateError(
                f"the chain is signed, and its key {config.signing_key} is not there: put it back or name it in `sign`."
            )
        made = create_pair(config.signing_key)
        logs.tell("a signing key was made: copy it to where secrets are kept", fingerprint=made.fingerprint)
    return Signer.open(config.signing_key)


def open_service_store(config: Config) -> SQLStore:
    """Open the store of a service, for the one process that writes to it."""
    witness: Path | Literal[False] | None = False if config.no_witness else config.witness
    new = config.new and not store_exists(config.place)  # a process may open it again
    return open_store(config.place, key_file=config.key_file, witness=witness, new=new)


CHECKERS = 4
"""Threads that check tokens of an issuer, and do nothing else: slots wait until it is known whom a batch is for."""


class Service:
    """Streams that are fed and read by others, from `start` to `stop`."""

    def __init__(self, config: Config, *, store: SQLStore | None = None, clock: Clock = system_clock) -> None:
        self.config, self.clock = config, clock
        self.store = open_service_store(config) if store is None else store
        try:
            self._signer = open_signer(config, self.store)
            self.verifier = None if self._signer is None else self._signer.verifier
            self.tokens, self.acts, self.metrics = Tokens(config.tokens), AuditLog(config.acts_file), Metrics()
            self.approvals = Approvals(self.acts, self.tokens)
            self.issued = None if config.oidc is None else IssuedTokens(config.oidc)
            self.checkers = ThreadPoolExecutor(CHECKERS, "dpi tokens")
            self.room = Room()
            self.arriving = Arriving(config.requests, config.of_one_token)
            self.batches = Places("batches", config.requests, config.of_one_token)
            self.receipts = Receipts(clock)
            self.silence = Silence(clock, SILENT if config.alerts is None else config.alerts.silence)
            self.unusable = Unusable(clock)
            self.publication = Publication(clock, config.delay_us)
            self.closing = Closing(self.receipts, self.publication, clock, self.metrics, self._thin)
            self.writer = BatchWriter(self.store, self.closing.streams, self.metrics)
            self.reading = Reading(config.place, self.publication, config.keys, config.quality)
            self.exports = Exports(self.reading)
            self.followers = count_followers(config.connections)
            self.answers = Places("bytes of answers that wait to be read", ANSWERS, ANSWERS // 4)
            self.watch_blocks = WatchBlocks()
            self.overview = Overview(clock, self.reading, self.closing, self.metrics, self.silence, self.unusable)
            self._decoders = Decoders()
            self.admissions = Admissions()
            self.guarantees: dict[str, str] = {}  # what is promised of each stream, in words
            self._open_all()
            self._alerts = [] if config.alerts is None else make_alert_threads(
                config.alerts, config.alerts.folder or config.tokens.with_name("alerts"), self.closing.streams,
                self.reading, self.overview.look,
            )  # fmt: skip
        except BaseException:
            self.store.close()
            raise

    def _open_all(self) -> None:
        known = declared(self.store.streams())
        paid = {name: self.store.pending(name) for name in known}
        ended = {name for name, options in known.items() if options.end is not None}
        for name, settings in self.config.streams.items():
            if name in ended:
                logs.tell("a stream of the configuration was stopped", logging.WARNING, stream=name)
            else:
                if name not in known:
                    self._check_new(settings, known)
                self._take(settings.open(self.store, change=True, signer=self._signer))
        for name, options in declared(self.store.streams()).items():
            # Discovery needs the texts of events, and a store keeps none: it is no stream that is served.
            if name not in self.closing.streams and options.asked:
                check_served(name, options.slots)
                self._take(Stream.of(self.store, name, keys=self.config.keys, signer=self._signer))
        for name, events in self.config.sources.items():
            if name not in ended:
                admission, note = partial(self.admissions.use, name), partial(self._note, name, BROKER)
                self.closing.feeding[name] = Feeding(name, events, self.store, admission, self.clock, note)
        self._take_up({name: slot.slot for name, slot in paid.items() if slot is not None})

    def _check_new(self, settings: StreamSettings, known: Mapping[str, DeclaredOptions]) -> None:
        """Refuse a new stream of the configuration that raises what users of a store can lose which has released.

        Log how many of its slots are over already: all of them are released first.
        """
        begun = any(self.store.reached(name) is not None for name in known)
        if begun and self._adds_loss(settings, known):
            raise OptionError(
                f"[streams.{settings.name}] has an ε of its own, which would add to what users can lose by the streams "
                "that are there. Have two administrators open it by HTTP first: docs/howto-officer.md says how."
            )
        past = settings.slots.first_open(self.clock()) - settings.slots.number(settings.begin)
        if past > 0:
            told = "a stream begins in the past: slots that are over are released first"
            logs.tell(told, logging.WARNING, stream=settings.name, slots=past)

    def _adds_loss(self, settings: StreamSettings, known: Mapping[str, DeclaredOptions]) -> bool:
        options = settings.make_options(self.store.key)
        return adds_loss(pool_of(options.name, options.ledger), known)

    def _take_up(self, made: Mapping[str, int]) -> None:
        """Have releases that were not yet to be seen when the program ended wait for their moment.

        Those that were `made` just now, of slots that had been paid for, wait for their next tick.
        """
        seen: dict[str, int] = {}
        hidden: list[tuple[int, str, int, int]] = []
        since = self.clock() - self.publication.delay
        for name, admission in self.admissions.items():
            slots = admission.slots
            first = min(slots.first_open(since), made.get(name, 1 << 62))
            if (extent := self.store.extent(name, None, first - 1)) is not None:
                seen[name] = extent[2]
            for content, link in self.store.releases(name, first):
                slot = int(json.loads(content.partition(b"\n")[0])["slot"])
                hidden.append((link.head.sequence, name, slot, slots.closing(slot)))
        head = self.store.head().sequence
        self.publication.begin(seen, min((entry - 1 for entry, *_ in hidden), default=head))
        for entry, name, slot, closing in sorted(hidden):
            self.publication.ready(name, slot, entry, closing, at=self.clock() if made.get(name) == slot else 0)
        self.publication.declared(head)

    def _take(self, stream: Stream) -> None:
        before = self.closing.streams.get(stream.name)
        if before is not None:
            before.leave()
        self._decoders.open(stream.name)
        admission = stream.admission()
        self.admissions.put(stream.name, admission)
        if not stream.stopped:
            self.silence.begin(stream.name, admission.slots, admission.first)
        self.metrics.quiet.labels(stream.name).set_function(partial(self.silence.quiet, stream.name))
        self.metrics.silent.labels(stream.name).set_function(partial(self.silence.silent, stream.name))
        self.metrics.unusable.labels(stream.name).set_function(lambda: len(self.unusable.senders(stream.name)))
        self.closing.streams[stream.name] = stream
        self.guarantees = {name: each.guarantee for name, each in self.closing.streams.items()}

    def _thin(self) -> None:
        if self.config.keep_measurements is not None:
            self.store.thin(self.config.keep_measurements)

    def start(self) -> Self:
        """Keep events and close slots from now on."""
        for thread in (self.writer, *self.closing.feeding.values(), self.closing, *self._alerts):
            thread.start()
        return self

    def read_again(self) -> None:
        """Read tokens again."""
        self.tokens.read_again()

    def limit(self, config: Config) -> None:
        """Take over other limits; what is there already, and would not be let in any more, stays."""
        self.config = config
        for places in (self.arriving, self.batches):
            places.most, places.of_one = config.requests, config.of_one_token
        followers = count_followers(config.connections)
        self.followers.most, self.followers.of_one = followers.most, followers.of_one

    def leave(self) -> None:
        """Begin to stop: whoever follows releases is let go."""
        self.publication.leave()

    def stop(self) -> None:
        """Keep what was received, close no slot any more, and let go of the store."""
        for thread in self._alerts:
            thread.stop()
        for feeding in self.closing.feeding.values():
            feeding.stop()
        self._decoders.stop()
        self.checkers.shutdown(wait=False)
        self.writer.stop()
        self.closing.stop()
        self.reading.close()
        self.store.close()

    # Streams.

    def declare(self, settings: StreamSettings, *, change: Change = False, approved: bool = False) -> Future[list[str]]:
        """Open a stream or, with `change`, go on with other options from a slot on that has not begun.

        One that raises what users can lose is opened only if it is `approved`, by a second administrator. Gives the
        streams whose later releases have no numbers of newcomers, because the new one shares their ε.
        """
        check_served(settings.name, settings.slots)
        return self.closing.call(partial(self._declare, settings, change, approved))

    def _declare(self, settings: StreamSettings, change: Change, approved: bool) -> list[str]:
        there = settings.name in self.closing.streams
        if there and not change:
            raise Problem(409, "there is a stream of this name already.")
        if change and not there:
            raise Problem(404, "there is no such stream.")
        if not there:
            self._check_begin(settings)
            if not approved and self._adds_loss(settings, declared(self.store.streams())):
                raise Unapproved
        ending = (
            [] if there else told_until(declared(self.store.streams()), settings.make_options(self.store.key).ledger)
        )
        with self.admissions.replace(settings.name):
            self._take(settings.open(self.store, change=change, signer=self._signer))
        self.publication.declared(self.store.head().sequence)
        return ending

    def end(self, name: str) -> Future[None]:
        """Stop a stream: no slot of it is closed any more, and no batch is kept, also after a restart."""
        return self.closing.call(partial(self._end, name))

    def _end(self, name: str) -> None:
        stream, feeding = self.closing.streams[name], self.closing.feeding.get(name)
        if stream.stopped:
            return
        with self.writer.turn, nullcontext() if feeding is None else feeding.turn:
            stream.stop()  # and erases what was kept: nothing may be written after that
            if feeding is not None:
                feeding.leave()
        self.closing.leave(name)
        self.silence.end(name)
        self.publication.declared(self.store.head().sequence)

    def _check_begin(self, settings: StreamSettings) -> None:
        """Refuse a stream whose empty past would keep other streams waiting, or that the calendar does not reach."""
        slots = settings.slots
        try:
            first = slots.number(settings.begin)
            write_moment(slots.closing(first + FARTHEST) + self.publication.delay)
        except (OverflowError, ValueError):
            first = -(1 << 62)
        if not slots.first_open(self.clock()) - FARTHEST <= first:
            raise Problem(422, f"a stream begins at most {FARTHEST:,} slots before now, and long before the year 9999.")

    # Events.

    def arrive(self, arrived: int | None) -> Receipt:
        """Return the receipt of a batch whose head is read now, and arrived when the kernel says."""
        return self.receipts.arrive(arrived)

    def receive(self, batch: Batch) -> Future[Kept]:
        """Keep a batch; done when it is durable, or refused by itself."""
        answer: Future[Kept] = Future()
        used, (stream, body, *_) = ExitStack(), batch.sent

        def finish(outcome: Kept | BaseException) -> None:
            used.close()
            batch.receipt.settle()
            body.drop()
            self.metrics.batches.labels(stream, str(isinstance(outcome, Kept)).lower()).inc()
            self.metrics.batch_bytes.labels(stream).inc(body.size)
            if isinstance(outcome, Kept):
                self._note(
                    stream, batch.sent.sender, batch.producer, None if outcome.slot is None else outcome.understood
                )
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

        def work() -> None:
            try:
                first, arrival, understood = self._read_arrival(batch, used.enter_context(self.admissions.use(stream)))
                kept = self.writer.keep(arrival)
            except BaseException as error:
                finish(error)
            else:
                kept.add_done_callback(partial(tell, first, understood))

        def tell(first: int, understood: Understood, kept: Future[bool]) -> None:
            error = kept.exception()
            finish(Kept(first if kept.result() else None, understood) if error is None else error)

        try:
            self._decoders.submit(stream, work)
        except Problem as error:
            finish(error)
        return answer

    def _note(self, stream: str, sender: str, producer: str, rows: Understood | None) -> None:
        """Note that a batch was kept, now or before; of the latter, rows were noted then."""
        self.silence.note(stream)
        if rows is not None:
            self.metrics.note_rows(stream, rows)
            self.unusable.note(stream, sender, producer, rows)

    def _read_arrival(self, batch: Batch, admission: Admission) -> tuple[int, Arrival, Understood]:
        """Return the first slot that was open for a batch, what is kept of it, and what its producer is told."""
        first, window = self._find_window(admission, batch.receipt.moment, batch.complete)
        events = self._decode(batch.sent, admission)
        with self.metrics.stage("admission"):
            rows, understood = admission.understand(events, window)
            return first, Arrival(batch.sent.stream, rows, batch.producer, batch.sequence), understood

    @staticmethod
    def _find_window(admission: Admission, head: int, end: int) -> tuple[int, Window]:
        """Return the first slot that was open for a batch, and its window, by the moments of its head and its end."""
        slots, first = admission.slots, max(admission.first, admission.slots.first_open(head))
        return first, Window(first, slots.next_closing(end))

    def _decode(self, sent: Sent, admission: Admission) -> Events:
        domain = by_slot(admission.domain).newest
        with self.metrics.stage("decoding"):
            return self._decoders.read(sent.body.take(), sent.kind, sent.unit, domain, sent.packing, self.config.body)

    def check(self, sent: Sent) -> Future[Understood]:
        """Return what would be understood of a batch; keeps nothing of it, and no slot waits for it."""

        def work() -> Understood:
            try:
                admission, now = self.admissions.find(sent.stream), self.clock()
                _, window = self._find_window(admission, now, now)
                return admission.understand(self._decode(sent, admission), window)[1]
            finally:
                sent.body.drop()

        try:
            return self._decoders.submit(sent.stream, work)
        except Problem:
            sent.body.drop()
            raise
