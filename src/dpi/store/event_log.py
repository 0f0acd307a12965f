"""Events of open slots on disk: runs of packed records, of which similar ones are merged.

A batch of events is one run for each slot that it has events of: records of 32 bytes (an account's name, a bin, a
number), in one row of the database. As rows of their own they would cost a search in an index each, and as much again
to be erased. Of sixteen runs of one tier one run of the next is made, in which every (account, bin) has one record. So
a slot has O(log n) runs, a record is written O(log n) times, and one user's flood of equal events, in however many
batches, leaves a few records.

Sees accounts' names and bins, never an id or a value; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.store.base import OpenEvents
from dpi.store.engine import Engine

TOGETHER = 16
"""So many runs of one tier are merged."""
LARGEST = 1 << 28
"""Bytes of a run at most: larger ones are split, and not merged further. Databases hold cells of up to 10^9."""
_RECORD = 32


@dataclass(frozen=True, eq=False, repr=False)
class EventLog:
    """The open events of a store; who calls what writes has begun a transaction."""

    engine: Engine

    def append(self, stream: str, events: OpenEvents) -> None:
        """Add the events of a batch to their slots."""
        for slot in np.unique(events.slots).tolist():
            self._add(stream, slot, 0, _packed(events, events.slots == slot))

    def read(self, stream: str, slot: int) -> OpenEvents:
        """The events of one slot, one for each (account, bin), in an order that no batch has a part in."""
        return OpenEvents.together([*self._unpacked(stream, slot, self._runs(stream, slot))])

    def slots(self, stream: str, first: int) -> list[int]:
        """The slots from `first` on that have events."""
        rows = self.engine.rows("SELECT DISTINCT slot FROM events WHERE stream = ? AND slot >= ?", (stream, first))
        return sorted(int(slot) for (slot,) in rows)

    def drop(self, stream: str, first: int, last: int) -> None:
        """Delete the events of slots `first` to `last`; the engine erases them."""
        self.engine.execute(
            "DELETE FROM events WHERE stream = ? AND slot BETWEEN ? AND ?", (stream, first, last)
        )  # fmt: skip

    def _add(self, stream: str, slot: int, tier: int, data: bytes) -> None:
        runs = self._runs(stream, slot)
        number = max((run for run, _, _ in runs), default=-1) + 1
        for start in range(0, len(data), LARGEST):
            part = data[start : start + LARGEST]
            self.engine.execute(
                "INSERT INTO events (stream, slot, run, tier, size, data) VALUES (?, ?, ?, ?, ?, ?)",
                (stream, slot, number, tier, len(part), part),
            )
            runs.append((number, tier, len(part)))
            number += 1
        alike = [run for run in runs if run[1] == tier]
        if len(alike) >= TOGETHER and sum(size for _, _, size in alike) <= LARGEST:
            joined = OpenEvents.together([*self._unpacked(stream, slot, alike)])
            self.engine.execute(
                "DELETE FROM events WHERE stream = ? AND slot = ? AND tier = ?", (stream, slot, tier)
            )  # fmt: skip
            self._add(stream, slot, tier + 1, _packed(joined))

    def _runs(self, stream: str, slot: int) -> list[tuple[int, int, int]]:
        """Number, tier and size of a slot's runs."""
        rows = self.engine.rows("SELECT run, tier, size FROM events WHERE stream = ? AND slot = ?", (stream, slot))
        return [(int(run), int(tier), int(size)) for run, tier, size in rows]

    def _unpacked(self, stream: str, slot: int, runs: list[tuple[int, int, int]]) -> Iterator[OpenEvents]:
        yield OpenEvents.none()
        for number, _, _ in runs:
            ((data,),) = self.engine.rows(
                "SELECT data FROM events WHERE stream = ? AND slot = ? AND run = ?", (stream, slot, number)
            )
            yield unpacked(bytes(data), slot)


def _packed(events: OpenEvents, rows: np.ndarray[tuple[int], np.dtype[np.bool_]] | slice = slice(None)) -> bytes:
    names = events.names[rows]
    records: Integers = np.empty((len(names), 4), dtype="<i8")
    records[:, :2], records[:, 2], records[:, 3] = names.view(np.int64), events.bins[rows], events.counts[rows]
    return records.tobytes()


def unpacked(data: bytes, slot: int) -> OpenEvents:
    """The events of a run."""
    records = np.frombuffer(data, dtype="<i8").astype(np.int64).reshape(-1, _RECORD // 8)
    names = np.ascontiguousarray(records[:, :2]).view(np.uint64)
    return OpenEvents(names, np.full(len(records), slot, dtype=np.int64), records[:, 2], records[:, 3])


def take_rows(engine: Engine) -> None:
    """Pack the events of a store of version 3, which had a row for each (account, bin)."""
    for stream, slot in engine.rows("SELECT DISTINCT stream, slot FROM events_of_3"):
        rows = engine.rows(
            "SELECT account, bin, number FROM events_of_3 WHERE stream = ? AND slot = ?", (stream, slot)
        )  # fmt: skip
        names, bins, counts = zip(*rows, strict=True)
        digests = np.frombuffer(b"".join(bytes(name) for name in names), dtype=np.uint64).reshape(-1, 2)
        slots = np.full(len(rows), int(slot), dtype=np.int64)
        EventLog(engine).append(str(stream), OpenEvents(digests, slots, np.array(bins), np.array(counts)))
