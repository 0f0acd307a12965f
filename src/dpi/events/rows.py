"""Rows: what is left of events on their way from a reader to the closing of their slot. Private.

A row says whose events they are, by the name of the account, which slot and bin they are in, and how many they are. So
no id, no value and no time goes further than the reader, and whatever comes after it, in memory, in a store, in files
or in a task, has one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.events.identity import Digests, by_name, name_users
from dpi.exact.integers import MOST, Integers


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Events by account, slot and bin: row i stands for `counts[i]` equal ones.

    An (account, slot, bin) may be in several rows, unless they were added up (`sum`).

    >>> rows = Rows.of(["ada", None, "ada", "bob"], np.array([0, 0, 0, -1]), key=bytes(32))
    >>> rows.bins.tolist(), Rows.sum([rows]).counts.tolist()
    ([0, 0], [2])
    """

    names: Digests
    slots: Integers
    bins: Integers
    counts: Integers

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        none = np.empty(0, dtype=np.int64)
        return cls(np.empty((0, 2), dtype=np.uint64), none, none, none)

    @classmethod
    def of(cls, users: object, bins: Integers, key: bytes, slots: int | Integers = 0) -> Self:
        """Return a row for each event of a column of ids; one without a user or a bin is dropped by itself."""
        names, known = name_users(users, key)
        if len(names) != bins.size:
            raise SchemaError("`users` and `values` must have the same number of rows.")
        one = np.broadcast_to(np.int64(1), bins.shape)  # takes no memory
        rows = cls(names, np.broadcast_to(np.int64(slots), bins.shape), bins, one)
        valid = bins >= 0 if known is None else known & (bins >= 0)
        return rows if valid.all() else rows.only(valid)

    def __len__(self) -> int:
        return self.bins.size

    def only(self, rows: npt.NDArray[np.bool_] | Integers | slice) -> Self:
        """Return some of the rows."""
        if isinstance(rows, slice):
            names = self.names[rows]
        else:  # several times as fast as by brackets
            names = self.names.compress(rows, 0) if rows.dtype == np.bool_ else self.names.take(rows, 0)
        return replace(self, names=names, slots=self.slots[rows], bins=self.bins[rows], counts=self.counts[rows])

    def recode(self, bins: Integers) -> Self:
        """Return the rows by other bins, of which `bins` has the new one for every old one; none, if it is negative."""
        found = bins[self.bins]
        return replace(self, bins=found).only(found >= 0)

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Self:
        """Return the rows of all parts, one after the other."""
        if not parts:
            return cls.empty()
        columns = ([getattr(part, column) for part in parts] for column in ("names", "slots", "bins", "counts"))
        return cls(*map(np.concatenate, columns))

    @classmethod
    def sum(cls, parts: Sequence[Rows]) -> Self:
        """Return one row for each (account, slot, bin), sorted by these; its number of events is cut at `MOST`."""
        whole = cls.join(parts)
        slots, bins = whole.slots, whole.bins
        begin, width = int(slots.min()) if slots.size else 0, int(bins.max(initial=0)) + 1
        if slots.size and int(slots.max()) - begin < (1 << 62) // width:
            order = by_name(whole.names, (slots - begin) * width + bins)
        else:
            order = np.lexsort((bins, slots, whole.names[:, 1], whole.names[:, 0]))
        whole = whole.only(order)
        first = np.flatnonzero(changes(*whole.names.T, whole.slots, whole.bins))
        total = np.add.reduceat(whole.counts, first) if first.size else whole.counts
        return replace(whole.only(first), counts=np.minimum(total, MOST))


def changes(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return where one of some columns is not as in the row before; True in the first row.

    >>> changes(np.array([1, 1, 1]), np.array([2, 2, 3])).tolist()
    [True, False, True]
    """
    found = np.ones(columns[0].size, dtype=np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=found[1:])
    for column in columns[1:]:
        found[1:] |= column[1:] != column[:-1]
    return found
