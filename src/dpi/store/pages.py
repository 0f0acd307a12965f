"""Files of accounts of which a few are looked up at a time: sorted by name, in blocks that are each sealed.

A file has all accounts of a part of the names as they were at one moment. A block holds eight records, the first name
of the next block, and a seal; after the blocks come their first names once more, to find a block by. Whoever looks up
an account reads its block alone, and the operating system decides what it keeps of the file.

**Guarantee.** An account that is found is as it was written to this file; one that is not found is not in it.
*Why:* a seal is AES-256 in CBC-MAC, over messages that all have one length, for which it is a pseudo-random function
(Bellare, Kilian and Rogaway 2000). It binds a block to the log, the part, the file's name, which is never used twice,
and its own number. A name that is not in a block, and lies between its first name and the next block's first, is in no
other; the list of first names is only where to look, and one that leads elsewhere is refused. Which file is the newest
of a part, and how many records it has, the ledger's own seal says (`dpi.store.account_log`).

Sees names of accounts and what they hold; no id. Private.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.budget.account_table import ABSENT, RECORD, STANDING, Standings
from dpi.errors import StateError, StoreError
from dpi.events.identity import Digests
from dpi.exact.integers import Integers
from dpi.store.folder import MISSING, Folder
from dpi.store.joining import Records, together
from dpi.store.runs import Run

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

RECORDS = 8
"""Records in a block."""
_BLOCK = np.dtype([("records", RECORD, RECORDS), ("next", "<u8", 2), ("seal", "<u8", 2)])
_RAW = np.dtype((np.void, _BLOCK.itemsize))
_CHUNKS = _BLOCK.itemsize // 16
_FENCE = np.dtype("<u8")
_SIZE = _BLOCK.itemsize + _FENCE.itemsize
_WIDTH = RECORDS * RECORD.itemsize
_SLICE = 1 << 11
"""Blocks that are sealed at a time: they stay in the processor's cache."""
_PIECE = 1 << 12
"""Blocks that are read at a time where all are read: what is made of them stays in the cache, too."""
_BYTES = np.dtype((np.void, STANDING.itemsize))

