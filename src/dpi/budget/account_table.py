"""A table of accounts in 36 bytes each: name (128 bits), units spent, active slots, epoch; and buckets of accounts.

Names are keyed digests, so they are spread evenly. Accounts lie in two sorted runs: a large one, and a small one with
the recent newcomers, merged into the large one when it has grown to an eighth of it. Looking up m accounts among n
costs a sort of m and m searches; there are no Python objects. Sees names of accounts; no id. Private.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError, StateError
from dpi.events.identity import Digests, by_first_half
from dpi.exact.integers import Integers

MOST_BITS = 16


@dataclass(frozen=True)
class Buckets:
    """2^bits buckets, the parts of a ledger that can be worked on apart: the first bits of an account's name.

    So they are of equal size but for chance. To have more of them, a ledger is laid out anew (`dpi ledger --layout`).

    >>> names = np.array([[2**63, 0], [0, 2**63], [2**64 - 1, 0]], dtype=np.uint64)
    >>> Buckets(2).of(names).tolist(), Buckets(0).of(names).tolist()
    ([2, 0, 3], [0, 0, 0])
    """

    bits: int

    def __post_init__(self) -> None:
        if type(self.bits) is not int or not 0 <= self.bits <= MOST_BITS:
            raise OptionError(f"`bits` must be a whole number from 0 to {MOST_BITS}. Got {self.bits!r}.")

    @property
    def number(self) -> int:
        """How many there are."""
        return 1 << self.bits

    def of(self, names: Digests) -> Integers:
        """The bucket of each account."""
        if self.bits == 0:
            return np.zeros(len(names), dtype=np.int64)
        return (names[:, 0] >> np.uint64(64 - self.bits)).astype(np.int64)


STANDING = np.dtype([("spent", "<i8"), ("active", "<u4"), ("epoch", "<i8")])
_NAME = np.dtype([("high", "<u8"), ("low", "<u8")])
RECORD = np.dtype([("name", _NAME), ("standing", STANDING)])
"""An account as it is kept: a name, and what it holds."""
_NAME_BYTES, _BYTES, _RECORD_BYTES = (np.dtype((np.void, kind.itemsize)) for kind in (_NAME, STANDING, RECORD))
"""Names, standings and records as they are copied: as bytes, not field by field."""

Standings = npt.NDArray[np.void]
"""What accounts hold: records of `STANDING`."""

_SMALLEST_MERGE = 1 << 16
_PIECE = 1 << 16
_MOST_RUNS = 16
"""More sorted runs than that are sorted all at once."""
ABSENT = -1
_NOWHERE = np.int64(ABSENT).tobytes()


@dataclass(frozen=True, eq=False, repr=False)
class Place:
    """Where names stand in the table, valid until the table is written to. Rows are sorted by name."""

    names: Digests
    order: Integers
    """`names` are the caller's rows in this order."""
    at: tuple[Integers, ...]
    """Position in each run, `ABSENT` where a name is not in it."""
    held: Standings | None = None
    """What the accounts hold, where that was read with their places."""

    def only(self, rows: npt.NDArray[np.bool_]) -> Place:
        """The place of some of the (sorted) rows."""
        held = None if self.held is None else chosen(self.held, rows)
        return Place(self.names.compress(rows, axis=0), self.order[rows], tuple([at[rows] for at in self.at]), held)

    def rows(self, rows: slice) -> Place:
        """The place of some rows that follow each other; nothing is copied."""
        if rows.start == 0 and rows.stop >= self.order.size:
            return self
        held = None if self.held is None else self.held[rows]
        return Place(self.names[rows], self.order[rows], tuple(at[rows] for at in self.at), held)

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

    def pieces(self) -> list[tuple[slice, Place]]:
        """All rows, and their places: so many at a time that what is made of them stays in the cache."""
        if self.order.size <= _PIECE:
            return [(slice(0, self.order.size), self)] if self.order.size else []
        pieces = [slice(start, start + _PIECE) for start in range(0, self.order.size, _PIECE)]
        return [(rows, self.rows(rows)) for rows in pieces]


