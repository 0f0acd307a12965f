"""Accounts that have changed of late, in as much memory as was said: a table with a fixed number of places.

Names are keyed digests, evenly spread: the first half of a name says where in the table to look. So the accounts of one
part of the names lie in one region, and can be taken out together; and those of a whole log, sorted by name, are put
in with one pass. Where a place is taken, the next one of the region is tried.

Sees names of accounts and what they hold; no id. Private.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpi.budget.account_table import ABSENT, STANDING, Standings
from dpi.errors import StateError
from dpi.events.identity import Digests
from dpi.exact.integers import Integers

PLACE = 16 + STANDING.itemsize + 1
"""Bytes of a place, whether it is taken or not."""
FULLEST = 0.75
"""The part of a region that may be taken: beyond it, looking takes many steps."""
_BYTES = np.dtype((np.void, STANDING.itemsize))
_TOO_MANY = "more accounts are kept in memory than it has places for."


class TooMany(StateError):
    """A region has no place for what is put into it."""


class RecentAccounts:
    """A table of accounts by name, in regions.

    `starts` are the first names (high halves) of the parts of all names, in order, the first of them 0.

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
        """The part that each name is in."""
        return np.searchsorted(self._starts, np.ascontiguousarray(names[:, 0]), side="right") - 1

    def _begin(self, high: npt.NDArray[np.uint64], part: Integers) -> Integers:
        """Where a name is looked for first: in the order of names."""
        at: Integers = np.minimum(_scaled(high, np.uint64(self._room)), self._first[part + 1] - 1)
        return at

    def find(self, names: Digests) -> Integers:
        """The place of each name, `ABSENT` if it has none."""
        high, low, part = np.ascontiguousarray(names[:, 0]), np.ascontiguousarray(names[:, 1]), self.part(names)
        found = np.full(len(names), ABSENT, dtype=np.int64)
        rows, at = np.arange(len(names)), self._begin(high, part)
        while rows.size:
            used = self._used[at]
            rows, at = rows[used], at[used]
            same = (self._high[at] == high[rows]) & (self._low[at] == low[rows])
            found[rows[same]] = at[same]
            rows, at = rows[~same], at[~same]
            at = self._next(at, part[rows])
        return found

    def _next(self, at: Integers, part: Integers) -> Integers:
        """The place after each, in the same region."""
        at = at + 1
        return np.where(at == self._first[part + 1], self._first[part], at)

    def get(self, at: Integers) -> Standings:
        """What the accounts at these places hold."""
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
        """The accounts of a part, sorted by name."""
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
