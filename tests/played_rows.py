"""Rows of slots, with the ids that they were read from: tests give ids, and rows have names of accounts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import dpi
from dpi.budget.accounts import Accounts
from dpi.budget.charge import Charge
from dpi.events.identity import name_users
from dpi.events.rows import Rows
from dpi.exact.integers import Integers
from dpi.histogram.compression import Compression, Histogram, count, finish, normalise
from dpi.histogram.grouping import Groups
from dpi.sources import Admission, FileEvents, PlayedSlots, TableEvents
from dpi.stream.closing import Counting, Offer, weigh
from dpi.stream.options import StreamOptions

KEY = bytes(range(32))


def play(
    events: FileEvents | TableEvents, slots: dpi.Slots, domain: dpi.Domain, first: int, last: int, **options: object
) -> PlayedSlots:
    """The slots of a public period."""
    return events.slots(Admission(slots, domain, KEY, first, last), **options)  # type: ignore[arg-type]


def name(user: object) -> tuple[int, int]:
    """The name of a user's account."""
    (high, low), *_ = name_users([user], KEY)[0].tolist()
    return high, low


def users_of(rows: Rows, known: Iterable[object]) -> list[object]:
    """The user of each row, among those who are known."""
    by_name = {name(user): user for user in known}
    return [by_name[high, low] for high, low in rows.names.tolist()]


def row_of(users: object, bins: Integers, counts: Integers | None = None) -> Rows:
    """Rows of one slot, by ids."""
    names, _ = name_users(users, KEY)
    return Rows(names, np.zeros(bins.size, np.int64), bins, np.ones_like(bins) if counts is None else counts)


def weighed(
    options: StreamOptions, rows: Rows, accounts: Accounts | None, offer: Offer, slot: int
) -> tuple[Histogram, Charge | None]:
    """The histogram of a slot, and what it changes on the accounts."""
    counting = Counting.of(options)
    found, charge = weigh(counting, Groups(rows, counting.bins), accounts, offer, slot)
    return finish(found, options.compression, offer.histograms), charge


def grains(rows: Rows, bins: int, method: Compression = normalise) -> list[int]:
    """The histogram of a slot's rows, in which everybody counts in full."""
    return finish(count(Groups(rows, bins), bins, method), method).grains.tolist()
