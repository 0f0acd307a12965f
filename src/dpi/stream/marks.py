"""Marks: how far every input had got at a moment of the public clock.

Marks cut inputs into segments. What arrived between two marks is judged by their moments alone: it counts for slots
that were open after the first one, and for times up to the second. A slot closes with the first mark that was made
after its closing time, once everything up to that mark is stored. So whether an event counts is a function of its own
time, of its place among the marks, and of their moments. How long reading takes, which is a matter of how much others
have sent, is not in it.

**Why that holds over a stop.** A mark is durable before anything that lies after the mark before it is read, and one is
made when the program comes back: what had arrived by then belongs to the slots that are still open, however late the
program is. After a second stop the same marks are used again. What is assumed: one user's events do not change when
others' reach the input, nor when the program stops.

**The timer** notes how far inputs have got, at every closing time and in between, in a thread that does nothing else.
It looks at sizes and at the clock, and waits for no reader. A second thread counts what the looks have fixed, and
writes the marks to the store, which a reader that stores a large block may have for itself for a while: how long either
takes is a matter of what users have sent, and must not decide when the next look is. A look whose counting fails makes
no mark; the next look takes its place, with its own moment. If the program was stopped or asleep, the next look is a
late one, and its mark has the moment at which it was made: nothing was seen in between.

Sees positions and moments; no event.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from dpi.events.slots import Slots, Window
from dpi.sources.live import LiveInput, Look, Reach
from dpi.store.base import Store


class Mark(NamedTuple):
    """How far inputs had got. Private."""

    moment: int
    """When they were asked, in microseconds since 1970: slots that close by then are closed by this mark."""
    until: int
    """When all had answered: a time after it is from the future."""
    reached: Mapping[str, tuple[Reach, ...]]
    """The parts of each input, by its name."""

    def window(self, before: Mark | None, slots: Slots, first: int) -> Window:
        """What counts of what arrived since the mark before; `first` is the stream's next slot."""
        return Window(first if before is None else max(first, slots.first_open(before.moment)), self.until)

    def to_json(self) -> str:
        """For a store."""
        return json.dumps([self.moment, self.until, self.reached])

    @classmethod
    def from_json(cls, text: str) -> Mark:
        """As it was stored."""
        moment, until, reached = json.loads(text)
        return cls(moment, until, {name: tuple(_reach(*reach) for reach in parts) for name, parts in reached.items()})


def _reach(identity: str, generation: int, offset: int, holes: Iterable[Iterable[int]] = (), late: int = 0) -> Reach:
    return Reach(identity, generation, offset, tuple((at, end) for at, end in holes), late)


def newest_reaches(marks: Iterable[Mark]) -> dict[str, tuple[Reach, ...]]:
    """What marks, in their order, say last of every part of each input, also of one that later marks do not name."""
    newest: dict[str, dict[str, Reach]] = {}
    for mark in marks:
        for name, parts in mark.reached.items():
            newest.setdefault(name, {}).update({reach.identity: reach for reach in parts})
    return {name: tuple(parts.values()) for name, parts in newest.items()}


@dataclass(eq=False)
class Journal:
    """The marks of one stream in its store, from the last one that everything before is stored and released of."""

    store: Store
    stream: str

    def __post_init__(self) -> None:
        kept = self.store.marks(self.stream)
        self._next = kept[-1][0] + 1 if kept else 0
        self.kept = [(number, Mark.from_json(text)) for number, text in kept]
        """What was noted before, oldest first."""

    def note(self, mark: Mark) -> int:
        """Keep a mark durably; the number it has."""
        number = self._next
        self.store.note(self.stream, number, mark.to_json())
        self._next += 1
        return number

    def settled(self, number: int) -> None:
        """Everything up to a mark is stored and released: older ones are not needed."""
        self.store.forget_marks(self.stream, number)


LONGEST = 1_000_000
"""Microseconds between two looks at most; a slot is looked at four times at least."""
_EVER = -(1 << 62)
LISTENING = 0.05
"""Seconds after which a caller's event is heard at the latest."""
Noted = tuple[int, Mark]
"""A mark with its number."""


class _Looked(NamedTuple):
    """What a look has fixed: a mark before its counting."""

    moment: int
    until: int
    looks: dict[str, Look]
    always: bool


