"""Rows: what is left of events on their way from a reader to the closing of their slot. Private.

A row says whose events they are, by the name of the account, which slot and bin they are in, and how many they are. So
no id, no value and no time goes further than the reader, and whatever comes after it, in memory, in a store, in files
or in a task, has one form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.events.identity import EXACT, Digests, by_name, digests, name_users, plain_integers
from dpi.exact import heap
from dpi.exact.integers import MOST, Integers

FEW = 1 << 14
"""Up to so many integer ids are named as they come."""
_CHUNK = 1 << 17
"""Rows handled at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Events by account, slot and bin: row i stands for `counts[i]` equal ones.

    An (account, slot, bin) may be in several rows, unless they were added up (`sum`). Bins and counts that are below
    2^31 may be integers of 32 bits, in half the memory: sums and products of them are made in 64.

    >>> rows = Rows.of(["ada", None, "ada", "bob"], np.array([0, 0, 0, -1]), key=bytes(32))
    >>> rows.bins.tolist(), Rows.sum([rows]).counts.tolist()
    ([0, 0], [2])
    """

    names: Digests
    slots: Integers
    bins: Integers
    counts: Integers
    grouped: bool = field(default=False, kw_only=True)
    """Whether rows are of one slot, with those of an account together, sorted by bin, and one for each bin."""

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        none = np.empty(0, dtype=np.int64)
        return cls(np.empty((0, 2), dtype=np.uint64), none, none, none)

    @classmethod
    def one_each(cls, names: Digests) -> Self:
        """Return one row for each of some different accounts, sorted by name, of a domain of one value."""
        none = np.zeros(len(names), dtype=np.int64)
        return cls(names, none, none, np.ones(len(names), dtype=np.int64), grouped=True)

    @classmethod
    def of(
        cls,
        users: object,
        bins: Integers,
        key: bytes,
        slots: int | Integers = 0,
        counts: Integers | None = None,
        ids: str = EXACT,
    ) -> Self:
        """Return the rows of a column of ids, of one event each unless counts are given.

        One without a user or a bin is dropped by itself.
        """
        heap.keep_freed_memory()
        numbers = plain_integers(users)
        if numbers is not None and numbers.size == bins.size > FEW and np.ndim(slots) == 0 and counts is None:
            keyed = _one_key(numbers, bins)
            if keyed is not None:
                del bins  # of a large slot it is memory that sorting can use
                return cls._of_keys(*keyed, key, int(slots))
        names, known = name_users(users if numbers is None else numbers, key, ids)
        if len(names) != bins.size:
            raise SchemaError("`users` and `values` must have the same number of rows.")
        if counts is None:
            counts = np.broadcast_to(np.int64(1), bins.shape)  # takes no memory
        rows = cls(names, np.broadcast_to(np.int64(slots), bins.shape), bins, counts)
        valid = bins >= 0 if known is None else known & (bins >= 0)
        return rows if valid.all() else rows.only(valid)

    @classmethod
    def _of_keys(cls, keys: npt.NDArray[Any], lowest: int, width: int, key: bytes, slot: int) -> Self:
        """Return rows of one slot by integer ids: many of them are sorted before they are named, which is faster."""
        keys.sort()
        new = np.flatnonzero(changes(keys))
        counts: npt.NDArray[Any] = sizes(new, keys.size)
        counts, keys = np.minimum(counts, MOST, out=counts).astype(np.int32), keys.take(new)
        del new
        numbers = keys // keys.dtype.type(width)
        keys -= numbers * keys.dtype.type(width)
        bins: npt.NDArray[Any] = keys.astype(np.int32 if width <= MOST else np.int64)
        del keys
        first = np.flatnonzero(changes(numbers))
        names = digests(numbers[first].astype(np.int64) + lowest, key)
        del numbers
        names = names.repeat(sizes(first, bins.size), 0)
        return cls(names, np.broadcast_to(np.int64(slot), bins.shape), bins, counts, grouped=True)

    def __len__(self) -> int:
        return self.bins.size

    def only(self, rows: npt.NDArray[np.bool_] | Integers | slice) -> Self:
        """Return some of the rows."""
        if isinstance(rows, slice):
            names = self.names[rows]
        else:  # several times as fast as by brackets
            names = self.names.compress(rows, 0) if rows.dtype == np.bool_ else self.names.take(rows, 0)
        kept = self.grouped and (isinstance(rows, slice) or rows.dtype == np.bool_)
        return replace(
            self, names=names, slots=self.slots[rows], bins=self.bins[rows], counts=self.counts[rows], grouped=kept
        )

    def by_slot(self, first: int, last: int) -> Iterator[tuple[int, Self]]:
        """Yield every slot from `first` to before `last`, where all rows lie, with its rows."""
        if last - first == 1:
            yield first, self
            return
        order = np.argsort(self.slots, kind="stable")
        cuts = np.searchsorted(self.slots[order], np.arange(first, last + 1))
        for at in range(last - first):
            yield first + at, self.only(order[cuts[at] : cuts[at + 1]])

    def recode(self, bins: Integers) -> Self:
        """Return the rows by other bins, of which `bins` has the new one for every old one; none, if it is negative."""
        new_bins = bins[self.bins]
        return replace(self, bins=new_bins, grouped=False).only(new_bins >= 0)

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Self:
        """Return the rows of all parts, one after the other."""
        if not parts:
            return cls.empty()
        names = np.concatenate([part.names for part in parts])
        columns = ([getattr(part, column) for part in parts] for column in ("slots", "bins", "counts"))
        slots, bins, counts = map(np.concatenate, columns)
        return cls(names, slots, bins, counts)

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
        grouped = not slots.size or int(slots.min()) == int(slots.max())
        return replace(whole.only(first), counts=np.minimum(total, MOST), grouped=grouped)


def _one_key(users: Integers, bins: Integers) -> tuple[npt.NDArray[Any], int, int] | None:
    """Return each row with a bin as one key, distance from the lowest id · width + bin; the lowest id, and the width.

    None if these do not fit in 63 bits.
    """
    lowest, highest, width = int(users.min()), int(users.max()), int(bins.max()) + 1
    if width < 1 or highest - lowest >= (1 << 63) // width:
        return None
    half = (highest - lowest + 1) * width <= 1 << 32  # sorted in half the time
    keys: npt.NDArray[Any] = np.empty(bins.size, dtype=np.uint32 if half else np.int64)
    for start in range(0, bins.size, _CHUNK):
        here = slice(start, start + _CHUNK)
        keys[here] = (users[here] - lowest) * width + bins[here]
    valid = bins >= 0
    return keys if valid.all() else keys[valid], lowest, width


def changes(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return where one of some columns is not as in the row before; True in the first row.

    >>> changes(np.array([1, 1, 1]), np.array([2, 2, 3])).tolist()
    [True, False, True]
    """
    differs = np.ones(columns[0].size, dtype=np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=differs[1:])
    for column in columns[1:]:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def sizes(begins: Integers, total: int) -> Integers:
    """Return how many rows each run has, by where runs begin among all rows: as `np.diff`, several times as fast.

    >>> sizes(np.array([0, 2, 3]), 7).tolist()
    [2, 1, 4]
    """
    lengths = np.empty_like(begins)
    np.subtract(begins[1:], begins[:-1], out=lengths[:-1])
    lengths[-1:] = total - begins[-1:]
    return lengths
