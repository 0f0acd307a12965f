"""Bytes from the front to the back: of a file, of a file compressed with gzip, or of standard input."""

from __future__ import annotations

import gzip
import os
import select
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from dpi.errors import StateError
from dpi.files import need_posix

BLOCK = 1 << 22
"""Bytes at a time."""


def unpacked_name(path: str) -> str:
    """Return the name of what a file holds: its own, without what says that it is compressed."""
    return path.removesuffix(".gz")


@contextmanager
def open_file(path: str) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """Open a file, to be decompressed if its name says so; with it comes who tells how many of its bytes were read.

    Damage that gzip notices refuses the file as a whole.
    """
    with Path(path).open("rb") as raw:
        try:
            packed = unpacked_name(path) != path
            yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw, raw.tell
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise StateError(f"{path!r} is damaged: its compressed data cannot be read to the end.") from None


class StandardInput:
    """What is piped into the program. It can be read once."""

    def __init__(self) -> None:
        need_posix("standard input")
        self._descriptor = sys.stdin.fileno()
        self._pending, self._taken, self._done = b"", False, 0

    def some(self) -> bytes:
        """Return some of what has come; none at the end. Waits unless `wait` has."""
        block, self._pending = self._pending or os.read(self._descriptor, BLOCK), b""
        self._done += len(block)
        return block

    def readline(self, longest: int) -> bytes:
        """Return the next line with its newline, or its first bytes if it is longer than `longest`."""
        line = b""
        while b"\n" not in line and len(line) < longest and (part := self.some()):
            line += part
        end = min(line.find(b"\n") + 1 or len(line), longest)
        self._pending = line[end:]
        self._done -= len(self._pending)
        return line[:end]

    def read(self, size: int) -> bytes:
        """Return at least `size` bytes, fewer only at the end."""
        parts, end = [], self._done + size
        while self._done < end and (part := self.some()):
            parts.append(part)
        return b"".join(parts)

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._done

    def take(self) -> None:
        """Refuse a second reader, which would find nothing and take that for an empty file."""
        if self._taken:
            raise StateError("standard input can be read once; store it in a file to read it again.")
        self._taken = True

    def wait(self, closed: int) -> bool:
        """Wait for something to read, or the end; return False if the pipe `closed` is closed first."""
        return bool(self._pending) or closed not in select.select([self._descriptor, closed], [], [])[0]

    def waiting(self) -> int:
        """Return how many bytes have come and were not read: of a large file at least, where the system says too few.

        That is always less than a file has, so no position lies behind its end.
        """
        import fcntl
        import termios

        count = array("i", [0])
        with suppress(OSError):  # what does not tell has nothing waiting
            fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return len(self._pending) + max(count[0], 0)
