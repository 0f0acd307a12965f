"""Runs of accounts: some changed accounts of one bucket, sorted by name and sealed, in a file or in the database.

The last record of an account counts. A new run takes in the runs before it that are not much larger, so that a bucket
of n accounts has O(log n) runs and an account is written O(log n) times.

A file is a run in blocks that are each sealed: all accounts are read, or a few looked up. A block holds eight records,
the first name of the next block, and a seal; after the blocks come their first names once more, to find a block by. A
look-up reads the block of its account alone, and the operating system decides what it keeps of the file.

**Guarantee.** An account that is found is as it was written to this run; one that is not found is not in it.
*Why:* a block's seal is AES-256 in CBC-MAC, over messages that all have one length, for which it is a pseudo-random
function (Bellare, Kilian and Rogaway 2000). It binds a block to the log, the bucket, the file's name, which is never
used twice, and its own number. A name that is not in a block, and lies between its first name and the next block's
first, is in no other; the list of first names is only where to look, and one that leads elsewhere is refused. A run in
the database is sealed as a whole, with HMAC. Which runs a bucket has, and how many records each, the ledger's own seal
says (`dpi.store.account_log`).

Sees names of accounts and what they hold; no id. Private.
"""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.budget.account_records import RECORD, STANDING, Standings, merged
from dpi.budget.account_table import ABSENT
from dpi.errors import StateError, StoreError
from dpi.events.identity import KEY_BYTES, Digests
from dpi.exact.integers import Integers
from dpi.store.folder import MISSING, Folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

RATIO = 4
"""A file takes in the run before it if that is at most so many times as large.

So each run that stays is more than four times as large as the one after it, and all together hold less than 4/3 of the
records of the first, which has no account twice: at most 48 bytes for an account of 36, and an eighth more for seals.
"""
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
_RECORD_BYTES = np.dtype((np.void, RECORD.itemsize))

Blocks = npt.NDArray[np.void]
Records = npt.NDArray[np.void]
"""Accounts as records, sorted by name."""
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Run:
    """A run of a bucket, as the store lists it."""

    bucket: int
    number: int
    """Runs of a bucket are read in the order of their numbers."""
    name: str
    """Of the file; none, if the run is in the database."""
    size: int = field(repr=False)
    """Bytes of its records."""
    seal: bytes = field(repr=False)
    data: bytes = field(default=b"", repr=False)
    """The records of a run that is in the database, where they are needed."""


