"""Events of open slots in an SQL store, and how far inputs had got.

What arrives together is one block for each slot: names of accounts, bins and numbers as columns of bytes. To write a
million rows then takes as long as writing their bytes, and to close a slot as long as reading them; a row of its own
for each took many times that. Of sixteen blocks of one tier one block of the next is made, in which every (account,
bin) has one row. So a slot has O(log n) blocks, a row is written O(log n) times, and one user's flood of equal events,
in however many batches, leaves a few rows.

Events may lie in files as well, which an engine's tasks have written (`dpi.store.arrival_files`): the store has the
list and the keys. The events of a slot are both, and both are gone when it is paid for. How the engine erases what is
deleted is written at each engine. Sees names of accounts, bins and numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, replace

import numpy as np

from dpi.errors import StateError
from dpi.events.identity import rename
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.options.schedule import Schedule
from dpi.store._write_guard import GuardedTables
from dpi.store.arrival_files import Section, read_segments
from dpi.store.base import Arrival

TOGETHER = 16
"""So many blocks of one tier are merged."""
LARGEST = 3 << 26
"""Bytes of a block at most: more is split, and not merged further. A cell of a database has at most 10^9."""
_ROW = 16 + 4 + 4


class SQLEvents(GuardedTables):
    """Blocks of events, lists of files with events, and marks as rows."""

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches durably, each once for its (producer, sequence); other threads may call it."""
        fresh, by_stream = list[bool](), dict[str, list[Rows]]()
        with self._writing():
            for stream, events, producer, sequence in arrivals:
                fresh.append(self._follows(stream, producer, sequence))
                if fresh[-1]:
                    by_stream.setdefault(stream, []).append(events)
            for stream, parts in by_stream.items():
                self._add_events(stream, Rows.join(parts))
        return fresh

    def append_sections(self, stream: str, sections: Sequence[Section], producer: str, sequence: int) -> bool:
        """List sections that tasks have written, once for each (producer, sequence), as `append` keeps events."""
        with self._writing():
            if not self._follows(stream, producer, sequence):
                return False
            if self.folder is not None:
                self.folder.check_files({section.name for section in sections})
            self.engine.execute_many(
                "INSERT INTO arrivals (stream, slot, name, start, size, buckets, number, events, secret) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(stream, *astuple(section)) for section in sections],
            )
        return True

    def _follows(self, stream: str, producer: str, sequence: int) -> bool:
        """Note a producer's sequence; False, and nothing is noted, if it is a repetition."""
        if sequence <= self.sequence(stream, producer):
            return False
        self.engine.execute(
            "INSERT INTO sequences (stream, producer, sequence) VALUES (?, ?, ?) "
            "ON CONFLICT (stream, producer) DO UPDATE SET sequence = excluded.sequence",
            (stream, producer, sequence),
        )
        return True

    def sequence(self, stream: str, producer: str) -> int:
        where = (stream, producer)
        rows = self.engine.rows("SELECT sequence FROM sequences WHERE stream = ? AND producer = ?", where)
        return int(rows[0][0]) if rows else -1

    def producers(self, stream: str) -> set[str]:
        """Return who has sent events of a stream."""
        return {str(name) for (name,) in self.engine.rows("SELECT producer FROM sequences WHERE stream = ?", (stream,))}

    def forget_producers(self, stream: str, producers: Collection[str]) -> None:
        """Drop the events of all open slots, and how far these producers had got, who will send them again.

        Refused where others have sent events too: theirs would be lost.
        """
        with self._writing():
            if self.producers(stream).difference(producers):
                raise StateError("other producers have sent events of open slots, which would be lost.")
            self._drop_events(stream, 1 << 62)
            self.engine.execute_many(
                "DELETE FROM sequences WHERE stream = ? AND producer = ?", [(stream, name) for name in producers]
            )

    # Blocks.

    def _add_events(self, stream: str, events: Rows) -> None:
        """Keep events as blocks of their slots."""
        for slot in np.unique(events.slots).tolist():
            self._add_block(stream, slot, 0, events.only(events.slots == slot))

    def _add_block(self, stream: str, slot: int, tier: int, events: Rows) -> None:
        """Add a block to a tier; if that is full then, merge its blocks into one of the next."""
        for start in range(0, len(events.bins), LARGEST // _ROW):
            data = _packed(events.only(slice(start, start + LARGEST // _ROW)))
            self.engine.execute(
                "INSERT INTO events (stream, slot, block, tier, size, data) VALUES (?, ?, "
                "(SELECT COALESCE(MAX(block) + 1, 0) FROM events WHERE stream = ? AND slot = ?), ?, ?, ?)",
                (stream, slot, stream, slot, tier, len(data), data),
            )
        where = "FROM events WHERE stream = ? AND slot = ? AND tier = ?"
        ((number, size),) = self.engine.rows(f"SELECT COUNT(*), SUM(size) {where}", (stream, slot, tier))
        if int(number) >= TOGETHER and int(size) <= LARGEST:
            rows = self.engine.rows(f"SELECT data {where}", (stream, slot, tier))
            self.engine.execute(f"DELETE {where}", (stream, slot, tier))
            self._add_block(stream, slot, tier + 1, Rows.sum([_unpacked(slot, [bytes(data) for (data,) in rows])]))

    def stored_events(self, stream: str, slot: int) -> Rows:
        """Return the events of one open slot that are in blocks; an account and a bin may come several times."""
        rows = self.engine.rows("SELECT data FROM events WHERE stream = ? AND slot = ?", (stream, slot))
        return _unpacked(slot, [bytes(data) for (data,) in rows])

    # Files.

    def sections(self, stream: str, slot: int) -> list[Section]:
        """Return the sections of files that hold events of an open slot."""
        rows = self.engine.rows(
            "SELECT slot, name, start, size, buckets, number, events, secret FROM arrivals "
            "WHERE stream = ? AND slot = ? ORDER BY name, start",
            (stream, slot),
        )
        return [Section(*row) for row in rows]

    def _arrived(self, stream: str, slot: int) -> Rows:
        """Return the events of an open slot that are in files."""
        folder, sections = self.folder, self.sections(stream, slot)
        if folder is None or not sections:
            return Rows.empty()
        return Rows.join([part for section in sections for part in read_segments(folder, section)])

    def _take_arrivals(self) -> list[tuple[str, Rows]]:
        """Return the events in files of all streams, by slot, which are listed no more."""
        rows = self.engine.rows("SELECT DISTINCT stream, slot FROM arrivals")
        arrivals = [(str(stream), self._arrived(str(stream), int(slot))) for stream, slot in rows]
        self.engine.execute("DELETE FROM arrivals")
        return [(stream, Rows.sum([events])) for stream, events in arrivals]

    # Both.

    def events(self, stream: str, slot: int) -> Rows:
        rows, arrived = self.stored_events(stream, slot), self._arrived(stream, slot)
        return Rows.sum([rows, arrived]) if arrived.slots.size else rows

    def _recode(self, stream: str, first: int, recoded: Schedule[Integers]) -> None:
        """Tell events of the slots from `first` on by other bins."""
        for (slot,) in self.engine.rows(
            "SELECT slot FROM events WHERE stream = ? AND slot >= ? UNION "
            "SELECT slot FROM arrivals WHERE stream = ? AND slot >= ?",
            (stream, first, stream, first),
        ):
            events = self.events(stream, int(slot)).recode(recoded.at(int(slot)))
            self._drop_events(stream, int(slot), first=int(slot))
            self._add_events(stream, events)

    def _rename_events(self, keys: bytes) -> None:
        """Give the accounts of all blocks the names that they have under further keys."""
        for place in self.engine.rows("SELECT stream, slot, block FROM events"):
            where = "WHERE stream = ? AND slot = ? AND block = ?"
            ((data,),) = self.engine.rows(f"SELECT data FROM events {where}", place)  # noqa: S608 - our own words
            events = _unpacked(int(place[1]), [bytes(data)])
            events = replace(events, names=rename(events.names, keys))
            self.engine.execute(f"UPDATE events SET data = ? {where}", (_packed(events), *place))  # noqa: S608

    def _drop_events(self, stream: str, last: int, first: int = -(1 << 62)) -> None:
        """Delete the events of the slots `first` to `last`, and with the list of sections their keys."""
        for table in ("events", "arrivals"):
            self.engine.execute(
                f"DELETE FROM {table} WHERE stream = ? AND slot BETWEEN ? AND ?",  # noqa: S608 - our own names
                (stream, first, last),
            )

    # How far inputs had got.

    def note(self, stream: str, number: int, mark: str) -> None:
        with self.engine.transaction():
            self.engine.execute("INSERT INTO marks (stream, number, mark) VALUES (?, ?, ?)", (stream, number, mark))

    def marks(self, stream: str) -> list[tuple[int, str]]:
        rows = self.engine.rows("SELECT number, mark FROM marks WHERE stream = ? ORDER BY number", (stream,))
        return [(int(number), str(mark)) for number, mark in rows]

    def forget_marks(self, stream: str, before: int) -> None:
        with self.engine.transaction():
            self.engine.execute("DELETE FROM marks WHERE stream = ? AND number < ?", (stream, before))


def _packed(events: Rows) -> bytes:
    """Return events of one slot as bytes: names, bins, numbers; 24 bytes a row."""
    return events.names.tobytes() + events.bins.astype("<u4").tobytes() + events.counts.astype("<u4").tobytes()


def _unpacked(slot: int, blocks: Sequence[bytes]) -> Rows:
    """Return the events of one slot in some blocks, as they are: one account and bin may be in several."""
    sizes = [len(block) // _ROW for block in blocks]
    if not any(sizes):
        return Rows.empty()
    names, bins, counts = (
        np.concatenate(
            [np.frombuffer(block, kind, size * width, size * at) for block, size in zip(blocks, sizes, strict=True)]
        )
        for kind, at, width in (("<u8", 0, 2), ("<u4", 16, 1), ("<u4", 20, 1))
    )
    slots = np.full(sum(sizes), slot, dtype=np.int64)
    return Rows(names.reshape(-1, 2), slots, bins.astype(np.int64), counts.astype(np.int64))
