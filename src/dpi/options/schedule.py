"""Which options hold in which slot: a function of the slot's number, as the entries of a chain declare it.

An entry of kind "options" holds for all slots from the one that it names on, until a later entry names another: one
that was declared for slots to come is dropped by a later entry that begins before it. Sees slots' numbers and
public options.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

BEGINNING = -(1 << 62)
"""Before every slot: where the first options of a stream begin."""

Known = TypeVar("Known")
Other = TypeVar("Other")


@dataclass(frozen=True)
class Schedule(Generic[Known]):
    """Options by the first slot that they hold for, in order.

    >>> planned = Schedule.of("two bins").changed(100, "three bins")
    >>> planned.at(99), planned.at(100), planned.newest
    ('two bins', 'three bins', 'three bins')
    >>> planned.changed(50, "four bins").at(100)
    'four bins'
    """

    entries: tuple[tuple[int, Known], ...]

    @classmethod
    def of(cls, options: Known, first: int = BEGINNING) -> Schedule[Known]:
        """Return the same options in all slots."""
        return cls(((first, options),))

    @property
    def newest(self) -> Known:
        """What was declared last."""
        return self.entries[-1][1]

    def at(self, slot: int) -> Known:
        """Return what holds in a slot."""
        after = bisect_right(self.entries, slot, key=lambda entry: entry[0])
        return self.entries[max(after - 1, 0)][1]

    def since(self, slot: int, end: int | None = None) -> Schedule[Known]:
        """Return what holds in a slot and in those after it, up to before `end`."""
        later = tuple(entry for entry in self.entries if entry[0] > slot and (end is None or entry[0] < end))
        return Schedule(((slot, self.at(slot)), *later))

    def changed(self, first: int, options: Known) -> Schedule[Known]:
        """With other options from a slot on."""
        return Schedule((*(entry for entry in self.entries if entry[0] < first), (first, options)))

    def of_each(self, made: Callable[[Known], Other]) -> Schedule[Other]:
        """Return the same with something made of the options."""
        return Schedule(tuple((first, made(options)) for first, options in self.entries))
