"""Exports of a running service: one file for all who ask between two entries of the chain.

An entry never changes, so an export up to an entry is the same for whoever asks. It is made once, in a transaction that
ends with it, and read by all from one file that has no name any more. It goes with its last reader, whether that one
has read it or was left. A reader, however slow, holds no transaction and no connection of the store.

**Bound.** There are at most `MOST` readers, so at most `MOST` files at a time, one of them for each moment at which one
of these readers asked. One is made at a time, for a reader who has a place.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from dpi.service._places import Places
from dpi.service._publication import Reading
from dpi.store.export import export

MOST, OF_ONE = 8, 2
"""Exports that are read at a time, and those of one token."""
PIECE = 1 << 16


@dataclass
class Copy:
    """An export up to an entry of the chain, and how many read it."""

    entry: int
    file: BinaryIO
    size: int
    readers: int = 1

    def pieces(self) -> Iterator[bytes]:
        """Give the file piece by piece, to each reader from its beginning."""
        for start in range(0, self.size, PIECE):
            yield os.pread(self.file.fileno(), PIECE, start)


class Exports:
    """The exports that are being read."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._places = Places("exports", MOST, OF_ONE)
        self._making, self._counting = Lock(), Lock()  # who counts waits for nobody who makes a copy
        self._newest: Copy | None = None

    @contextmanager
    def open(self, token: str) -> Iterator[Copy]:
        """Give a reader the export of what is seen at this moment; refuses one who has too many."""
        with self._places.take(token):
            copy = self._take()
            try:
                yield copy
            finally:
                with self._counting:
                    copy.readers -= 1
                    if not copy.readers:
                        copy.file.close()

    def _take(self) -> Copy:
        with self._making:
            entry = self._reading.publication.entry
            with self._counting:
                newest = self._newest
                if newest is not None and newest.entry == entry and newest.readers:
                    newest.readers += 1
                    return newest
            self._newest = self._make(entry)
            return self._newest

    def _make(self, entry: int) -> Copy:
        with tempfile.TemporaryDirectory() as folder, self._reading.store() as store:
            target = Path(folder) / "public.db"
            export(store, target, entry)
            file = target.open("rb")
        return Copy(entry, file, file.seek(0, 2))