def system_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Timer:
    """Marks of some inputs, each durable before it is handed on.

    `start` notes the moment at which the program comes back, and then goes on in two threads. Iterating gives the marks
    as they are made, until all inputs have ended or `stop` is set.
    """

    def __init__(
        self,
        slots: Slots,
        inputs: Sequence[LiveInput],
        journal: Journal,
        *,
        stop: threading.Event | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._slots, self._inputs, self._journal, self._clock = slots, inputs, journal, clock
        self._step = min(LONGEST, max(slots.about // 4, 1))
        self._last = journal.kept[-1][1] if journal.kept else None
        self._moment, self._until = self._last[:2] if self._last else (_EVER, _EVER)
        self._noted: queue.SimpleQueue[Noted | BaseException | None] = queue.SimpleQueue()
        self._wake, self._stop = threading.Event(), stop  # what wakes this timer is not for others to hear
        self._seen: queue.SimpleQueue[_Looked | BaseException | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"dpi {name}", daemon=True)
            for name, work in (("timer", self._run), ("marks", self._note))
        ]

    def look(self, *, always: bool = False) -> Noted | None:
        """Ask the clock, the inputs, and the clock again; note it, unless nothing came and no slot has closed.

        Slots close by the first answer of the clock, so that what came before a closing time is asked for after it; a
        time is from the future by the second, so that nothing is that has come.
        """
        mark = self._mark(self._look(always))
        return None if mark is None else (self._journal.note(mark), mark)

    def _look(self, always: bool) -> _Looked:
        moment = self._clock()
        looks = {each.name: each.look() for each in self._inputs}
        moment = max(moment, self._moment)  # a clock that was set back stands still
        self._moment, self._until = moment, max(self._clock(), self._until, moment)
        return _Looked(moment, self._until, looks, always)

    def _mark(self, looked: _Looked) -> Mark | None:
        """Count what a look has fixed: the mark, unless nothing came and no slot has closed, or the look failed."""
        reached = {name: count() for name, count in looked.looks.items()}
        told = {name: parts for name, parts in reached.items() if parts is not None}
        mark, last = Mark(looked.moment, looked.until, told), self._last
        if len(told) < len(reached):
            return None
        if (
            last is not None
            and not looked.always
            and told == last.reached
            and not self._closes(last.moment, mark.moment)
        ):
            return None
        self._last = mark
        return mark

    def _closes(self, before: int, moment: int) -> bool:
        """Whether a slot closes after one moment and up to another."""
        return self._slots.first_open(before) < self._slots.first_open(moment)

    def due(self, now: int) -> int:
        """When the next look is: at a closing time, or at a whole number of steps.

        These are moments of the public clock. If a look came so long after the one before, how long each of them took
        would move all that follow, and with them what is from the future.
        """
        closing = self._slots.closing(self._slots.first_open(now))
        return min(closing, (now // self._step + 1) * self._step)

    def start(self) -> Self:
        """Note the moment of coming back, and begin."""
        for each in self._inputs:
            each.start(self._wake)
        while (noted := self.look(always=True)) is None:  # an input that is away for long says so itself
            pass
        self._noted.put(noted)
        for thread in self._threads:
            thread.start()
        return self

    def _run(self) -> None:
        try:
            ended = False
            while not ended:
                now = self._clock()
                ended = self._wait((self.due(now) - now) / 1e6)
                if ended or self._closes(self._moment, self._clock()) or not any(each.busy for each in self._inputs):
                    self._seen.put(self._look(always=ended))
        except BaseException as error:  # raised by whoever waits for marks
            self._seen.put(error)
        self._seen.put(None)

    def _wait(self, seconds: float) -> bool:
        """Whether it is time to end, before so many seconds are over."""
        if self._stop is None:
            return self._wake.wait(seconds)
        deadline = time.monotonic() + seconds
        while not (ended := self._stop.is_set() or self._wake.is_set()) and (rest := deadline - time.monotonic()) > 0:
            self._wake.wait(min(rest, LISTENING))
        return ended

    def _note(self) -> None:
        try:
            while (looked := self._seen.get()) is not None:
                if isinstance(looked, BaseException):
                    self._noted.put(looked)
                elif (mark := self._mark(looked)) is not None:
                    self._noted.put((self._journal.note(mark), mark))
        except BaseException as error:  # raised by whoever waits for marks
            self._noted.put(error)
        self._noted.put(None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Noted:
        noted = self._noted.get()
        if isinstance(noted, BaseException):
            raise noted
        if noted is None:
            raise StopIteration
        return noted

    def stop(self) -> None:
        """End the threads, and wait for them: nothing is written after this."""
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
