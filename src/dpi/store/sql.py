"""A store in an SQL database: the same tables and statements on SQLite and on PostgreSQL.

Accounts are a log of runs (`dpi.store.account_log`). `pay` deletes a slot's events (`dpi.store._sql_events`); how the
engine erases what was deleted is written at each engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dpi.budget.class_allocation import read_snapshot
from dpi.budget.classes import Bounds
from dpi.certificates.chain import Link
from dpi.errors import OptionError, StateError
from dpi.exact.integers import Integers
from dpi.options.schedule import BEGINNING, Schedule
from dpi.store._schema import THINNED, fact, set_fact
from dpi.store.account_files import Run
from dpi.store.base import Checkpoint, Levy, PaidSlot
from dpi.store.sql_accounts import SQLAccounts

_ROOM = 2048
"""An allocation is written with blanks up to a multiple of so many letters; blanks after JSON mean nothing."""


class SQLStore(SQLAccounts):
    """A store on an engine, for the process that writes to it or, read-only, for any other."""

    # Streams.

    def streams(self) -> dict[str, str]:
        """Names of the streams, with their newest options as text.

        Who writes reads them once: a stream is declared here, or by another process whose entry in the chain then has
        every write of this one refused (`dpi.store._write_guard`) until all is read anew.
        """
        known = self._streams
        if known is None:
            with self.engine.turn:  # no other thread declares one meanwhile
                rows = self.engine.rows("SELECT stream, options FROM streams ORDER BY stream, first")
                known = {str(name): str(options) for name, options in rows}
                self._streams = None if self.engine.read_only else known
        return dict(known)

    def options(self, stream: str) -> Schedule[str]:
        rows = self.engine.rows("SELECT first, options FROM streams WHERE stream = ? ORDER BY first", (stream,))
        return Schedule(tuple((int(first), str(options)) for first, options in rows))

    def domain(self, digest: str) -> str:
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
        with self._writing(link):
            self.engine.execute(
                "INSERT INTO domains (digest, description) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", domain
            )
            self.engine.execute("DELETE FROM streams WHERE stream = ? AND first >= ?", (stream, first))
            self.engine.execute(
                "INSERT INTO streams (stream, first, options) VALUES (?, ?, ?)", (stream, first, options)
            )
            if recoded is not None:
                self._recode(stream, first, recoded)
            self._link(link)
            self._streams = None
        self.erase()

    def progress(self, stream: str) -> Checkpoint | None:
        progress = self._public_progress(stream)
        return None if progress is None else replace(progress, tree=self._tree(stream))

    def check_state(self, stream: str) -> None:
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
        if not progress.has_seal(bytes(seal), stream, bytes(mechanism)):
            raise StateError("the store is damaged: the state of a stream does not match its seal.")
        return replace(progress, allocation=progress.allocation.rstrip(" "))

    def _tree(self, stream: str) -> bytes:
        """Return the tree of sums as the last transaction left it: open nodes are private, so no older one is kept."""
        rows = self.engine.rows("SELECT data, seal FROM trees WHERE stream = ?", (stream,))
        if rows and bytes(rows[0][1]) != _tree_seal(stream, bytes(rows[0][0])):
            raise StateError("the store is damaged: the tree of a stream does not match its seal.")
        return bytes(rows[0][0]) if rows else b""

    def _grow(self, stream: str, tree: bytes) -> None:
        if not tree:
            self.engine.execute("DELETE FROM trees WHERE stream = ?", (stream,))
        else:
            self.engine.execute(
                "INSERT INTO trees (stream, data, seal) VALUES (?, ?, ?) "
                "ON CONFLICT (stream) DO UPDATE SET data = excluded.data, seal = excluded.seal",
                (stream, tree, _tree_seal(stream, tree)),
            )

    def reached(self, stream: str) -> tuple[int, int] | None:
        rows = self.engine.rows("SELECT last, spent FROM progress WHERE stream = ?", (stream,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def spent_after(self, stream: str, slot: int) -> int:
        """Return the spent units of a stream after an earlier slot; all slots since then have measurements."""
        last, spent = self.reached(stream) or (slot, 0)
        first, *since = (paid for paid in self._measured(stream, slot) if paid.slot <= last)
        return first.spent_after(spent - first.epsilon - sum(paid.epsilon for paid in since))

    def bounds(self, stream: str) -> Bounds | None:
        """Return what is public about the classes of a stream; the mechanism's state is not read for it."""
        rows = self.engine.rows("SELECT allocation FROM progress WHERE stream = ?", (stream,))
        return read_snapshot(str(rows[0][0]).rstrip())[0] if rows else None  # it is kept at one size

    def pending(self, stream: str) -> PaidSlot | None:
        reached = self.reached(stream)
        after = [*self._measured(stream, -(1 << 62) if reached is None else reached[0] + 1)]
        if len(after) > 1:  # between the two queries another process may have released one, and paid for the next
            last = self.reached(stream)
            after = [paid for paid in after if last is None or paid.slot > last[0]]
        if len(after) > 1:
            raise StateError("the store is damaged: two slots are paid for and not released.")
        return replace(after[0], tree=self._tree(stream)) if after else None

    def pay(self, paid: PaidSlot, ledger: str, charge: bytes, payments: bytes | None = None) -> None:
        with self._writing(ledger=ledger, paid=paid):
            log = self._accounts
            log.append(ledger, charge)
            if payments is not None:
                log.append(log.begin_payments(paid.stream), payments)
            self._measure(paid)

    def pay_runs(self, paid: PaidSlot, ledger: str | None, runs: Sequence[Run], payments: Sequence[Run] | None) -> None:
        """`pay` with runs that tasks have written: pointers are replaced, and no account is read.

        `payments` are the runs of the stream's own log, where it measures by class. Refused, like every payment, if the
        ledger's seal, and so its list of runs, is not the one that the runs were made from (`hold_ledger`).
        """
        with self._writing(ledger=ledger or "", paid=paid):
            log = self._in_files()
            if ledger is not None:
                log.put(ledger, runs)
            if payments is not None:
                log.put(log.begin_payments(paid.stream), payments)
            self._measure(paid)

    def _measure(self, paid: PaidSlot) -> None:
        """Keep a measurement, and erase what it was made of."""
        self.engine.execute(
            "INSERT INTO measurements (stream, slot, epsilon, partial, data, allocation, assumption, seal) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                paid.stream, paid.slot, paid.epsilon, int(paid.partial), paid.values, paid.allocation,
                paid.assumption, paid.seal,
            ),
        )  # fmt: skip
        self._grow(paid.stream, paid.tree)
        self._drop_events(paid.stream, paid.slot)

    def publish(self, stream: str, content: bytes, link: Link, progress: Checkpoint) -> None:
        """Keep a release and the state after it; then have the engine erase what was deleted."""
        with self._writing(link):
            self.engine.execute(
                "INSERT INTO releases (stream, slot, entry, content) VALUES (?, ?, ?, ?)",
                (stream, progress.last, link.head.sequence, content),
            )
            self._link(link)
            self._put(stream, progress)
        if self.witness is None:  # otherwise once it is told, in one step with what is kept of that
            self.erase()

    def _put(self, stream: str, progress: Checkpoint) -> None:
        """Write where a stream is, in a row that is as long as the one before it.

        SQLite then writes only those pages of the row that differ; most of a large state stays as it was.
        """
        mechanism, length = progress.mechanism(), len(progress.allocation)
        progress = replace(progress, allocation=progress.allocation.ljust(length + -length % _ROOM))
        values = (progress.first, progress.last, progress.spent, progress.allocation, mechanism, progress.accumulated)
        self.engine.execute(
            "INSERT INTO progress (stream, first, last, spent, allocation, mechanism, accumulated, seal) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE SET last = excluded.last, "
            "spent = excluded.spent, allocation = excluded.allocation, mechanism = excluded.mechanism, "
            "accumulated = excluded.accumulated, seal = excluded.seal",
            (stream, *values, progress.seal(stream, mechanism)),
        )
        self._grow(stream, progress.tree)

    def restored(
        self,
        levies: dict[str, Levy],
        progress: dict[str, Checkpoint],
        link: Link,
        charges: Mapping[str, Iterable[bytes]] | None = None,
    ) -> None:
        with self._writing(link):
            for ledger, records in (charges or {}).items():
                self._accounts.append_each(ledger, records)
            for ledger, levy in levies.items():
                self._accounts.levy(ledger, link.head.sequence, levy)
            for stream, after in progress.items():
                self._put(stream, after)
            self._link(link)
        self.erase()

    # What was let out: measurements, releases, and the chain of certificates that vouches for them.

    def measurements(self, stream: str) -> Iterator[PaidSlot]:
        return self._measured(stream, -(1 << 62))

    def _measured(self, stream: str, first: int) -> Iterator[PaidSlot]:
        select = "SELECT slot, epsilon, partial, data, allocation, assumption, seal FROM measurements WHERE stream = ?"
        for slot, epsilon, part, data, allocation, assumption, seal in self.engine.pages(
            select, (stream,), "slot", first
        ):
            paid = PaidSlot(stream, int(slot), int(epsilon), bool(part), bytes(data), str(allocation), str(assumption))
            if bytes(seal) != paid.seal:
                raise StateError("the store is damaged: a measurement does not match its seal.")
            yield paid

    def thin(self, keep: int) -> dict[str, int]:
        """Drop measurements but those of the last `keep` released slots of each stream; how many were dropped.

        A public rule: which slots it meets follows from the number of the last release. All of it happens, or nothing.
        The newest measurement stays whatever the rule says, for it tells how far the stream has paid; so does one that
        is paid for and not yet released. What is freed inside the database is used again, and overwritten as it is.
        """
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise OptionError(f"`keep_measurements` must be a whole number of slots, at least 1. Got {keep!r}.")
        dropped, since = {}, self.thinned()
        with self._writing():
            for stream, last in self.engine.rows("SELECT stream, last FROM progress ORDER BY stream"):
                first = int(last) - keep + 1
                old = (stream, first, stream)
                where = "stream = ? AND slot < ? AND slot < (SELECT MAX(slot) FROM measurements WHERE stream = ?)"
                ((number,),) = self.engine.rows(f"SELECT COUNT(*) FROM measurements WHERE {where}", old)  # noqa: S608
                if number:
                    self.engine.execute(f"DELETE FROM measurements WHERE {where}", old)  # noqa: S608 - our own words
                    since[str(stream)] = max(first, since.get(str(stream), first))
                dropped[str(stream)] = int(number)
            if any(dropped.values()):
                set_fact(self.engine, THINNED, json.dumps(since, sort_keys=True))
        self.erase()
        return dropped

    def thinned(self) -> dict[str, int]:
        text = fact(self.engine, THINNED)
        return {} if text is None else {str(name): int(slot) for name, slot in json.loads(text).items()}

    def releases(self, stream: str, first: int | None = None, last: int | None = None) -> Iterator[tuple[bytes, Link]]:
        at, end = -(1 << 62) if first is None else first, (1 << 62) if last is None else last
        select = (
            "SELECT slot, content, text, digest, signature FROM releases JOIN chain ON chain.entry = releases.entry "
            "WHERE stream = ? AND slot <= ?"
        )
        for _, content, *link in self.engine.pages(select, (stream, end), "slot", at):
            yield bytes(content), Link(*link)

    def extent(self, stream: str, first: int | None = None, last: int | None = None) -> tuple[int, int, int] | None:
        ((number, *ends),) = self.engine.rows(
            "SELECT COUNT(*), MIN(slot), MAX(slot) FROM releases WHERE stream = ? AND slot BETWEEN ? AND ?",
            (stream, -(1 << 62) if first is None else first, (1 << 62) if last is None else last),
        )
        return (int(number), int(ends[0]), int(ends[1])) if number else None

    def links(self) -> Iterator[Link]:
        select = "SELECT entry, text, digest, signature FROM chain WHERE entry >= ?"
        for _, *link in self.engine.pages(select, (0,), "entry", times=16):
            yield Link(*link)

    def link(self, sequence: int) -> Link:
        rows = self.engine.rows("SELECT text, digest, signature FROM chain WHERE entry = ?", (sequence,))
        if not rows:
            raise StateError("the store is damaged: an entry of the chain is missing.")
        return Link(*rows[0])

    def _link(self, link: Link) -> None:
        self.engine.execute(
            "INSERT INTO chain (entry, text, digest, signature) VALUES (?, ?, ?, ?)",
            (link.head.sequence, link.text, link.digest, link.signature),
        )


def _tree_seal(stream: str, tree: bytes) -> bytes:
    """Return a seal that finds damage, not forgery."""
    return hashlib.blake2b(stream.encode() + b"\n" + tree, digest_size=32, person=b"dpi tree").digest()
