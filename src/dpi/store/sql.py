"""A store in an SQL database: the same tables and statements on SQLite and on PostgreSQL.

Accounts are a log of runs (`dpi.store.account_log`), events of open slots are blocks (`dpi.store.event_log`), which
`pay` deletes. How the engine erases what was deleted is written at each engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from dpi.budget.class_allocation import bounds_of
from dpi.budget.classes import Bounds
from dpi.certificates.chain import Head, Link
from dpi.errors import StateError
from dpi.events.identity import known_rule
from dpi.exact.integers import Integers
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store.account_log import AccountLog, is_payments
from dpi.store.base import Arrival, Checkpoint, Levy, OpenEvents, PaidSlot, Store
from dpi.store.engine import Engine
from dpi.store.event_log import EventLog
from dpi.store.known import Known
from dpi.store.schema import fact, prepare, set_fact
from dpi.store.seals import fingerprint, paid_seal, progress_seal, tree_seal


@dataclass(eq=False, repr=False)
class SQLStore(Store):
    """A store on an engine, for the process that writes to it or, read-only, for any other."""

    engine: Engine
    secret: bytes | None

    def __post_init__(self) -> None:
        prepare(self.engine, None if self.secret is None else fingerprint(self.secret))
        self._known, self._events = Known(self.engine), EventLog(self.engine)
        if not self.engine.read_only:
            self._known.read()
            self.engine.erase()  # a process that ended before it came to this has left it to us

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine!r})"

    # The ledger.

    @property
    def key(self) -> bytes:
        """The secret with which users are named."""
        if self.secret is None:
            raise StateError("the store was opened without its key: it can be read, not written to.")
        return self.secret

    @property
    def identity_rule(self) -> int:
        """The rule by which ids are told from each other; a store from before there were rules has the first."""
        return known_rule(int(fact(self.engine, "identity") or 1))

    def load_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Records and levies of a ledger."""
        known = self.engine.rows("SELECT options FROM ledgers WHERE ledger = ?", (ledger,))
        if not known:
            with self.engine.transaction():
                self._accounts.begin(ledger, options)
        elif known[0][0] != options:
            raise StateError("the store's ledger has other options (epsilon, policy or period).")
        return self._accounts.read(ledger, options)

    def ledgers(self) -> dict[str, str]:
        """Names of the ledgers, with their options as text."""
        rows = self.engine.rows("SELECT ledger, options FROM ledgers")
        return {str(name): str(text) for name, text in rows if not is_payments(str(name))}

    @property
    def _accounts(self) -> AccountLog:
        return AccountLog(self.engine, self.key)

    def open_ledger(self, ledger: str, options: str) -> tuple[bytes, list[Levy]]:
        """Records and levies of a ledger that will be paid from."""
        seal = self._known.seal(ledger)  # before the accounts: what another writes in between is noticed
        records, levies = self.load_ledger(ledger, options)
        seal = self._known.seal(ledger) if seal is None else seal
        if seal is not None:
            self._known.seals[ledger] = seal
        return records, levies

    def catch_up(self) -> None:
        """Look how far the store has come; refuses one that has gone back."""
        self._known.read()

    @contextmanager
    def _writing(self, link: Link | None = None, ledger: str | None = None) -> Iterator[None]:
        """A transaction on the store as this process knows it (`dpi.store.known`), which then knows what it wrote."""
        known = self._known
        with self.engine.turn:  # another thread must not compare between a commit and what is known of it
            with self.engine.transaction():
                known.compare(ledger)
                yield
                paid = known.paid if ledger is None else known.stored_paid()
                seals = {} if ledger not in known.seals else {ledger: known.seal(ledger) or b""}
            known.head = known.head if link is None else link.head
            known.paid, known.seals = paid, known.seals | seals

    def lead(self, lease: float) -> None:
        """Write from now on in a term of its own, and for as long as `renew` is called once in `lease` seconds.

        Who led before can write nothing any more (`dpi.store.known`).
        """
        self.engine.lease(lease)
        with self.engine.transaction():
            self._known.lead()

    def renew(self) -> None:
        """Say that this process is still there; raises `StoreError` if the store is lost, or another leads."""
        with self.engine.turn:
            self._known.compare_term()

    # Streams.

    def streams(self) -> dict[str, str]:
        """Names of the streams, with their newest options as text."""
        return {
            str(name): str(options)
            for name, options in self.engine.rows("SELECT stream, options FROM streams ORDER BY stream, first")
        }

    def options(self, stream: str) -> Schedule[str]:
        """The options of a stream as text, by the first slot that they hold for."""
        rows = self.engine.rows("SELECT first, options FROM streams WHERE stream = ? ORDER BY first", (stream,))
        return Schedule(tuple((int(first), str(options)) for first, options in rows))

    def domain(self, digest: str) -> str:
        """The description of a domain, as text."""
        rows = self.engine.rows("SELECT description FROM domains WHERE digest = ?", (digest,))
        if not rows:
            raise StateError("the store is damaged: a domain is missing.")
        return str(rows[0][0])

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
        with self._writing(link):
            self.engine.execute(
                "INSERT INTO domains (digest, description) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", domain
            )
            self.engine.execute("DELETE FROM streams WHERE stream = ? AND first >= ?", (stream, first))
            self.engine.execute(
                "INSERT INTO streams (stream, first, options) VALUES (?, ?, ?)", (stream, first, options)
            )
            if recoded is not None:
                self._events.recode(stream, first, recoded)
            self._link(link)
        self.engine.erase()

    def progress(self, stream: str) -> Checkpoint | None:
        """Where a stream is."""
        progress = self._public_progress(stream)
        return None if progress is None else replace(progress, tree=self._tree(stream))

    def check_state(self, stream: str) -> None:
        """Raise `StateError` if the public state of a stream is not as it was sealed; private tables are not read."""
        self._public_progress(stream)

    def _public_progress(self, stream: str) -> Checkpoint | None:
        rows = self.engine.rows(
            "SELECT first, last, spent, allocation, mechanism, accumulated, seal FROM progress WHERE stream = ?",
            (stream,),
        )
        if not rows:
            return None
        first, last, spent, allocation, mechanism, accumulated, seal = rows[0]
        progress = Checkpoint(
            int(first), int(last), int(spent), str(allocation), partial(bytes, mechanism), bytes(accumulated)
        )
        if bytes(seal) != progress_seal(stream, progress, bytes(mechanism)):
            raise StateError("the store is damaged: the state of a stream does not match its seal.")
        return progress

    def _tree(self, stream: str) -> bytes:
        """The tree of sums as the last transaction left it: its open nodes are private, so no older one is kept."""
        rows = self.engine.rows("SELECT data, seal FROM trees WHERE stream = ?", (stream,))
        if rows and bytes(rows[0][1]) != tree_seal(stream, bytes(rows[0][0])):
            raise StateError("the store is damaged: the tree of a stream does not match its seal.")
        return bytes(rows[0][0]) if rows else b""

    def _grow(self, stream: str, tree: bytes) -> None:
        if not tree:
            self.engine.execute("DELETE FROM trees WHERE stream = ?", (stream,))
        else:
            self.engine.execute(
                "INSERT INTO trees (stream, data, seal) VALUES (?, ?, ?) "
                "ON CONFLICT (stream) DO UPDATE SET data = excluded.data, seal = excluded.seal",
                (stream, tree, tree_seal(stream, tree)),
            )

    def reached(self, stream: str) -> tuple[int, int] | None:
        """Last slot and spent units of a stream."""
        rows = self.engine.rows("SELECT last, spent FROM progress WHERE stream = ?", (stream,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def bounds(self, stream: str) -> Bounds | None:
        """What is public about the classes of a stream; the mechanism's state is not read for it."""
        rows = self.engine.rows("SELECT allocation FROM progress WHERE stream = ?", (stream,))
        return bounds_of(str(rows[0][0])) if rows else None

    def pending(self, stream: str) -> PaidSlot | None:
        """The slot that was paid for and not yet released."""
        reached = self.reached(stream)
        after = [*self._measured(stream, -(1 << 62) if reached is None else reached[0] + 1)]
        if len(after) > 1:
            raise StateError("the store is damaged: two slots are paid for and not released.")
        return replace(after[0], tree=self._tree(stream)) if after else None

    def measurements(self, stream: str) -> Iterator[PaidSlot]:
        """All measurements, in order."""
        return self._measured(stream, -(1 << 62))

    def _measured(self, stream: str, first: int) -> Iterator[PaidSlot]:
        at = first
        while True:
            rows = self.engine.rows(
                "SELECT slot, epsilon, partial, data, allocation, assumption, seal FROM measurements "
                "WHERE stream = ? AND slot >= ? ORDER BY slot LIMIT 64",
                (stream, at),
            )
            for slot, epsilon, part, data, allocation, assumption, seal in rows:
                paid = PaidSlot(
                    stream, int(slot), int(epsilon), bool(part), bytes(data), str(allocation), str(assumption)
                )
                if bytes(seal) != paid_seal(paid):
                    raise StateError("the store is damaged: a measurement does not match its seal.")
                yield paid
                at = paid.slot + 1
            if not rows:
                return

    def payments(self, stream: str) -> bytes:
        """Records of what each account has paid in a stream that measures by class."""
        records = self._accounts.payments(stream)
        if records is None and self.bounds(stream) is not None:
            raise StateError("the store is damaged: what accounts have paid in a stream is missing.")
        return records or b""

    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        """Debit the accounts, keep the measurement, erase the slot's events."""
        with self._writing(ledger=ledger):
            if charge:
                self._accounts.append(ledger, charge)
            if payments is not None:
                self._accounts.append_payments(paid.stream, payments)
            self.engine.execute(
                "INSERT INTO measurements (stream, slot, epsilon, partial, data, allocation, assumption, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    paid.stream, paid.slot, paid.epsilon, int(paid.partial), paid.values, paid.allocation,
                    paid.assumption, paid_seal(paid),
                ),
            )  # fmt: skip
            self._grow(paid.stream, paid.tree)
            self._events.forget(paid.stream, paid.slot)

    def publish(self, stream: str, content: bytes, link: Link, progress: Checkpoint) -> None:
        """Keep a release and the state after it; then have the engine erase what was deleted."""
        with self._writing(link):
            self.engine.execute(
                "INSERT INTO releases (stream, slot, entry, content) VALUES (?, ?, ?, ?)",
                (stream, progress.last, link.head.sequence, content),
            )
            self._link(link)
            self._put(stream, progress)
        self.engine.erase()

    def _put(self, stream: str, progress: Checkpoint) -> None:
        mechanism = progress.mechanism()
        values = (progress.first, progress.last, progress.spent, progress.allocation, mechanism, progress.accumulated)
        self.engine.execute(
            "INSERT INTO progress (stream, first, last, spent, allocation, mechanism, accumulated, seal) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE SET last = excluded.last, "
            "spent = excluded.spent, allocation = excluded.allocation, mechanism = excluded.mechanism, "
            "accumulated = excluded.accumulated, seal = excluded.seal",
            (stream, *values, progress_seal(stream, progress, mechanism)),
        )
        self._grow(stream, progress.tree)

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        """Content and link of the releases of slots `first` to `last`."""
        at, end = -(1 << 62) if first is None else first, (1 << 62) if last is None else last
        while True:
            rows = self.engine.rows(
                "SELECT slot, content, text, digest, signature FROM releases JOIN chain ON chain.entry = releases.entry"
                " WHERE stream = ? AND slot BETWEEN ? AND ? ORDER BY slot LIMIT 64",
                (stream, at, end),
            )
            for slot, content, text, digest, signature in rows:
                yield bytes(content), Link(str(text), str(digest), None if signature is None else str(signature))
                at = int(slot) + 1
            if not rows:
                return

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        """How many releases of slots `first` to `last` there are, and the first and last slot."""
        ((number, *ends),) = self.engine.rows(
            "SELECT COUNT(*), MIN(slot), MAX(slot) FROM releases WHERE stream = ? AND slot BETWEEN ? AND ?",
            (stream, -(1 << 62) if first is None else first, (1 << 62) if last is None else last),
        )
        return (int(number), int(ends[0]), int(ends[1])) if number else None

    # The chain.

    def head(self) -> Head:
        """The end of the chain."""
        return self._known.stored_head()

    def links(self) -> Iterator[Link]:
        """All entries, in order."""
        at = -(1 << 62)
        while True:
            rows = self.engine.rows(
                "SELECT entry, text, digest, signature FROM chain WHERE entry > ? ORDER BY entry LIMIT 1024", (at,)
            )
            for entry, text, digest, signature in rows:
                yield Link(str(text), str(digest), None if signature is None else str(signature))
                at = int(entry)
            if not rows:
                return

    def link(self, sequence: int) -> Link:
        """One entry."""
        rows = self.engine.rows("SELECT text, digest, signature FROM chain WHERE entry = ?", (sequence,))
        if not rows:
            raise StateError("the store is damaged: an entry of the chain is missing.")
        text, digest, signature = rows[0]
        return Link(str(text), str(digest), None if signature is None else str(signature))

    def restored(
        self,
        levies: dict[str, Levy],
        progress: dict[str, Checkpoint],
        link: Link,
        charges: Mapping[str, bytes] | None = None,
    ) -> None:
        """Charge ledgers and move streams on."""
        with self._writing(link):
            for ledger, records in (charges or {}).items():
                if records:
                    self._accounts.append(ledger, records)
            for ledger, levy in levies.items():
                self._accounts.levy(ledger, link.head.sequence, levy)
            for stream, after in progress.items():
                self._put(stream, after)
            self._link(link)
        self.engine.erase()

    def _link(self, link: Link) -> None:
        self.engine.execute(
            "INSERT INTO chain (entry, text, digest, signature) VALUES (?, ?, ?, ?)",
            (link.head.sequence, link.text, link.digest, link.signature),
        )

    # Events of open slots.

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches durably, each once for its (producer, sequence).

        May be called by another thread than everything else.
        """
        with self._writing():
            return self._events.append(arrivals)

    def sequence(self, stream: str, producer: str) -> int:
        """The last sequence of a producer."""
        return self._events.sequence(stream, producer)

    def events(self, stream: str, slot: int) -> OpenEvents:
        """The events of one open slot."""
        return self._events.read(stream, slot)

    # How far inputs had got.

    def note(self, stream: str, number: int, mark: str) -> None:
        """Keep a mark of a stream's inputs durably."""
        with self.engine.transaction():
            self.engine.execute("INSERT INTO marks (stream, number, mark) VALUES (?, ?, ?)", (stream, number, mark))

    def marks(self, stream: str) -> list[tuple[int, str]]:
        """The marks that are kept, in order."""
        rows = self.engine.rows("SELECT number, mark FROM marks WHERE stream = ? ORDER BY number", (stream,))
        return [(int(number), str(mark)) for number, mark in rows]

    def forget_marks(self, stream: str, before: int) -> None:
        """Delete the marks below a number."""
        with self.engine.transaction():
            self.engine.execute("DELETE FROM marks WHERE stream = ? AND number < ?", (stream, before))

    # Life.

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment, also while another process writes."""
        return self.engine.snapshot()

    @property
    def witnessed_by(self) -> str | None:
        """The name of the witness that this store is never continued without; None if it has none."""
        return fact(self.engine, "witness")

    @witnessed_by.setter
    def witnessed_by(self, name: str) -> None:
        with self._writing():
            set_fact(self.engine, "witness", name)

    def close(self) -> None:
        """Let go of the database and of the right to write to it."""
        self.engine.close()
