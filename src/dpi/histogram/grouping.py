"""The rows of one slot by account, in any order of arrival, in little memory.

Rows are brought together by the first bits of their accounts' names, sorted as one word with the row's own number, and
neighbours are then compared by the whole name: where two accounts agree in those bits, their rows are told apart by the
names themselves. So two accounts are never merged. Within an account each row is one key, number of the account ·
bins + bin, and the keys are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.events.identity import Digests, sort_first_bits
from dpi.events.rows import Rows, changes, sizes
from dpi.exact import heap
from dpi.exact.integers import MOST, Integers

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
    """The (account, bin) pairs of some accounts, sorted: `counts` events of account `users` (0, 1, …) in bin `bins`."""

    users: Integers
    bins: Integers
    counts: Integers
    rows: Integers
    """Events of each account."""


class Groups:
    """One slot's rows by account; the equal rows of an account are cut at `MOST` events. The rows are needed no more.

    >>> names = np.array([[1, 1], [0, 2], [1, 1], [1, 1]], dtype=np.uint64)
    >>> rows = Rows(names, np.zeros(4, np.int64), np.array([1, 0, 0, 1]), np.array([5, 1, 1, 2]))
    >>> groups = Groups(rows, bins=2)
    >>> groups.names.tolist(), [pairs.counts.tolist() for _, pairs in groups.pairs()]
    ([[0, 2], [1, 1]], [[1, 1, 7]])
    """

    names: Digests
    """Of the different accounts, in the order in which `pairs` numbers them."""

    def __init__(self, rows: Rows, bins: int) -> None:
        if int(rows.bins.max(initial=0)) >= bins or int(rows.bins.min(initial=0)) < 0:
            raise OptionError("`rows` must have the bins of the slot's own domain.")  # else they were another account's
        heap.keep_freed_memory()
        self._bins = bins
        self._step = min(max(_CHUNK, 2 * bins), _LARGEST_CHUNK)  # as many rows as make it worth to look at all bins
        self._parts: list[tuple[Keys, Integers | None]] = []
        self._grouped: tuple[Integers, Integers, Integers] | None = None
        if rows.grouped:
            new = changes(*rows.names.T)
            self.names, self._grouped = rows.names.compress(new, 0), (rows.bins, rows.counts, np.flatnonzero(new))
            return
        counts = rows.counts if int(rows.counts.max(initial=1)) > 1 else None  # else each row is one event
        words, spare, mask = sort_first_bits(rows.names)
        start, names = 0, [np.empty((0, 2), dtype=np.uint64)]
        while start < words.size:
            end = min(start + self._step, words.size)
            if end < words.size:
                cut = start + int(np.searchsorted(words[start:end], words[end - 1] & ~mask))
                end = cut if cut > start else int(np.searchsorted(words, words[end - 1] | mask, side="right"))
            order = (words[start:end] & mask).view(np.int64)
            part_names, new = _apart(rows.names.take(order, 0), words[start:end] >> spare, order)
            numbers = np.cumsum(new) - 1
            users = int(numbers[-1]) + 1
            keys = numbers * bins + rows.bins[order]
            if users * bins <= _HALF:
                keys = keys.astype(np.uint32)
            if counts is None:
                keys.sort()
                self._parts.append((keys, None))
            else:
                self._parts.append(_sum_keys(keys, counts[order]))
            names.append(part_names.compress(new, 0))
            start = end
        self.names = np.concatenate(names)

    def pairs(self) -> Iterator[tuple[int, Pairs]]:
        """Yield the pairs of some accounts at a time, each with the number of accounts before them."""
        first = 0
        if self._grouped is not None:
            all_bins, all_counts, begins = self._grouped
            while first < begins.size:
                after = max(first + 1, int(np.searchsorted(begins, begins[first] + self._step)))
                here, end = begins[first:after], int(begins[after]) if after < begins.size else all_bins.size
                rows = slice(int(here[0]), end)
                yield first, _pairs(here - here[0], all_bins[rows], all_counts[rows])
                first = after
        for keys, counts in self._parts:
            if counts is None:
                new = np.flatnonzero(changes(keys))
                keys, counts = keys[new], sizes(new, keys.size)
            numbers = keys // keys.dtype.type(self._bins)
            bins = (keys - numbers * keys.dtype.type(self._bins)).astype(np.int64)
            begins = np.flatnonzero(changes(numbers))
            yield first, _pairs(begins, bins, counts)
            first += begins.size


def _pairs(begins: Integers, bins: Integers, counts: Integers) -> Pairs:
    """Return the pairs of accounts by where those of each account begin."""
    users = np.repeat(np.arange(begins.size), sizes(begins, bins.size))
    return Pairs(users, bins, counts, np.add.reduceat(counts, begins))


def _apart(names: Digests, bits: npt.NDArray[np.uint64], order: Integers) -> tuple[Digests, npt.NDArray[np.bool_]]:
    """Put rows, sorted by the first bits of their names, in the order of whole names; and where another one begins."""
    new = changes(names[:, 0], names[:, 1])
    shared = new[1:] & (bits[1:] == bits[:-1])
    if shared.any():  # two accounts with the same first bits, or more: their rows alone are sorted
        theirs = np.flatnonzero(np.isin(bits, bits[1:][shared]))
        by_name = theirs[np.lexsort((names[theirs, 1], names[theirs, 0]))]
        order[theirs], names[theirs] = order[by_name], names[by_name]
        new = changes(names[:, 0], names[:, 1])
    return names, new


def _sum_keys(keys: Keys, counts: Integers) -> tuple[Keys, Integers]:
    """Return the different keys, sorted, and the sums of their counts, each cut at `MOST`."""
    order = np.argsort(keys)
    keys = keys[order]
    first = np.flatnonzero(changes(keys))
    return keys[first], np.minimum(np.add.reduceat(counts[order], first), MOST)
