"""Accounts that are mostly on disk: what has changed of late in memory, all others in page files.

A slot looks up its users' accounts alone, and memory holds a fixed number of those that were charged. When they take
too much of it, the parts of the names that have most are moved: their page files are written anew, with all that is in
memory and in the charge that is about to be paid. Each slot moves as many accounts as it adds, so that all cost alike.

**Guarantee.** What is found for a name is what was last paid for it, or nothing if it has never paid. *Why:* a charge
is in memory until its part is moved, a moved part is in its file, and both are listed, with the log of charges
that no file has, in the one transaction that pays (`dpi.store.paged_log`).

Sees names of accounts and what they hold; no id. Private.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpi.budget.account_table import ABSENT, RECORD, STANDING, Place, Standings, chosen, parted, to_records
from dpi.budget.recent import FULLEST, RecentAccounts
from dpi.errors import StateError
from dpi.events.identity import Digests
from dpi.exact.integers import Integers
from dpi.store.joining import Records, joined, joined_pieces, together
from dpi.store.pages import PageFiles, Words
from dpi.store.runs import Run

ROOT = 1
"""All names: the part of the number p has the halves 2p and 2p + 1."""
LARGEST = 1 << 20
"""Accounts in a part; one with more is written as two."""
LEAST = 1 << 10
"""Places in memory for a part: those with fewer are not divided."""
TAKEN = 0.35
"""The share of memory's places that is taken after a slot, on average over the parts: the fullest has twice as much."""
NEARLY = 0.9
"""The part of what a region may have taken, from which on it is nearly too full."""
AT_ONCE = 1 << 17
"""Accounts that are looked up at a time."""


class Part(NamedTuple):
    """A part of all names, and the file of its accounts."""

    number: int
    run: Run | None

    @property
    def start(self) -> int:
        """The first name in it (its high half)."""
        depth = self.number.bit_length() - 1
        return (self.number - (1 << depth)) << (64 - depth)

    @property
    def end(self) -> int:
        """The first name after it."""
        return self.start + (1 << (65 - self.number.bit_length()))

    @property
    def size(self) -> int:
        """How many accounts its file has."""
        return 0 if self.run is None else self.run.size // RECORD.itemsize

    def pieces(self, files: PageFiles, start: int = 0, end: int = 1 << 64) -> Iterator[Records]:
        """The accounts of its file in a range of names, some at a time."""
        return iter(()) if self.run is None else files.pieces(self.run, start, end)


def parts_of(runs: Sequence[Run]) -> list[Part]:
    """The parts of a log, in the order of names; refuses files that leave out names, or have some twice."""
    parts = sorted((Part(run.bucket, run) for run in runs), key=lambda part: part.start) or [Part(ROOT, None)]
    ends = [part.end for part in parts]
    if [0, *ends[:-1]] != [part.start for part in parts] or ends[-1] != 1 << 64:
        raise StateError("the store is damaged: page files of accounts are missing.")
    return parts


