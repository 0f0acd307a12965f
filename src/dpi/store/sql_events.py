"""Events of open slots in an SQL store, and how far inputs had got.

A slot's events are blocks of rows (`dpi.store.event_log`); or they lie in files that an engine's tasks have written
(`dpi.store.arrival_files`), of which the store has the list and the keys. Whoever asks for the events of a slot gets
both. Both are gone when the slot is paid for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpi.errors import StateError
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.options.schedule import Schedule
from dpi.store.arrival_files import Section, read_segments
from dpi.store.base import Arrival
from dpi.store.sql_tables import SQLTables


class SQLEvents(SQLTables):
    """Events, sections of files with events, and marks as rows."""

    # Events of open slots.

    def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches durably, each once for its (producer, sequence).

        May be called by another thread than everything else.
        """
        with self._writing():
            return self._log.append(arrivals)

    def append_sections(self, stream: str, sections: Sequence[Section], producer: str, sequence: int) -> bool:
        """List sections that tasks have written, once for each (producer, sequence), as `append` keeps events."""
        with self._writing():
            if not self._log.follows(stream, producer, sequence):
                return False
            if self.folder is not None:
                self.folder.check_files({section.name for section in sections})
            self.engine.execute_many(
                "INSERT INTO arrivals (stream, slot, name, start, size, buckets, number, events, secret) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(stream, s.slot, s.name, s.start, s.size, s.buckets, s.rows, s.events, s.key) for s in sections],
            )
        return True

    def sequence(self, stream: str, producer: str) -> int:
        """The last sequence of a producer."""
        return self._log.sequence(stream, producer)

    def producers(self, stream: str) -> set[str]:
        """Who has sent events of a stream."""
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

    def events(self, stream: str, slot: int) -> Rows:
        """The events of one open slot, in rows and in files."""
        rows, arrived = self.stored_events(stream, slot), self._arrived(stream, slot)
        return Rows.sum([rows, arrived]) if arrived.slots.size else rows

    def _arrived(self, stream: str, slot: int) -> Rows:
        """The events of an open slot that are in files."""
        folder, sections = self.folder, self.sections(stream, slot)
        if folder is None or not sections:
            return Rows.empty()
        return Rows.join([part for section in sections for part in read_segments(folder, section)])

    def _take_arrivals(self) -> list[tuple[str, Rows]]:
        """The events in files of all streams, by slot, which are listed no more."""
        rows = self.engine.rows("SELECT DISTINCT stream, slot FROM arrivals")
        found = [(str(stream), self._arrived(str(stream), int(slot))) for stream, slot in rows]
        self.engine.execute("DELETE FROM arrivals")
        return [(stream, Rows.sum([events])) for stream, events in found]

    def stored_events(self, stream: str, slot: int) -> Rows:
        """The events of one open slot that are in the database; an account and a bin may come several times."""
        return self._log.read(stream, slot)

    def sections(self, stream: str, slot: int) -> list[Section]:
        """The sections of files that hold events of an open slot."""
        rows = self.engine.rows(
            "SELECT slot, name, start, size, buckets, number, events, secret FROM arrivals "
            "WHERE stream = ? AND slot = ? ORDER BY name, start",
            (stream, slot),
        )
        return [
            Section(int(at), str(name), int(start), int(size), int(buckets), int(number), int(events), bytes(secret))
            for at, name, start, size, buckets, number, events, secret in rows
        ]

    def open_slots(self, stream: str, first: int) -> list[int]:
        """The slots from `first` on that have events."""
        rows = self.engine.rows("SELECT DISTINCT slot FROM arrivals WHERE stream = ? AND slot >= ?", (stream, first))
        return sorted({*self._log.slots(stream, first), *(int(slot) for (slot,) in rows)})

    def _recode(self, stream: str, first: int, recoded: Schedule[Integers]) -> None:
        """Tell events of the slots from `first` on by other bins."""
        for slot in self.open_slots(stream, first):
            events = self.events(stream, slot).recode(recoded.at(slot))
            self._drop_events(stream, slot, first=slot)
            self._log.add(stream, [events])

    def _drop_events(self, stream: str, last: int, first: int = -(1 << 62)) -> None:
        """Delete the events of the slots `first` to `last`, and with the list of sections their keys."""
        for table in ("events", "arrivals"):
            self.engine.execute(
                f"DELETE FROM {table} WHERE stream = ? AND slot BETWEEN ? AND ?",  # noqa: S608 - our own names
                (stream, first, last),
            )

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
