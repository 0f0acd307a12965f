"""A store in memory: for notebooks, tests, and streams whose life is one process."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import setitem
from threading import RLock
from typing import ClassVar, Self, TypeVar

import numpy as np

from dpi.budget.account_table import merged
from dpi.certificates.chain import Head, Link
from dpi.errors import OptionError, StateError, StoreError
from dpi.events.identity import check_key
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.files import read_sealed, write_sealed
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store.base import Arrival, Checkpoint, Levy, PaidSlot, Store

_Entry = TypeVar("_Entry")
_Step = Callable[[], object]
_Ledger = tuple[str, list[bytes], list[Levy]]
"""Options, runs of records, and what every account was charged."""
_COLUMNS = ("names", "slots", "bins", "counts")


@dataclass(eq=False, repr=False)
class _Stream:
    """What is kept of one stream."""

    options: Schedule[str]
    releases: deque[tuple[int, bytes, Link]]
    progress: Checkpoint | None = None
    paid: PaidSlot | None = None
    events: list[Rows] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    payments: list[bytes] = field(default_factory=list)
    """Runs of records of what accounts have paid here, if the stream measures by class."""


@dataclass(eq=False, repr=False)
class _Content:
    """What is kept of all streams."""

    links: deque[Link]
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
    _content: _Content = field(init=False, repr=False)
    _unfinished: tuple[_Step, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        check_key(self.secret, "secret")
        self._content = _Content(deque(maxlen=self.history))
        self._turn = RLock()

    # A write is one assignment, of steps that have the same effect however often they are done. What an interruption
    # leaves of them is done before anything is read. One thread does them at a time: the timer of a live stream may ask
    # what is stored while another thread writes.

    def _write(self, *steps: _Step) -> None:
        with self._turn:
            self._unfinished = steps
            self._finish()

    def _finish(self) -> None:
        with self._turn:
            for step in self._unfinished:
                step()
            self._unfinished = ()

    @property
    def _kept(self) -> _Content:
        self._finish()
        return self._content

    @property
    def key(self) -> bytes:
        """The secret with which users are named."""
        return self.secret

    def ledgers(self) -> dict[str, str]:
        """Names of the ledgers, with their options as text."""
        return {name: options for name, (options, _, _) in self._kept.ledgers.items()}

    def load_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Records and levies of a ledger."""
        known, runs, levies = self._kept.ledgers.setdefault(ledger, (options, [], []))
        if known != options:
            raise StateError("the ledger has other options (epsilon, policy or period).")
        return b"".join(runs), list(levies)

    def streams(self) -> dict[str, str]:
        """Names of the streams, with their newest options as text."""
        return {name: stream.options.newest for name, stream in self._kept.streams.items()}

    def options(self, stream: str) -> Schedule[str]:
        """The options of a stream as text, by the first slot that they hold for."""
        return self._kept.streams[stream].options

    def domain(self, digest: str) -> str:
        """The description of a domain, as text."""
        return self._kept.domains[digest]

    def declare(
        self,
        stream: str,
        options: str,
        domain: tuple[str, str],
        link: Link,
        first: int = BEGINNING,
        recoded: Schedule[Integers] | None = None,
    ) -> None:
        """Open a stream, or change its options from a slot on."""
        kept = self._kept
        known = kept.streams.get(stream, _Stream(Schedule(()), deque(maxlen=self.history)))
        events = known.events if recoded is None else [*_recoded(self._events(stream), first, recoded)]
        after = replace(known, options=known.options.changed(first, options), events=events)
        self._write(
            partial(setitem, kept.domains, *domain),
            partial(setitem, kept.streams, stream, after),
            partial(_append, kept.links, link),
        )

    def progress(self, stream: str) -> Checkpoint | None:
        """Where a stream is."""
        return self._kept.streams[stream].progress

    def reached(self, stream: str) -> tuple[int, int] | None:
        """Last slot and spent units of a stream."""
        progress = self._kept.streams[stream].progress
        return None if progress is None else (progress.last, progress.spent)

    def pending(self, stream: str) -> PaidSlot | None:
        """The slot that was paid for and not yet released."""
        paid, progress = self._kept.streams[stream].paid, self._kept.streams[stream].progress
        return paid if paid is not None and (progress is None or paid.slot > progress.last) else None

    def measurements(self, stream: str) -> Iterator[PaidSlot]:
        """The last measurement: older ones are not kept in memory."""
        paid = self._kept.streams[stream].paid
        return iter([] if paid is None else [paid])

    def payments(self, stream: str) -> bytes:
        """Records of what each account has paid in a stream that measures by class."""
        return b"".join(self._kept.streams[stream].payments)

    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        """Debit the accounts, keep the measurement, erase the slot's events."""
        stream = self._kept.streams[paid.stream]
        before = [stream.paid.slot] if stream.paid else [stream.progress.last] if stream.progress else []
        if any(slot >= paid.slot for slot in before):
            raise StoreError("the slot was paid for already.")
        steps: list[_Step] = []
        if ledger in self._kept.ledgers:
            options, runs, levies = self._kept.ledgers[ledger]
            steps.append(partial(setitem, self._kept.ledgers, ledger, (options, _added(runs, charge), levies)))
        if payments:
            steps.append(partial(setattr, stream, "payments", _added(stream.payments, payments)))
        events = [events.only(events.slots > paid.slot) for events in stream.events]
        self._write(*steps, partial(setattr, stream, "paid", paid), partial(setattr, stream, "events", events))

    def publish(self, stream: str, content: bytes, link: Link, progress: Checkpoint) -> None:
        """Keep a release and the state after it."""
        kept = self._kept.streams[stream]
        self._write(
            partial(_append, kept.releases, (progress.last, content, link)),
            partial(setattr, kept, "progress", progress),
            partial(_append, self._kept.links, link),
        )

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Content and link of the releases of slots `first` to `last`."""
        for slot, content, link in self._kept.streams[stream].releases:
            if (first is None or slot >= first) and (last is None or slot <= last):
                yield content, link

    def head(self) -> Head:
        """The end of the chain."""
        return self._kept.links[-1].head if self._kept.links else Head()

    def links(self) -> Iterator[Link]:
        """All entries, in order."""
        return iter(self._kept.links)

    def link(self, sequence: int) -> Link:
        """One entry, if it is kept."""
        return next(link for link in self._kept.links if link.head.sequence == sequence)

    def restored(
        self,
        levies: dict[str, Levy],
        progress: dict[str, Checkpoint],
        link: Link,
        charges: Mapping[str, Iterable[bytes]] | None = None,
    ) -> None:
        """Charge ledgers and move streams on."""
        kept, steps = self._kept, list[_Step]()
        for ledger, levy in levies.items():
            options, runs, before = kept.ledgers[ledger]
            runs = _added(runs, b"".join((charges or {}).get(ledger, ())))
            steps.append(partial(setitem, kept.ledgers, ledger, (options, runs, [*before, levy])))
        steps += [partial(setattr, kept.streams[stream], "progress", after) for stream, after in progress.items()]
        self._write(*steps, partial(_append, kept.links, link))

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches, each once for its (producer, sequence)."""
        steps: list[_Step] = []
        last: dict[tuple[str, str], int] = {}
        fresh = []
        for stream, events, producer, sequence in arrivals:
            kept, place = self._kept.streams[stream], (stream, producer)
            fresh.append(sequence > last.get(place, kept.sequences.get(producer, -1)))
            if fresh[-1]:
                last[place] = sequence
                steps += [partial(_append, kept.events, events), partial(setitem, kept.sequences, producer, sequence)]
        self._write(*steps)
        return fresh

    def sequence(self, stream: str, producer: str) -> int:
        """The last sequence of a producer."""
        return self._kept.streams[stream].sequences.get(producer, -1)

    def events(self, stream: str, slot: int) -> Rows:
        """The events of one open slot."""
        events = self._events(stream)
        return events.only(events.slots == slot)

    def note(self, stream: str, number: int, mark: str) -> None:
        """Keep a mark: one assignment, which no other thread's steps touch."""
        self._content.streams[stream].marks[number] = mark

    def marks(self, stream: str) -> list[tuple[int, str]]:
        """The marks that are kept, in order."""
        return sorted(self._kept.streams[stream].marks.items())

    def forget_marks(self, stream: str, before: int) -> None:
        """Delete the marks below a number."""
        kept = self._kept.streams[stream].marks
        for number in [number for number in list(kept) if number < before]:
            del kept[number]

    def _events(self, stream: str) -> Rows:
        """All open events, in one piece from now on."""
        kept = self._kept.streams[stream]
        together = Rows.sum([Rows.empty(), *kept.events])
        kept.events = [together]
        return together

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file: private (it holds accounts and key), readable by its owner only."""
        parts = {"key": self.secret}
        streams, ledgers = {}, {}
        for name, (options, runs, levies) in self._kept.ledgers.items():
            ledgers[name] = [options, [[levy.slot, levy.units] for levy in levies]]
            parts[f"accounts {name}"] = merged(b"".join(runs))
        for name, kept in self._kept.streams.items():
            at = kept.progress
            streams[name] = {
                "options": kept.options.entries,
                "progress": None if at is None else [at.first, at.last, at.spent, at.allocation],
                "releases": [[slot, *_link(link)] for slot, _, link in kept.releases],
                "sequences": kept.sequences,
                "marks": self.marks(name),
            }
            if at is not None:
                parts |= {
                    f"brain {name}": at.mechanism(),
                    f"accumulated {name}": at.accumulated,
                    f"tree {name}": at.tree,
                }
            if kept.payments:
                parts[f"payments {name}"] = merged(b"".join(kept.payments))
            parts |= {f"release {name} {number}": content for number, (_, content, _) in enumerate(kept.releases)}
            open_events = self._events(name)
            parts |= {f"{column} {name}": getattr(open_events, column).tobytes() for column in _COLUMNS}
        links = [_link(link) for link in self._kept.links]
        head = {
            "history": self.history,
            "ledgers": ledgers,
            "streams": streams,
            "domains": self._kept.domains,
        }
        write_sealed(path, {**head, "links": links}, parts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The store of `save`; refuses a file that is damaged."""
        head, parts = read_sealed(path)
        try:
            store = cls(parts["key"], head["history"])
            store._kept.links.extend(Link(*link) for link in head["links"])
            store._kept.domains.update(head["domains"])
            for name, (options, levies) in head["ledgers"].items():
                store._kept.ledgers[name] = (options, [parts[f"accounts {name}"]], [Levy(*levy) for levy in levies])
            for name, kept in head["streams"].items():
                options = kept["options"]
                known = [(BEGINNING, options)] if isinstance(options, str) else options  # an older save has one text
                schedule = Schedule(tuple((int(first), str(text)) for first, text in known))
                stream = store._kept.streams[name] = _Stream(schedule, deque(maxlen=store.history))
                for number, (slot, *link) in enumerate(kept["releases"]):
                    stream.releases.append((slot, parts[f"release {name} {number}"], Link(*link)))
                stream.sequences.update(kept["sequences"])
                stream.marks.update(kept.get("marks", ()))
                stream.payments += [parts[f"payments {name}"]] if f"payments {name}" in parts else []
                stream.events.append(
                    Rows(
                        np.frombuffer(parts[f"names {name}"], dtype=np.uint64).reshape(-1, 2),
                        *(np.frombuffer(parts[f"{column} {name}"], dtype=np.int64) for column in _COLUMNS[1:]),
                    )
                )
                if kept["progress"] is not None:
                    state, mass = parts[f"brain {name}"], parts[f"accumulated {name}"]
                    first, last, spent, allocation = kept["progress"]
                    tree = parts[f"tree {name}"]
                    stream.progress = Checkpoint(first, last, spent, allocation, partial(bytes, state), mass, tree)
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
                "the saved stream is older than this one, or went another way: loading it would refill accounts."
            )

    def close(self) -> None:
        """Nothing to let go of: the store lives as long as the object."""


def _added(runs: list[bytes], records: bytes) -> list[bytes]:
    """The runs of a log with one more, merged with those before it that are not much larger."""
    runs = [*runs, records]
    while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
        runs[-2:] = [merged(runs[-2], runs[-1])]
    return runs


def _recoded(events: Rows, first: int, bins: Schedule[Integers]) -> Iterator[Rows]:
    """The events, those of the slots from `first` on by other bins."""
    yield events.only(events.slots < first)
    for slot in np.unique(events.slots[events.slots >= first]).tolist():
        yield events.only(events.slots == slot).recode(bins.at(slot))


def _append(entries: deque[_Entry] | list[_Entry], entry: _Entry) -> None:
    """Add an entry at the end, unless it stands there."""
    if not entries or entries[-1] is not entry:
        entries.append(entry)


def _link(link: Link) -> list[str | None]:
    return [link.text, link.digest, link.signature]
