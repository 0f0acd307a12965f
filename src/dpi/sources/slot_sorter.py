"""Events in any order, given back slot by slot, in bounded memory.

Rows (`dpi.events.rows`) are held in memory, sorted by slot, until they outgrow it. Then equal rows are made one; what
is still too much is written to an encrypted file, in ranges of slots. At the end each range is loaded by itself, piece
by piece, with equal rows made one again, and cut if it is still too large. So what a user can take, in memory and in a
slot's rows, is bounded by the number of bins, however many events the user sends and whatever their values are.

How the ranges are cut depends on the public period alone, and the events of a slot do not depend on whether anything
was merged or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.events.rows import Rows
from dpi.exact.integers import MOST
from dpi.sources.spill import Piece, Spill

if TYPE_CHECKING:
    import polars as pl

_COLUMNS = ("slot", "high", "low", "bin", "count")
_RANGES = 256
"""Ranges of slots into which a period is cut."""
_PIECE = 1 << 26
"""Bytes of a table that are encrypted at once."""


class SlotSorter:
    """The events of the slots first … last - 1, in a domain of `bins` bins."""

    def __init__(self, first: int, last: int, bins: int, memory: int, spill: Spill) -> None:
        self._first, self._last, self._bins = first, last, bins
        self._memory, self.spill = memory, spill
        # Slots are counted from the first one, in as few bytes as the public period allows: 2 sort in linear time.
        self._kind = np.min_scalar_type(last - first - 1)
        self._bin_kind = np.min_scalar_type(bins - 1)
        width = -(-(last - first) // _RANGES)
        self._borders = np.append(np.arange(0, last - first, width), last - first)
        self._tables: list[pl.DataFrame] = []
        self._held = 0
        self._pieces: list[list[Piece]] = [[] for _ in self._borders[1:]]

    def add(self, rows: Rows) -> None:
        """Add rows of slots of the period."""
        steps = (rows.slots - self._first).astype(self._kind)
        order = np.argsort(steps, kind="stable")
        rows = rows.only(order)
        counts, bins = rows.counts.astype(np.uint32), rows.bins.astype(self._bin_kind)
        self._hold(_table(steps[order], rows.names[:, 0], rows.names[:, 1], bins, counts))

    def _hold(self, table: pl.DataFrame) -> None:
        if table.height:
            self._tables.append(table)
            self._held += int(table.estimated_size())
        if self._held > self._memory // 2:
            self._merge()

    def _merge(self) -> None:
        """Make equal rows in memory one; write all to the file if that does not make much room."""
        tables = [_summed(tables) if tables else None for tables in self._ranges()]
        self._tables = [table for table in tables if table is not None]
        self._held = sum(int(table.estimated_size()) for table in self._tables)
        if self._held > self._memory // 4:
            self._write()
        elif self._tables:
            self._tables = [_join(self._tables)]  # ranges lie one after the other: it is sorted by slot

    def _write(self) -> None:
        """Write all tables in memory to the file, range by range."""
        for pieces, tables in zip(self._pieces, self._ranges(), strict=True):
            if not tables:
                continue
            table = _join(tables)
            step = max(1, table.height // (1 + int(table.estimated_size()) // _PIECE))
            pieces.extend(self.spill.write(part) for part in table.iter_slices(step))
        self._tables, self._held = [], 0

    def _ranges(self) -> Iterator[list[pl.DataFrame]]:
        """The parts of the tables in memory that lie in each range of slots."""
        cuts = [np.searchsorted(table["slot"].to_numpy(), self._borders) for table in self._tables]
        for at in range(self._borders.size - 1):
            yield [
                table.slice(cut[at], cut[at + 1] - cut[at])
                for table, cut in zip(self._tables, cuts, strict=True)
                if cut[at] < cut[at + 1]
            ]

    def slots(self) -> Iterator[tuple[int, Rows]]:
        """Every slot of the period with its rows, also one without any."""
        if any(self._pieces):
            self._write()
        for at, tables in enumerate(self._ranges()):
            first, last = (self._first + int(border) for border in self._borders[at : at + 2])
            pieces = self._pieces[at]
            if last - first > 1 and sum(piece.size for piece in pieces) > self._memory // 4:
                yield from self._finer(first, last, pieces)
            else:
                yield from self._cut(first, last, self._load(tables, pieces))

    def _finer(self, first: int, last: int, pieces: list[Piece]) -> Iterator[tuple[int, Rows]]:
        """A range that is too large for memory, cut into finer ones."""
        part = SlotSorter(first, last, self._bins, self._memory, self.spill)
        for table in map(self.spill.read, pieces):
            part.add(self._rows(table))
        yield from part.slots()

    def _load(self, tables: list[pl.DataFrame], pieces: list[Piece]) -> list[pl.DataFrame]:
        """All tables of a range; equal rows are made one whenever they outgrow memory, or twice what they were."""
        held, room = 0, self._memory // 2
        for piece in pieces:
            tables.append(self.spill.read(piece))
            held += int(tables[-1].estimated_size())
            if held > room:
                tables = [_summed(tables)]
                held = int(tables[0].estimated_size())
                room = max(room, 2 * held)
        return tables

    def _cut(self, first: int, last: int, tables: list[pl.DataFrame]) -> Iterator[tuple[int, Rows]]:
        """The slots of a range that fits in memory."""
        if not tables:
            yield from ((number, Rows.empty()) for number in range(first, last))
            return
        rows = self._rows(_join(tables))
        if last - first == 1:
            yield first, rows
            return
        order = np.argsort(rows.slots, kind="stable")
        cuts = np.searchsorted(rows.slots[order], np.arange(first, last + 1))
        for at in range(last - first):
            yield first + at, rows.only(order[cuts[at] : cuts[at + 1]])

    def _rows(self, table: pl.DataFrame) -> Rows:
        slots, high, low, bins, counts = (table[name].to_numpy() for name in _COLUMNS)
        slots, bins, counts = slots.astype(np.int64) + self._first, bins.astype(np.int64), counts.astype(np.int64)
        return Rows(np.stack([high, low], axis=1), slots, bins, counts)


def _table(*columns: npt.NDArray[np.generic]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(dict(zip(_COLUMNS, columns, strict=True)))


def _join(tables: list[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    return pl.concat(tables, rechunk=True)


def _summed(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One row for each (slot, account, bin), with the number of its events, cut at `MOST`; sorted by slot."""
    import polars as pl

    number = pl.col("count").cast(pl.Int64).sum().clip(upper_bound=MOST).cast(pl.UInt32)
    return pl.concat(tables).group_by(_COLUMNS[:-1]).agg(number).sort("slot")
