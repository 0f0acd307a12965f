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
import numpy.typing as npt

from dpi.budget.account_records import RECORD, STANDING, Standings, newest, select, split, to_records
from dpi.budget.account_table import ABSENT, AccountPositions
from dpi.errors import StateError
from dpi.events.identity import Digests, by_first_half
from dpi.exact.integers import Integers
from dpi.store.account_files import Records, Run, RunFiles, concatenate, merge_pieces

PLACE = 16 + STANDING.itemsize + 1
"""Bytes of a place, whether it is taken or not."""
FULLEST = 0.75
"""The part of a region that may be taken: beyond it, looking takes many steps."""
_BYTES = np.dtype((np.void, STANDING.itemsize))
_TOO_MANY = "more accounts are kept in memory than it has places for."
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
            self._recent.fill(bucket, *split(records))

    # Accounts by name.

    def find(self, names: Digests) -> AccountPositions:
        """Return where the names stand, and what their accounts hold."""
        order = by_first_half(names)
        return self.here(AccountPositions(names.take(order, axis=0), order, ()))

    def here(self, positions: AccountPositions) -> AccountPositions:
        """Return where names with positions in another table stand in this one."""
        held = [self._look_up(positions.names[at : at + AT_ONCE]) for at in range(0, len(positions.names), AT_ONCE)]
        return AccountPositions(
            positions.names, positions.order, (), np.concatenate([np.empty(0, dtype=STANDING), *held])
        )

    def _look_up(self, names: Digests) -> Standings:
        at = self._recent.find(names)
        rest = np.flatnonzero(at == ABSENT)
        if not rest.size:
            return self._recent.get(at)
        standing = self._in_files(names.take(rest, axis=0), 1)
        if rest.size == len(names):
            return standing
        standings = self._recent.get(np.maximum(at, 0))
        standings[rest] = standing
        return standings

    def _in_files(self, names: Digests, age: int) -> Standings:
        """Return what files say of accounts, from each bucket's last but `age` on: the newer one counts."""
        first = np.searchsorted(names[:, 0], self._starts)
        slices = (slice(*rows) for rows in zip(first.tolist(), [*first[1:].tolist(), len(names)], strict=True))
        asked = [(runs[-age], rows) for runs, rows in zip(self._runs, slices, strict=True) if len(runs) >= age]
        standing, known = self._files.look_up(asked, names)
        rest = np.flatnonzero(~known)
        if rest.size and age < max(map(len, self._runs)):
            standing[rest] = self._in_files(names.take(rest, axis=0), age + 1)
        return standing

    def get(self, positions: AccountPositions) -> Standings:
        """Return what each account holds, in the order of the positions; zeros for a name that has no account."""
        assert positions.held is not None  # noqa: S101 - positions in this table
        return positions.held.copy()

    def put(self, positions: AccountPositions, standing: Standings) -> None:
        """Write the accounts of different names; what was moved with them is from now on in its files."""
        moved, self._moving, names = self._moving, [], positions.names
        if moved:
            stay = ~np.isin(self._recent.part(names), [run.bucket for run in moved])
            names, standing = names.compress(stay, axis=0), select(standing, stay)
            for run in moved:
                self._recent.empty(run.bucket)
                self._files.forget(self._runs[run.bucket])
                self._runs[run.bucket] = (run,)
        self._recent.put(names, standing)

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """Give all names, and what their accounts hold, a bucket at a time."""
        for bucket in range(len(self._runs)):
            yield split(concatenate(list(self._pieces(bucket, _records(*self._recent.held(bucket))))))

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
            charged = _records(names.compress(here, axis=0), select(standing, here))
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


class TooMany(StateError):
    """A region has no place for what is put into it."""


