"""Files that grow by whole lines, are replaced by others of the same name, or are cut.

A line belongs to the moment at which its newline was there: what follows the last newline waits for its rest. When a
file is replaced (rotation by renaming), the old one is watched for another minute, for its writer may still have it
open; after a restart it is looked for under other names in the same folder. A file that has become shorter begins anew,
and what was not yet read of it is lost.

A file is held open until everything that was noted of it is read, however long that takes: how far behind the reader is
follows from what others have sent, and must not decide whether a file can still be had.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dpi.files import need_posix
from dpi.sources.live import BLOCK, Block, Done, PositionedInput, Reach
from dpi.sources.textual import LineReader, Textual

WATCHED = 60.0
"""Seconds for which a file that was replaced is watched."""
_TAIL = 1 << 12
"""Bytes by which a file is distinguished from another one of the same number."""


@dataclass(eq=False)
class _File:
    """A file that is held open: it stays readable when it is renamed or removed."""

    descriptor: int
    identity: str
    generation: int
    size: int
    replaced: float | None = None
    watched: bool = True
    """Until the first look after the minute is over."""
    seen: Reach | None = None
    """What was last said of it to the timer."""
    read: Reach | None = None
    """Up to where it was last read."""

    def holds(self, reach: Reach) -> bool:
        """Return whether it still has what it had; if it was cut, what is there now is of another generation."""
        return self.generation == reach.generation and os.fstat(self.descriptor).st_size >= reach.offset


class GrowingFile(PositionedInput):
    """One CSV or NDJSON file."""

    def __init__(self, source: Textual, names: Sequence[str], done: Done, known: tuple[Reach, ...] = ()) -> None:
        need_posix("a file that grows")
        super().__init__(input_name(source.path), done, known)
        self._source, self._names = source, names
        self._tails: dict[str, bytes] = {}
        """Fingerprints of what was known of files that were let go; an earlier run keeps nothing of an event."""
        self._folders = {os.path.dirname(path) for path in (self.name, os.path.realpath(source.path))}
        self._sought = False
        self._files: dict[str, _File] = {}
        self._readers: dict[tuple[str, int], tuple[LineReader, int]] = {}
        """Who reads each generation, and up to where that was done."""

    # The timer's side.

    def reached(self) -> tuple[Reach, ...]:
        """Return the sizes of the file and of those that it has replaced lately."""
        with self._turn:
            newest = self._look()
            if not self._sought:  # those that were replaced while nobody followed
                self._sought = True
                self._search(self._known.keys() - self._files.keys())
            now = time.monotonic()
            for file in self._files.values():
                if file is newest:
                    file.replaced, file.watched = None, True
                elif file.replaced is None and newest is not None:
                    file.replaced = now
            watched = [file for file in self._files.values() if file.watched]
            for file in watched:  # the minute ends with a look, however late that is
                file.watched = file.replaced is None or now - file.replaced <= WATCHED
            return tuple(self._reach(file) for file in sorted(watched, key=lambda file: file is newest))

    def _reach(self, file: _File) -> Reach:
        size = os.fstat(file.descriptor).st_size
        if size < file.size:
            file.generation = self._unused(file.identity, file.generation)
        file.size = size
        file.seen = Reach(file.identity, file.generation, size)
        return file.seen

    def _look(self) -> _File | None:
        """Return the file that has the name now; None between two files."""
        try:
            known = self._files.get(_identity(os.stat(self._source.path)))
            return known or self._hold(self._source.path)
        except OSError:
            return None

    def _search(self, identities: Collection[str]) -> None:
        """Hold files that have other names in the same folder by now. One that does not go on is something else."""
        for folder in self._folders if identities else ():
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(OSError):
                        if _identity(entry.stat()) in identities:
                            file = self._hold(entry.path, anew=False)
                            if file is not None:
                                file.replaced = time.monotonic()

    def _hold(self, path: str, *, anew: bool = True) -> _File | None:
        """Open a file, and tell whether it goes on where the one was that is known under its number.

        If it does not, it begins anew; or it is let go of, and None is returned.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a named pipe would wait for a writer
        state = os.fstat(descriptor)
        identity = _identity(state)
        if identity in self._files or not stat.S_ISREG(state.st_mode):  # it got another name between two looks
            os.close(descriptor)
            return self._files.get(identity)
        last = self._noted(identity)
        generation, goes_on = last.generation, self._goes_on(descriptor, last)
        if not goes_on and not anew:
            os.close(descriptor)
            return None
        generation = generation if goes_on else self._unused(identity, generation)
        file = _File(descriptor, identity, generation, state.st_size)
        self._files[identity] = file
        return file

    def _goes_on(self, descriptor: int, last: Reach) -> bool:
        """Return whether a file goes on with the last generation that is known under its number."""
        known, tail = self._known.get(last.identity), self._tails.get(last.identity)
        if known is not None and known.generation != last.generation:
            tail = None
        if known is not None and tail not in (None, _tail(descriptor, known.offset)):
            return False
        stored = self._unstored(*last[:2])
        ends_a_line = stored == 0 or os.pread(descriptor, 1, stored - 1) == b"\n"
        return ends_a_line and os.fstat(descriptor).st_size >= last.offset

    def _unused(self, identity: str, generation: int) -> int:
        """Return the next generation of which nothing is stored."""
        generation += 1
        while self._stored(identity, generation) >= 0:
            generation += 1
        return generation

    # The reader's side.

    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """Return the lines that were whole then, and are not stored yet."""
        for reach in upto:
            if self._unstored(*reach[:2]) >= reach.offset:
                continue
            file = self._find(reach)
            if file is None:
                self.lost = True
                continue
            if reach[:2] not in self._readers:
                self._readers[reach[:2]] = self._begin_reading(file.descriptor, self._unstored(*reach[:2]))
            reader, at = self._readers[reach[:2]]
            while at < reach.offset and (block := os.pread(file.descriptor, min(BLOCK, reach.offset - at), at)):
                at += len(block)
                self._readers[reach[:2]] = reader, at
                frame = reader.feed(block)
                if frame is not None and not file.holds(reach):  # cut meanwhile: this may be of what came after
                    break
                if frame is not None:
                    yield Block(frame, self._producer(*reach[:2]), reader.consumed)
            if at < reach.offset or not file.holds(reach):
                self.lost = True
        self._let_go(upto)

    def _begin_reading(self, descriptor: int, at: int) -> tuple[LineReader, int]:
        """Return who reads a file from a byte on that starts a line, and that byte."""
        source = self._source
        if at == 0:
            return source.reader(self._names), at
        columns = None
        if source.has_header:
            columns = source.columns(os.pread(descriptor, source.longest + 1, 0).partition(b"\n")[0])
        return LineReader(source.longest, source.parser(self._names, columns), at), at

    def _find(self, reach: Reach) -> _File | None:
        """Return a file by its number: held open, or under another name in the same folder; None if it is gone."""
        with self._turn:
            if reach.identity not in self._files:
                self._search({reach.identity})
            file = self._files.get(reach.identity)
            return file if file is not None and file.holds(reach) else None

    def _let_go(self, upto: tuple[Reach, ...]) -> None:
        """Close files that are watched no more and read to their end; forget readers of what has begun anew since."""
        with self._turn:
            for reach in upto:
                if reach.identity in self._files:
                    self._files[reach.identity].read = reach
            for file in [*self._files.values()]:
                if not file.watched and file.seen is not None and file.seen == file.read:
                    self._known[file.identity] = file.seen
                    self._tails[file.identity] = _tail(file.descriptor, file.seen.offset)
                    os.close(file.descriptor)
                    del self._files[file.identity]
        current = {reach[:2] for reach in upto}
        self._readers = {key: reader for key, reader in self._readers.items() if key in current}

    def close(self) -> None:
        """Let go of all files."""
        with self._turn:
            for file in self._files.values():
                os.close(file.descriptor)
            self._files.clear()


def input_name(path: str) -> str:
    """Return what a file is called from one run to the next, whichever file has the name or is linked to."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _identity(state: os.stat_result) -> str:
    """Return device and number: they stay when a file is renamed, and change when it is replaced."""
    return f"{state.st_dev}:{state.st_ino}"


def _tail(descriptor: int, offset: int) -> bytes:
    """Return a fingerprint of what lies before a byte: two files of one number and one size differ in it."""
    start = max(offset - _TAIL, 0)
    return hashlib.blake2b(os.pread(descriptor, offset - start, start), digest_size=16).digest()
