"""What every input that grows can do, whatever it is: say how far it has got, and be read up to there.

The two are asked by different threads. `reached` is asked by a timer, takes no time to speak of and reads no event;
`read` may be far behind. So how much of an input had arrived at a moment does not depend on how long reading takes.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 20
"""Bytes that are read at a time: few enough that the timer, which shares the interpreter, is never held up for long."""
Done = Callable[[str], int]
"""The last position of a producer that is stored with its events; -1 if there is none."""


class Reach(NamedTuple):
    """How far one part of an input has got: `offset` bytes of what `identity` names. Private."""

    identity: str
    generation: int
    """How often it has begun anew under the same identity: a file that was cut."""
    offset: int
    holes: tuple[tuple[int, int], ...] = ()
    """What lies before `offset` and had not arrived, each from its first position up to before its last."""
    late: int = 0
    """How many positions have left the holes of earlier marks, because they arrived or never will."""


Look = Callable[[], "tuple[Reach, ...] | None"]
"""Tells how far an input had got when it was looked at; None if that failed and another look is needed."""
Known = Mapping[str, tuple[Reach, ...]]
"""How far inputs had got when that was noted last, by their names."""


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some events, and what is stored with them so that they count once: who sent them, and up to where."""

    events: pl.DataFrame
    producer: str
    sequence: int


class LiveInput(ABC):
    """An input that grows."""

    name: str
    """What it is called, from one run of the program to the next."""
    ended = False
    """Whether nothing will come any more."""
    lost = False
    """Whether something had arrived that can no longer be read. Private."""
    away = False
    """Whether it cannot be asked at the moment: then no mark is made, and slots wait. Private."""

    @property
    def busy(self) -> bool:
        """Whether looks still wait to be counted: then one that closes no slot is left out."""
        return False

    def start(self, wake: threading.Event) -> None:  # noqa: B027 - a file needs nobody who listens
        """Begin to listen; `wake` is set when the input ends."""

    @abstractmethod
    def reached(self) -> tuple[Reach, ...]:
        """Return how far each part has got, the oldest first. For the timer: waits for nothing."""

    def look(self) -> Look:
        """Fix how far each part has got now; what is returned tells it, and may take its time to count."""
        reached = self.reached()
        return lambda: reached

    @abstractmethod
    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """Return what lies between what is stored and `upto`; what can no longer be read is left out, and is `lost`.

        Marks are read in their order; after a restart, from the last one on that was stored as a whole.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


class PositionedInput(LiveInput):
    """An input whose parts have positions that go up, and may begin anew. `known` is what was noted of it last."""

    start_at: ClassVar[int] = 0
    """The first position of all."""

    def __init__(self, name: str, done: Done, known: tuple[Reach, ...]) -> None:
        self.name, self._done = name, done
        self._known = {reach.identity: reach for reach in known}
        self._turn = threading.Lock()

    def _producer(self, identity: str, generation: int) -> str:
        return f"{self.name} {identity} {generation}"

    def _stored(self, identity: str, generation: int) -> int:
        """Return up to where a generation of a part is stored; -1 if nothing is."""
        return self._done(self._producer(identity, generation))

    def _unstored(self, identity: str, generation: int) -> int:
        """Return the first position of a generation that is not stored."""
        return max(self._stored(identity, generation), self.start_at)

    def _noted(self, identity: str) -> Reach:
        """Return what is stored or noted of the last generation of a part."""
        generation, known = 0, self._known.get(identity)
        while self._stored(identity, generation + 1) >= 0:
            generation += 1
        if known is not None:
            generation = max(generation, known.generation)
        offset = self._unstored(identity, generation)
        if known is not None and known.generation == generation:
            return known._replace(offset=max(offset, known.offset))
        return Reach(identity, generation, offset)
