"""The slot job: two pure functions over buckets of accounts, between which an engine only moves bytes.

    arrivals    some events                                     →  rows (slot, bucket, account, bin, number)
    closed      one bucket's rows of a slot, and its accounts   →  grains, and what changes on the accounts

Neither draws, pays or publishes anything: that is the driver's (`dpi.engine.driver`), once for a slot. So both may be
run again, twice at the same time, or on another machine, and what is made of the results is the same bytes.

**Guarantee.** The grains of all buckets add up to those of the embedded stream, and the changed accounts are the same.
*Why.* A user's account is in one bucket, so all rows of the user meet there; what they add, and what the account pays,
is a function of these rows, the account and public numbers (`dpi.stream.closing.contributed`); and whole numbers are
added exactly, in any order. So a bucket's result does not depend on others, nor on how rows were cut into batches.

`arrivals` sees users, `closed` sees names of accounts; neither sees randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpi.budget.account_table import Buckets
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Ledger
from dpi.domain.overlap import Domains
from dpi.errors import StateError
from dpi.events.clock import Window
from dpi.events.identity import KEY_BYTES, Digests, digests
from dpi.events.slots import Slots
from dpi.exact.integers import MOST, Integers
from dpi.histogram.grouping import StoredRows
from dpi.store.arrival_files import sorted_by_bucket
from dpi.store.base import Levy, OpenEvents
from dpi.stream.admission.events import Events, Names, accepted
from dpi.stream.closing import Counting, Offer, contributed

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("slot", "bucket", "high", "low", "bin", "count")
"""Of arrivals: which slot and bucket, the two words of the account's name, the bin, and how many equal events."""
FOR_EVER = Window(np.iinfo(np.int64).min, np.iinfo(np.int64).max)
"""What is played admits an event by its slot alone."""


@dataclass(frozen=True, repr=False)
class Reading:
    """How events become arrivals: public, but for the key that names accounts."""

    slots: Slots
    domains: Domains
    first: int
    """The first slot that is open …"""
    last: int | None
    """… and the first that is not any more, if the period has an end."""
    names: Names
    buckets: Buckets


class Control(NamedTuple):
    """Control totals of rows: how many there are, and of how many events. Private."""

    rows: int = 0
    events: int = 0

    def plus(self, other: Control) -> Control:
        """Of both together."""
        return Control(self.rows + other.rows, self.events + other.events)


@dataclass(frozen=True, repr=False)
class Holdings:
    """What accounts of one bucket hold: records in the order in which they were written. Private."""

    records: bytes = b""
    payments: bytes = b""
    """What they have paid in this stream, if it measures by class."""


@dataclass(frozen=True, repr=False)
class Closing:
    """A slot that is closed: public, but for the key of a `truncate`. No key of accounts is in it."""

    counting: Counting
    offer: Offer
    slot: int
    budget: Ledger | None
    """What accounts are spent by; None if the stream has none."""
    epsilon: Epsilon
    """What each user may lose."""
    levies: tuple[Levy, ...] = ()
    assigned: int = 0
    """What the accounts do not hold of ε, since it is in other quotas, or in the rest: units."""


@dataclass(frozen=True, eq=False, repr=False)
class ClosedBucket:
    """What a bucket's users add to a slot, and what that changes on their accounts. Private."""

    bucket: int
    grains: Integers
    """Of each class and bin, before `finish`."""
    records: bytes
    """The accounts that pay, as they are afterwards."""
    payments: bytes | None
    """The same of the stream's own table, where users are measured by class."""
    control: Control
    """Of the rows that were read."""


def arrivals(events: Events, window: Window, reading: Reading) -> pl.DataFrame:
    """The events that count, as rows by slot and bucket: equal ones are one row, and its number is cut at `MOST`.

    An event that the window does not admit, of a slot outside the period, or without user or bin is dropped by itself.

    >>> from dpi.domain import Categories
    >>> hours = Reading(Slots("1h"), Categories(["x"]), 0, 2, Names(bytes(32), 2), Buckets(1))
    >>> events = Events(["a", "a", "b", "b", None], [0, 5, 3600, 7200, 0], ["x"] * 5, "s")
    >>> rows = arrivals(events, FOR_EVER, hours)
    >>> rows.select("slot", "count").rows()
    [(0, 2), (1, 1)]
    """
    ids, slots, bins = accepted(
        events,
        window,
        slots=reading.slots,
        first=reading.first,
        last=reading.last,
        domain=reading.domains,
        rule=reading.names.rule,
    )
    return presummed(digests(ids, reading.names.key), slots, bins, reading.buckets)


