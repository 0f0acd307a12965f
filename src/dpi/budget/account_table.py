"""A table of accounts by name, in memory.

Names are keyed digests, so they are spread evenly. Accounts lie in two sorted runs: a large one, and a small one with
the recent newcomers, merged into the large one when it has grown to an eighth of it. Looking up m accounts among n
costs a sort of m and m searches; there are no Python objects. Sees names of accounts; no id. Private.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from dpi.budget.account_records import RECORD, STANDING, STANDING_BYTES, Standings, merged, select, to_records
from dpi.events.identity import Digests, by_first_half
from dpi.exact.integers import Integers

_SMALLEST_MERGE = 1 << 16
_PIECE = 1 << 16
"""Rows whose positions are worked on at once."""
ABSENT = -1
_NOWHERE = np.int64(ABSENT).tobytes()


@dataclass(frozen=True, eq=False, repr=False)
class AccountPositions:
    """Positions of names in a table, valid until the table is written to. Rows are sorted by name."""

    names: Digests
    order: Integers
    """`names` are the caller's rows in this order."""
    at: tuple[Integers, ...]
    """Position in each run, `ABSENT` where a name is not in it."""
    held: Standings | None = None
    """What the accounts hold, where that was read with their positions."""

    def only(self, rows: npt.NDArray[np.bool_]) -> AccountPositions:
        """Return the positions of some of the (sorted) rows."""
        held = None if self.held is None else select(self.held, rows)
        return AccountPositions(
            self.names.compress(rows, axis=0), self.order[rows], tuple([at[rows] for at in self.at]), held
        )

    def rows(self, rows: slice) -> AccountPositions:
        """Return the positions of some rows that follow each other; nothing is copied."""
        if rows.start == 0 and rows.stop >= self.order.size:
            return self
        held = None if self.held is None else self.held[rows]
        return AccountPositions(self.names[rows], self.order[rows], tuple(at[rows] for at in self.at), held)

    @property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """Rows whose name stands in another row already (all but one of each)."""
        repeated = np.zeros(self.order.size, dtype=np.bool_)
        high = self.names[:, 0]
        if (high[1:] == high[:-1]).any():
            order = np.lexsort((self.names[:, 1], high))
            names = self.names[order]
            repeated[order[1:]] = (names[1:] == names[:-1]).all(axis=1)
        return repeated

    def pieces(self) -> list[tuple[slice, AccountPositions]]:
        """Return all rows and their positions: so many at a time that what is made of them stays in the cache."""
        if self.order.size <= _PIECE:
            return [(slice(0, self.order.size), self)] if self.order.size else []
        pieces = [slice(start, start + _PIECE) for start in range(0, self.order.size, _PIECE)]
        return [(rows, self.rows(rows)) for rows in pieces]


class AccountsByName(Protocol):
    """Accounts by name, wherever they are."""

    def find(self, names: Digests) -> AccountPositions:
        """Find where the names stand."""

    def here(self, positions: AccountPositions) -> AccountPositions:
        """Find where names with positions in another table stand in this one."""

    def get(self, positions: AccountPositions) -> Standings:
        """Return what each account holds, in the order of the positions; zeros for a name that has no account."""

    def put(self, positions: AccountPositions, standing: Standings) -> None:
        """Write the accounts of different names, opening those that are new."""

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """Yield all names, and what their accounts hold, a part of the names at a time."""


