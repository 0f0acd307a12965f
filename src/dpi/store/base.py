"""What a store holds, and the order in which a slot is closed.

A slot closes in two transactions. `pay` debits the accounts, writes the *noisy measurement* and erases the slot's
events: all of it or nothing. `publish` writes the release that the mechanism, a pure function, makes of the stored
public state and that measurement, with its certificate. A crash before `pay` leaves the slot open with its events,
and nobody has seen anything; a crash after it leaves a measurement without a release, and opening the stream again
makes the same bytes of it. So a measurement is never drawn twice for one slot that anyone has heard of, and whether
something is tried again never depends on a drawn value: what `pay` writes has a size that does not depend on it.

A store knows bytes. It decides nothing about privacy, and it never sees a clean histogram. The accounts that streams
pay from are held by a session (`dpi.store.ledger_session`).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from dpi.budget.account_table import AccountsByName, AccountTable
from dpi.budget.class_allocation import read_snapshot
from dpi.budget.classes import Bounds
from dpi.certificates.chain import Head, Link
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import OptionError, StateError
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store.folder import Folder, Layout
from dpi.store.witness import Seen, Witness

_DIGEST = 32
"""Bytes of a digest.

Source: by definition; BLAKE2b then withstands collisions with 128 bits.
"""


@dataclass(frozen=True, eq=False)
class PaidSlot:
    """A slot that is paid for and measured: public, but not yet a release."""

    stream: str
    slot: int
    epsilon: int
    """Budget of the slot, in units."""
    partial: bool
    values: bytes
    """The noisy measurement: whole numbers of 8 bytes."""
    allocation: str
    """What was drawn of the budget so far."""
    assumption: str = ""
    tree: bytes = b""
    """The tree of sums after the slot, if the stream has one: its open nodes are private."""

    def spent_after(self, spent: int) -> int:
        """Return what `spent` of the checkpoint is after this slot: with its budget or, by class, as bounds say."""
        bounds = read_snapshot(self.allocation)[0]
        return spent + self.epsilon if bounds is None else bounds.most_spent

    @property
    def digest(self) -> str:
        """The fingerprint of the measurement, which the release's certificate states."""
        return hashlib.blake2b(self.values, digest_size=_DIGEST, person=b"dpi measurement").hexdigest()

    @property
    def seal(self) -> bytes:
        """Of the measurement and what is public about it: it has no key, and finds damage, not forgery."""
        head = [self.stream, self.slot, self.epsilon, self.partial, self.allocation, self.assumption]
        text = json.dumps(head).encode() + b"\n" + self.values
        return hashlib.blake2b(text, digest_size=_DIGEST, person=b"dpi measured").digest()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A stream after its last release: all of it public, but for open nodes of a tree."""

    first: int
    """The first slot ever released."""
    last: int
    spent: int
    """Sum of the budgets of its slots, in units; where users are measured by class, the most one can have spent."""
    allocation: str
    mechanism: Callable[[], bytes]
    accumulated: bytes
    tree: bytes = b""
    """These four are told by the options of the last slot; what is empty starts anew."""
    digested: Callable[[bytes], int] = lambda _: 0
    """How many of the mechanism's bytes end with a digest of all others (`Mechanism.digested`)."""

    def seal(self, stream: str, mechanism: bytes) -> bytes:
        """Of where a stream is, without a key.

        A large state is most of it, and the mechanism has just digested it (`digested`): then the seal is of that
        digest, and says so by two more bytes. Whoever checks it digests the state anew (`has_seal`).
        """
        start = self.digested(mechanism)
        return self._seal(stream, mechanism, start, mechanism[max(start - _DIGEST, 0) : start])

    def has_seal(self, seal: bytes, stream: str, mechanism: bytes) -> bool:
        """Whether a seal is that of where a stream is: every byte of it was looked at."""
        start = int.from_bytes(seal[_DIGEST:], "big")
        rest = hashlib.blake2b(memoryview(mechanism)[start:], digest_size=_DIGEST).digest() if start else b""
        return seal == self._seal(stream, mechanism, start, rest)

    def _seal(self, stream: str, mechanism: bytes, start: int, rest: bytes) -> bytes:
        """Return the same with the state from `start` on as the digest `rest`; all of it as it is, if that is 0."""
        head = [stream, self.first, self.last, self.spent, self.allocation, len(mechanism)]
        digest = hashlib.blake2b(json.dumps(head).encode() + b"\n", digest_size=_DIGEST, person=b"dpi progress")
        digest.update(mechanism[:start] + rest if start else mechanism)
        digest.update(self.accumulated)
        return digest.digest() + (start.to_bytes(2, "big") if start else b"")


@dataclass(frozen=True)
class Levy:
    """What every account of a ledger was charged, in the epoch of a slot."""

    slot: int
    units: int


class Arrival(NamedTuple):
    """A batch of events on its way into a store. Private."""

    stream: str
    events: Rows
    producer: str
    sequence: int


