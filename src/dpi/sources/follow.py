"""Files that grow: complete lines as they are appended, with positions from which a reader can resume.

Only a line that its newline has completed is read, so that half a line, or half a character, waits for its rest. A
file that was cut to less than what had been read, or replaced by another of the same name, is read from its start; the
old one is read to its end before, without a last line that was never completed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dpi.errors import OptionError
from dpi.sources.inputs import BLOCK, StandardInput
from dpi.sources.lines import BYTE_ORDER_MARK, Lines
from dpi.sources.source import Source
from dpi.sources.textual import Parser, Textual

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Position:
    """How far a file was read: up to byte `offset`, the end of a line, of the file that `identity` names."""

    path: str
    identity: str
    """Device and number of the file: it stays when the file is renamed, and changes when it is replaced."""
    offset: int


class Tail:
    """One growing file."""

    def __init__(self, source: Textual, user: str, names: Sequence[str], start: Position | None) -> None:
        self._source, self._user, self._names = source, user, names
        self._file: BinaryIO = Path(source.path).open("rb")  # noqa: SIM115 - closed by `close`
        resumed = start is not None and start.identity == self._identity() and start.offset <= self._size()
        self._begin(start.offset if resumed and start is not None else 0)

    def _begin(self, offset: int) -> None:
        """Go on at a byte that starts a line; at byte 0 the first line is the header, if there is one."""
        self._parser: Parser | None = None
        if not self._source.has_header:
            self._parser = self._source.parser(self._user, self._names)
        elif offset:
            self._file.seek(0)
            self._head(self._file.readline(self._source.longest + 1))
        self._file.seek(offset)
        self._start = offset
        self._lines = Lines(self._source.longest)

    def _head(self, line: bytes) -> None:
        self._parser = self._source.parser(self._user, self._names, self._source.columns(line))

    @property
    def position(self) -> Position:
        """Up to where lines have been read."""
        return Position(self._source.path, self._identity(), self._start + self._lines.consumed)

    def _identity(self) -> str:
        state = os.fstat(self._file.fileno())
        return f"{state.st_dev}:{state.st_ino}"

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def read(self) -> tuple[bool, pl.DataFrame | None]:
        """Whether anything was there to read, and the events in what was."""
        block = self._file.read(BLOCK)
        if not block and not self._restarted():
            return False, None
        if not block:
            block = self._file.read(BLOCK)
        fresh = self._start + self._lines.consumed == 0
        whole = self._lines.feed(block)
        if fresh:
            whole = whole.removeprefix(BYTE_ORDER_MARK)
        if self._parser is None and whole:
            first, _, whole = whole.partition(b"\n")
            self._head(first)
        if self._parser is None or not whole:
            return bool(block), None
        return True, self._parser.parse(whole)

    def _restarted(self) -> bool:
        """Whether the file was cut or replaced; then it is at its start."""
        if self._size() < self._file.tell():
            self._begin(0)
            return True
        try:
            state = Path(self._source.path).stat()
        except OSError:
            return False  # between two files
        if f"{state.st_dev}:{state.st_ino}" == self._identity() or self._size() > self._file.tell():
            return False
        self._file.close()
        self._file = Path(self._source.path).open("rb")  # noqa: SIM115 - closed by `close`
        self._begin(0)
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def follow(
    sources: Sequence[Source],
    user: str,
    names: Sequence[str],
    poll: float,
    stop: threading.Event | None,
    start: Sequence[Position],
) -> Iterator[tuple[pl.DataFrame, tuple[Position, ...]]]:
    """Frames as they come, each with the positions of all files; an empty one after every wait."""
    import polars as pl

    stop = threading.Event() if stop is None else stop
    growing = [source for source in sources if isinstance(source, Textual) and not source.path.endswith(".gz")]
    if len(growing) < len(sources):
        raise OptionError("only CSV and NDJSON files that are not compressed can be followed.")
    empty = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    if any(source.input is not None for source in growing):
        if len(growing) > 1:
            raise OptionError("standard input is followed by itself, without files.")
        yield from _follow_input(growing[0], user, names, poll, stop, empty)
        return
    known = {position.path: position for position in start}
    tails = [Tail(source, user, names, known.get(source.path)) for source in growing]
    try:
        while not stop.is_set():
            quiet = True
            for tail in tails:
                found, frame = tail.read()
                quiet = quiet and not found
                if frame is not None:
                    yield frame, tuple(each.position for each in tails)
            if quiet:
                yield empty, tuple(each.position for each in tails)
                stop.wait(poll)
    finally:
        for tail in tails:
            tail.close()


def _follow_input(
    source: Textual, user: str, names: Sequence[str], poll: float, stop: threading.Event, empty: pl.DataFrame
) -> Iterator[tuple[pl.DataFrame, tuple[Position, ...]]]:
    """Standard input, to its end. It has no position from which it could be read again."""
    stdin, parser, lines = source.input, source.parser(user, names), Lines(source.longest)
    assert isinstance(stdin, StandardInput)  # noqa: S101 - the caller has looked
    stdin.take()
    while not stop.is_set():
        if not stdin.ready(poll):
            yield empty, ()
            continue
        block = stdin.some()
        whole = lines.feed(block) if block else lines.finish()
        if whole:
            yield parser.parse(whole), ()
        if not block:
            return
