"""Marks: how far every input had got at a moment of the public clock.

Marks cut inputs into segments. A *closing mark* is the first one at or after a closing time; a slot closes with it,
once everything up to it is stored. An event belongs to the first closing mark that has it. It counts for slots that
were open at the closing mark before, and for times up to the first closing time after its own.

**Guarantee.** Whether an event counts is a function of its own time, of the closing mark that first has it, and of the
moments of closing marks. How long reading or counting takes, which is a matter of how much others have sent, is not in
it.

*Why.* Marks between closing marks let the reader read ahead, and decide nothing. With any of them left out, the same
slots are open, and the same times are from the future: `Mark.until` is already that of the closing mark to come, which
is due at the next closing time. What would not do is the first closing time after each mark by itself. It is a slot
later for a closing mark than for one before it, so an event of that slot would count or not as looks are left out.
The look at a start, or after one that failed, is as one in between: none that had come before is from the future.

**What is assumed.** One user's events do not change when others' reach the input, nor when the program stops. The input
answers a look at once; of what arrives before the answer it may or may not tell. A closing look that comes a whole slot
late (the machine was asleep) has a later `until` than the marks before it, which matters to events of the far future.

**Why that holds over a stop.** A mark is durable before anything that lies after the mark before it is read, and one is
made when the program comes back: what had arrived by then belongs to the slots that are still open, however late the
program is. After a second stop the same marks are used again.

**The timer** notes how far inputs have got, at every closing time and in between, in a thread that does nothing else.
It looks at sizes and at the clock, and waits for no reader. A second thread counts what the looks have fixed, and
writes the marks to the store, which a reader that stores a large block may have for itself for a while: how long either
takes is a matter of what users have sent, and must not decide when the next look is. While looks wait to be counted,
those that close no slot are left out; a closing one never is.

A look that an input does not answer, or whose counting fails, makes no mark. Its slots are held: the next look takes
its place, with its own moment, and whoever waits for marks is told (`held`). Nothing that had arrived by the closing
time is left out. What arrives while a slot is held counts for it, so that this is no more the rule above but what a
stop would do. If the program was stopped or asleep, the next look is a late one too, with the moment at which it was
made: nothing was seen in between.

In Coq, of a model of all this: `others_rows_alone`, `proofs/Admission.v`; `marks_by_the_clock`, `proofs/Admission.v`.

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
    """The first closing time after the closing look that what arrived belongs to: a time after it is from the future.

    Marks of earlier versions have the moment of the answer here. They are read as they were meant: what was stored of
    a segment and what is still to be read of it are then judged alike.
    """
    reached: Mapping[str, tuple[Reach, ...]]
    """The parts of each input, by its name."""

    def window(self, before: Mark | None, slots: Slots, first: int) -> Window:
        """Return what counts of what arrived since the mark before; `first` is the stream's next slot."""
        return Window(first if before is None else max(first, slots.first_open(before.moment)), self.until)

    def to_json(self) -> str:
        """Encode for a store, piece by piece: a million holes at once would have interpreter and timer wait."""
        return "".join(json.JSONEncoder().iterencode([self.moment, self.until, self.reached]))

    @classmethod
    def from_json(cls, text: str) -> Mark:
        """Read a mark as it was stored."""
        moment, until, reached = json.loads(text)
        return cls(moment, until, {name: tuple(_reach(*reach) for reach in parts) for name, parts in reached.items()})


def _reach(identity: str, generation: int, offset: int, holes: Iterable[Iterable[int]] = (), late: int = 0) -> Reach:
    return Reach(identity, generation, offset, tuple((at, end) for at, end in holes), late)


def newest_reaches(marks: Iterable[Mark]) -> dict[str, tuple[Reach, ...]]:
    """Return what marks, in their order, say last of every part of each input, also of one that later marks lack."""
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
        """Forget marks before one up to which everything is stored and released."""
        self.store.forget_marks(self.stream, number)


LONGEST = 1_000_000
"""Microseconds between two looks at most; a slot is looked at four times at least."""
_EVER = -(1 << 62)
LISTENING = 0.05
"""Seconds after which a caller's event is heard at the latest."""
Noted = tuple[int, Mark]
"""A mark with its number."""


class _Held:
    """Stands in the queue for a look that made no mark."""


class _Looked(NamedTuple):
    """What a look has fixed: a mark before its counting."""

    moment: int
    until: int
    looks: dict[str, Look]
    always: bool


def system_clock() -> int:
    """Return microseconds since 1970."""
    return time.time_ns() // 1000


class Timer:
    """Marks of some inputs, each durable before it is handed on.

    `start` notes the moment at which the program comes back, and then goes on in two threads. Iterating gives the marks
    as they are made, until all inputs have ended or `stop` is set; `held` is called for each look that made none.
    """

    def __init__(
        self,
        slots: Slots,
        inputs: Sequence[LiveInput],
        journal: Journal,
        *,
        stop: threading.Event | None = None,
        clock: Callable[[], int] = system_clock,
        held: Callable[[], None] = lambda: None,
    ) -> None:
        self._slots, self._inputs, self._journal, self._clock = slots, inputs, journal, clock
        self._step = min(LONGEST, max(slots.about // 4, 1))
        self._last = journal.kept[-1][1] if journal.kept else None
        self._moment = self._last.moment if self._last else _EVER
        self._closing = -_EVER
        """The first closing time after the last look; none before the first one."""
        self._held = held
        self._noted: queue.SimpleQueue[Noted | _Held | BaseException | None] = queue.SimpleQueue()
        self._wake, self._stop = threading.Event(), stop  # what wakes this timer is not for others to hear
        self._seen: queue.SimpleQueue[_Looked | BaseException | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"dpi {name}", daemon=True)
            for name, work in (("timer", self._run), ("marks", self._note))
        ]

    def look(self, *, always: bool = False) -> Noted | None:
        """Ask the clock, and then the inputs, so that what came before a closing time is asked for after it.

        It is noted, unless nothing came and no slot has closed, or an input did not answer.
        """
        mark = self._mark(self._look(always))
        return None if mark is None else (self._journal.note(mark), mark)

    def _look(self, always: bool) -> _Looked:
        moment = self._moment = max(self._clock(), self._moment)  # a clock that was set back stands still
        closes, self._closing = moment >= self._closing, self._slots.next_closing(moment)
        until = self._closing if closes else self._slots.next_closing(self._closing)
        return _Looked(moment, until, {each.name: each.look() for each in self._inputs}, always)

    def _mark(self, looked: _Looked) -> Mark | None:
        """Count what a look has fixed: the mark, unless nothing came and no slot has closed, or the look failed."""
        reached = {name: count() for name, count in looked.looks.items()}
        told = {name: parts for name, parts in reached.items() if parts is not None}
        if len(told) < len(reached):
            self._noted.put(_Held())
            return None
        mark, last = Mark(looked.moment, looked.until, told), self._last
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
        """Return whether a slot closes after one moment and up to another."""
        return self._slots.first_open(before) < self._slots.first_open(moment)

    def due(self, now: int) -> int:
        """Return when the next look is: at a closing time, or at a whole number of steps.

        These are moments of the public clock: how long a look took moves none that follow.
        """
        return min(self._slots.next_closing(now), (now // self._step + 1) * self._step)

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
        """Return whether it is time to end, before so many seconds are over."""
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
        while isinstance(noted := self._noted.get(), _Held):
            self._held()
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