@dataclass(eq=False)
class Store(ABC):
    """Everything a stream needs to go on where it stopped; several streams of one store share one ledger."""

    durable: ClassVar[bool] = True
    """Whether what is written outlives the process."""
    keeps_measurements: ClassVar[bool] = True
    """Whether all measurements are kept, or the last of each stream only."""

    witness: Witness | None = field(default=None, init=False, repr=False)
    """Where the head of the chain is kept as well."""

    # The ledger.

    @property
    @abstractmethod
    def key(self) -> bytes:
        """The secret with which users are named."""

    @abstractmethod
    def ledgers(self) -> dict[str, str]:
        """Names of the ledgers, with their options as text."""

    @abstractmethod
    def load_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Return records and levies of a ledger, opened with these options if it is new.

        Raises `StateError` if the ledger has other options.
        """

    def ledger_table(self, ledger: str, options: str, *, paying: bool = False) -> tuple[AccountsByName, list[Levy]]:
        """Return the accounts of `load_ledger` by name; where they will be paid from, a later writer is noticed."""
        records, levies = self.load_ledger(ledger, options)
        return AccountTable.from_bytes(records), levies

    def catch_up(self) -> None:  # noqa: B027 - a store in memory has nothing to look at
        """Look how far the store has come, before it is read anew; in memory nobody else can have moved it."""

    @property
    def layout(self) -> Layout | None:
        """Where files of accounts are; None where there are none."""
        return None

    @property
    def folder(self) -> Folder | None:
        """The folder of the layout."""
        return None

    def lay_out_new(self, path: Path | None, bits: int) -> None:
        """Have accounts in 2^bits buckets of files, which an engine needs; for a store that has none yet."""
        raise OptionError("an engine needs a store on disk: give `store` a path, or the address of a database.")

    # Streams.

    @abstractmethod
    def streams(self) -> dict[str, str]:
        """Names of the streams, with their newest options as text: those may hold for slots to come alone."""

    @abstractmethod
    def options(self, stream: str) -> Schedule[str]:
        """Return the options of a stream as text, by the first slot that they hold for."""

    @abstractmethod
    def domain(self, digest: str) -> str:
        """Return the description of a domain, as text."""

    @abstractmethod
    def declare(
        self,
        stream: str,
        options: str,
        domain: tuple[str, str],
        link: Link,
        first: int = BEGINNING,
        recoded: Schedule[Integers] | None = None,
    ) -> None:
        """Open a stream, or change its options from the slot `first` on: an entry of the chain says so.

        Options that were declared for later slots are dropped. Events stay. Those of slots before `first` are told by
        the bins of their own slot's domain, as before; should there be events of later ones, `recoded` has the new bin
        of every old one (none, if it is negative), by the slot from which it is meant.
        """

    @abstractmethod
    def progress(self, stream: str) -> Checkpoint | None:
        """Where a stream is; None before its first release."""

    def check_state(self, stream: str) -> None:
        """Raise `StateError` if the public state of a stream is not as it was sealed; private tables are not read."""
        self.progress(stream)

    def reached(self, stream: str) -> tuple[int, int] | None:
        """Last slot and spent units of a stream; None before its first release."""
        at = self.progress(stream)
        return None if at is None else (at.last, at.spent)

    def bounds(self, stream: str) -> Bounds | None:
        """Return what is public about the classes of a stream, if it measures by class."""
        at = self.progress(stream)
        return None if at is None else read_snapshot(at.allocation)[0]

    @abstractmethod
    def pending(self, stream: str) -> PaidSlot | None:
        """Return the slot that was paid for and not yet released, if there is one."""

    @abstractmethod
    def measurements(self, stream: str) -> Iterator[PaidSlot]:
        """Yield the measurements that are kept, in order; raise `StateError` at one that does not match its seal."""

    def thinned(self) -> dict[str, int]:
        """By stream, the first slot whose measurement must be there: those before it may have been dropped (`thin`)."""
        return {}

    def account_parts(self, ledger: str, options: str) -> Iterator[bytes]:
        """Yield records of a ledger as `load_ledger` gives them, a part of the accounts at a time."""
        yield self.load_ledger(ledger, options)[0]

    def payment_parts(self, stream: str) -> Iterator[bytes]:
        """Yield records as `payments` gives them, a part of the accounts at a time."""
        yield self.payments(stream)

    def payments(self, stream: str) -> bytes:
        """Return records of what each account has paid in a stream that measures by class, and how often: private."""
        return b""

    def payment_table(self, stream: str, *, paying: bool = False) -> AccountsByName | None:
        """Return the accounts of `payments` by name; None before the first payment by class."""
        records = self.payments(stream)
        return AccountTable.from_bytes(records) if records else None

    def new_payments(self, stream: str) -> AccountsByName:
        """Return what accounts have paid in a stream before its first payment by class."""
        return AccountTable()

    @abstractmethod
    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        """Debit the accounts, keep the measurement, erase the slot's events: at once, durably.

        `payments` are what the charge changes in the stream's own records, where it measures by class.

        Raises `StoreBusy`, and writes nothing, if another process has written since this one read
        (`dpi.store._write_guard`).
        """

    @abstractmethod
    def publish(self, stream: str, content: bytes, link: Link, progress: Checkpoint) -> None:
        """Keep a release and the state after it: at once, durably."""

    @abstractmethod
    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Content and link of the releases of slots `first` to `last`, in order."""

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        """How many releases of slots `first` to `last` there are, and the first and last slot; None without any."""
        slots = [
            int(json.loads(content.partition(b"\n")[0])["slot"]) for content, _ in self.releases(stream, first, last)
        ]
        return (len(slots), slots[0], slots[-1]) if slots else None

    # The chain.

    @abstractmethod
    def head(self) -> Head:
        """Return the end of the chain."""

    @abstractmethod
    def links(self) -> Iterator[Link]:
        """All entries, in order."""

    @abstractmethod
    def link(self, sequence: int) -> Link:
        """One entry."""

    @abstractmethod
    def restored(
        self,
        levies: dict[str, Levy],
        progress: dict[str, Checkpoint],
        link: Link,
        charges: Mapping[str, Iterable[bytes]] | None = None,
    ) -> None:
        """Charge ledgers and move streams on, as an entry of the chain says: at once, durably.

        `charges` are records of accounts that are charged other than by a levy alone, by ledger, some at a time.
        """

    def lacks(self, seen: Seen) -> bool:
        """Whether the store does not contain what a witness saw."""
        head = self.head()
        if seen.sequence < 0 or (head.sequence >= seen.sequence and self.link(seen.sequence).digest == seen.digest):
            return False
        # Charged for already, if the end of the chain says so: the process ended before it could tell the witness.
        return head.sequence < 0 or self.link(head.sequence).entry.get("lost_head") != seen.digest

    def testify(self) -> None:
        """Tell the witness, if there is one, how far the store has come.

        Raises `StateError` if the witness has heard of a release that is not in this store: another copy of it goes on
        beside this one, and the accounts of both lack what the other has taken.
        """
        witness = self.witness
        while witness is not None:
            seen, told = witness.read(), self._told()
            if seen is not None and seen.witness == witness.name and self.lacks(seen):
                raise StateError(
                    "the witness has seen a release that this store lacks: another copy of the store goes on beside "
                    "it. Nothing more is let out. Stop both, and put the newest copy back."
                )
            with witness.alone():
                if witness.read() == seen and self.head() == Head(told.sequence, told.digest):
                    witness.write(told)
                    break
        if witness is not None:
            self.confirmed = told.sequence

    @property
    def confirmed(self) -> int:
        """The last entry of the chain that the witness is known to have seen; the last of all if there is no witness.

        A release after it may have been refused by the witness: another file has released that slot (`_rollback`).
        """
        return self.head().sequence

    @confirmed.setter
    def confirmed(self, sequence: int) -> None:
        """Keep it durably, in stores that can have a witness."""
        assert sequence <= self.head().sequence  # noqa: S101 - others have nothing to keep

    def _told(self) -> Seen:
        """Return what the witness is told."""
        head = self.head()
        told = Seen(head.sequence, head.digest)
        for name, text in self.streams().items():
            reached = self.reached(name)
            if reached is None:
                continue
            told.last[name], told.spent[name] = reached
            bounds, options = self.bounds(name), DeclaredOptions.from_text(text)
            if bounds is not None:
                told.largest[name] = [*bounds.largest]
            if bounds is not None and bounds.restored:
                told.restored[name] = [*bounds.restored]
            if options.quota is not None:
                told.quotas[name] = options.held
        return told

    # Events of open slots.

    def append(self, stream: str, events: Rows, producer: str, sequence: int) -> bool:
        """Keep events durably, once for each (producer, sequence); False if they were there already.

        Sequences of a producer increase; one at or below the last is a repetition.
        """
        return self.append_all([Arrival(stream, events, producer, sequence)])[0]

    @abstractmethod
    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches as `append` does, all of them at once or none: one wait for the disk serves them all."""

    @abstractmethod
    def sequence(self, stream: str, producer: str) -> int:
        """Return the last sequence of a producer; -1 before the first."""

    @abstractmethod
    def events(self, stream: str, slot: int) -> Rows:
        """Return the events of one open slot; an account and a bin may come several times."""

    # How far inputs had got.

    @abstractmethod
    def note(self, stream: str, number: int, mark: str) -> None:
        """Keep a mark of a stream's inputs durably: private. May be called by another thread than everything else."""

    @abstractmethod
    def marks(self, stream: str) -> list[tuple[int, str]]:
        """Return the marks that are kept, with their numbers, in order."""

    @abstractmethod
    def forget_marks(self, stream: str, before: int) -> None:
        """Delete the marks below a number."""

    # Life.

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment, also while another process writes."""
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
