"""Events in any order, given back slot by slot, in bounded memory.

Tables are held in memory, sorted by slot, until they outgrow it; then they are written to an encrypted file, in ranges
of slots. At the end each range is loaded by itself, and cut again if it is still too large. How the ranges are cut
depends on the public period alone, and the rows of a slot do not depend on whether anything was written.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpi.integers import Integers
from dpi.sources.spill import Piece, Spill

if TYPE_CHECKING:
    import polars as pl

SLOT = "slot"
USER = "user"
_RANGES = 256
"""Ranges of slots into which a period is cut."""
_PIECE = 1 << 26
"""Bytes of a table that are encrypted at once."""


class Partition:
    """The events of the slots first … last - 1; `empty` is a slot without any."""

    def __init__(self, first: int, last: int, memory: int, spill: Spill, empty: pl.DataFrame) -> None:
        self._first, self._last = first, last
        self._memory = memory
        self._spill = spill
        # Slots are counted from the first one, in as few bytes as the public period allows: 2 sort in linear time.
        self._kind = np.min_scalar_type(last - first - 1)
        width = -(-(last - first) // _RANGES)
        self._borders = np.append(np.arange(0, last - first, width), last - first)
        self._tables: list[pl.DataFrame] = []
        self._held = 0
        self._pieces: list[list[Piece]] = [[] for _ in self._borders[1:]]
        self._empty = empty

    def add(self, numbers: Integers, columns: Mapping[str, pl.Series]) -> None:
        """Add rows with their slot numbers; a row outside the period, or without a user, is dropped by itself."""
        import polars as pl

        inside = (numbers >= self._first) & (numbers < self._last) & columns[USER].is_not_null().to_numpy()
        rows = np.flatnonzero(inside)
        steps = (numbers[rows] - self._first).astype(self._kind)
        order = np.argsort(steps, kind="stable")
        rows = rows[order]
        kept = {name: column.gather(rows) for name, column in columns.items()}
        table = pl.DataFrame({SLOT: steps[order], **kept})
        self._hold(table if rows.size > numbers.size // 2 else _copy(table))

    def _hold(self, table: pl.DataFrame) -> None:
        if table.height:
            self._tables.append(table)
            self._held += _bytes(table)
        if self._held > self._memory // 2:
            self._write()

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
        """Every slot of the period with its rows, also one without any."""
        if any(self._pieces):
            self._write()
        for at, tables in enumerate(self._ranges()):
            first, last = (self._first + int(border) for border in self._borders[at : at + 2])
            pieces = self._pieces[at]
            if last - first > 1 and sum(piece.size for piece in pieces) > self._memory // 4:
                yield from self._finer(first, last, pieces)
            else:
                yield from self._cut(first, last, [*tables, *(self._spill.read(piece) for piece in pieces)])

    def _finer(self, first: int, last: int, pieces: list[Piece]) -> Iterator[tuple[int, pl.DataFrame]]:
        """A range that is too large for memory, cut into finer ones."""
        part = Partition(first, last, self._memory, self._spill, self._empty)
        for piece in pieces:
            table = self._spill.read(piece)
            numbers = table[SLOT].to_numpy().astype(np.int64) + self._first
            part.add(numbers, table.drop(SLOT).to_dict())
        yield from part.slots()

    def _cut(self, first: int, last: int, tables: list[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
        """The slots of a range that fits in memory."""
        if last - first == 1 or not tables:
            yield from ((number, _join(tables) if tables else self._empty) for number in range(first, last))
            return
        table = _join(tables)
        steps = table[SLOT].to_numpy()
        order = np.argsort(steps, kind="stable")
        table = table[order]
        cuts = np.searchsorted(steps[order], np.arange(first, last + 1) - self._first)
        for at in range(last - first):
            yield first + at, table.slice(cuts[at], cuts[at + 1] - cuts[at])


def _bytes(table: pl.DataFrame) -> int:
    """Bytes of memory of a table: the views of texts and what they show."""
    import polars as pl

    texts = sum(kind in (pl.String, pl.Binary) for kind in table.dtypes)
    return int(table.estimated_size()) + 16 * texts * table.height


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
