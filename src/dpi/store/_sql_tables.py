"""What all parts of an SQL store rest on: the database, the key, transactions on the store as it is known.

Also what the store has let out: measurements, releases, and the chain of certificates that vouches for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpi.certificates.chain import Head, Link
from dpi.errors import OptionError, StateError
from dpi.store._engine import Engine
from dpi.store._paged_table import PagedTable
from dpi.store._schema import THINNED, fact, prepare, set_fact
from dpi.store._write_guard import WriteGuard
from dpi.store.account_log import AccountLog
from dpi.store.base import PaidSlot, Store
from dpi.store.folder import MEMORY, Folder, Layout, layout_of


@dataclass(eq=False, repr=False)
class SQLTables(Store):
    """A database with the tables of a store, for the process that writes to it or, read-only, for any other."""

    engine: Engine
    secret: bytes | None
    memory: int = MEMORY
    """Bytes that accounts in files may take in memory."""

    def __post_init__(self) -> None:
        prepare(self.engine, self.secret)
        self._guard = WriteGuard(self.engine)
        self._folder: Folder | None = None
        self._tables: dict[str, PagedTable] = {}
        self._streams: dict[str, str] | None = None
        if not self.engine.read_only:
            self._guard.read()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine!r})"

    @property
    def key(self) -> bytes:
        if self.secret is None:
            raise StateError("the store was opened without its key: it can be read, not written to.")
        return self.secret

    # Where accounts are.

    @property
    def layout(self) -> Layout | None:
        return layout_of(self.engine)

    @property
    def folder(self) -> Folder | None:
        """The folder of bucket files: one object, which knows what is being written."""
        return self._folder_of(self.layout)

    def _folder_of(self, layout: Layout | None) -> Folder | None:
        if layout is None:
            return None
        if self._folder is None or (self._folder.path, self._folder.mark) != (Path(layout.path), layout.mark):
            self._folder = Folder(Path(layout.path), layout.mark)
        return self._folder

    @property
    def _accounts(self) -> AccountLog:
        layout = self.layout
        if layout is None:
            return AccountLog(self.engine, self.key)
        folder = self._folder_of(layout)
        return AccountLog(self.engine, self.key, folder, layout.buckets, self.memory, self._tables)

    def erase(self) -> None:
        """Have the engine erase what was deleted, and remove files that no list names any more."""
        self.engine.erase()
        self.remove_unlisted()

    def remove_unlisted(self) -> None:
        """Remove files in the folder that no list of the store names, and nobody of this process is writing."""
        with self.engine.turn:  # before the folder's own lock, as in a transaction that writes files
            if self.folder is not None:
                self.folder.sweep(self._own_files)

    def _own_files(self) -> set[str]:
        """The names of all files that the store needs, if it is as this process knows it."""
        self._guard.compare(None)
        return self._listed_files()

    def _listed_files(self) -> set[str]:
        """The names of all files that the store needs."""
        rows = self.engine.rows("SELECT name FROM account_runs WHERE name <> '' UNION SELECT name FROM arrivals")
        return {str(name) for (name,) in rows}

    # Writing.

    def catch_up(self) -> None:
        """Look how far the store has come; refuses one that has gone back."""
        with self.engine.turn:
            self._streams = None
            self._tables.clear()
            self._guard.read()

    @contextmanager
    def _writing(
        self, link: Link | None = None, ledger: str | None = None, paid: PaidSlot | None = None
    ) -> Iterator[None]:
        """Begin a transaction on the store as this process knows it, which then knows what it wrote.

        That is an entry of the chain, or a slot that is paid for from a ledger's accounts (`dpi.store._write_guard`).
        """
        known = self._guard
        with self.engine.turn:  # another thread must not compare between a commit and what is known of it
            with self.engine.transaction():
                known.compare(ledger)
                yield
                seals = {} if ledger not in known.seals else {ledger: known.seal(ledger) or b""}
            known.head = known.head if link is None else link.head
            known.paid = known.paid if paid is None else known.paid | {paid.stream: paid.slot}
            known.seals = known.seals | seals

    def lead(self, lease: float) -> None:
        """Write from now on in a term of its own, and for as long as `renew` is called once in `lease` seconds.

        Who led before can write nothing any more (`dpi.store._write_guard`).
        """
        self.engine.lease(lease)
        with self.engine.transaction():
            self._guard.lead()

    def renew(self) -> None:
        """Say that this process is still there; raises `StoreError` if the store is lost, or another leads."""
        with self.engine.turn:
            self._guard.compare_term()

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

    def head(self) -> Head:
        return self._guard.stored_head()

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

    # Life.

    def snapshot(self) -> AbstractContextManager[None]:
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
