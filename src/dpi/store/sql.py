"""A store in an SQL database: the same tables and statements on SQLite and on PostgreSQL.

Accounts are not rows. A debit appends one run of changed accounts (36 bytes each) to a log; runs of similar size are
merged, so that a ledger of n accounts has O(log n) runs and an account is written O(log n) times. A run is sealed with
the ledger's key, so that damage to it is found.

A slot's events are rows of (account, bin, number), so that one user's flood of equal events takes one row; `pay`
deletes them. How the engine erases what was deleted is written at each engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpi.budget.account_table import merged
from dpi.chain import Head, Link
from dpi.errors import StateError
from dpi.store.base import Levy, OpenEvents, Paid, Progress, Store
from dpi.store.engine import Engine
from dpi.store.schema import prepare

PART = 1 << 24
"""Bytes of a run that are kept in one row."""
MOST = (1 << 31) - 1
"""The number of equal events of one user in one slot is cut at this: it is the user's own."""


@dataclass(eq=False, repr=False)
class SQLStore(Store):
    """A store on an engine, for the process that writes to it or, read-only, for any other."""

    engine: Engine
    secret: bytes | None

    def __post_init__(self) -> None:
        prepare(self.engine, None if self.secret is None else _fingerprint(self.secret))

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
                self.engine.execute("INSERT INTO ledgers (ledger, options) VALUES (?, ?)", (ledger, options))
        elif known[0][0] != options:
            raise StateError("the store's ledger has other options (epsilon, policy or period).")
        levies = self.engine.rows("SELECT slot, units FROM levies WHERE ledger = ? ORDER BY entry", (ledger,))
        runs = [self._run(ledger, run) for run, _ in self._runs(ledger)]
        return b"".join(runs), [Levy(int(slot), int(units)) for slot, units in levies]

    def ledgers(self) -> dict[str, str]:
        """Names of the ledgers, with their options as text."""
        return {str(name): str(text) for name, text in self.engine.rows("SELECT ledger, options FROM ledgers")}

    def _runs(self, ledger: str) -> list[tuple[int, int]]:
        """Numbers and sizes of a ledger's runs, oldest first."""
        rows = self.engine.rows(
            "SELECT run, SUM(size) FROM account_runs WHERE ledger = ? GROUP BY run ORDER BY run", (ledger,)
        )
        return [(int(run), int(size)) for run, size in rows]

    def _run(self, ledger: str, run: int) -> bytes:
        parts = self.engine.rows(
            "SELECT data, seal FROM account_runs WHERE ledger = ? AND run = ? ORDER BY part", (ledger, run)
        )
        for number, (data, seal) in enumerate(parts):
            if bytes(seal) != self._seal(ledger, run, number, bytes(data)):
                raise StateError("the store's ledger is damaged: a seal does not match its accounts.")
        return b"".join(bytes(data) for data, _ in parts)

    def _seal(self, ledger: str, run: int, part: int, data: bytes) -> bytes:
        where = hashlib.blake2b(f"{ledger}/{run}/{part}".encode(), key=self.key, digest_size=16).digest()
        return hashlib.blake2b(data, key=self.key, salt=where, person=b"dpi accounts", digest_size=32).digest()

    def _log(self, ledger: str, charge: bytes) -> None:
        """Append a run; merge it with those before it that are not much larger."""
        runs = self._runs(ledger)
        number = runs[-1][0] + 1 if runs else 0
        while runs and runs[-1][1] <= 2 * len(charge):
            number = runs.pop()[0]
            charge = merged(self._run(ledger, number) + charge)
        self.engine.execute("DELETE FROM account_runs WHERE ledger = ? AND run >= ?", (ledger, number))
        for part, start in enumerate(range(0, len(charge), PART)):
            data = charge[start : start + PART]
            self.engine.execute(
                "INSERT INTO account_runs (ledger, run, part, size, data, seal) VALUES (?, ?, ?, ?, ?, ?)",
                (ledger, number, part, len(data), data, self._seal(ledger, number, part, data)),
            )

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
        return progress

    def reached(self, stream: str) -> tuple[int, int] | None:
        """Last slot and spent units of a stream."""
        rows = self.engine.rows("SELECT last, spent FROM progress WHERE stream = ?", (stream,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def pending(self, stream: str) -> Paid | None:
        """The slot that was paid for and not yet released."""
        rows = self.engine.rows(
            "SELECT slot, epsilon, partial, data, allocation, assumption, seal FROM measurements "
            "WHERE stream = ? AND slot > COALESCE((SELECT last FROM progress WHERE stream = ?), ?) ORDER BY slot",
            (stream, stream, -(1 << 62)),
        )
        if not rows:
            return None
        slot, epsilon, partial, data, allocation, assumption, seal = rows[0]
        paid = Paid(
            stream, int(slot), int(epsilon), bool(partial), bytes(data), str(allocation), str(assumption)
        )  # fmt: skip
        if len(rows) > 1 or bytes(seal) != _paid_seal(paid):
            raise StateError("the store is damaged: a measurement does not match its seal.")
        return paid

    def pay(self, paid: Paid, ledger: str, charge: bytes) -> None:
        """Debit the accounts, keep the measurement, erase the slot's events."""
        with self.engine.transaction():
            if charge:
                self._log(ledger, charge)
            self.engine.execute(
                "INSERT INTO measurements (stream, slot, epsilon, partial, data, allocation, assumption, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    paid.stream, paid.slot, paid.epsilon, int(paid.partial), paid.values, paid.allocation,
                    paid.assumption, _paid_seal(paid),
                ),
            )  # fmt: skip
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
                self.engine.execute(
                    "INSERT INTO levies (ledger, entry, slot, units) VALUES (?, ?, ?, ?)",
                    (ledger, link.head.sequence, levy.slot, levy.units),
                )
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


def _progress_seal(stream: str, progress: Progress) -> bytes:
    brain = progress.brain()
    head = [stream, progress.last, progress.spent, progress.allocation, len(brain)]
    state = hashlib.blake2b(json.dumps(head).encode() + b"\n", digest_size=32, person=b"dpi progress")
    state.update(brain)
    state.update(progress.accumulated)
    return state.digest()
