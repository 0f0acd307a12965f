"""Accounts as records of 36 bytes: name (128 bits), units spent, active slots, epoch; and buckets of accounts.

A log of changes is a run of records, of each name the last of which counts. Names are keyed digests, so they are spread
evenly. Sees names of accounts; no id. Private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError, StateError
from dpi.events.identity import Digests
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
        """Return the bucket of each account."""
        if self.bits == 0:
            return np.zeros(len(names), dtype=np.int64)
        return (names[:, 0] >> np.uint64(64 - self.bits)).astype(np.int64)


STANDING = np.dtype([("spent", "<i8"), ("active", "<u4"), ("epoch", "<i8")])
_NAME = np.dtype([("high", "<u8"), ("low", "<u8")])
RECORD = np.dtype([("name", _NAME), ("standing", STANDING)])
"""An account as it is kept: a name, and what it holds."""
_NAME_BYTES, STANDING_BYTES, _RECORD_BYTES = (np.dtype((np.void, kind.itemsize)) for kind in (_NAME, STANDING, RECORD))
"""Names, standings and records as they are copied: as bytes, not field by field."""

Standings = npt.NDArray[np.void]
"""What accounts hold: records of `STANDING`."""

_PIECE = 1 << 16
"""Records of a range of names that are merged at once."""
_MOST_RUNS = 16
"""More sorted runs than that are sorted all at once."""


def select(standing: Standings, rows: npt.NDArray[np.bool_] | Integers) -> Standings:
    """Select some of the accounts: as `standing[rows]`, and several times as fast."""
    return standing.view(STANDING_BYTES)[rows].view(STANDING)


def concatenate(parts: Sequence[Standings]) -> Standings:
    """Join parts that are nobody else's to accounts in one piece."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, STANDING_BYTES), *(part.view(STANDING_BYTES) for part in parts)]).view(STANDING)


def to_records(names: Digests, standing: Standings) -> bytes:
    """Return accounts as records of 36 bytes."""
    records = np.empty(len(names), dtype=[("name", _NAME_BYTES), ("standing", STANDING_BYTES)])
    records["name"] = np.ascontiguousarray(names).view(_NAME_BYTES)[:, 0]
    records["standing"] = standing.view(STANDING_BYTES)
    return records.tobytes()


def split(records: npt.NDArray[np.void]) -> tuple[Digests, Standings]:
    """Split records into names, and what their accounts hold."""
    name, standing = records["name"], records["standing"]
    return np.stack([name["high"], name["low"]], axis=1), np.ascontiguousarray(standing)


def merged(*logs: bytes) -> bytes:
    """Merge logs of changes, the oldest first, into records sorted by name, of each name only the last.

    >>> names = np.array([[2, 0], [1, 0], [2, 0]], dtype=np.uint64)
    >>> log = to_records(names, np.array([(5, 1, 0), (6, 1, 0), (7, 2, 0)], dtype=STANDING))
    >>> np.frombuffer(merged(log), dtype=RECORD)["standing"]["spent"].tolist(), len(merged(log, log)) // 36
    ([6, 7], 2)
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
    output = BytesIO()  # hands over what it holds without a copy
    for at in range(ranges):
        sides = [slice(cut[at - 1] if at else 0, cut[at] if at < ranges - 1 else None) for cut in cuts]
        output.write(newest([run[side] for run, side in zip(runs, sides, strict=True)]).data)
    return output.getvalue()


def _whole_records(data: bytes) -> npt.NDArray[np.void]:
    if len(data) % RECORD.itemsize:
        raise StateError("the saved accounts are damaged: a record is incomplete.")
    return np.frombuffer(data, dtype=RECORD)


def _ascending(records: npt.NDArray[np.void]) -> list[npt.NDArray[np.void]]:
    """Cut records into runs whose names ascend: no run if there are no records."""
    high = records["name"]["high"]
    return np.split(records, np.flatnonzero(high[1:] < high[:-1]) + 1) if records.size else []


def newest(runs: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Merge runs, the oldest first, into records sorted by name, of each name only the last."""
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
    numbers, first = np.unique(at[order], return_index=True)
    words = records.view(_RECORD_BYTES)
    cut = zip(numbers.tolist(), np.split(order, first[1:]), strict=True)
    return [(bucket, words.take(rows).tobytes()) for bucket, rows in cut]