class PagedTable:
    """The accounts of one log."""

    def __init__(self, files: PageFiles, parts: Sequence[Part], room: int) -> None:
        self._files, self._parts = files, list(parts)
        self._room = max(room, LEAST << max(part.number.bit_length() for part in parts) - 1)
        self._recent = RecentAccounts(self._room, starts_of(parts))
        self._moving: tuple[list[int], list[Run]] = [], []

    # Accounts by name.

    def find(self, names: Digests) -> Place:
        """Where the names stand, and what their accounts hold."""
        order = np.argsort(np.ascontiguousarray(names[:, 0]))
        return self.here(Place(names.take(order, axis=0), order, ()))

    def here(self, place: Place) -> Place:
        """Where the names of a place in another table stand in this one."""
        held = [self._looked_up(place.names[at : at + AT_ONCE]) for at in range(0, len(place.names), AT_ONCE)]
        standing = np.concatenate([np.empty(0, dtype=STANDING), *held])
        return Place(place.names, place.order, (), standing)

    def _looked_up(self, names: Digests) -> Standings:
        at = self._recent.find(names)
        rest = np.flatnonzero(at == ABSENT)
        if not rest.size:
            return self._recent.get(at)
        asked = names.take(rest, axis=0)
        first = np.searchsorted(asked[:, 0], starts_of(self._parts))
        slices = [slice(*rows) for rows in zip(first.tolist(), [*first[1:].tolist(), rest.size], strict=True)]
        runs = [(part.run, rows) for part, rows in zip(self._parts, slices, strict=True) if part.run is not None]
        standing, _ = self._files.look_up(runs, asked)
        if rest.size == len(names):
            return standing
        found = self._recent.get(np.maximum(at, 0))
        found[rest] = standing
        return found

    def get(self, place: Place) -> Standings:
        """What each account holds, in the order of the place; zeros for a name that has no account."""
        assert place.held is not None  # noqa: S101 - a place of this table
        return place.held.copy()

    def put(self, place: Place, standing: Standings) -> None:
        """Write the accounts of different names; what was moved with them is from now on in its files."""
        moved, runs = self._moving
        self._moving = [], []
        names = place.names
        if moved:
            stay = ~np.isin(self._recent.part(names), moved)
            names, standing = names.compress(stay, axis=0), chosen(standing, stay)
            for part in moved:
                self._recent.empty(part)
            kept = [part for at, part in enumerate(self._parts) if at not in set(moved)]
            self._parts = sorted([*kept, *(Part(run.bucket, run) for run in runs)], key=lambda part: part.start)
            self._recent.divide(starts_of(self._parts))
        self._recent.put(names, standing)

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """All names, and what their accounts hold, a part of the names at a time."""
        for at in range(len(self._parts)):
            yield parted(self._whole(at))

    def _whole(self, at: int) -> Records:
        """All accounts of a part."""
        part, changed = self._parts[at], _records(*self._recent.held(at))
        return together(list(joined_pieces(part.pieces(self._files), changed)))

    # Moving.

    def move(self, attempt: str, number: int, names: Digests, standing: Standings) -> list[Run]:
        """Write files of the parts that take too much of memory with a charge; it ends with `put` of that charge.

        `number` is that of the first run of the log after the one with the charge.
        """
        part = self._recent.part(names)
        more = np.bincount(part, minlength=len(self._parts))
        moved = self._fullest(more) if len(names) else []
        runs: list[Run] = []
        for at in moved:
            here = part == at
            charged = _records(names.compress(here, axis=0), chosen(standing, here))
            runs += self._written(attempt, number, self._parts[at], joined(_records(*self._recent.held(at)), charged))
        self._moving = moved, runs
        return runs

    def _fullest(self, more: Integers) -> list[int]:
        """The parts to move: what would be too full, and the fullest until memory is as it should be.

        Of parts that are nearly too full, as many as have to go in this slot so that not all of them go in a later one:
        after a store was built, all parts are equally full.
        """
        after, sizes = self._recent.counts + more, self._recent.sizes
        over, full = int(after.sum()) - int(TAKEN * self._room), after / sizes
        near = full > NEARLY * FULLEST
        slots = (FULLEST - full.max()) / max((more / sizes).max(), 1 / self._room)
        due = int(np.ceil(near.sum() / max(slots, 1)))
        moved: list[int] = []
        for at in np.argsort(-full, kind="stable").tolist():
            if over <= 0 and len(moved) >= due and full[at] <= FULLEST:
                break
            over -= int(after[at])
            moved.append(at)
        return moved

    def _written(self, attempt: str, number: int, part: Part, changed: Records) -> list[Run]:
        """The file of a part, or those of the parts that it is divided into."""
        runs, high = [], changed["name"]["high"]
        for new in self._divided(part.number, part.size + changed.size):
            first = np.searchsorted(high, np.uint64(new.start))
            mine = changed[first : np.searchsorted(high, np.uint64(new.end - 1), side="right")]
            pieces = joined_pieces(part.pieces(self._files, new.start, new.end), mine)
            runs.append(self._files.write(attempt, new.number, number, pieces, part.size + mine.size))
        return runs

    def _divided(self, number: int, size: int) -> list[Part]:
        """A part, or if it is too large its halves, which have half of its accounts each, or theirs."""
        if size <= LARGEST or self._room >> number.bit_length() < LEAST:
            return [Part(number, None)]
        return [part for half in (2 * number, 2 * number + 1) for part in self._divided(half, size // 2)]

    def load(self, changed: Iterable[Records]) -> None:
        """Put what the log says of the accounts of each part into memory, which is empty.

        Raises `TooMany` if there are more than it has places for.
        """
        for at, records in enumerate(changed):
            self._recent.fill(at, *parted(records))


def starts_of(parts: Sequence[Part]) -> Words:
    """The first name of each part (its high half)."""
    return np.array([part.start for part in parts], dtype=np.uint64)


def _records(names: Digests, standing: Standings) -> Records:
    return np.frombuffer(to_records(names, standing), dtype=RECORD)
