"""Events in any order, given back slot by slot, in bounded memory.

A row is (slot, user, bin of the public domain, number of equal events). Tables of rows are held in memory, sorted by
slot, until they outgrow it. Then equal rows are made one; what is still too much is written to an encrypted file, in
ranges of slots. At the end each range is loaded by itself, piece by piece, with equal rows made one again, and cut if
it is still too large. So what a user can take, in memory and in a slot's rows, is bounded by the number of bins,
however many events the user sends and whatever their values are.

How the ranges are cut depends on the public period alone, and the events of a slot do not depend on whether anything
was merged or written.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpi.exact.integers import MOST, Integers
from dpi.sources.spill import Piece, Spill

if TYPE_CHECKING:
    import polars as pl

SLOT = "slot"
USER = "user"
BIN = "bin"
COUNT = "count"
_RANGES = 256
"""Ranges of slots into which a period is cut."""
_PIECE = 1 << 26
"""Bytes of a table that are encrypted at once."""


class SlotSorter:
    """The events of the slots first … last - 1, in a domain of `bins` bins."""

    def __init__(self, first: int, last: int, bins: int, memory: int, spill: Spill) -> None:
        self._first, self._last, self._bins = first, last, bins
        self._memory = memory
        self._spill = spill
        # Slots are counted from the first one, in as few bytes as the public period allows: 2 sort in linear time.
        self._kind = np.min_scalar_type(last - first - 1)
        self._bin_kind = np.min_scalar_type(bins - 1)
        width = -(-(last - first) // _RANGES)
        self._borders = np.append(np.arange(0, last - first, width), last - first)
        self._tables: list[pl.DataFrame] = []
        self._held = 0
        self._pieces: list[list[Piece]] = [[] for _ in self._borders[1:]]

    def add(self, numbers: Integers, users: pl.Series, bins: Integers, counts: Integers | None = None) -> None:
        """Add rows with their slot numbers; one outside the period, without user or bin, is dropped by itself."""
        import polars as pl

        inside = (numbers >= self._first) & (numbers < self._last) & (bins >= 0) & users.is_not_null().to_numpy()
        rows = np.flatnonzero(inside)
        steps = (numbers[rows] - self._first).astype(self._kind)
        order = np.argsort(steps, kind="stable")
        rows = rows[order]
        kept = np.ones(rows.size, dtype=np.uint32) if counts is None else counts[rows].astype(np.uint32)
        table = pl.DataFrame(
            {SLOT: steps[order], USER: users.gather(rows), BIN: bins[rows].astype(self._bin_kind), COUNT: kept}
        )
        self._hold(table if rows.size > numbers.size // 2 else _copy(table))

    def _hold(self, table: pl.DataFrame) -> None:
        if table.height:
            self._tables.append(table)
            self._held += _bytes(table)
        if self._held > self._memory // 2:
            self._merge()

    def _merge(self) -> None:
        """Make equal rows in memory one; write all to the file if that does not make much room."""
        tables = [_summed(tables) if tables else None for tables in self._ranges()]
        self._tables = [table for table in tables if table is not None]
        self._held = sum(_bytes(table) for table in self._tables)
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
            step = max(1, table.height // (1 + _bytes(table) // _PIECE))
            pieces.extend(self._spill.write(part) for part in table.iter_slices(step))
        self._tables, self._held = [], 0

    def _ranges(self) -> Iterator[list[pl.DataFrame]]:
        """The parts of the tables in memory that lie in each range of slots."""
        cuts = [np.searchsorted(table[SLOT].to_numpy(), self._borders) for table in self._tables]
        for at in range(self._borders.size - 1):
            yield [
                table.slice(cut[at], cut[at + 1] - cut[at])
                for table, cut in zip(self._tables, cuts, strict=True)
                if cut[at] < cut[at + 1]
            ]

    def slots(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Every slot of the period with its rows (user, bin, count), also one without any."""
        if any(self._pieces):
            self._write()
        for at, tables in enumerate(self._ranges()):
            first, last = (self._first + int(border) for border in self._borders[at : at + 2])
            pieces = self._pieces[at]
            if last - first > 1 and sum(piece.size for piece in pieces) > self._memory // 4:
                yield from self._finer(first, last, pieces)
            else:
                yield from self._cut(first, last, self._load(tables, pieces))

    def _finer(self, first: int, last: int, pieces: list[Piece]) -> Iterator[tuple[int, pl.DataFrame]]:
        """A range that is too large for memory, cut into finer ones."""
        part = SlotSorter(first, last, self._bins, self._memory, self._spill)
        for table in map(self._spill.read, pieces):
            numbers = table[SLOT].to_numpy().astype(np.int64) + self._first
            part.add(numbers, table[USER], table[BIN].to_numpy(), table[COUNT].to_numpy())
        yield from part.slots()

    def _load(self, tables: list[pl.DataFrame], pieces: list[Piece]) -> list[pl.DataFrame]:
        """All tables of a range; equal rows are made one whenever they outgrow memory, or twice what they were."""
        held, room = 0, self._memory // 2
        for piece in pieces:
            tables.append(self._spill.read(piece))
            held += _bytes(tables[-1])
            if held > room:
                tables = [_summed(tables)]
                held = _bytes(tables[0])
                room = max(room, 2 * held)
        return tables

    def _cut(self, first: int, last: int, tables: list[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
        """The slots of a range that fits in memory."""
        if not tables:
            empty = self._empty()
            yield from ((number, empty) for number in range(first, last))
            return
        table = _join(tables)
        if last - first == 1:
            yield first, table
            return
        steps = table[SLOT].to_numpy()
        order = np.argsort(steps, kind="stable")
        table = table[order]
        cuts = np.searchsorted(steps[order], np.arange(first, last + 1) - self._first)
        for at in range(last - first):
            yield first + at, table.slice(cuts[at], cuts[at + 1] - cuts[at])

    def _empty(self) -> pl.DataFrame:
        import polars as pl

        none = np.empty(0, dtype=np.int64)
        return pl.DataFrame({SLOT: none, USER: pl.Series([], dtype=pl.String), BIN: none, COUNT: none})


def _summed(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One row for each (slot, user, bin), with the number of its events, cut at `MOST`; sorted by slot."""
    import polars as pl

    whole = _join(tables)
    number = pl.col(COUNT).cast(pl.Int64).sum().clip(upper_bound=MOST).cast(pl.UInt32)
    table = whole.group_by(SLOT, USER, BIN).agg(number).sort(SLOT)
    return table if table.height > whole.height // 2 else _copy(table)


def _bytes(table: pl.DataFrame) -> int:
    """Bytes of memory of a table: the views of texts and what they show."""
    import polars as pl

    return int(table.estimated_size()) + 16 * (table.schema[USER] == pl.String) * table.height


def _copy(table: pl.DataFrame) -> pl.DataFrame:
    """A copy with texts of its own: some rows of a batch share its texts, and would keep all of them in memory."""
    import polars as pl

    buffer = io.BytesIO()
    table.write_ipc_stream(buffer)
    buffer.seek(0)
    return pl.read_ipc_stream(buffer)


def _join(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One table; ids are texts if they are texts in one of them, for an integer id is its canonical text."""
    import polars as pl

    if len({table.schema[USER] for table in tables}) > 1:
        tables = [table.with_columns(pl.col(USER).cast(pl.String)) for table in tables]
    return pl.concat(tables, rechunk=True)
