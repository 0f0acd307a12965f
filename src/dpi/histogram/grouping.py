"""The rows of one slot, grouped by user: exactly, in any order of arrival, in little memory.

Each row is one 64-bit key, code of its user · bins + bin, and the keys are sorted in place. Integer ids are their own
codes where they fit. Other ids get a hash as code; that no two users of the slot share one is checked on the exact ids,
and if two do, the ids are numbered by a join instead. So two users are never merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.events.few import FEW
from dpi.events.identity import RULE, Digests, by_name, digests
from dpi.events.identity import users as canonical_users
from dpi.exact.integers import MOST, Integers

if TYPE_CHECKING:
    import polars as pl

_CHUNK = 1 << 17
"""Rows handled at a time; small enough for the processor's cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """The (user, bin) pairs of some users, sorted: `counts` events of user `users` (0, 1, …) in bin `bins`."""

    users: Integers
    bins: Integers
    counts: Integers
    rows: Integers
    """Events of each user."""


class Rows:
    """One slot's rows; with `counts`, each stands for so many equal ones, and a user's equal rows are cut at `MOST`.

    Which ids are one user is told by the `rule` of the store that has the accounts. With its `key`, users are known by
    the names of their accounts, as in stored rows: a choice that is made by names is then the same for both.

    >>> rows = Rows(["b", "a", "b"], np.array([0, 1, 0]), bins=2)
    >>> sorted(rows.users().to_list())
    ['a', 'b']
    """

    def __init__(
        self,
        users: object,
        codes: Integers,
        bins: int,
        counts: Integers | None = None,
        rule: int = RULE,
        key: bytes | None = None,
    ) -> None:
        ids = canonical_users(users, rule)
        if ids.len() != codes.size or (counts is not None and counts.size != codes.size):
            raise SchemaError("`users` and `values` must have the same number of rows.")
        valid = codes >= 0
        if ids.has_nulls():
            valid &= ids.is_not_null().to_numpy()
        if not valid.all():
            ids, codes = ids.gather(np.flatnonzero(valid)), codes[valid]
            counts = None if counts is None else counts[valid]
        self._bins, self._key = bins, key
        self._lowest, self._ids, keys = _user_codes(ids, bins)
        keys *= bins
        keys += codes
        if counts is None or not (counts > 1).any():  # each row is one event
            keys.sort()
            self._keys, self._counts = keys, None
        else:
            self._keys, self._counts = _summed(keys, counts)

    def users(self) -> pl.Series | Digests:
        """The different ids, or names of accounts, in the order in which `pairs` numbers them."""
        return self._different() if self._key is None else digests(self._different(), self._key)

    def _different(self) -> pl.Series:
        import polars as pl

        if self._ids is not None:
            return self._ids()
        different = [np.empty(0, dtype=np.int64)]
        for start, end in self._chunks():
            codes = self._keys[start:end] // self._bins
            different.append(codes[np.concatenate(([True], codes[1:] != codes[:-1]))])
        return pl.Series(np.concatenate(different) + self._lowest)

    def pairs(self) -> Iterator[tuple[int, Pairs]]:
        """Pairs of some users at a time, each with the number of users before them."""
        first = 0
        for start, end in self._chunks():
            keys = self._keys[start:end]
            if self._counts is not None:
                counts = self._counts[start:end]
            else:
                last = np.append(np.flatnonzero(keys[1:] != keys[:-1]), keys.size - 1)
                keys, counts = keys[last], np.diff(last, prepend=-1)
            codes, bins = np.divmod(keys, self._bins)
            new = np.concatenate(([True], codes[1:] != codes[:-1]))
            users = np.cumsum(new) - 1
            rows = np.add.reduceat(counts, np.flatnonzero(new))
            yield first, Pairs(users, bins, counts, rows)
            first += rows.size

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """Cuts between users, about `_CHUNK` rows apart, further if one user has more or there are many bins."""
        start, step = 0, max(_CHUNK, 2 * self._bins)
        while start < self._keys.size:
            end = min(start + step, self._keys.size)
            if end < self._keys.size:
                user = int(self._keys[end - 1]) // self._bins
                cut = start + int(np.searchsorted(self._keys[start:end], user * self._bins))
                end = (
                    cut
                    if cut > start
                    else int(np.searchsorted(self._keys, user * self._bins + self._bins - 1, side="right"))
                )
            yield start, end
            start = end


class StoredRows:
    """One slot's rows as a store keeps them: numbers of events of accounts in bins; a pair may come several times.

    >>> names = np.array([[1, 1], [0, 2], [1, 1], [1, 1]], dtype=np.uint64)
    >>> rows = StoredRows(names, np.array([1, 0, 0, 1]), np.array([5, 1, 1, 2]))
    >>> rows.users().tolist(), [pairs.counts.tolist() for _, pairs in rows.pairs()]
    ([[0, 2], [1, 1]], [[1, 1, 7]])
    """

    def __init__(self, names: Digests, bins: Integers, counts: Integers) -> None:
        order = by_name(names, bins)
        names, bins, counts = names.take(order, axis=0), bins[order], counts[order]
        user = _changes(names[:, 0]) | _changes(names[:, 1])
        pair = np.flatnonzero(user | _changes(bins))
        self._names, self._new, self._bins = names.compress(user, axis=0), user[pair], bins[pair]
        self._counts = np.minimum(np.add.reduceat(counts, pair), MOST) if pair.size else counts

    def users(self) -> Digests:
        """The different accounts, in the order in which `pairs` numbers them."""
        return self._names

    def pairs(self) -> Iterator[tuple[int, Pairs]]:
        """All pairs at once, if there are any."""
        if self._counts.size:
            rows = np.add.reduceat(self._counts, np.flatnonzero(self._new))
            yield 0, Pairs(np.cumsum(self._new) - 1, self._bins, self._counts, rows)


def _changes(column: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Where a column is not as in the row before; True in the first."""
    return np.append(np.ones(min(1, column.size), np.bool_), column[1:] != column[:-1])


def _summed(keys: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """The different keys, sorted, and the sums of their counts, each cut at `MOST`."""
    order = np.argsort(keys)
    keys = keys[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], np.minimum(np.add.reduceat(counts[order], first), MOST)


def _user_codes(ids: pl.Series, bins: int) -> tuple[int, Callable[[], pl.Series] | None, Integers]:
    """(lowest id, the ids in order of their codes if those are no ids, a code for each row), code · bins < 2^63."""
    import polars as pl

    room = (1 << 63) // bins
    if ids.dtype == pl.Int64:
        lowest, highest = cast("int", ids.min() or 0), cast("int", ids.max() or 0)
        if highest - lowest < room:
            return lowest, None, ids.to_numpy() - lowest
    frame = ids.alias("id").to_frame()
    different = (frame.unique() if ids.len() <= FEW else frame.lazy().unique().collect(engine="streaming"))["id"]
    shift = 64 - (room.bit_length() - 1)
    codes = np.sort(_hash(different, shift))
    if (codes[1:] != codes[:-1]).all():
        return 0, lambda: different.gather(np.argsort(_hash(different, shift))), _hash(ids, shift)
    numbered = pl.DataFrame({"id": different, "code": np.arange(different.len())})
    rows = ids.alias("id").to_frame().join(numbered, on="id", how="left", maintain_order="left")["code"]
    return 0, lambda: different, rows.to_numpy().copy()


def _hash(ids: pl.Series, shift: int) -> Integers:
    return cast("Integers", (ids.hash(0).to_numpy() >> np.uint64(shift)).view(np.int64))
