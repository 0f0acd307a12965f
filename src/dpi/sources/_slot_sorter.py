"""Events in any order, given back slot by slot, in bounded memory.

Rows (`dpi.events.rows`) are held in memory, sorted by slot, until they outgrow it. Then equal rows are made one; what
is still too much is written to an encrypted file, in ranges of slots. At the end each range is loaded by itself, piece
by piece, with equal rows made one again, and cut if it is still too large. So what a user can take, in memory and in a
slot's rows, is bounded by the number of bins, however many events the user sends and whatever their values are.

How the ranges are cut depends on the public period alone, and the events of a slot do not depend on whether anything
was merged or written.

The file has no name, and is unreadable without a key that is never written: it is made anew for each use and lives in
memory only. So whatever stays on the disk after a kill, in a backup or on a freed block, is ciphertext. AES-256-GCM
also notices if somebody changes it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dpi.errors import StateError
from dpi.events.rows import Rows

Records = npt.NDArray[np.void]
"""Rows in as few bytes as the public options allow."""
_RANGES = 256
"""Ranges of slots into which a period is cut."""
_PIECE = 1 << 26
"""Bytes that are encrypted at once."""


class SlotSorter:
    """The events of the slots first … last - 1, in a domain of `bins` bins."""

    def __init__(self, first: int, last: int, bins: int, memory: int, spill: Spill) -> None:
        self._first, self._bins, self._memory, self._spill = first, bins, memory, spill
        # Slots are counted from the first one: numbers of 2 bytes sort in linear time.
        slot, code = np.min_scalar_type(last - first - 1), np.min_scalar_type(bins - 1)
        names = [("high", np.uint64), ("low", np.uint64)]
        self._kind = np.dtype([*names, ("slot", slot), ("bin", code), ("count", np.uint32)])
        self._borders = np.append(np.arange(0, last - first, -(-(last - first) // _RANGES)), last - first)
        self._held: list[Records] = []
        self._pieces: list[list[Piece]] = [[] for _ in self._borders[1:]]

    def add(self, rows: Rows) -> None:
        """Add rows of slots of the period."""
        if len(rows):
            self._held.append(self._pack(rows))
        if _bytes(self._held) <= self._memory // 2:
            return
        self._held = [self._sum(parts) for parts in self._ranges() if parts]
        if _bytes(self._held) > self._memory // 4:
            self._write()
        elif self._held:
            self._held = [np.concatenate(self._held)]  # ranges lie one after the other: it is sorted by slot

    def _write(self) -> None:
        """Write all that is in memory to the file, range by range."""
        for pieces, parts in zip(self._pieces, self._ranges(), strict=True):
            records = np.concatenate(parts) if parts else np.empty(0, self._kind)
            step = max(1, _PIECE // self._kind.itemsize)
            pieces += [self._spill.write(records[at : at + step]) for at in range(0, records.size, step)]
        self._held = []

    def _ranges(self) -> Iterator[list[Records]]:
        """Return the parts of what is in memory that lie in each range of slots."""
        cuts = [np.searchsorted(records["slot"], self._borders) for records in self._held]
        for at in range(self._borders.size - 1):
            parts = (records[cut[at] : cut[at + 1]] for records, cut in zip(self._held, cuts, strict=True))
            yield [part for part in parts if part.size]

    def slots(self) -> Iterator[tuple[int, Rows]]:
        """Return every slot of the period with its rows, also one without any."""
        if any(self._pieces):
            self._write()
        for at, parts in enumerate(self._ranges()):
            first, last = (self._first + int(border) for border in self._borders[at : at + 2])
            pieces = self._pieces[at]
            if last - first > 1 and sum(piece.size for piece in pieces) > self._memory // 4:
                yield from self._finer(first, last, pieces)
            else:
                yield from self._unpack(self._load(parts, pieces)).by_slot(first, last)

    def _finer(self, first: int, last: int, pieces: list[Piece]) -> Iterator[tuple[int, Rows]]:
        """Return the slots of a range that is too large for memory, which is cut into finer ones."""
        part = SlotSorter(first, last, self._bins, self._memory, self._spill)
        for piece in pieces:
            part.add(self._unpack([self._read(piece)]))
        yield from part.slots()

    def _load(self, parts: list[Records], pieces: list[Piece]) -> list[Records]:
        """Return all of a range; equal rows are made one whenever they outgrow memory, or twice what they were."""
        room = self._memory // 2
        for piece in pieces:
            parts.append(self._read(piece))
            if _bytes(parts) > room:
                parts = [self._sum(parts)]
                room = max(room, 2 * _bytes(parts))
        return parts

    def _sum(self, parts: list[Records]) -> Records:
        """Return one row for each (slot, account, bin), sorted by slot."""
        return self._pack(Rows.sum([self._unpack(parts)]))

    def _pack(self, rows: Rows) -> Records:
        steps = (rows.slots - self._first).astype(self._kind["slot"])
        order = np.argsort(steps, kind="stable")
        records = np.empty(len(rows), self._kind)
        columns = (*rows.names.T, steps, rows.bins, rows.counts)
        for name, column in zip(self._kind.names or (), columns, strict=True):
            records[name] = column[order]
        return records

    def _unpack(self, parts: list[Records]) -> Rows:
        if not parts:
            return Rows.empty()
        whole = np.concatenate(parts)
        high, low, *others = [whole[name] for name in self._kind.names or ()]
        slots, bins, counts = [column.astype(np.int64) for column in others]
        return Rows(np.stack([high, low], axis=1), slots + self._first, bins, counts)

    def _read(self, piece: Piece) -> Records:
        return np.frombuffer(self._spill.read(piece), self._kind)


def _bytes(parts: list[Records]) -> int:
    return sum(part.nbytes for part in parts)


class Piece(NamedTuple):
    """Where one piece lies in the file."""

    start: int
    size: int


class Spill:
    """A file without a name, made when the first piece is written, that gives pieces back."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._folder = folder
        self._file: BinaryIO | None = None
        self._cipher = AESGCM(AESGCM.generate_key(bit_length=256))
        self._end = 0

    def write(self, records: Records) -> Piece:
        """Append records, encrypted; where they start in the file is their nonce, so that none is used twice."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dpi-", dir=self._folder)  # noqa: SIM115 - `close`
        data = self._cipher.encrypt(_nonce(self._end), records.tobytes(), None)
        self._file.seek(self._end)
        self._file.write(data)
        piece = Piece(self._end, len(data))
        self._end += len(data)
        return piece

    def read(self, piece: Piece) -> bytes:
        """Return what was written."""
        from cryptography.exceptions import InvalidTag

        assert self._file is not None  # noqa: S101 - a piece was written
        self._file.seek(piece.start)
        try:
            return self._cipher.decrypt(_nonce(piece.start), self._file.read(piece.size), None)
        except InvalidTag:
            raise StateError("the temporary file of events was changed while it was in use.") from None

    def close(self) -> None:
        """Remove everything that was written."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _nonce(start: int) -> bytes:
    return start.to_bytes(12, "big")
