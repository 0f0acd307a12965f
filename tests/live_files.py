"""Files that grow and pipes, as feeds for the checks of sources; and who follows them as a program does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import dpi
from dpi.sources._growing import input_name
from dpi.sources.live import Done, LiveInput, Reach
from dpi.testing import Feed, Follower

HEAD = b"user,time,value\n"


class Reader(Follower):
    """Follows files as a program does that may be stopped at any time."""

    def __init__(self, path: Path | str, done: dict[str, int] | None = None, known: tuple[Reach, ...] = ()) -> None:
        super().__init__(lambda stored, known: _live(path, stored, known), done, known)


def _live(path: Path | str, done: Done, known: tuple[Reach, ...]) -> LiveInput:
    (live,) = dpi.read(path).live(done, {input_name(str(path)): known})
    return live


class CSVFile(Feed):
    """A CSV file that grows, in a folder."""

    name, head = "events.csv", HEAD

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.name
        self.path.write_bytes(self.head)

    def line(self, user: str) -> bytes:
        """One event."""
        return b"%s,1,x\n" % user.encode()

    def follow(self, done: Done, known: tuple[Reach, ...]) -> LiveInput:
        """As `dpi.read` does it."""
        return _live(self.path, done, known)

    def send(self, users: Sequence[str]) -> None:
        """Write lines."""
        append(self.path, b"".join(map(self.line, users)))

    def send_part(self, user: str, end: bool) -> bool:
        """Write a part of a line."""
        line = self.line(user)
        append(self.path, line[len(line) // 2 :] if end else line[: len(line) // 2])
        return True

    def cut(self) -> bool:
        """Truncate it."""
        self.path.write_bytes(self.head)
        return True

    def replace(self) -> bool:
        """Rename it, and begin another one."""
        self.path.rename(self.path.with_name(f"old-{len(os.listdir(self.path.parent))}"))
        self.path.write_bytes(self.head)
        return True

    def close(self) -> None:
        """Nothing is held open."""


class NDJSONFile(CSVFile):
    """An NDJSON file that grows."""

    name, head = "events.ndjson", b""

    def line(self, user: str) -> bytes:
        """One event."""
        return b'{"user": "%s"}\n' % user.encode()


class Pipe(NDJSONFile):
    """Standard input: it has no position from which it could be read again, and is neither cut nor replaced."""

    resumes = False

    def __init__(self, folder: Path) -> None:
        outlet, self.inlet = os.pipe()
        self.stdin = os.fdopen(outlet, "rb")

    def follow(self, done: Done, known: tuple[Reach, ...]) -> LiveInput:
        """As `dpi.read` does it."""
        with mock.patch("sys.stdin", self.stdin):
            (spool,) = dpi.read("-", format="ndjson").live(done, {"-": known})
        return spool

    def send(self, users: Sequence[str]) -> None:
        """Write lines."""
        os.write(self.inlet, b"".join(map(self.line, users)))

    def send_part(self, user: str, end: bool) -> bool:
        """Write a part of a line."""
        os.write(self.inlet, self.line(user)[5:] if end else self.line(user)[:5])
        return True

    def cut(self) -> bool:
        """It cannot be cut."""
        return False

    def replace(self) -> bool:
        """It cannot be replaced."""
        return False

    def close(self) -> None:
        """End it, whoever follows it."""
        os.close(self.inlet)
        self.stdin.close()


def append(path: Path, data: bytes) -> None:
    """Let a file grow."""
    with path.open("ab") as file:
        file.write(data)


def start(path: Path, data: bytes = HEAD) -> Reader:
    """Follow a file that holds some data already."""
    path.write_bytes(data)
    return Reader(path)
