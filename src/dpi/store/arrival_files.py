"""Events of open slots in files: what an engine's tasks write, and a slot's tasks read, bucket by bucket.

A file is what one task has made of some events. It has a section for each slot, and in it a segment for each bucket, so
that a task reads what is its own. A section is encrypted with a key of its own (AES-256-GCM), which stands in the
store's list and nowhere else.

**Erasure.** When a slot is paid for, the list of its sections is deleted in the same transaction, and with it the keys:
what is left of the slot in files, in backups of them or on freed blocks, is ciphertext that nobody can read. A section
that was changed, cut, or put in the place of another does not decrypt, and is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dpi.budget.account_records import Buckets
from dpi.errors import StateError
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.store.folder import MISSING, Folder

ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("bin", "<u4"), ("count", "<u4")])
"""A row of a segment: 24 bytes."""
_SEGMENT = np.dtype([("bucket", "<u4"), ("rows", "<u4")])
_TAG = 16
_FEW = 1 << 16
_NONCE = 12


@dataclass(frozen=True)
class Section:
    """Where one slot's events lie in a file, how they are read, and their control totals. Private."""

    slot: int
    name: str
    start: int
    size: int
    """Bytes in the file."""
    buckets: int
    """How many buckets have a segment."""
    rows: int = field(repr=False)
    events: int = field(repr=False)
    key: bytes = field(repr=False)


def sorted_by_bucket(events: Rows, buckets: Buckets) -> tuple[Rows, Integers]:
    """Events by slot and bucket, and the bucket of each."""
    at, slots = buckets.of(events.names), events.slots
    first = int(slots.min()) if slots.size else 0
    if int(slots.max(initial=first)) - first < _FEW >> buckets.bits:  # a sort in linear time
        order = np.argsort(((slots - first) * buckets.number + at).astype(np.uint16), kind="stable")
    else:
        order = np.lexsort((at, slots))
    return events.only(order), at[order]


def write_sections(
    folder: Folder, attempt: str, events: Rows, buckets: Integers, *, durable: bool = True
) -> list[Section]:
    """Write events, sorted by slot and bucket, to a new file; what a store lists of it. No file, if there are none.

    What is not `durable` is for the process that holds the sections alone: the keys are gone when it ends.
    """
    if not events.slots.size:
        return []
    body, sections = bytearray(), []
    cuts = np.flatnonzero(np.diff(events.slots)) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), events.slots.size], strict=True):
        here = slice(first, last)
        rows = np.empty(last - first, dtype=ROW)
        rows["high"], rows["low"] = events.names[here, 0], events.names[here, 1]
        rows["bin"], rows["count"] = events.bins[here], events.counts[here]
        key, slot = os.urandom(32), int(events.slots[first])
        data, number = _sealed(rows, buckets[here], slot, key)
        total = int(events.counts[here].sum())
        sections.append(Section(slot, "", len(body), len(data), number, last - first, total, key))
        body += data
    name = folder.new_name(attempt)
    folder.write(name, body, durable=durable)
    if durable:
        folder.sync()
    return [replace(section, name=name) for section in sections]


def _sealed(rows: npt.NDArray[np.void], buckets: Integers, slot: int, key: bytes) -> tuple[bytes, int]:
    """Return a section: the index of its segments, and the segments, each encrypted by itself."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    numbers, first = np.unique(buckets, return_index=True)
    ends = np.append(first[1:], rows.size)
    index = np.empty(numbers.size, dtype=_SEGMENT)
    index["bucket"], index["rows"] = numbers, ends - first
    cipher = AESGCM(key)
    parts = [cipher.encrypt(_nonce(0), index.tobytes(), _said(slot, numbers.size))]
    for bucket, start, end in zip(numbers.tolist(), first.tolist(), ends.tolist(), strict=True):
        parts.append(cipher.encrypt(_nonce(1 + bucket), rows[start:end].tobytes(), _said(slot, numbers.size)))
    return b"".join(parts), numbers.size


def _nonce(number: int) -> bytes:
    """Return the nonce of a segment: a key is used for one section, and a number in it for one segment."""
    return number.to_bytes(_NONCE, "big")


def _said(slot: int, buckets: int) -> bytes:
    return f"{slot}/{buckets}".encode()


def read_segments(folder: Folder, section: Section, first: int = 0, last: int | None = None) -> Iterator[Rows]:
    """Yield the events of the buckets `first` to before `last` (all, unless said), a bucket at a time.

    Raises `StateError` if the file is missing, or anything of it is not as it was written.
    """
    index_size = section.buckets * _SEGMENT.itemsize + _TAG
    head = folder.read(section.name, section.start, index_size)
    index = np.frombuffer(_opened(section, 0, head), dtype=_SEGMENT)
    sizes = index["rows"].astype(np.int64) * ROW.itemsize + _TAG
    starts = section.start + index_size + np.append(0, np.cumsum(sizes))
    if int(starts[-1]) != section.start + section.size or int(index["rows"].sum()) != section.rows:
        raise StateError(MISSING)
    wanted = np.flatnonzero((index["bucket"] >= first) & (index["bucket"] < (1 << 32 if last is None else last)))
    for at in wanted.tolist():
        data = folder.read(section.name, int(starts[at]), int(sizes[at]))
        rows = np.frombuffer(_opened(section, 1 + int(index["bucket"][at]), data), dtype=ROW)
        yield Rows(
            np.stack([rows["high"], rows["low"]], axis=1),
            np.full(rows.size, section.slot, dtype=np.int64),
            rows["bin"].astype(np.int64),
            rows["count"].astype(np.int64),
        )


def _opened(section: Section, number: int, data: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(section.key).decrypt(_nonce(number), data, _said(section.slot, section.buckets))
    except InvalidTag:
        raise StateError(MISSING) from None
