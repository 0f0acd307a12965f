"""`run --follow`: a file that grows, released by the system's clock.

A batch of lines is kept durably together with how far the file was read, in one transaction: the file is the producer
and the offset the sequence. So a restart neither loses a line nor takes one twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from dpi.cli.interruption import Interruption
from dpi.cli.outfile import OutFile
from dpi.errors import OptionError
from dpi.sources import FileEvents, Position
from dpi.store import Store
from dpi.stream import Stream


@dataclass
class Place:
    """How far a growing file is in the store.

    A file is told by device and number. One that was cut starts again at offset 0, and a number may be used again for
    another file: both count as the next generation, with sequences of its own.
    """

    store: Store
    stream: str
    path: str
    identity: str = field(init=False)
    generation: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        state = Path(self.path).stat()
        self.identity = f"{state.st_dev}:{state.st_ino}"
        self.generation = max(self._unused() - 1, 0)

    def _producer(self, generation: int) -> str:
        return f"{os.path.realpath(self.path)} {self.identity} {generation}"

    def _last(self) -> int:
        return self.store.sequence(self.stream, self._producer(self.generation))

    def _unused(self) -> int:
        generation = 0
        while self.store.sequence(self.stream, self._producer(generation)) >= 0:
            generation += 1
        return generation

    @property
    def start(self) -> tuple[Position, ...]:
        """Where to go on; nothing for a file that the store has not seen."""
        last = self._last()
        return () if last < 0 else (Position(self.path, self.identity, last),)

    def producer_of(self, position: Position) -> str:
        """The producer of lines that were read up to a position."""
        if position.identity != self.identity or position.offset <= self._last():
            self.identity = position.identity
            self.generation = self._unused()
        return self._producer(self.generation)


def follow(
    stream: Stream, events: FileEvents, end: int | None, out: OutFile | None, interruption: Interruption
) -> None:
    """Keep events as they are written to the file, and release slots as the clock closes them, up to `end`."""
    if len(events.sources) != 1 or stream.slots is None:
        raise OptionError("`--follow` takes one file, or - for standard input.")
    path = events.sources[0].path
    place = None if path == "-" else Place(stream.store, stream.name, path)
    poll = min(1.0, stream.slots.width / 4e6)
    for batch, positions in events.follow(poll=poll, start=() if place is None else place.start):
        with interruption.whole():
            if batch.users.len():
                producer, sequence = "", None
                if place is not None:
                    producer, sequence = place.producer_of(positions[0]), positions[0].offset
                stream.append(
                    batch.users, batch.times, batch.values, unit=events.unit, producer=producer, sequence=sequence
                )
        if not _advance(stream, end, out, interruption):
            return


def _advance(stream: Stream, end: int | None, out: OutFile | None, interruption: Interruption) -> bool:
    """Release what the clock has closed; whether there is more to come before `end`."""
    closed = stream.advance()
    while end is None or stream.next_slot < end:
        with interruption.whole():
            release = next(closed, None)
            if release is None:
                return True
            if out is not None:
                out.add(release)
    return False
