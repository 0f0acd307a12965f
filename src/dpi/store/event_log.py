"""The events of open slots in an SQL store: blocks of rows, and what each producer has sent.

What arrives together is one block for each slot: names of accounts, bins and numbers as columns of bytes. To write a
million rows then takes as long as writing their bytes, and to close a slot as long as reading them; a row of its own
for each took many times that. One user's equal events are one row of their block, however many they are.

Of sixteen blocks of one tier one block of the next is made, in which every (account, bin) has one row. So a slot has
O(log n) blocks, a row is written O(log n) times, and one user's flood of equal events, in however many batches, leaves
a few rows.

Sees names of accounts, bins and numbers. How the engine erases what is deleted is written at each engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpi.events.rows import Rows
from dpi.store.base import Arrival
from dpi.store.engine import Engine

TOGETHER = 16
"""So many blocks of one tier are merged."""
LARGEST = 3 << 26
"""Bytes of a block at most: more is split, and not merged further. A cell of a database has at most 10^9."""
_ROW = 16 + 4 + 4


def packed(events: Rows) -> bytes:
    """Events of one slot as bytes: names, bins, numbers; 24 bytes a row."""
    return events.names.tobytes() + events.bins.astype("<u4").tobytes() + events.counts.astype("<u4").tobytes()


def unpacked(slot: int, blocks: Sequence[bytes]) -> Rows:
    """The events of one slot in some blocks, as they are: one account and bin may be in several."""
    sizes = [len(block) // _ROW for block in blocks]

    def column(kind: str, at: int, width: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
        for block, size in zip(blocks, sizes, strict=True):
            yield np.frombuffer(block, dtype=kind, count=size * width, offset=size * at)

    if not any(sizes):
        return Rows.empty()
    return Rows(
        np.concatenate([*column("u8", 0, 2)]).view(np.uint64).reshape(-1, 2),
        np.full(sum(sizes), slot, dtype=np.int64),
        np.concatenate([*column("<u4", 16, 1)]).astype(np.int64),
        np.concatenate([*column("<u4", 20, 1)]).astype(np.int64),
    )


@dataclass(frozen=True, eq=False, repr=False)
class EventLog:
    """Events of open slots, through an engine whose transactions are somebody else's."""

    engine: Engine

    def append(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Keep several batches, each once for its (producer, sequence): which of them were new."""
        fresh = []
        by_stream: dict[str, list[Rows]] = {}
        for stream, events, producer, sequence in arrivals:
            fresh.append(self.follows(stream, producer, sequence))
            if fresh[-1]:
                by_stream.setdefault(stream, []).append(events)
        for stream, parts in by_stream.items():
            self.add(stream, parts)
        return fresh

    def follows(self, stream: str, producer: str, sequence: int) -> bool:
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
        """The last sequence of a producer; -1 before the first."""
        rows = self.engine.rows(
            "SELECT sequence FROM sequences WHERE stream = ? AND producer = ?", (stream, producer)
        )  # fmt: skip
        return int(rows[0][0]) if rows else -1

    def add(self, stream: str, parts: Sequence[Rows]) -> None:
        """Keep events as blocks of their slots."""
        names = np.concatenate([part.names for part in parts])
        slots, bins, counts = (
            np.concatenate([getattr(part, column) for part in parts]) for column in ("slots", "bins", "counts")
        )
        for slot in np.unique(slots).tolist():
            rows = slots == slot
            self._put(stream, slot, 0, Rows(names[rows], slots[rows], bins[rows], counts[rows]))

    def _put(self, stream: str, slot: int, tier: int, events: Rows) -> None:
        """Add a block to a tier; if that is full then, merge its blocks into one of the next."""
        for start in range(0, len(events.bins), LARGEST // _ROW):
            data = packed(events.only(slice(start, start + LARGEST // _ROW)))
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
            joined = Rows.sum([unpacked(slot, [bytes(data) for (data,) in rows])])
            self._put(stream, slot, tier + 1, joined)

    def read(self, stream: str, slot: int) -> Rows:
        """The events of one open slot; an account and a bin may come several times."""
        rows = self.engine.rows("SELECT data FROM events WHERE stream = ? AND slot = ?", (stream, slot))
        return unpacked(slot, [bytes(data) for (data,) in rows])

    def slots(self, stream: str, first: int) -> list[int]:
        """The slots from `first` on that have events."""
        rows = self.engine.rows("SELECT DISTINCT slot FROM events WHERE stream = ? AND slot >= ?", (stream, first))
        return [int(slot) for (slot,) in rows]
