"""The rows of one slot, grouped by user: exactly, in any order of arrival, in little memory.

Each row is one key, number of its user · bins + bin, and the keys are sorted. Integer ids are their own numbers where
they fit. A handful of other ids are numbered as they come; more of them are brought together by the first bits of a
hash, sorted as one word with the row's own number, and neighbours are then compared by the exact ids: where two users
agree in those bits, their rows are told apart by the ids themselves. So two users are never merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from dpi.errors import SchemaError
from dpi.events.columns import whole
from dpi.events.few import handful
from dpi.events.identity import RULE, Digests, by_name, digests
from dpi.events.identity import users as canonical_users
from dpi.exact import heap
from dpi.exact.integers import MOST, Integers

if TYPE_CHECKING:
    import polars as pl

_CHUNK = 1 << 17
"""Rows handled at a time; small enough for the processor's cache."""
_LARGEST_CHUNK = 1 << 28
"""Rows of a chunk at most, however many bins there are: sums of its grains stay exact (`dpi.histogram.compression`)."""
_HALF = 1 << 32
"""Keys below this are sorted as words of 32 bits, in half the time."""

Keys = npt.NDArray[np.uint32] | Integers
"""Sorted."""


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
        heap.keep()
        plain = isinstance(users, np.ndarray) and users.dtype == np.int64 and users.ndim == 1  # canonical as it is
        ids = cast("Integers", users) if plain else canonical_users(users, rule=1)
        if len(ids) != codes.size or (counts is not None and counts.size != codes.size):
            raise SchemaError("`users` and `values` must have the same number of rows.")
        if counts is not None and not (counts > 1).any():
            counts = None  # each row is one event
        valid = codes >= 0
        if not isinstance(ids, np.ndarray) and ids.has_nulls():
            valid &= ids.is_not_null().to_numpy()
        if not valid.all():
            ids = ids[valid] if isinstance(ids, np.ndarray) else ids[np.flatnonzero(valid)]
            codes, counts = codes[valid], None if counts is None else counts[valid]
        self._bins, self._key = bins, key
        self._lowest: int | None = None
        self._ids: pl.Series | None = None
        numbers = _numbers(ids, bins)
        if numbers is not None:
            self._lowest, keys, sums = _by_number(numbers, codes, counts, bins)
            self._parts = [*self._cut(keys, sums)]
            return
        ids = canonical_users(ids, rule=1) if isinstance(ids, np.ndarray) else ids
        self._parts, self._ids = _by_hash(ids, codes, counts, bins)
        # By the rule two texts may write one id. That is looked at once for each different text, and seldom the case.
        if rule > 1 and whole(self._ids) is not self._ids:
            self._parts, self._ids = _by_hash(whole(ids), codes, counts, bins)

    def users(self) -> pl.Series | Digests:
        """The different ids, or names of accounts, in the order in which `pairs` numbers them."""
        return self._different() if self._key is None else digests(self._different(), self._key)

    def _different(self) -> pl.Series:
        import polars as pl

        if self._ids is not None:
            return self._ids
        different = [np.empty(0, dtype=np.int64)]
        for keys, _ in self._parts:
            numbers = keys // keys.dtype.type(self._bins)
            different.append(numbers[_changes(numbers)].astype(np.int64))
        return pl.Series(np.concatenate(different) + cast("int", self._lowest))

    def pairs(self) -> Iterator[tuple[int, Pairs]]:
        """Pairs of some users at a time, each with the number of users before them."""
        first = 0
        for keys, counts in self._parts:
            last = None
            if counts is None:
                last = _last(keys)
                keys, counts = keys[last], _sizes(last)
            numbers = keys // keys.dtype.type(self._bins)
            bins = (keys - numbers * keys.dtype.type(self._bins)).astype(np.int64)
            ends = _last(numbers)
            pairs = _sizes(ends)
            users = np.repeat(np.arange(ends.size), pairs)
            rows = np.add.reduceat(counts, ends - pairs + 1) if last is None else _sizes(last[ends])
            yield first, Pairs(users, bins, counts, rows)
            first += rows.size

    def _cut(self, keys: Keys, counts: Integers | None) -> Iterator[tuple[Keys, Integers | None]]:
        """Cuts between users, about `_CHUNK` rows apart, further if one user has more or there are many bins."""
        start, step = 0, _step(self._bins)
        while start < keys.size:
            end = min(start + step, keys.size)
            if end < keys.size:
                user = int(keys[end - 1]) // self._bins
                cut = start + int(np.searchsorted(keys[start:end], user * self._bins))
                last = user * self._bins + self._bins - 1
                end = cut if cut > start else int(np.searchsorted(keys, last, side="right"))
            yield keys[start:end], None if counts is None else counts[start:end]
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


def _changes(column: npt.NDArray[np.generic] | pl.Series) -> npt.NDArray[np.bool_]:
    """Where a column is not as in the row before; True in the first."""
    changes = np.ones(len(column), dtype=np.bool_)
    changes[1:] = column[1:] != column[:-1]
    return changes


def _last(column: npt.NDArray[np.generic]) -> Integers:
    """The last row of each run of equal ones, in a column that is not empty."""
    ends = np.empty(column.size, dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=ends[:-1])
    ends[-1] = True
    return ends.nonzero()[0]


