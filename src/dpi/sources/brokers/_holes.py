"""Holes: ids that a snapshot of a table did not show, and the transactions that may still fill them.

An id is given out when a row is written and is visible when its transaction commits. A hole therefore belongs to a
transaction in flight, or to one that was rolled back. The two look alike in one snapshot; over several looks they do
not:

**Rule.** A look lists the transactions in flight *after* its snapshot. A new hole waits for all of them. When none of
them is listed any more, the hole waits for all that are listed then, once. When none of those is listed either, the
hole is forgotten at the first later snapshot that does not show it.

**Why a forgotten hole is never filled.** Let a transaction have drawn an id that a snapshot does not show. It had not
committed when the snapshot was taken, so it is in the list that follows, or has ended by then. When it is listed no
more, it has ended, or was prepared for a commit in two phases and has another name by then: that name is in the second
list. When it is not listed by that name either, it has ended. A snapshot taken after that shows its rows, or they will
never be there. There is no timer in the rule: a transaction that stays open keeps its holes for as long.

Sees ids and names of transactions; no row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

Hole = tuple[int, int]
"""From the first id up to before the last."""
Holes = tuple[Hole, ...]
"""In the order of ids, apart from each other."""
Running = frozenset[str]
"""Names of transactions in flight."""


def width(holes: Iterable[Hole]) -> int:
    """Return how many ids lie in some holes."""
    return sum(end - at for at, end in holes)


def difference(holes: Iterable[Hole], others: Sequence[Hole]) -> Iterator[Hole]:
    """Return the ids of some holes that do not lie in others, which are in order and may touch.

    >>> list(difference([(1, 10)], [(2, 3), (3, 4), (5, 12)]))
    [(1, 2), (4, 5)]
    """
    number = 0
    for at, end in holes:
        while number < len(others) and others[number][1] <= at:
            number += 1
        rest = number
        while at < end and rest < len(others) and others[rest][0] < end:
            if at < others[rest][0]:
                yield at, others[rest][0]
            at = max(at, others[rest][1])
            rest += 1
        if at < end:
            yield at, end


def intersection(holes: Sequence[Hole], others: Sequence[Hole]) -> Iterator[Hole]:
    """Return the ids that lie in holes and in others.

    >>> list(intersection([(1, 4), (6, 9)], [(3, 7)]))
    [(3, 4), (6, 7)]
    """
    return difference(holes, tuple(difference(holes, others)))


def ranks(holes: Sequence[Hole], ids: Sequence[int]) -> Iterator[int]:
    """Return, for some ids of holes in their order, how many ids of the holes come before each.

    >>> list(ranks([(1, 3), (7, 9)], [2, 8]))
    [1, 3]
    """
    place, before = 0, 0
    for number in ids:
        while holes[place][1] <= number:
            before += holes[place][1] - holes[place][0]
            place += 1
        yield before + number - holes[place][0]


def contains(holes: Sequence[Hole], number: int) -> bool:
    """Return whether an id lies in a hole."""
    place = bisect_right(holes, number, key=lambda hole: hole[0])
    return place > 0 and number < holes[place - 1][1]


class Pending:
    """The holes of the looks so far, each with the transactions that may still fill it."""

    def __init__(self, holes: Holes = ()) -> None:
        self._doubts = [_Doubt(holes)]

    @property
    def holes(self) -> Holes:
        """All of them, in the order of ids."""
        return tuple(hole for doubt in self._doubts for hole in doubt.holes)

    def advance(self, opened: float, unfilled: Callable[[Holes], Iterable[Hole]], new: Iterable[Hole]) -> int:
        """Take over what a snapshot shows that was opened then; return how many ids have left the holes.

        `unfilled` tells what the snapshot leaves of holes, and `new` are its holes above all others.
        """
        before, doubts = width(self.holes), list[_Doubt]()
        for doubt in self._doubts:
            doubt.holes = tuple(unfilled(doubt.holes))
            if doubt.holes and (doubt.ended is None or doubt.ended >= opened):
                doubts.append(doubt)
        after = sum(width(doubt.holes) for doubt in doubts)
        self._doubts = [*doubts, _Doubt(tuple(new))]
        return before - after

    def settle(self, running: Running, now: float) -> None:
        """Take note of the transactions that are in flight, listed after the last snapshot and until now."""
        for doubt in self._doubts:
            doubt.settle(running, now)


@dataclass
class _Doubt:
    """Holes that were found by one look, until the transactions that may fill them have ended."""

    holes: Holes
    waiting: Running | None = None
    """Those that have to end; None before they were listed."""
    renamed: bool = False
    """Whether they are those of the second list."""
    ended: float | None = None
    """When none of them was listed any more."""

    def settle(self, running: Running, now: float) -> None:
        """Take note of the transactions that are in flight at a moment."""
        if self.waiting is None:
            self.waiting = running
            return
        self.waiting &= running
        if not self.waiting and not self.renamed:
            self.waiting, self.renamed = running, True
        if not self.waiting and self.ended is None:
            self.ended = now