@dataclass(frozen=True, repr=False)
class RunFiles:
    """Reads and writes the runs of one log (a ledger's accounts, or a stream's payments)."""

    folder: Folder | None
    """None where all runs are in the database."""
    log: str
    key: bytes
    _known: dict[Run, Words] = field(default_factory=dict, compare=False)
    """What stands for each file in its seals."""

    # Runs as a whole.

    def read(self, run: Run) -> bytes:
        """Return the records of a run; raises `StateError` if it is not as it was sealed."""
        if run.name:
            return concatenate(list(self.pieces(run))).tobytes()
        if len(run.data) != run.size or not hmac.compare_digest(
            run.seal, self._inline_seal(run.bucket, run.number, run.data)
        ):
            raise StateError("the store's ledger is damaged: a seal does not match its accounts.")
        return run.data

    def inline(self, bucket: int, number: int, records: bytes) -> Run:
        """Return a run that lies in the database."""
        return Run(bucket, number, "", len(records), self._inline_seal(bucket, number, records), records)

    def append(self, attempt: str, bucket: int, runs: Sequence[Run], held: Sequence[bytes], records: bytes) -> Run:
        """Write a file that takes the place of the last runs of a bucket, from its own number on.

        `held` are the records of `runs`, which are all that the bucket has.
        """
        number, data = take_in(runs, merged(records), lambda run: held[runs.index(run)], into_file)
        return self.write(attempt, bucket, number, [np.frombuffer(data, dtype=RECORD)], len(data) // RECORD.itemsize)

    def write(self, attempt: str, bucket: int, number: int, pieces: Iterable[Records], most: int) -> Run:
        """Write the accounts of a bucket, in the order of their names, of which there are `most` or fewer."""
        folder = self._folder
        name, room = folder.new_name(attempt), _blocks(max(most, 1))
        data, where, cipher = bytearray(room * _SIZE), self._where(bucket, name), self._cipher()
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
        folder.write(name, memoryview(data)[: count * _SIZE])
        return Run(bucket, number, name, size * RECORD.itemsize, self._file_seal(bucket, name, size))

    # Files.

    def pieces(self, run: Run) -> Iterator[Records]:
        """Give the accounts of a file some at a time, in the order of their names."""
        self._check(run)
        size = run.size // RECORD.itemsize
        with self._opened(run) as (blocks, fences):
            for at in range(0, blocks.size, _PIECE):
                piece = blocks.view(_RAW)[at : at + _PIECE].copy().view(_BLOCK)  # as bytes, not by field
                self._verify(piece, np.arange(at, at + piece.size), [(run, piece.size)])
                if (piece["records"]["name"]["high"][:, 0] != fences[at : at + piece.size]).any():
                    raise StateError(MISSING)
                flat = piece.view(np.uint8).reshape(-1, _BLOCK.itemsize)[:, :_WIDTH].reshape(-1).view(RECORD)
                yield flat[: size - at * RECORDS]

    def look_up(self, runs: Iterable[tuple[Run, slice]], names: Digests) -> tuple[Standings, npt.NDArray[np.bool_]]:
        """Return what accounts hold, zeros where a name has none, and which were found.

        `names` are sorted, and each run is that of a slice of them.
        """
        raw = np.empty(len(names), dtype=_RAW)
        numbers, sizes = np.full(len(names), ABSENT, dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        reading: list[tuple[Run, int]] = []
        for run, rows in runs:
            if not run.size or rows.start == rows.stop:
                continue
            self._check(run)
            with self._opened(run) as (held, fences):
                numbers[rows] = at = _block_of(names[rows], held, fences)
                held.view(_RAW).take(at, out=raw[rows], mode="clip")  # no copy between
            sizes[rows] = run.size // RECORD.itemsize
            reading.append((run, rows.stop - rows.start))
        standing, known = np.zeros(len(names), dtype=_BYTES), np.zeros(len(names), dtype=np.bool_)
        if reading:
            there = slice(None) if numbers.min() != ABSENT else np.flatnonzero(numbers != ABSENT)
            blocks = raw[there].view(_BLOCK)
            self._verify(blocks, numbers[there], reading)
            row, column = _located(blocks, numbers[there], sizes[there], names[there])
            at = row if isinstance(there, slice) else there[row]
            standing[at] = blocks["records"]["standing"].view(_BYTES)[row, column]
            known[at] = True
        return standing.view(STANDING), known

    def forget(self, runs: Iterable[Run]) -> None:
        """Remember no more of files that others have taken the place of."""
        for run in runs:
            self._known.pop(run, None)

    @property
    def _folder(self) -> Folder:
        if self.folder is None:
            raise StateError("the store is damaged: it lists a file of accounts, and no folder.")
        return self.folder

    def _check(self, run: Run) -> None:
        """Refuse a file that the sealed list names otherwise than it was written."""
        if run not in self._known:
            self._folder.check_name(run.name)
            if run.seal != self._file_seal(run.bucket, run.name, run.size // RECORD.itemsize):
                raise StateError(MISSING)
            self._known[run] = self._where(run.bucket, run.name)

    @contextmanager
    def _opened(self, run: Run) -> Iterator[tuple[Blocks, Words]]:
        """Map the blocks of a file and their first names, in pages of the operating system that are let go of after."""
        count, folder = _blocks(run.size // RECORD.itemsize), self._folder
        if not count:
            yield np.empty(0, dtype=_BLOCK), np.empty(0, dtype=_FENCE)
            return
        try:
            descriptor = os.open(folder.path / run.name, os.O_RDONLY)
            try:
                mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            folder.check()
            raise StateError(MISSING) from None
        except ValueError:  # an empty file
            raise StateError(MISSING) from None
        except OSError as error:
            raise StoreError(f"a bucket file in {folder.path} cannot be read: {error.strerror}.") from None
        try:
            if len(mapped) != count * _SIZE:
                raise StateError(MISSING)
            yield (
                np.frombuffer(mapped, dtype=_BLOCK, count=count),
                np.frombuffer(mapped, dtype=_FENCE, count=count, offset=count * _BLOCK.itemsize),
            )
        finally:
            mapped.madvise(mmap.MADV_DONTNEED)  # it is closed with the last of its views

    # Seals.

    def _verify(self, blocks: Blocks, numbers: Integers, runs: Sequence[tuple[Run, int]]) -> None:
        """Raise `StateError` if a block is not as it was sealed; `runs` are the files of so many blocks each."""
        where = np.repeat(np.stack([self._known[run] for run, _ in runs]), [n for _, n in runs], axis=0)
        if (_seal_blocks(blocks, numbers, where, self._cipher()) != blocks["seal"]).any():
            raise StateError(MISSING)

    def _where(self, bucket: int, name: str) -> Words:
        """Return what stands for a file in its seals: the first sixteen bytes of each message, encrypted."""
        text = f"{self.log}/{bucket}/{name}".encode()
        digest = hashlib.blake2b(text, key=self.key, digest_size=16, person=b"dpi page file").digest()
        return np.frombuffer(self._cipher().update(digest), dtype=np.uint64)

    def _file_seal(self, bucket: int, name: str, records: int) -> bytes:
        text = f"{self.log}/{bucket}/{name}/{records}".encode()
        return hashlib.blake2b(text, key=self.key, digest_size=32, person=b"dpi page list").digest()

    def _inline_seal(self, bucket: int, number: int, data: bytes) -> bytes:
        """HMAC with SHA-256, which processors help with: all of it is read when a store is opened."""
        where = f"{self.log}/{bucket}/{number}".encode()
        return hmac.digest(hashlib.blake2b(where, key=self.key, person=b"dpi inline run").digest(), data, "sha256")

    def _cipher(self) -> CipherContext:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        secret = hashlib.blake2b(key=self.key, digest_size=32, person=b"dpi page seals").digest()
        return Cipher(algorithms.AES(secret), modes.ECB()).encryptor()  # noqa: S305 - CBC-MAC is made of it


def run_key(key: bytes) -> bytes:
    """Return the key of seals, for those who work on buckets: from it that of the accounts' names cannot be told."""
    return hashlib.blake2b(key=key[-KEY_BYTES:], digest_size=32, person=b"dpi run seals").digest()


def take_in(
    runs: Sequence[Run], records: bytes, read: Callable[[Run], bytes], takes: Callable[[Run, int], bool]
) -> tuple[int, bytes]:
    """Return the number and the records of the run that adds `records` to those of a bucket, oldest first.

    It takes the place of the runs from its number on, which it has taken in: the last ones, for as long as `takes` says
    so of a run and the bytes of records by then.

    >>> runs = [Run(0, number, "f", 36 * size, b"") for number, size in enumerate((9, 1))]
    >>> [take_in(some, bytes(36), lambda run: bytes(run.size), into_file)[0] for some in (runs, runs[:1])]
    [1, 1]
    """
    kept = len(runs)
    while kept and takes(runs[kept - 1], len(records)):
        kept -= 1
        records = merged(read(runs[kept]), records)
    if kept < len(runs):
        return runs[kept].number, records
    return runs[-1].number + 1 if runs else 0, records


def into_file(run: Run, size: int) -> bool:
    """Return whether a file takes in a run: all that is in the database too, so that no file comes after that."""
    return not run.name or run.size <= RATIO * size


# Blocks.


def _blocks(records: int) -> int:
    """Return how many blocks so many records take."""
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
        some["seal"] = _seal_blocks(some, np.arange(first, end), np.broadcast_to(where, (end - first, 2)), cipher)
    return end


def _seal_blocks(blocks: Blocks, numbers: Integers, where: Words, cipher: CipherContext) -> Words:
    """Return the seals of blocks: of the file, the block's number, and all that it holds, 16 bytes at a time.

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
    """Return the number of the block in which each name is, if it is in any."""
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
    row, column = np.nonzero(np.ascontiguousarray(stored["high"]) == names[:, :1])
    same = (stored["low"][row, column] == names[row, 1]) & (numbers[row] * RECORDS + column < sizes[row])
    row, column = row[same], column[same]
    absent = np.ones(len(names), dtype=np.bool_)
    absent[row] = False
    high, low, first, following = names[absent, 0], names[absent, 1], stored[absent, 0], blocks["next"][absent]
    number, last = numbers[absent], -(-sizes[absent] // RECORDS) - 1
    early = (number > 0) & _before(high, low, first["high"], first["low"])
    late = (number != last) & ~_before(high, low, following[:, 0], following[:, 1])
    if (early | late).any():
        raise StateError(MISSING)
    return row, column


def _before(high: Words, low: Words, other_high: Words, other_low: Words) -> npt.NDArray[np.bool_]:
    """Whether names come before others."""
    return np.asarray((high < other_high) | ((high == other_high) & (low < other_low)))


# Merging.


def merge(base: Records, changed: Records) -> Records:
    """Return the accounts of both, each sorted and without doubles; where a name is in both, as it was changed.

    >>> def accounts(*rows): return np.array([((high, 0), (spent, 1, 0)) for high, spent in rows], dtype=RECORD)
    >>> both = merge(accounts((1, 5), (4, 6)), accounts((2, 7), (4, 8)))
    >>> both["name"]["high"].tolist(), both["standing"]["spent"].tolist()
    ([1, 2, 4], [5, 7, 8])
    """
    high, more = (np.ascontiguousarray(each["name"]["high"]) for each in (base, changed))
    if (high[1:] == high[:-1]).any() or (more[1:] == more[:-1]).any():  # two names share a high half: rare
        return np.frombuffer(merged(base.tobytes() + changed.tobytes()), dtype=RECORD)
    at = np.searchsorted(high, more)
    inside = np.minimum(at, max(high.size - 1, 0))
    known = (high[inside] == more) if high.size else np.zeros(more.size, dtype=np.bool_)
    if (base["name"]["low"][inside[known]] != changed["name"]["low"][known]).any():
        return np.frombuffer(merged(base.tobytes() + changed.tobytes()), dtype=RECORD)
    kept = base.view(_RECORD_BYTES).copy()
    kept[at[known]] = changed.view(_RECORD_BYTES)[known]
    new = np.flatnonzero(~known)
    if not new.size:
        return kept.view(RECORD)
    result, places = np.empty(high.size + new.size, dtype=_RECORD_BYTES), at[new] + np.arange(new.size)
    old = np.ones(result.size, dtype=np.bool_)
    old[places] = False
    result[old], result[places] = kept, changed.view(_RECORD_BYTES)[new]
    return result.view(RECORD)


def merge_pieces(pieces: Iterable[Records], changed: Records) -> Iterator[Records]:
    """`merge`, where the accounts come some at a time."""
    held = iter(pieces)
    piece = next(held, None)
    while piece is not None:
        following = next(held, None)
        end = changed.size if following is None else _below(changed, following[0])
        yield merge(piece, changed[:end])
        piece, changed = following, changed[end:]
    if changed.size:
        yield changed


def _below(records: Records, first: np.void) -> int:
    """How many records come before a name."""
    high, low = records["name"]["high"], records["name"]["low"]
    start, end = (int(np.searchsorted(high, first["name"]["high"], side=side)) for side in ("left", "right"))
    return start + int(np.searchsorted(low[start:end], first["name"]["low"]))


def concatenate(pieces: Sequence[Records]) -> Records:
    """Pieces that follow each other, as one."""
    return np.concatenate([np.empty(0, dtype=_RECORD_BYTES), *(piece.view(_RECORD_BYTES) for piece in pieces)]).view(
        RECORD
    )
