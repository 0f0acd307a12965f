"""Bytes from the front to the back: of a file, of a file compressed with gzip, or of standard input."""

from __future__ import annotations

import fcntl
import gzip
import os
import select
import sys
import termios
import zlib
from abc import ABC, abstractmethod
from array import array
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dpi.errors import StateError
from dpi.sources._source import BYTE_ORDER_MARK

BLOCK = 1 << 22
"""Bytes at a time."""
_SMALL = 1 << 16
_PACKED = ".gz"
"""How the name of a file that is compressed as a whole ends."""


def unpacked_name(path: str) -> str:
    """Return the name of what a file holds: its own, without what says that it is compressed."""
    return path.removesuffix(_PACKED)


class Input(ABC):
    """A stream of bytes without the byte order mark at its start."""

    done = 0
    """Bytes of the file that were read so far: of a compressed one, compressed bytes."""

    def __init__(self) -> None:
        self._pending, self._started = b"", False

    @abstractmethod
    def _fetch(self, size: int) -> bytes:
        """Return up to `size` bytes as soon as there are some; none at the end."""

    def some(self, size: int = BLOCK) -> bytes:
        """Return up to `size` bytes as soon as there are some; none at the end."""
        if not self._started:
            self._started = True
            mark = self._pending
            while len(mark) < len(BYTE_ORDER_MARK) and (more := self._fetch(len(BYTE_ORDER_MARK) - len(mark))):
                mark += more
            self._pending = mark.removeprefix(BYTE_ORDER_MARK)
        block, self._pending = self._pending, b""
        return block or self._fetch(size)

    def block(self) -> bytes:
        """Return about `BLOCK` bytes, fewer only at the end."""
        parts, size = [], 0
        while size < BLOCK and (part := self.some(BLOCK - size)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def line(self, longest: int) -> bytes:
        """Return the next line with its newline, or its first bytes if it is longer than `longest`."""
        line = b""
        while b"\n" not in line and len(line) <= longest and (part := self.some(_SMALL)):
            line += part
        end = line.find(b"\n") + 1 or len(line)
        self._pending = line[end:]
        return line[:end]

    def close(self) -> None:  # noqa: B027 - only files have something to close
        """Let go of the file."""


class FileInput(Input):
    """A file; one whose name ends in `.gz` is decompressed. Damage that gzip notices refuses the file as a whole."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._raw: BinaryIO = Path(path).open("rb")  # noqa: SIM115 - closed by `close`
        self._stream = self._raw if unpacked_name(path) == path else gzip.GzipFile(fileobj=self._raw)

    def _fetch(self, size: int) -> bytes:
        try:
            block = self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise StateError(f"{self._path!r} is damaged: its compressed data cannot be read to the end.") from None
        self.done = self._raw.tell()
        return block

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()


class StandardInput(Input):
    """What is piped into the program. It can be read once."""

    taken = False

    def __init__(self) -> None:
        super().__init__()
        self._descriptor = sys.stdin.fileno()

    def _fetch(self, size: int) -> bytes:
        block = os.read(self._descriptor, size)
        self.done += len(block)
        return block

    def take(self) -> None:
        """Refuse a second reader, which would find nothing and take that for an empty file."""
        if self.taken:
            raise StateError("standard input can be read once; store it in a file to read it again.")
        self.taken = True

    def wait(self, closed: int) -> bool:
        """Wait for something to read, or the end; return False if the pipe `closed` is closed first."""
        return bool(self._pending) or closed not in select.select([self._descriptor, closed], [], [])[0]

    def here(self) -> bytes:
        """Return some of what has come, a byte order mark included; none at the end. Waits unless `wait` has."""
        block, self._pending = self._pending, b""
        return block or self._fetch(BLOCK)

    def waiting(self) -> int:
        """Return how many bytes have come and were not read: of a large file at least, where the system says too few.

        That is always less than a file has, so no position lies behind its end.
        """
        count = array("i", [0])
        with suppress(OSError):  # what does not tell has nothing waiting
            fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return len(self._pending) + max(count[0], 0)
