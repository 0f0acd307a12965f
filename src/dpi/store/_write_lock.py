"""The right to write to a database file: one process has it, by whatever name it opens the file.

Two locks make it. A file beside the database (`visits.db.lock`) is what every system has; but it can be removed, and
a hard link of the database has another one. So on Linux a byte of the database's own inode is locked as well, far
beyond the bytes that SQLite locks. (Not by `flock`: on a network file system that is a lock on all bytes, SQLite's own
among them.) The operating system takes both back when the process ends, however it ends.

A process that closes any descriptor of a file loses all its POSIX locks on it, SQLite's too. So a descriptor that was
opened here stays open until the last connection of this process to that inode is closed: readers are counted as well.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from dpi.errors import StoreBusy, StoreError
from dpi.files import lock_alone, need_posix

BYTE = 1 << 62
"""The byte that is locked: SQLite locks bytes about 2^30."""


@dataclass(eq=False)
class _Inode:
    """What this process has of one database file."""

    connections: int = 0
    descriptors: list[int] = field(default_factory=list)
    written: bool = False


_inodes: dict[tuple[int, int], _Inode] = {}
_changing = threading.Lock()


class FileUse:
    """A connection's use of a database file: begun before the connection, ended after it."""

    def __init__(self, path: Path, *, write: bool, wait: float = 0.0) -> None:
        """Count a reader; give a writer the right to write, to a file that is made if it is not there."""
        self._key: tuple[int, int] | None = None
        self._beside: int | None = None
        self._writes = False
        try:
            if not write:
                self._key = _counted(path, write=False)
            else:
                need_posix("a store that is written to")
                resolved = path.resolve()
                self._beside = os.open(resolved.with_name(resolved.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
                self._await(path, time.monotonic() + wait)
        except BaseException as error:
            self.end()
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                purpose = "for writing" if write else "for reading"
                raise StoreError(f"the store {path} cannot be opened {purpose}: {error.strerror}.") from None
            raise

    def _await(self, path: Path, deadline: float) -> None:
        while not self._take(path):
            if time.monotonic() >= deadline:
                raise StoreBusy(
                    f"another process writes to the store {path}: wait for it, or open the store read-only."
                )
            time.sleep(0.05)

    def _take(self, path: Path) -> bool:
        """Try to get both locks."""
        assert self._beside is not None  # noqa: S101 - opened by whoever asks
        if not lock_alone(self._beside, wait=False):
            return False
        if self._key is None:
            self._key = _counted(path, write=True)
        with _changing:
            inode = _inodes[self._key]
            if not inode.written and _lock(inode.descriptors[0], take=True):
                self._writes = inode.written = True
        return self._writes

    def give_up(self) -> None:
        """Let others write; the connection may go on to read."""
        with _changing:
            if self._writes and self._key is not None:
                _lock(_inodes[self._key].descriptors[0], take=False)
                self._writes = _inodes[self._key].written = False
        if self._beside is not None:
            os.close(self._beside)
            self._beside = None

    def end(self) -> None:
        """Let others write; after the last connection of this process, close what was opened."""
        self.give_up()
        if self._key is None:
            return
        with _changing:
            key, self._key = self._key, None
            _inodes[key].connections -= 1
            if not _inodes[key].connections:
                for descriptor in _inodes.pop(key).descriptors:
                    os.close(descriptor)


def _counted(path: Path, *, write: bool) -> tuple[int, int]:
    """Return the inode of a file, with one more connection and, to write, a descriptor; a new file is its owner's."""
    with _changing:
        exists = not write or path.exists()
        key = _key(os.stat(path)) if exists else None
        if write and (key not in _inodes or not _inodes[key].descriptors):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            key = _key(os.fstat(descriptor))
            _inodes.setdefault(key, _Inode()).descriptors.append(descriptor)
        assert key is not None  # noqa: S101 - the file is there by now
        _inodes.setdefault(key, _Inode()).connections += 1
        return key


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock(descriptor: int, *, take: bool) -> bool:
    """Lock or unlock the byte, for the open file and not for the process; False if another has it.

    Where a system has no such locks this says True: the file beside it is locked, and payments are compared anyway.
    """
    if sys.platform != "linux":
        return True
    import fcntl

    kind = fcntl.F_WRLCK if take else fcntl.F_UNLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, BYTE, 1, 0))
    except OSError as error:
        return not isinstance(error, BlockingIOError | PermissionError)
    return True
