"""What all brokers have in common whose messages have positions: an input of parts, each read from a position on.

A part is a partition, a stream or a table; its positions are whole numbers that go up, and a mark is the first position
that had not been given out. What is stored of a part stands in the store, in the same transaction as its events; what
the broker itself remembers of readers is not asked. So a message counts once, over any stop of either side.

Two connections: the timer asks one how far the parts have got, the reader reads by the other. The reader asks the
timer's too, once for a mark: a look then waits for one such answer at most.

A broker that does not answer within `LOOK` is away, be it gone or slowed down by what one user sends: nobody can tell
which. No mark is made meanwhile, so that slots wait: if they closed by the last answer, events of others that had
arrived since would be late for a delay that they have not made.

A part of which fewer positions are given out than had been has begun anew: it was removed and made again, and is read
from its start under the next generation. What was noted of the one before and was not read is lost.

Sees messages on their way; keeps none.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dpi.errors import StateError
from dpi.sources.brokers._address import load_client
from dpi.sources.brokers._events import BrokerEvents
from dpi.sources.live import Block, Done, Known, Look, PositionedInput, Reach
from dpi.sources.textual import Lines, Ndjson

if TYPE_CHECKING:
    import polars as pl

LOOK = 1.0
"""Seconds that a look at a broker may take: then it is away."""
AWAY = 300.0
"""Seconds for which a reader or a slot waits for a broker that is away, before the program ends."""
AGAIN = 0.2
"""Seconds after which a broker that is away is tried again."""
MESSAGES = 1 << 14
"""Messages that are asked for at once."""


class End(NamedTuple):
    """How far a part has got."""

    offset: int
    """The first position that is not given out."""
    anew: bool = False
    """Whether the broker tells that it was made again."""


class Piece(NamedTuple):
    """Some messages of a part, and the position after them."""

    part: str
    events: pl.DataFrame
    following: int


class Span(NamedTuple):
    """What is to be read of a part: positions from `at` up to before `end`."""

    at: int
    end: int


class Log(PositionedInput):
    """A broker whose messages have positions."""

    named: ClassVar[str]
    """What its address names."""
    options: ClassVar[tuple[str, ...] | None] = ()
    """The options of its address; None if any may stand there."""
    client: ClassVar[tuple[str, str] | None] = None
    """The library that speaks with it, and the extra that has it; None if none is needed."""
    failures: ClassVar[tuple[str, ...]] = ()
    """The names of what the library raises when the broker is away, beside an `OSError`."""

    def __init__(self, source: BrokerEvents, done: Done, known: Known) -> None:
        self.source, self.address = source, source.address
        self.address.check(self.options, self.named)
        name = f"{self.address.scheme}:{source.table or self.address.name}"
        super().__init__(name, done, known.get(name, ()))
        self._library: Any = None if self.client is None else load_client(*self.client)
        self.errors = (OSError, *(getattr(self._library, name) for name in self.failures))
        self._reaches: dict[str, Reach] = {}
        self._look: Any = None
        """The timer's connection."""
        self._reader: Any = None
        """The reader's connection."""
        self._failing: float | None = None
        """Since when no look was answered."""

    # What each broker says for itself.

    @abstractmethod
    def _ends(self, last: Mapping[str, int]) -> dict[str, End]:
        """Ask how far each part has got, within `LOOK`, on a connection for nothing else; `last` is what was known."""

    @abstractmethod
    def _pieces(self, spans: Mapping[str, Span]) -> Iterator[Piece]:
        """Return the messages of some spans, in the order of their positions; say what is `lost`.

        A span that cannot be read to its end is over all the same. May be asked again after an error, from the position
        after the last piece.
        """

    def _hang_up(self) -> None:
        """Let go of the reader's connection, whatever its state."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _hang_up_look(self) -> None:
        """Let go of the timer's connection, whatever its state."""
        if self._look is not None:
            self._look.close()
        self._look = None

    def _parse(self, messages: Sequence[bytes]) -> pl.DataFrame:
        """Return the events in some messages: one JSON object in each, or in each of its lines.

        A line ends where its message does: one that is broken, or too long, is dropped by itself.
        """
        lines = Lines(self.source.longest).feed(b"\n".join([*messages, b""]))
        return Ndjson(self.source.names).parse(lines)

    # The timer's side.

    def reached(self) -> tuple[Reach, ...]:
        """Return how far the parts have got or, while the broker is away, had got."""
        return self._answer() or tuple(self._reaches.values())

    def look(self) -> Look:
        """Ask how far the parts have got; a broker that is away makes no mark."""
        answer = self._answer()
        if answer is None:
            return self._hold
        self._failing = None
        return lambda: answer

    def _hold(self) -> None:
        """Make no mark, and give up after a while in which no look was answered."""
        self.away, self._failing = True, self._failing or time.monotonic()
        if time.monotonic() - self._failing > AWAY:
            raise self.unreachable() from None
        time.sleep(AGAIN)

    def _answer(self) -> tuple[Reach, ...] | None:
        """Return how far the parts have got; None while the broker is away."""
        with self._turn:
            last = {identity: self._last(identity).offset for identity in (*self._known, *self._reaches)}
            ends = self._ask(last) or self._ask(last)  # a connection that was idle may have been closed since
            self.away = ends is None
            if ends is None and not self._reaches:
                raise self.unreachable()
            if ends is None:
                return None
            self._reaches = {identity: self._reach(identity, end) for identity, end in ends.items()}
            return tuple(self._reaches.values())

    def _ask(self, last: Mapping[str, int]) -> dict[str, End] | None:
        try:
            return self._ends(last)
        except self.errors:
            self._hang_up_look()
            return None

    def _last(self, identity: str) -> Reach:
        """Return what was said last of a part, or what is stored or noted of its last generation."""
        return self._reaches.get(identity) or self._noted(identity)

    def _reach(self, identity: str, end: End) -> Reach:
        last = self._last(identity)
        if not end.anew and end.offset >= last.offset:
            return last._replace(offset=end.offset)
        return Reach(identity, last.generation + 1, end.offset)  # the last one that is known: nothing is stored beyond

    # The reader's side.

    def read(self, upto: tuple[Reach, ...]) -> Iterator[Block]:
        """Return the messages before each mark that are not stored yet, of the parts that are still there."""
        unread = [(reach, self._spans(reach)) for reach in upto]
        wanted = {reach: spans for reach, spans in unread if spans}
        now = self._present() if wanted else set()  # is it still what the mark was made of?
        self.lost = self.lost or any(reach[:2] not in now for reach in wanted)
        spans = {part: span for reach, each in wanted.items() if reach[:2] in now for part, span in each.items()}
        generations = {part: reach.generation for reach, each in wanted.items() for part in each}
        silent: float | None = None
        while spans:
            try:
                for part, events, following in self._pieces(spans):
                    silent = None
                    yield Block(events, self._producer(part, generations[part]), following)
                    spans[part] = spans[part]._replace(at=following)
                return
            except self.errors:
                self._hang_up()
                spans = {part: span for part, span in spans.items() if span.at < span.end}
                silent = silent or time.monotonic()
                if time.monotonic() - silent > AWAY:
                    raise self.unreachable() from None
                time.sleep(AGAIN)

    def _spans(self, reach: Reach) -> dict[str, Span]:
        """Return what a mark has of a part that is not stored yet, by the part that positions are stored of."""
        at = self._unstored(*reach[:2])
        return {reach.identity: Span(at, reach.offset)} if at < reach.offset else {}

    def _present(self) -> set[tuple[str, int]]:
        """Return the parts that are there, with their generations."""
        return {reach[:2] for reach in self.reached()}

    def unreachable(self) -> StateError:
        """Return what is said of a broker that is away for too long, or from the start."""
        return StateError(
            f"{self.address.shown!r} cannot be reached, or does not let this reader in; the same command goes on where "
            "it stopped."
        )

    def close(self) -> None:
        """Let go of both connections."""
        self._hang_up()
        with self._turn:
            self._hang_up_look()