class RecentAccounts:
    """Accounts that have changed of late, in as much memory as was said: a table with a fixed number of places.

    Names are keyed digests, evenly spread: the first half of a name says where in the table to look. So the accounts of
    one part of the names lie in one region, and can be taken out together; and those of a whole log, sorted by name,
    are put in with one pass. Where a place is taken, the next one of the region is tried. `starts` are the first names
    (high halves) of the parts, in order, the first of them 0.

    >>> recent = RecentAccounts(64, np.array([0, 1 << 63], dtype=np.uint64))
    >>> names = np.array([[5, 1], [1 << 63, 2]], dtype=np.uint64)
    >>> recent.put(names, np.array([(7, 1, 0), (8, 1, 0)], dtype=STANDING))
    >>> recent.find(names).tolist()[0] >= 0, recent.counts.tolist()
    (True, [1, 1])
    >>> recent.held(1)[1].tolist(), recent.empty(1), recent.counts.tolist()
    ([(8, 1, 0)], None, [1, 0])
    """

    def __init__(self, room: int, starts: npt.NDArray[np.uint64]) -> None:
        self._room = room
        self._used = np.zeros(room, dtype=np.bool_)
        self._high, self._low = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint64)
        self._standing = np.empty(room, dtype=_BYTES)
        self._starts, self.counts = starts, np.zeros(starts.size, dtype=np.int64)
        self._first = np.append(_scaled(starts, np.uint64(room)), room)
        if (np.diff(self._first) < 1).any():
            raise StateError("the parts of a ledger are too small for this table.")

    @property
    def sizes(self) -> Integers:
        """How many places each region has."""
        return np.diff(self._first)

    def part(self, names: Digests) -> Integers:
        """Return the part that each name is in."""
        return np.searchsorted(self._starts, np.ascontiguousarray(names[:, 0]), side="right") - 1

    def _begin(self, high: npt.NDArray[np.uint64], part: Integers) -> Integers:
        """Where a name is looked for first: in the order of names."""
        at: Integers = np.minimum(_scaled(high, np.uint64(self._room)), self._first[part + 1] - 1)
        return at

    def find(self, names: Digests) -> Integers:
        """Return the place of each name, `ABSENT` if it has none."""
        high, low, part = np.ascontiguousarray(names[:, 0]), np.ascontiguousarray(names[:, 1]), self.part(names)
        places = np.full(len(names), ABSENT, dtype=np.int64)
        rows, at = np.arange(len(names)), self._begin(high, part)
        while rows.size:
            used = self._used[at]
            rows, at = rows[used], at[used]
            same = (self._high[at] == high[rows]) & (self._low[at] == low[rows])
            places[rows[same]] = at[same]
            rows, at = rows[~same], at[~same]
            at = self._next(at, part[rows])
        return places

    def _next(self, at: Integers, part: Integers) -> Integers:
        """Return the place after each, in the same region."""
        at = at + 1
        return np.where(at == self._first[part + 1], self._first[part], at)

    def get(self, at: Integers) -> Standings:
        """Return what the accounts at these places hold."""
        return self._standing[at].view(STANDING)

    def put(self, names: Digests, standing: Standings) -> None:
        """Write the accounts of different names, opening those that are new."""
        part, values = self.part(names), standing.view(_BYTES)
        if self._too_many(part) and self._too_many(part[self.find(names) == ABSENT]):
            raise TooMany(_TOO_MANY)
        high, low = np.ascontiguousarray(names[:, 0]), np.ascontiguousarray(names[:, 1])
        rows, at = np.arange(len(names)), self._begin(high, part)
        while rows.size:
            free = ~self._used[at]
            here, new = at[free], rows[free]
            self._high[here], self._low[here] = high[new], low[new]  # where two want one place, one of them has it now
            mine = (self._high[at] == high[rows]) & (self._low[at] == low[rows])
            self._standing[at[mine]] = values[rows[mine]]
            opened = at[mine & free]
            self._used[opened] = True
            self.counts += np.bincount(part[rows[mine & free]], minlength=self._starts.size)
            rows, at = rows[~mine], at[~mine]
            at = self._next(at, part[rows])

    def fill(self, part: int, names: Digests, standing: Standings) -> None:
        """Write the accounts of different names of a part that is empty, sorted by name.

        Each is where `put` would have it if they came in their order: at the first place from its own on that those
        before it have left free. Those for whom the region has none go on at its beginning.
        """
        if len(names) > FULLEST * self.sizes[part]:
            raise TooMany(_TOO_MANY)
        order = np.arange(len(names))
        at = self._begin(names[:, 0], np.full(order.size, part)) - order
        at = np.maximum.accumulate(at) + order
        inside = int(np.searchsorted(at, self._first[part + 1]))
        at, here = at[:inside], names[:inside]
        self._used[at], self._high[at], self._low[at] = True, here[:, 0], here[:, 1]
        self._standing[at] = standing[:inside].view(_BYTES)
        self.counts[part] = inside
        self.put(names[inside:], standing[inside:])

    def _too_many(self, part: Integers) -> bool:
        """Whether new accounts of these parts leave too few places."""
        more = np.bincount(part, minlength=self._starts.size)
        return bool((self.counts + more > FULLEST * self.sizes).any())

    def held(self, part: int) -> tuple[Digests, Standings]:
        """Return the accounts of a part, sorted by name."""
        region = slice(self._first[part], self._first[part + 1])
        at = np.flatnonzero(self._used[region]) + self._first[part]
        high, low = self._high[at], self._low[at]
        order = np.lexsort((low, high))
        return np.stack([high[order], low[order]], axis=1), self._standing[at[order]].view(STANDING)

    def empty(self, part: int) -> None:
        """Forget the accounts of a part."""
        self._used[self._first[part] : self._first[part + 1]] = False
        self.counts[part] = 0


def _scaled(word: npt.NDArray[np.uint64], size: np.uint64) -> Integers:
    """Words of 64 bits as numbers below `size`, in their order."""
    half = np.uint64(32)
    return ((word >> half) * size >> half).astype(np.int64)