def _sizes(last: Integers) -> Integers:
    """How many rows each run has, by its last row."""
    sizes = last.copy()
    sizes[1:] -= last[:-1]
    sizes[0] += 1
    return sizes


def _step(bins: int) -> int:
    """Rows of a part: at least as many as make it worth to look at all bins."""
    return min(max(_CHUNK, 2 * bins), _LARGEST_CHUNK)


def _span(numbers: Integers) -> tuple[int, int]:
    """The lowest of some integers and the highest; 0, if there are none."""
    return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)


def _numbers(ids: pl.Series | Integers, bins: int) -> Integers | None:
    """Ids without missing ones, if they are integers whose distances from the lowest, times bins, fit in 63 bits."""
    import polars as pl

    if not isinstance(ids, np.ndarray):
        if ids.dtype != pl.Int64:
            return None
        ids = ids.to_numpy()
    lowest, highest = _span(ids)
    return ids if highest - lowest < (1 << 63) // bins else None


def _by_number(
    numbers: Integers, codes: Integers, counts: Integers | None, bins: int
) -> tuple[int, Keys, Integers | None]:
    """The lowest of integer ids, their keys, sorted, and their counts."""
    lowest, highest = _span(numbers)
    return lowest, *_sorted(lambda rows: numbers[rows] - lowest, codes, counts, bins, highest - lowest + 1)


def _sorted(
    numbers: Callable[[slice], Integers], codes: Integers, counts: Integers | None, bins: int, users: int
) -> tuple[Keys, Integers | None]:
    """Keys of rows of the users 0 … users - 1, sorted; with counts, different ones and the sums of theirs."""
    fits = users * bins <= _HALF
    keys: Keys = np.empty(codes.size, dtype=np.uint32) if fits else np.empty(codes.size, dtype=np.int64)
    for start in range(0, codes.size, _CHUNK):
        rows = slice(start, start + _CHUNK)
        keys[rows] = numbers(rows) * bins + codes[rows]
    if counts is not None:
        return _summed(keys, counts)
    keys.sort()
    return keys, None


def _summed(keys: Keys, counts: Integers) -> tuple[Keys, Integers]:
    """The different keys, sorted, and the sums of their counts, each cut at `MOST`."""
    order = np.argsort(keys)
    keys = keys[order]
    first = np.flatnonzero(_changes(keys))
    return keys[first], np.minimum(np.add.reduceat(counts[order], first), MOST)


def _by_hash(
    ids: pl.Series, codes: Integers, counts: Integers | None, bins: int
) -> tuple[list[tuple[Keys, Integers | None]], pl.Series]:
    """Parts of the rows, each with all rows of its users, who are numbered from 0 in each; and the different ids."""
    listed = handful(ids)
    if listed:
        return _by_arrival(listed, ids.dtype, codes, counts, bins)
    spare = np.uint64(max(1, ids.len() - 1).bit_length())
    mask = (np.uint64(1) << spare) - np.uint64(1)
    words = _hash(ids) & ~mask
    words |= np.arange(words.size, dtype=np.uint64)
    words.sort()
    parts, first, start = [], [np.empty(0, dtype=np.int64)], 0
    while start < words.size:
        end = min(start + _step(bins), words.size)
        if end < words.size:
            cut = start + int(np.searchsorted(words[start:end], words[end - 1] & ~mask))
            end = cut if cut > start else int(np.searchsorted(words, words[end - 1] | mask, side="right"))
        rows, new = _apart(ids, words[start:end] >> spare, (words[start:end] & mask).view(np.int64))
        numbers = np.cumsum(new) - 1
        users = int(numbers[-1]) + 1
        parts.append(_sorted(numbers.__getitem__, codes[rows], None if counts is None else counts[rows], bins, users))
        first.append(rows[new])
        start = end
    return parts, ids[np.concatenate(first)]


def _by_arrival(
    listed: Sequence[object], kind: pl.DataType, codes: Integers, counts: Integers | None, bins: int
) -> tuple[list[tuple[Keys, Integers | None]], pl.Series]:
    """The same of a handful of rows, in one part: their users are numbered as they come."""
    import polars as pl

    numbers = {user: number for number, user in enumerate(dict.fromkeys(listed))}
    users = np.fromiter(map(numbers.__getitem__, listed), np.int64, len(listed))
    return [_sorted(users.__getitem__, codes, counts, bins, len(numbers))], pl.Series([*numbers], dtype=kind)


def _apart(ids: pl.Series, hashes: npt.NDArray[np.uint64], rows: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Rows that are sorted by hash, now with those of each user together, and where another user begins."""
    new = _changes(ids[rows])
    shared = new[1:] & (hashes[1:] == hashes[:-1])
    if shared.any():  # two users with one hash, or more: their rows alone are sorted by the ids
        theirs = np.flatnonzero(np.isin(hashes, hashes[1:][shared]))
        by_id = sorted(zip(hashes[theirs].tolist(), ids[rows[theirs]].to_list(), rows[theirs].tolist(), strict=True))
        rows[theirs] = [row for _, _, row in by_id]
        new = _changes(ids[rows])
    return rows, new


def _hash(ids: pl.Series) -> npt.NDArray[np.uint64]:
    return ids.hash(0).to_numpy()
