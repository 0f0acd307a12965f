"""A store in an SQL database: the same tables and statements on SQLite and on PostgreSQL.

Accounts are a log of runs (`dpi.store.account_log`). A slot's events are rows of (account, bin, number), so that one
user's flood of equal events takes one row; `pay` deletes them. How the engine erases what was deleted is written at
each engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpi.chain import Head, Link
from dpi.errors import StateError
from dpi.store.account_log import AccountLog
from dpi.store.base import MOST, Levy, OpenEvents, Paid, Progress, Store
from dpi.store.engine import Engine
from dpi.store.schema import fact, prepare, set_fact


@dataclass(eq=False, repr=False)
class SQLStore(Store):
    """A store on an engine, for the process that writes to it or, read-only, for any other."""

    engine: Engine
    secret: bytes | None

    def __post_init__(self) -> None:
        prepare(self.engine, None if self.secret is None else _fingerprint(self.secret))
        if not self.engine.read_only:
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
        return {str(name): str(text) for name, text in self.engine.rows("SELECT ledger, options FROM ledgers")}

    @property
    def _accounts(self) -> AccountLog:
        return AccountLog(self.engine, self.key)

    # Streams.

    def streams(self) -> dict[str, str]:
        """Names of the streams, with their options as text."""
        return {
            str(name): str(options)
            for name, options in self.engine.rows("SELECT stream, options FROM streams ORDER BY stream")
        }

    def domain(self, digest: str) -> str:
        """The description of a domain, as text."""
        rows = self.engine.rows("SELECT description FROM domains WHERE digest = ?", (digest,))
        if not rows:
            raise StateError("the store is damaged: a domain is missing.")
        return str(rows[0][0])

    def declare(
        self, stream: str, options: str, domain: tuple[str, str], link: Link, progress: Progress | None = None
    ) -> None:
        """Open a stream, or change its options."""
        with self.engine.transaction():
            self.engine.execute(
                "INSERT INTO domains (digest, description) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", domain
            )
            self.engine.execute(
                "INSERT INTO streams (stream, options) VALUES (?, ?) "
                "ON CONFLICT (stream) DO UPDATE SET options = excluded.options",
                (stream, options),
            )
            if progress is not None:
                self._put(stream, progress)
            self.engine.execute("DELETE FROM events WHERE stream = ?", (stream,))
            self._link(link)
        self.engine.erase()

    def progress(self, stream: str) -> Progress | None:
        """Where a stream is."""
        rows = self.engine.rows(
            "SELECT last, spent, allocation, brain, accumulated, seal FROM progress WHERE stream = ?", (stream,)
        )
        if not rows:
            return None
        last, spent, allocation, brain, accumulated, seal = rows[0]
        progress = Progress(int(last), int(spent), str(allocation), partial(bytes, brain), bytes(accumulated))
        if bytes(seal) != _progress_seal(stream, progress):
            raise StateError("the store is damaged: the state of a stream does not match its seal.")
        return replace(progress, tree=self._tree(stream))

    def _tree(self, stream: str) -> bytes:
        """The tree of sums as the last transaction left it: its open nodes are private, so no older one is kept."""
        rows = self.engine.rows("SELECT data, seal FROM trees WHERE stream = ?", (stream,))
        if rows and bytes(rows[0][1]) != _tree_seal(stream, bytes(rows[0][0])):
            raise StateError("the store is damaged: the tree of a stream does not match its seal.")
        return bytes(rows[0][0]) if rows else b""

    def _grow(self, stream: str, tree: bytes) -> None:
        if tree:
            self.engine.execute(
                "INSERT INTO trees (stream, data, seal) VALUES (?, ?, ?) "
                "ON CONFLICT (stream) DO UPDATE SET data = excluded.data, seal = excluded.seal",
                (stream, tree, _tree_seal(stream, tree)),
            )

    def reached(self, stream: str) -> tuple[int, int] | None:
        """Last slot and spent units of a stream."""
        rows = self.engine.rows("SELECT last, spent FROM progress WHERE stream = ?", (stream,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def pending(self, stream: str) -> Paid | None:
        """The slot that was paid for and not yet released."""
        reached = self.reached(stream)
        after = [*self._measured(stream, -(1 << 62) if reached is None else reached[0] + 1)]
        if len(after) > 1:
            raise StateError("the store is damaged: two slots are paid for and not released.")
        return replace(after[0], tree=self._tree(stream)) if after else None

    def measurements(self, stream: str) -> Iterator[Paid]:
        """All measurements, in order."""
        return self._measured(stream, -(1 << 62))

    def _measured(self, stream: str, first: int) -> Iterator[Paid]:
        at = first
        while True:
            rows = self.engine.rows(
                "SELECT slot, epsilon, partial, data, allocation, assumption, seal FROM measurements "
                "WHERE stream = ? AND slot >= ? ORDER BY slot LIMIT 64",
                (stream, at),
            )
            for slot, epsilon, part, data, allocation, assumption, seal in rows:
                paid = Paid(stream, int(slot), int(epsilon), bool(part), bytes(data), str(allocation), str(assumption))
                if bytes(seal) != _paid_seal(paid):
                    raise StateError("the store is damaged: a measurement does not match its seal.")
                yield paid
                at = paid.slot + 1
            if not rows:
                return

    def pay(self, paid: Paid, ledger: str, charge: bytes) -> None:
        """Debit the accounts, keep the measurement, erase the slot's events."""
        with self.engine.transaction():
            if charge:
                self._accounts.append(ledger, charge)
            self.engine.execute(
                "INSERT INTO measurements (stream, slot, epsilon, partial, data, allocation, assumption, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    paid.stream, paid.slot, paid.epsilon, int(paid.partial), paid.values, paid.allocation,
                    paid.assumption, _paid_seal(paid),
                ),
            )  # fmt: skip
            self._grow(paid.stream, paid.tree)
            self.engine.execute("DELETE FROM events WHERE stream = ? AND slot <= ?", (paid.stream, paid.slot))

    def publish(self, stream: str, content: bytes, link: Link, progress: Progress) -> None:
        """Keep a release and the state after it; then have the engine erase what was deleted."""
        with self.engine.transaction():
            self.engine.execute(
                "INSERT INTO releases (stream, slot, entry, content) VALUES (?, ?, ?, ?)",
                (stream, progress.last, link.head.sequence, content),
            )
            self._link(link)
            self._put(stream, progress)
        self.engine.erase()

    def _put(self, stream: str, progress: Progress) -> None:
        values = (progress.last, progress.spent, progress.allocation, progress.brain(), progress.accumulated)
        self.engine.execute(
            "INSERT INTO progress (stream, last, spent, allocation, brain, accumulated, seal) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE SET last = excluded.last, "
            "spent = excluded.spent, allocation = excluded.allocation, brain = excluded.brain, "
            "accumulated = excluded.accumulated, seal = excluded.seal",
            (stream, *values, _progress_seal(stream, progress)),
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

    # The chain.

    def head(self) -> Head:
        """The end of the chain."""
        rows = self.engine.rows("SELECT entry, digest FROM chain ORDER BY entry DESC LIMIT 1")
        return Head(int(rows[0][0]), str(rows[0][1])) if rows else Head()

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

    def restored(self, levies: dict[str, Levy], progress: dict[str, Progress], link: Link) -> None:
        """Charge ledgers and move streams on."""
        with self.engine.transaction():
            for ledger, levy in levies.items():
                self._accounts.levy(ledger, link.head.sequence, levy)
            for stream, after in progress.items():
                self._put(stream, after)
            self._link(link)

    def _link(self, link: Link) -> None:
        self.engine.execute(
            "INSERT INTO chain (entry, text, digest, signature) VALUES (?, ?, ?, ?)",
            (link.head.sequence, link.text, link.digest, link.signature),
        )

    # Events of open slots.

    def append(self, stream: str, events: OpenEvents, producer: str, sequence: int) -> bool:
        """Keep events durably, once for each (producer, sequence)."""
        with self.engine.transaction():
            if sequence <= self.sequence(stream, producer):
                return False
            self.engine.execute(
                "INSERT INTO sequences (stream, producer, sequence) VALUES (?, ?, ?) "
                "ON CONFLICT (stream, producer) DO UPDATE SET sequence = excluded.sequence",
                (stream, producer, sequence),
            )
            names = [row.tobytes() for row in events.names]
            rows = zip(events.slots.tolist(), names, events.bins.tolist(), events.counts.tolist(), strict=True)
            self.engine.execute_many(
                "INSERT INTO events (stream, slot, account, bin, number) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (stream, slot, account, bin) DO UPDATE SET number = "
                "CASE WHEN events.number + excluded.number > ? THEN ? ELSE events.number + excluded.number END",
                [(stream, *row, MOST, MOST) for row in rows],
            )
        return True

    def sequence(self, stream: str, producer: str) -> int:
        """The last sequence of a producer."""
        rows = self.engine.rows(
            "SELECT sequence FROM sequences WHERE stream = ? AND producer = ?", (stream, producer)
        )  # fmt: skip
        return int(rows[0][0]) if rows else -1

    def events(self, stream: str, slot: int) -> OpenEvents:
        """The events of one open slot."""
        rows = self.engine.rows(
            "SELECT account, bin, number FROM events WHERE stream = ? AND slot = ?", (stream, slot)
        )  # fmt: skip
        if not rows:
            return OpenEvents.none()
        names, bins, numbers = zip(*rows, strict=True)
        return OpenEvents(
            np.frombuffer(b"".join(bytes(name) for name in names), dtype=np.uint64).reshape(-1, 2),
            np.full(len(bins), slot, dtype=np.int64),
            np.array(bins, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
        )

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
        with self.engine.transaction():
            set_fact(self.engine, "witness", name)

    def close(self) -> None:
        """Let go of the database and of the right to write to it."""
        self.engine.close()


def _fingerprint(key: bytes) -> str:
    """What the store remembers of its key: enough to notice another one."""
    return hashlib.blake2b(key, digest_size=16, person=b"dpi key").hexdigest()


def _paid_seal(paid: Paid) -> bytes:
    head = [paid.stream, paid.slot, paid.epsilon, paid.partial, paid.allocation, paid.assumption]
    return hashlib.blake2b(
        json.dumps(head).encode() + b"\n" + paid.values, digest_size=32, person=b"dpi measured"
    ).digest()


def _tree_seal(stream: str, tree: bytes) -> bytes:
    return hashlib.blake2b(stream.encode() + b"\n" + tree, digest_size=32, person=b"dpi tree").digest()


def _progress_seal(stream: str, progress: Progress) -> bytes:
    brain = progress.brain()
    head = [stream, progress.last, progress.spent, progress.allocation, len(brain)]
    state = hashlib.blake2b(json.dumps(head).encode() + b"\n", digest_size=32, person=b"dpi progress")
    state.update(brain)
    state.update(progress.accumulated)
    return state.digest()