class AccountsByName(Protocol):
    """Accounts by name, wherever they are."""

    def find(self, names: Digests) -> Place:
        """Where the names stand."""

    def here(self, place: Place) -> Place:
        """Where the names of a place in another table stand in this one."""

    def get(self, place: Place) -> Standings:
        """What each account holds, in the order of the place; zeros for a name that has no account."""

    def put(self, place: Place, standing: Standings) -> None:
        """Write the accounts of different names, opening those that are new."""

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """All names, and what their accounts hold, a part of the names at a time."""


class AccountTable:
    """Accounts by name.

    >>> accounts, names = AccountTable(), np.array([[3, 4], [1, 2]], dtype=np.uint64)
    >>> place = accounts.find(names[:1])
    >>> accounts.put(place, np.array([(7, 1, 0)], dtype=STANDING))
    >>> place = accounts.find(names)
    >>> place.order.tolist(), accounts.get(place).tolist()
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

    def find(self, names: Digests) -> Place:
        """Where the names stand."""
        order = by_first_half(names)
        return self.here(Place(names.take(order, axis=0), order, ()))

    def here(self, place: Place) -> Place:
        """Where the names of a place in another table stand in this one."""
        large, recent = self._runs
        return Place(place.names, place.order, (large.find(place.names), recent.find(place.names)))

    def get(self, place: Place) -> Standings:
        """What each account holds, in the order of the place; zeros for a name that has no account."""
        standing = np.zeros(place.order.size, dtype=_BYTES)
        for run, at in zip(self._runs, place.at, strict=True):
            if run.high.size:
                np.copyto(standing, run.standing.view(_BYTES).take(at, mode="wrap"), where=at != ABSENT)
        return standing.view(STANDING)

    def put(self, place: Place, standing: Standings) -> None:
        """Write the accounts of different names, opening those that are new."""
        new = np.ones(place.order.size, dtype=np.bool_)
        for run, at in zip(self._runs, place.at, strict=True):
            here = at != ABSENT
            if here.any():
                run.standing.view(_BYTES)[at[here]] = chosen(standing, here).view(_BYTES)
                new &= ~here
        if new.any():
            fresh = _Run(place.names[new, 0].copy(), place.names[new, 1].copy(), chosen(standing, new))
            large, recent = self._runs
            recent = recent.merged(fresh)
            if recent.high.size > max(_SMALLEST_MERGE, large.high.size // 8):
                large, recent = large.merged(recent), _Run.empty()
            self._runs = [large, recent]

    def everybody(self) -> tuple[Digests, Standings]:
        """All names, and what their accounts hold."""
        names = np.concatenate([np.stack([run.high, run.low], axis=1) for run in self._runs])
        return names, np.concatenate([run.standing for run in self._runs])

    def parts(self) -> Iterator[tuple[Digests, Standings]]:
        """All of them at once."""
        yield self.everybody()

    def to_bytes(self) -> bytes:
        """All accounts as records."""
        return to_records(*self.everybody())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The accounts of records; where a name stands more than once, the last record counts."""
        records = np.frombuffer(merged(data), dtype=RECORD)
        accounts = cls()
        name = records["name"]
        accounts._runs[0] = _Run(name["high"].copy(), name["low"].copy(), records["standing"].copy())
        return accounts


def largest(table: AccountsByName) -> int:
    """The most that any account has spent."""
    return max((int(standing["spent"].max(initial=0)) for _, standing in table.parts()), default=0)


def chosen(standing: Standings, rows: npt.NDArray[np.bool_] | Integers) -> Standings:
    """Some of the accounts: as `standing[rows]`, and several times as fast."""
    return standing.view(_BYTES)[rows].view(STANDING)