class AccountTable:
    """Accounts by name.

    >>> accounts, names = AccountTable(), np.array([[3, 4], [1, 2]], dtype=np.uint64)
    >>> positions = accounts.find(names[:1])
    >>> accounts.put(positions, np.array([(7, 1, 0)], dtype=STANDING))
    >>> positions = accounts.find(names)
    >>> positions.order.tolist(), accounts.get(positions).tolist()
    ([1, 0], [(0, 0, 0), (7, 1, 0)])
    """

    def __init__(self) -> None:
        self._runs = [_Run.empty(), _Run.empty()]

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes held by the accounts."""
        return sum(run.high.nbytes + run.low.nbytes + run.standing.nbytes for run in self._runs)

    def find(self, names: Digests) -> AccountPositions:
        """Find where the names stand."""
        order = by_first_half(names)
        return self.here(AccountPositions(names.take(order, axis=0), order, ()))

    def here(self, positions: AccountPositions) -> AccountPositions:
        """Find where names with positions in another table stand in this one."""
        large, recent = self._runs
        return AccountPositions(
            positions.names, positions.order, (large.find(positions.names), recent.find(positions.names))
        )

    def get(self, positions: AccountPositions) -> Standings:
        """Return what each account holds, in the order of the positions; zeros for a name that has no account."""
        standing = np.zeros(positions.order.size, dtype=STANDING_BYTES)
        for run, at in zip(self._runs, positions.at, strict=True):
            if run.high.size:
                np.copyto(standing, run.standing.view(STANDING_BYTES).take(at, mode="wrap"), where=at != ABSENT)
        return standing.view(STANDING)

    def put(self, positions: AccountPositions, standing: Standings) -> None:
        """Write the accounts of different names, opening those that are new."""
        new = np.ones(positions.order.size, dtype=np.bool_)
        for run, at in zip(self._runs, positions.at, strict=True):
            here = at != ABSENT
            if here.any():
                run.standing.view(STANDING_BYTES)[at[here]] = select(standing, here).view(STANDING_BYTES)
                new &= ~here
        if new.any():
            fresh = _Run(positions.names[new, 0].copy(), positions.names[new, 1].copy(), select(standing, new))
            large, recent = self._runs
            recent = recent.merged(fresh)
            if recent.high.size > max(_SMALLEST_MERGE, large.high.size // 8):
                large, recent = large.merged(recent), _Run.empty()
            self._runs = [large, recent]

    def everybody(self) -> tuple[Digests, Standings]:
        """Return all names, and what their accounts hold."""
        names = np.concatenate([np.stack([run.high, run.low], axis=1) for run in self._runs])
        return names, np.concatenate([run.standing for run in self._runs])

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """Yield all of them at once."""
        yield self.everybody()

    def to_bytes(self) -> bytes:
        """Encode all accounts as records."""
        return to_records(*self.everybody())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the accounts of records; where a name stands more than once, the last record counts."""
        records = np.frombuffer(merged(data), dtype=RECORD)
        accounts = cls()
        name = records["name"]
        accounts._runs[0] = _Run(name["high"].copy(), name["low"].copy(), records["standing"].copy())
        return accounts


def largest(table: AccountsByName) -> int:
    """Return the most that any account has spent."""
    return max((int(standing["spent"].max(initial=0)) for _, standing in table.parts()), default=0)


@dataclass(frozen=True, eq=False, repr=False)
class _Run:
    """Accounts sorted by the high half of their names."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    standing: Standings

    @classmethod
    def empty(cls) -> Self:
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, STANDING))

    def __len__(self) -> int:
        return self.high.size

    def find(self, names: Digests) -> Integers:
        """Find where each of the names, sorted by their high half, stands; `ABSENT` if it does not."""
        if not self.high.size:
            return np.ndarray(len(names), np.int64, _NOWHERE, strides=(0,))  # takes no memory
        result = np.full(len(names), ABSENT, dtype=np.int64)
        high = np.ascontiguousarray(names[:, 0])
        at = np.searchsorted(self.high, high)
        np.minimum(at, self.high.size - 1, out=at)
        same_high = self.high[at] == high
        same = same_high & (self.low[at] == names[:, 1])
        np.copyto(result, at, where=same)
        rows = np.flatnonzero(same_high & ~same)
        at = at[rows] + 1
        while rows.size:  # only where two names share their high half
            inside = at < self.high.size
            at, rows = at[inside], rows[inside]
            same_high = self.high[at] == high[rows]
            same = same_high & (self.low[at] == names[rows, 1])
            result[rows[same]] = at[same]
            again = same_high & ~same
            at, rows = at[again] + 1, rows[again]
        return result

    def merged(self, other: _Run) -> _Run:
        """Merge both runs; a stable sort merges two sorted halves in linear time."""
        if not self.high.size or not other.high.size:
            return self if self.high.size else other
        high = np.concatenate([self.high, other.high])
        order = np.argsort(high, kind="stable")
        low = np.concatenate([self.low, other.low])
        return _Run(high[order], low[order], select(np.concatenate([self.standing, other.standing]), order))
