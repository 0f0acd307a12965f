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

Sees positions and moments; no event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dpi.events.clock import Window
from dpi.events.slots import Slots
from dpi.sources.live import Reach
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