def together(parts: Sequence[Standings]) -> Standings:
    """Accounts in one piece, of parts that are nobody else's."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, _BYTES), *(part.view(_BYTES) for part in parts)]).view(STANDING)


def to_records(names: Digests, standing: Standings) -> bytes:
    """Accounts as records of 36 bytes."""
    records = np.empty(len(names), dtype=[("name", _NAME_BYTES), ("standing", _BYTES)])
    records["name"] = np.ascontiguousarray(names).view(_NAME_BYTES)[:, 0]
    records["standing"] = standing.view(_BYTES)
    return records.tobytes()


def parted(records: npt.NDArray[np.void]) -> tuple[Digests, Standings]:
    """Return the names of records, and what their accounts hold."""
    name, standing = records["name"], records["standing"]
    return np.stack([name["high"], name["low"]], axis=1), np.ascontiguousarray(standing)


def merged(*logs: bytes) -> bytes:
    """Records sorted by name, the last of each name only: what logs of changes, one after the other, amount to.

    >>> names = np.array([[2, 0], [1, 0], [2, 0]], dtype=np.uint64)
    >>> log = to_records(names, np.array([(5, 1, 0), (6, 1, 0), (7, 2, 0)], dtype=STANDING))
    >>> largest(AccountTable.from_bytes(merged(log))), len(merged(log, log)) // 36
    (7, 2)
    """
    runs = [run for log in logs for run in _ascending(_whole_records(log))]
    if not runs:
        return b""
    if len(runs) > _MOST_RUNS:
        return newest(runs).tobytes()
    # Range after range of names, all of about one size since names are spread evenly: so little memory is touched.
    ranges = 1 + sum(map(len, runs)) // _PIECE
    borders = np.array([(at << 64) // ranges for at in range(1, ranges)], dtype=np.uint64)
    cuts = [np.searchsorted(run["name"]["high"], borders).tolist() for run in runs]
    found = BytesIO()  # hands over what it holds without a copy
    for at in range(ranges):
        sides = [slice(cut[at - 1] if at else 0, cut[at] if at < ranges - 1 else None) for cut in cuts]
        found.write(newest([run[side] for run, side in zip(runs, sides, strict=True)]).data)
    return found.getvalue()


def _whole_records(data: bytes) -> npt.NDArray[np.void]:
    if len(data) % RECORD.itemsize:
        raise StateError("the saved accounts are damaged: a record is incomplete.")
    return np.frombuffer(data, dtype=RECORD)


def _ascending(records: npt.NDArray[np.void]) -> list[npt.NDArray[np.void]]:
    """Records cut into runs whose names ascend; none, if there are none."""
    high = records["name"]["high"]
    return np.split(records, np.flatnonzero(high[1:] < high[:-1]) + 1) if records.size else []


def newest(runs: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Records of runs, the oldest run first, sorted by name, the last of each name only."""
    records = np.concatenate([run.view(_RECORD_BYTES) for run in runs]).view(RECORD)
    high, low = (np.ascontiguousarray(records["name"][half]) for half in ("high", "low"))
    order = np.argsort(high, kind="stable")  # equal names stay in the order of the log; sorted runs merge quickly
    high = high[order]
    same = high[1:] == high[:-1]
    if same.any():
        low = low[order]
        other = low[1:] != low[:-1]
        if (same & other).any():  # two names share a high half: rare, n²/2^65
            within = np.lexsort((low, high))
            order, high, low = order[within], high[within], low[within]
            same, other = high[1:] == high[:-1], low[1:] != low[:-1]
        order = order[np.append(~same | other, np.True_)]
    return records.view(_RECORD_BYTES).take(order).view(RECORD)


def by_bucket(data: bytes, buckets: Buckets) -> list[tuple[int, bytes]]:
    """Return the records of each bucket that has any, in their order."""
    records = _whole_records(data)
    if not data or buckets.bits == 0:
        return [(0, data)] if data else []
    at = buckets.of(records["name"]["high"].reshape(-1, 1))
    order = np.argsort(at, kind="stable")
    found, first = np.unique(at[order], return_index=True)
    words = records.view(_RECORD_BYTES)
    cut = zip(found.tolist(), np.split(order, first[1:]), strict=True)
    return [(bucket, words.take(rows).tobytes()) for bucket, rows in cut]


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
        """Where each of the names, sorted by their high half, stands; `ABSENT` if it does not."""
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
        """Both runs in one; a stable sort merges two sorted halves in linear time."""
        if not self.high.size or not other.high.size:
            return self if self.high.size else other
        high = np.concatenate([self.high, other.high])
        order = np.argsort(high, kind="stable")
        low = np.concatenate([self.low, other.low])
        return _Run(high[order], low[order], chosen(np.concatenate([self.standing, other.standing]), order))
