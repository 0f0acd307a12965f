"""A store in memory: for notebooks, tests, and streams whose life is one process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from threading import RLock
from typing import ClassVar, Self, TypeVar

import numpy as np

from dpi.budget.account_records import merged
from dpi.certificates.chain import Head, Link
from dpi.errors import OptionError, StateError, StoreError
from dpi.events.identity import check_chain
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.files import read_sealed, write_sealed
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store.base import Arrival, Checkpoint, Levy, PaidSlot, Store

_Entry = TypeVar("_Entry")
_COLUMNS = ("names", "slots", "bins", "counts")


@dataclass(frozen=True, eq=False, repr=False)
class _Stream:
    """What is kept of one stream."""

    options: Schedule[str] = field(default_factory=lambda: Schedule(()))
    releases: tuple[tuple[int, bytes, Link], ...] = ()
    progress: Checkpoint | None = None
    paid: PaidSlot | None = None
    events: tuple[Rows, ...] = ()
    sequences: dict[str, int] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    payments: tuple[bytes, ...] = ()
    """Runs of records of what accounts have paid here, if the stream measures by class."""


@dataclass(frozen=True, eq=False, repr=False)
class _Ledger:
    options: str
    runs: tuple[bytes, ...] = ()
    levies: tuple[Levy, ...] = ()
    """What every account was charged."""


@dataclass(frozen=True, eq=False, repr=False)
class _Content:
    """What is kept of all streams. A write assigns another one: wherever it is interrupted, all or nothing happens."""

    links: tuple[Link, ...] = ()
    streams: dict[str, _Stream] = field(default_factory=dict)
    ledgers: dict[str, _Ledger] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class MemoryStore(Store):
    """Holds a ledger and streams for as long as the process lives; give it to several streams to share one ε.

    >>> import dpi
    >>> store = MemoryStore()
    >>> options = dict(domain=dpi.Categories(["a", "b"]), epsilon=1, store=store)
    >>> visits, orders = dpi.Stream(**options, name="visits"), dpi.Stream(**options, name="orders")
    >>> visits.release(["ada"], ["a"]).slot, orders.release(["ada"], ["b"]).slot
    (0, 0)
    """

    durable: ClassVar = False
    keeps_measurements: ClassVar = False

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    history: int | None = None
    """How many of the newest releases and entries of the chain are kept: all of them, unless a number is given."""

    def __post_init__(self) -> None:
        check_chain(self.secret, "secret")
        self._content = _Content()
        self._turn = RLock()  # the timer of a live stream may note a mark while another thread writes

    def _write(
        self,
        streams: Mapping[str, _Stream],
        link: Link | None = None,
        ledgers: Mapping[str, _Ledger] | None = None,
        domain: tuple[str, str] | None = None,
    ) -> None:
        """Put other streams and ledgers in the place of those there are; add an entry to the chain, and a domain."""
        kept = self._content
        self._content = _Content(
            kept.links if link is None else self._newest((*kept.links, link)),
            {**kept.streams, **streams},
            {**kept.ledgers, **(ledgers or {})},
            {**kept.domains, **({} if domain is None else dict([domain]))},
        )

    def _newest(self, entries: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
        return entries if self.history is None else entries[max(len(entries) - self.history, 0) :]

    def _stream(self, stream: str) -> _Stream:
        return self._content.streams[stream]

    @property
    def key(self) -> bytes:
        return self.secret

    # The ledger.

    def ledgers(self) -> dict[str, str]:
        return {name: ledger.options for name, ledger in self._content.ledgers.items()}

    def load_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        if ledger not in self._content.ledgers:
            with self._turn:
                self._write({}, ledgers={ledger: _Ledger(options)})
        kept = self._content.ledgers[ledger]
        if kept.options != options:
            raise StateError("the ledger has other options (epsilon, policy or period).")
        return b"".join(kept.runs), list(kept.levies)

    def payments(self, stream: str) -> bytes:
        return b"".join(self._stream(stream).payments)

    # Streams.

    def streams(self) -> dict[str, str]:
        return {name: stream.options.newest for name, stream in self._content.streams.items()}

    def options(self, stream: str) -> Schedule[str]:
        return self._stream(stream).options

    def domain(self, digest: str) -> str:
        return self._content.domains[digest]

    def declare(
        self,
        stream: str,
        options: str,
        domain: tuple[str, str],
        link: Link,
        first: int = BEGINNING,
        recoded: Schedule[Integers] | None = None,
    ) -> None:
        with self._turn:
            kept = self._content.streams.get(stream, _Stream())
            events = kept.events if recoded is None else tuple(_recode(Rows.sum(kept.events), first, recoded))
            after = replace(kept, options=kept.options.changed(first, options), events=events)
            self._write({stream: after}, link, domain=domain)

    def progress(self, stream: str) -> Checkpoint | None:
        return self._stream(stream).progress

    def pending(self, stream: str) -> PaidSlot | None:
        kept = self._stream(stream)
        released = kept.paid is None or (kept.progress is not None and kept.paid.slot <= kept.progress.last)
        return None if released else kept.paid

    def measurements(self, stream: str) -> Iterator[PaidSlot]:
        """Give the last measurement: older ones are not kept in memory."""
        paid = self._stream(stream).paid
        return iter([] if paid is None else [paid])

    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        with self._turn:
            kept, debited = self._stream(paid.stream), self._content.ledgers.get(ledger)
            before = [kept.paid.slot] if kept.paid else [kept.progress.last] if kept.progress else []
            if any(slot >= paid.slot for slot in before):
                raise StoreError("the slot was paid for already.")
            ledgers = {} if debited is None else {ledger: replace(debited, runs=_add(debited.runs, charge))}
            del charge  # of a large slot it is memory that the payments can use
            events = tuple(each.only(each.slots > paid.slot) for each in kept.events)
            after = replace(kept, paid=paid, events=events, payments=_add(kept.payments, payments or b""))
            self._write({paid.stream: after}, ledgers=ledgers)

    def publish(self, stream: str, content: bytes, link: Link, progress: Checkpoint) -> None:
        with self._turn:
            kept = self._stream(stream)
            releases = self._newest((*kept.releases, (progress.last, content, link)))
            self._write({stream: replace(kept, releases=releases, progress=progress)}, link)

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        for slot, content, link in self._stream(stream).releases:
            if (first is None or slot >= first) and (last is None or slot <= last):
                yield content, link

    # The chain.

    def head(self) -> Head:
        links = self._content.links
        return links[-1].head if links else Head()

    def links(self) -> Iterator[Link]:
        return iter(self._content.links)

    def link(self, sequence: int) -> Link:
        return next(link for link in self._content.links if link.head.sequence == sequence)

    def restored(
        self,
        levies: dict[str, Levy],
        progress: dict[str, Checkpoint],
        link: Link,
        charges: Mapping[str, Iterable[bytes]] | None = None,
    ) -> None:
        with self._turn:
            ledgers = {}
            for name, levy in levies.items():
                kept, charge = self._content.ledgers[name], b"".join((charges or {}).get(name, ()))
                ledgers[name] = replace(kept, runs=_add(kept.runs, charge), levies=(*kept.levies, levy))
            after = {name: replace(self._stream(name), progress=at) for name, at in progress.items()}
            self._write(after, link, ledgers)

    # Events of open slots, and how far inputs had got.

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        with self._turn:
            after, fresh = dict[str, _Stream](), list[bool]()
            for stream, events, producer, sequence in arrivals:
                kept = after.get(stream) or self._stream(stream)
                fresh.append(sequence > kept.sequences.get(producer, -1))
                if fresh[-1]:
                    sequences = kept.sequences | {producer: sequence}
                    after[stream] = replace(kept, events=(*kept.events, events), sequences=sequences)
            self._write(after)
        return fresh

    def sequence(self, stream: str, producer: str) -> int:
        return self._stream(stream).sequences.get(producer, -1)

    def events(self, stream: str, slot: int) -> Rows:
        with self._turn:
            kept = self._stream(stream)
            events = Rows.sum(kept.events)
            self._write({stream: replace(kept, events=(events,))})
        return events.only(events.slots == slot)

    def note(self, stream: str, number: int, mark: str) -> None:
        with self._turn:
            kept = self._stream(stream)
            self._write({stream: replace(kept, marks=kept.marks | {number: mark})})

    def marks(self, stream: str) -> list[tuple[int, str]]:
        return sorted(self._stream(stream).marks.items())

    def forget_marks(self, stream: str, before: int) -> None:
        with self._turn:
            kept = self._stream(stream)
            marks = {number: mark for number, mark in kept.marks.items() if number >= before}
            self._write({stream: replace(kept, marks=marks)})

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file: private (it holds accounts and key), readable by its owner only."""
        parts, content = dict[str, bytes](), self._content

        def part(data: bytes) -> str:
            name = str(len(parts))
            parts[name] = data
            return name

        streams = {}
        for name, kept in content.streams.items():
            at, events = kept.progress, Rows.sum(kept.events)
            states = () if at is None else (at.mechanism(), at.accumulated, at.tree)
            streams[name] = {
                "options": kept.options.entries,
                "progress": at and [at.first, at.last, at.spent, at.allocation, *map(part, states)],
                "releases": [[slot, part(data), *astuple(link)] for slot, data, link in kept.releases],
                "events": [part(getattr(events, column).tobytes()) for column in _COLUMNS],
                "sequences": kept.sequences,
                "marks": self.marks(name),
                "payments": part(merged(*kept.payments)),
            }
        head = {
            "key": part(self.secret),
            "history": self.history,
            "links": [astuple(link) for link in content.links],
            "domains": content.domains,
            "ledgers": {
                name: [kept.options, part(merged(*kept.runs)), [astuple(levy) for levy in kept.levies]]
                for name, kept in content.ledgers.items()
            },
            "streams": streams,
        }
        write_sealed(path, head, parts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the store of `save`; refuses a file that is damaged."""
        head, parts = read_sealed(path)
        try:
            store = cls(parts[head["key"]], head["history"])
            streams = {}
            for name, kept in head["streams"].items():
                names, slots, bins, counts = (np.frombuffer(parts[at], np.int64) for at in kept["events"])
                progress = None
                if kept["progress"] is not None:
                    first, last, spent, allocation, mechanism, accumulated, tree = kept["progress"]
                    state = partial(bytes, parts[mechanism])
                    progress = Checkpoint(first, last, spent, allocation, state, parts[accumulated], parts[tree])
                streams[name] = _Stream(
                    Schedule(tuple((int(first), str(text)) for first, text in kept["options"])),
                    tuple((slot, parts[data], Link(*link)) for slot, data, *link in kept["releases"]),
                    progress,
                    events=(Rows(names.view(np.uint64).reshape(-1, 2), slots, bins, counts),),
                    sequences=kept["sequences"],
                    marks=dict(kept["marks"]),
                    payments=_add((), parts[kept["payments"]]),
                )
            ledgers = {
                name: _Ledger(options, (parts[runs],), tuple(Levy(*levy) for levy in levies))
                for name, (options, runs, levies) in head["ledgers"].items()
            }
            store._content = _Content(tuple(Link(*link) for link in head["links"]), streams, ledgers, head["domains"])
        except (KeyError, TypeError, ValueError):
            raise StateError("the saved store is damaged: a part is missing.") from None
        return store

    def check_successor(self, store: MemoryStore, stream: str, options: str) -> None:
        """Refuse a saved store that the one stream of this store must not go on from: it lacks what was released here.

        A saved store that keeps too little of its history cannot tell, and is refused.
        """
        if store.streams().get(stream) != options:
            raise StateError("the saved stream has other options; resume it with the options it was started with.")
        if len(store.streams()) > 1 or len(self.streams()) > 1:
            raise OptionError(
                "streams share this store: use `MemoryStore.load`, and open every stream on what it gives."
            )
        fresh = self.reached(stream) is None and self.pending(stream) is None
        if not fresh and self.head() not in [link.head for link in store.links()]:
            raise StateError(
                "the saved stream is older than this one, or has another history: loading it would refill accounts."
            )

    def close(self) -> None:
        """Let go of nothing: the store lives as long as the object."""


def _add(runs: tuple[bytes, ...], records: bytes) -> tuple[bytes, ...]:
    """Return the runs of a log with one more, merged with those before it that are not much larger."""
    while records and runs and len(runs[-1]) <= 2 * len(records):
        *before, last = runs
        runs, records = tuple(before), merged(last, records)
    return (*runs, records) if records else runs


def _recode(events: Rows, first: int, bins: Schedule[Integers]) -> Iterator[Rows]:
    """Give the events, those of the slots from `first` on by other bins."""
    yield events.only(events.slots < first)
    for slot in np.unique(events.slots[events.slots >= first]).tolist():
        yield events.only(events.slots == slot).recode(bins.at(slot))