Blocks = npt.NDArray[np.void]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False, repr=False)
class PageFiles:
    """Reads and writes the page files of one log."""

    folder: Folder
    log: str
    key: bytes

    def write(self, attempt: str, part: int, number: int, pieces: Iterable[Records], most: int) -> Run:
        """Write the accounts of a part, in the order of their names, of which there are `most` or fewer.

        `number` is that of the first run of the log that the file lacks.
        """
        name, room = self.folder.new_name(attempt), _blocks(max(most, 1))
        data, where, cipher = bytearray(room * _SIZE), self._where(part, name), self._cipher()
        blocks = np.frombuffer(data, dtype=_BLOCK, count=room)
        size = sealed = 0
        for records in pieces:
            _fill(blocks, size, records)
            size += records.size
            sealed = _seal_between(blocks, sealed, max(sealed, (size - 1) // RECORDS), where, cipher)
        count = _blocks(size)
        _seal_between(blocks, sealed, count, where, cipher)
        first = blocks["records"]["name"]["high"][:count, 0].copy()
        np.frombuffer(data, dtype=_FENCE, count=count, offset=count * _BLOCK.itemsize)[:] = first
        self.folder.write_named(name, memoryview(data)[: count * _SIZE])
        return Run(part, number, name, size * RECORD.itemsize, self._seal(part, name, size))

    def read(self, run: Run) -> Records:
        """All accounts of a file."""
        return together(list(self.pieces(run)))

    def pieces(self, run: Run, start: int = 0, end: int = 1 << 64) -> Iterator[Records]:
        """The accounts of a file whose names lie in a range (of high halves), some at a time, in their order."""
        self.check(run)
        size, left = run.size // RECORD.itemsize, np.uint64(start)
        with self._opened(run) as (blocks, fences):
            first = max(int(np.searchsorted(fences, left)) - 1, 0)
            stop = blocks.size if end == 1 << 64 else max(int(np.searchsorted(fences, np.uint64(end))), first + 1)
            for at in range(first, stop, _PIECE):
                found = blocks.view(_RAW)[at : min(at + _PIECE, stop)].copy().view(_BLOCK)  # as bytes, not by field
                self._verify(found, np.arange(at, at + found.size), [(run, found.size)])
                high = found["records"]["name"]["high"]
                if (high[:, 0] != fences[at : at + found.size]).any():
                    raise StateError(MISSING)
                if at == first and at and high[0, 0] >= left:  # the block before it may have some too
                    raise StateError(MISSING)
                if at + _PIECE >= stop < blocks.size and int(found["next"][-1, 0]) < end:
                    raise StateError(MISSING)
                flat = found.view(np.uint8).reshape(-1, _BLOCK.itemsize)[:, :_WIDTH].reshape(-1).view(RECORD)
                flat = flat[: size - at * RECORDS]
                names = flat["name"]["high"]
                low = int(np.searchsorted(names, left)) if at == first else 0
                high_end = flat.size if end == 1 << 64 else int(np.searchsorted(names, np.uint64(end)))
                if high_end > low:
                    yield flat[low:high_end]

    def look_up(self, runs: Iterable[tuple[Run, slice]], names: Digests) -> tuple[Standings, npt.NDArray[np.bool_]]:
        """What accounts hold, zeros where a name has none, and which were found.

        `names` are sorted, and each run is that of a slice of them.
        """
        raw = np.empty(len(names), dtype=_RAW)
        numbers, sizes = np.full(len(names), ABSENT, dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        reading: list[tuple[Run, int]] = []
        for run, rows in runs:
            if not run.size or rows.start == rows.stop:
                continue
            self.check(run)
            with self._opened(run) as (held, fences):
                numbers[rows] = at = _block_of(names[rows], held, fences)
                raw[rows] = held.view(_RAW)[at]
            sizes[rows] = run.size // RECORD.itemsize
            reading.append((run, rows.stop - rows.start))
        standing, found = np.zeros(len(names), dtype=_BYTES), np.zeros(len(names), dtype=np.bool_)
        if reading:
            there = slice(None) if numbers.min() != ABSENT else np.flatnonzero(numbers != ABSENT)
            blocks = raw[there].view(_BLOCK)
            self._verify(blocks, numbers[there], reading)
            row, column = _located(blocks, numbers[there], sizes[there], names[there])
            at = row if isinstance(there, slice) else there[row]
            standing[at] = blocks["records"]["standing"][row, column].view(_BYTES)
            found[at] = True
        return standing.view(STANDING), found

    def check(self, run: Run) -> None:
        """Refuse a file that the sealed list names otherwise than it was written."""
        self.folder.check_name(run.name)
        if run.seal != self._seal(run.bucket, run.name, run.size // RECORD.itemsize):
            raise StateError(MISSING)

    @contextmanager
    def _opened(self, run: Run) -> Iterator[tuple[Blocks, Words]]:
        """The blocks of a file and their first names, in pages of the operating system that are let go of after it."""
        count = _blocks(run.size // RECORD.itemsize)
        if not count:
            yield np.empty(0, dtype=_BLOCK), np.empty(0, dtype=_FENCE)
            return
        size = count * _SIZE
        try:
            descriptor = os.open(self.folder.path / run.name, os.O_RDONLY)
            try:
                mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            self.folder.check()
            raise StateError(MISSING) from None
        except (OSError, ValueError):
            raise StoreError(f"a page file in {self.folder.path} cannot be read.") from None
        try:
            if len(mapped) != size:
                raise StateError(MISSING)
            yield (
                np.frombuffer(mapped, dtype=_BLOCK, count=count),
                np.frombuffer(mapped, dtype=_FENCE, count=count, offset=count * _BLOCK.itemsize),
            )
        finally:
            mapped.madvise(mmap.MADV_DONTNEED)  # it is closed with the last of its views

    def _verify(self, blocks: Blocks, numbers: Integers, runs: Sequence[tuple[Run, int]]) -> None:
        """Raise `StateError` if a block is not as it was sealed; `runs` are the files of so many blocks each."""
        where = np.repeat(
            np.stack([self._where(run.bucket, run.name) for run, _ in runs]), [n for _, n in runs], axis=0
        )
        if (_sealed(blocks, numbers, where, self._cipher()) != blocks["seal"]).any():
            raise StateError(MISSING)

    def _where(self, part: int, name: str) -> Words:
        """What stands for a file in its seals: the first sixteen bytes of each message, encrypted."""
        text = f"{self.log}/{part}/{name}".encode()
        digest = hashlib.blake2b(text, key=self.key, digest_size=16, person=b"dpi page file").digest()
        return np.frombuffer(self._cipher().update(digest), dtype=np.uint64)

    def _seal(self, part: int, name: str, records: int) -> bytes:
        text = f"{self.log}/{part}/{name}/{records}".encode()
        return hashlib.blake2b(text, key=self.key, digest_size=32, person=b"dpi page list").digest()

    def _cipher(self) -> CipherContext:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        secret = hashlib.blake2b(key=self.key, digest_size=32, person=b"dpi page seals").digest()
        return Cipher(algorithms.AES(secret), modes.ECB()).encryptor()  # noqa: S305 - CBC-MAC is made of it


def _blocks(records: int) -> int:
    """How many blocks so many records take."""
    return -(-records // RECORDS)


def _fill(blocks: Blocks, at: int, records: Records) -> None:
    """Put records into blocks from the record of a number on."""
    content = blocks.view(np.uint8).reshape(-1, _BLOCK.itemsize)[:, :_WIDTH]
    rows, (block, beside) = np.ascontiguousarray(records).view(np.uint8), divmod(at * RECORD.itemsize, _WIDTH)
    head = min(_WIDTH - beside, rows.size) if beside else 0
    content[block, beside : beside + head] = rows[:head]
    block, rows = block + (beside > 0), rows[head:]
    whole = rows.size // _WIDTH
    content[block : block + whole] = rows[: whole * _WIDTH].reshape(whole, _WIDTH)
    rest = rows[whole * _WIDTH :]
    if rest.size:
        content[block + whole, : rest.size] = rest


def _seal_between(blocks: Blocks, first: int, end: int, where: Words, cipher: CipherContext) -> int:
    """Seal the blocks before `end`, each with the first name of the next, which is in its place; gives `end` back."""
    if end > first:
        some, following = blocks[first:end], blocks["records"]["name"][first + 1 : end + 1, 0]
        some["next"][: following.size, 0], some["next"][: following.size, 1] = following["high"], following["low"]
        some["seal"] = _sealed(some, np.arange(first, end), np.broadcast_to(where, (end - first, 2)), cipher)
    return end


def _sealed(blocks: Blocks, numbers: Integers, where: Words, cipher: CipherContext) -> Words:
    """The seals of blocks: of the file, the block's number, and all that it holds, sixteen bytes at a time.

    `where` is what stands for the file of each block, encrypted.
    """
    words = blocks.view(np.complex128).reshape(-1, _CHUNKS)  # sixteen bytes each, which are copied as one
    seals = np.empty((blocks.size, 2), dtype=np.uint64)
    encrypted, message = bytearray(16 * _SLICE + 16), np.empty(2 * _SLICE, dtype=np.uint64)
    for start in range(0, blocks.size, _SLICE):
        here = slice(start, start + _SLICE)
        chunks = np.ascontiguousarray(words[here].T).view(np.uint64)
        state, given = np.frombuffer(encrypted, dtype=np.uint64, count=chunks.shape[1]), message[: chunks.shape[1]]
        given[:] = where[here].reshape(-1)
        given[::2] ^= numbers[here].astype(np.uint64)
        raw = given.view(np.uint8).data
        cipher.update_into(raw, encrypted)
        for chunk in chunks[:-1]:
            np.bitwise_xor(state, chunk, out=given)
            cipher.update_into(raw, encrypted)
        seals[here] = state.reshape(-1, 2)
    return seals


def _block_of(names: Digests, held: Blocks, fences: Words) -> Integers:
    """The number of the block in which each name is, if it is in any."""
    high, low = np.ascontiguousarray(names[:, 0]), names[:, 1]
    at = np.maximum(np.searchsorted(fences, high, side="right") - 1, 0)
    ties = np.flatnonzero((fences[at] == high) & (at > 0))
    ties = ties[held["records"]["name"]["low"][at[ties], 0] > low[ties]]
    while ties.size:  # only where two names share their high half
        at[ties] -= 1
        ties = ties[(fences[at[ties]] == high[ties]) & (at[ties] > 0)]
        ties = ties[held["records"]["name"]["low"][at[ties], 0] > low[ties]]
    return at


def _located(blocks: Blocks, numbers: Integers, sizes: Integers, names: Digests) -> tuple[Integers, Integers]:
    """Rows whose name stands in their block, and where; raises `StateError` if one could stand in another block."""
    stored = blocks["records"]["name"]
    high, low = np.ascontiguousarray(stored["high"]), np.ascontiguousarray(stored["low"])
    same = (high == names[:, :1]) & (low == names[:, 1:])
    last = numbers == -(-sizes // RECORDS) - 1
    if last.any():
        same[last] &= (numbers[last, None] * RECORDS + np.arange(RECORDS)) < sizes[last, None]
    row, column = np.nonzero(same)
    absent = np.ones(len(names), dtype=np.bool_)
    absent[row] = False
    following = blocks["next"]
    early = (numbers > 0) & _before(names[:, 0], names[:, 1], high[:, 0], low[:, 0])
    late = ~last & ~_before(names[:, 0], names[:, 1], following[:, 0], following[:, 1])
    if (absent & (early | late)).any():
        raise StateError(MISSING)
    return row, column


def _before(high: Words, low: Words, other_high: Words, other_low: Words) -> npt.NDArray[np.bool_]:
    """Whether names come before others."""
    earlier: npt.NDArray[np.bool_] = (high < other_high) | ((high == other_high) & (low < other_low))
    return earlier
