"""Accounts that are mostly on disk: what has changed of late in memory, all others in files.

A slot looks up its users' accounts alone, and memory holds a fixed number of those that were charged. When they take
too much of it, the buckets that have most are moved: each gets a new file, with all that is in its older runs, in
memory and in the charge that is about to be paid. Each slot moves as many accounts as it adds, so that all cost alike.

**Guarantee.** What is found for a name is what was last paid for it, or nothing if it has never paid. *Why:* a charge
is in memory, and in the database, until its bucket is moved; a moved bucket is in its file; and both are listed in the
one transaction that pays (`dpi.store.account_log`).

Sees names of accounts and what they hold; no id. Private.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpi.budget.account_table import ABSENT, RECORD, STANDING, Place, Standings, chosen, newest, parted, to_records
from dpi.budget.recent import FULLEST, RecentAccounts
from dpi.events.identity import Digests
from dpi.exact.integers import Integers
from dpi.store.account_files import Records, Run, RunFiles, concatenate, merge_pieces

LEAST = 1 << 7
"""Places in memory for a bucket."""
TAKEN = 0.35
"""The share of memory's places that is taken after a slot, on average over the buckets: the fullest has twice that."""
NEARLY = 0.9
"""The part of what a region may have taken, from which on it is nearly too full."""
AT_ONCE = 1 << 17
"""Accounts that are looked up at a time."""


class PagedTable:
    """The accounts of one log.

    `runs` are the files of each bucket, the oldest first, and `changed` what was written since, sorted by name. Raises
    `TooMany` if memory has no places for that.
    """

    def __init__(self, files: RunFiles, runs: Sequence[Sequence[Run]], changed: Sequence[Records], room: int) -> None:
        self._files, self._runs = files, [tuple(each) for each in runs]
        self._room = max(room, LEAST * len(runs))
        self._starts = np.array([(bucket << 64) // len(runs) for bucket in range(len(runs))], dtype=np.uint64)
        self._recent = RecentAccounts(self._room, self._starts)
        self._moving: list[Run] = []
        for bucket, records in enumerate(changed):
            self._recent.fill(bucket, *parted(records))

    # Accounts by name.

    def find(self, names: Digests) -> Place:
        """Return where the names stand, and what their accounts hold."""
        order = np.argsort(np.ascontiguousarray(names[:, 0]))
        return self.here(Place(names.take(order, axis=0), order, ()))

    def here(self, place: Place) -> Place:
        """Return where the names of a place in another table stand in this one."""
        held = [self._look_up(place.names[at : at + AT_ONCE]) for at in range(0, len(place.names), AT_ONCE)]
        return Place(place.names, place.order, (), np.concatenate([np.empty(0, dtype=STANDING), *held]))

    def _look_up(self, names: Digests) -> Standings:
        at = self._recent.find(names)
        rest = np.flatnonzero(at == ABSENT)
        if not rest.size:
            return self._recent.get(at)
        standing = self._in_files(names.take(rest, axis=0), 1)
        if rest.size == len(names):
            return standing
        found = self._recent.get(np.maximum(at, 0))
        found[rest] = standing
        return found

    def _in_files(self, names: Digests, age: int) -> Standings:
        """Return what files say of accounts, from each bucket's last but `age` on: the newer one counts."""
        first = np.searchsorted(names[:, 0], self._starts)
        slices = (slice(*rows) for rows in zip(first.tolist(), [*first[1:].tolist(), len(names)], strict=True))
        asked = [(runs[-age], rows) for runs, rows in zip(self._runs, slices, strict=True) if len(runs) >= age]
        standing, found = self._files.look_up(asked, names)
        rest = np.flatnonzero(~found)
        if rest.size and age < max(map(len, self._runs)):
            standing[rest] = self._in_files(names.take(rest, axis=0), age + 1)
        return standing

    def get(self, place: Place) -> Standings:
        """Return what each account holds, in the order of the place; zeros for a name that has no account."""
        assert place.held is not None  # noqa: S101 - a place of this table
        return place.held.copy()

    def put(self, place: Place, standing: Standings) -> None:
        """Write the accounts of different names; what was moved with them is from now on in its files."""
        moved, self._moving, names = self._moving, [], place.names
        if moved:
            stay = ~np.isin(self._recent.part(names), [run.bucket for run in moved])
            names, standing = names.compress(stay, axis=0), chosen(standing, stay)
            for run in moved:
                self._recent.empty(run.bucket)
                self._files.forget(self._runs[run.bucket])
                self._runs[run.bucket] = (run,)
        self._recent.put(names, standing)

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """Give all names, and what their accounts hold, a bucket at a time."""
        for bucket in range(len(self._runs)):
            yield parted(concatenate(list(self._pieces(bucket, _records(*self._recent.held(bucket))))))

    def _pieces(self, bucket: int, changed: Records) -> Iterator[Records]:
        """Give all accounts of a bucket, some at a time: those of its files, and what has changed."""
        oldest, *later = [self._files.pieces(run) for run in self._runs[bucket]] or [iter(())]
        since = newest([concatenate(list(pieces)) for pieces in later] + [changed]) if later else changed
        return merge_pieces(oldest, since)

    # Moving.

    def move(self, attempt: str, names: Digests, standing: Standings) -> list[Run]:
        """Write files of the buckets that take too much of memory with a charge; it ends with `put` of that charge."""
        bucket = self._recent.part(names)
        more = np.bincount(bucket, minlength=len(self._runs))
        self._moving = []
        for at in self._fullest(more) if len(names) else []:
            here = bucket == at
            charged = _records(names.compress(here, axis=0), chosen(standing, here))
            changed = newest([_records(*self._recent.held(at)), charged])
            most = sum(run.size for run in self._runs[at]) // RECORD.itemsize + changed.size
            self._moving.append(self._files.write(attempt, at, 0, self._pieces(at, changed), most))
        return self._moving

    def _fullest(self, more: Integers) -> list[int]:
        """Return the buckets to move: what would be too full, and the fullest until memory is as it should be.

        Of buckets that are nearly too full, as many as have to go in this slot so that not all of them go in a later
        one: after a store was built, all are equally full.
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


def _records(names: Digests, standing: Standings) -> Records:
    return np.frombuffer(to_records(names, standing), dtype=RECORD)
