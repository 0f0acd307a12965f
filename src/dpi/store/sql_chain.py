"""What an SQL store has let out: measurements, releases, and the chain of certificates that vouches for them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dpi.certificates.chain import Head, Link
from dpi.errors import OptionError, StateError
from dpi.store.base import PaidSlot
from dpi.store.schema import THINNED, fact, set_fact
from dpi.store.seals import paid_seal
from dpi.store.sql_tables import SQLTables


class SQLChain(SQLTables):
    """Measurements, releases and certificates as rows."""

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
        """By stream, the first slot whose measurement must be there."""
        text = fact(self.engine, THINNED)
        return {} if text is None else {str(name): int(slot) for name, slot in json.loads(text).items()}

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
        return self._guard.stored_head()

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

    def _link(self, link: Link) -> None:
        self.engine.execute(
            "INSERT INTO chain (entry, text, digest, signature) VALUES (?, ?, ?, ?)",
            (link.head.sequence, link.text, link.digest, link.signature),
        )