def presummed(names: Digests, slots: Integers, bins: Integers, buckets: Buckets) -> pl.DataFrame:
    """Events as rows by slot and bucket; equal ones are one row, but for a few that are left to `closed`.

    Slot, first bits of the name, bin and the event's number are sorted as one word, so that equal ones are neighbours
    unless another name begins alike. That is fast, and enough: it is there to make a flood small.
    """
    size, first = slots.size, int(slots.min()) if slots.size else 0
    spare, width = max(1, size - 1).bit_length(), int(bins.max(initial=0)).bit_length()
    high_bits = 64 - spare - width - (int(slots.max()) - first if size else 0).bit_length()
    if high_bits < max(1, buckets.bits):
        counts = np.ones(size, dtype=np.int64)
        return table_of(*sorted_by_bucket(OpenEvents(names, slots, bins, counts), buckets))
    words = (slots - first).astype(np.uint64) << np.uint64(high_bits)
    words |= names[:, 0] >> np.uint64(64 - high_bits)
    words = (words << np.uint64(width)) | bins.astype(np.uint64)
    words = (words << np.uint64(spare)) | np.arange(size, dtype=np.uint64)
    words.sort()
    order = (words & np.uint64((1 << spare) - 1)).astype(np.int64)
    names, slots, bins = names.take(order, axis=0), slots[order], bins[order]
    same = (names[1:, 0] == names[:-1, 0]) & (names[1:, 1] == names[:-1, 1])
    same &= (slots[1:] == slots[:-1]) & (bins[1:] == bins[:-1])
    kept = np.flatnonzero(np.append(np.ones(min(1, size), np.bool_), ~same))
    counts = np.minimum(np.diff(kept, append=size), MOST)
    events = OpenEvents(names.take(kept, axis=0), slots[kept], bins[kept], counts)
    return table_of(events, buckets.of(events.names))


def table_of(events: OpenEvents, buckets: Integers) -> pl.DataFrame:
    """Stored events as rows, which are sorted by slot and bucket."""
    import polars as pl

    columns = (events.slots, buckets, events.names[:, 0], events.names[:, 1], events.bins, events.counts)
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def stored(rows: pl.DataFrame) -> OpenEvents:
    """Rows as the events that a store keeps."""
    slots, _, high, low, bins, counts = (rows[name].to_numpy() for name in COLUMNS)
    return OpenEvents(np.stack([high, low], axis=1), slots, bins, counts)


def control_of(rows: OpenEvents) -> Control:
    """The totals of some rows."""
    return Control(rows.counts.size, int(rows.counts.sum()))


def closed(rows: OpenEvents, bucket: int, buckets: Buckets, holdings: Holdings, closing: Closing) -> ClosedBucket:
    """What one bucket's rows of a slot add and change: nothing is drawn, paid or written.

    Rows of one account and bin are made one, however they came: two would be rounded apart, and add other grains.
    Raises `StateError` if a row is of another bucket or slot.
    """
    control = control_of(rows)
    if (rows.slots != closing.slot).any() or (buckets.of(rows.names) != bucket).any():
        raise StateError("the slot's events are damaged: some are of another slot or bucket.")
    accounts = None
    if closing.budget is not None:
        accounts = closing.budget.accounts(closing.epsilon, bytes(KEY_BYTES))  # users are named already
        payments = {closing.counting.stream: holdings.payments} if closing.offer.classes else {}
        accounts.resume(holdings.records, {}, [], payments)
        accounts.assign(closing.assigned)
        for levy in closing.levies:
            accounts.levy(levy.units, levy.slot)
    kept = StoredRows(rows.names, rows.bins, rows.counts)
    grains, charge = contributed(closing.counting, kept, accounts, closing.offer, closing.slot)
    if charge is None:
        return ClosedBucket(bucket, grains, b"", None, control)
    own = None if charge.own is None else charge.payments()
    return ClosedBucket(bucket, grains, charge.records(), own, control)
