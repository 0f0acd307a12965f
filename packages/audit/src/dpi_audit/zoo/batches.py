"""Batches: what one user's rows do to the rows of others."""

from __future__ import annotations

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import truncate
from dpi_audit import neighbours
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.small import SLOTS, VALUES, stream_session
from dpi_audit.zoo.base import Counts, Pair, on, units

BROKEN_ROWS = neighbours.broken_rows(SLOTS, VALUES)
GIANT = neighbours.giant(SLOTS, VALUES)
CAPACITY = 100


def broken_batch() -> Counts:
    """A value that is none raises, and the batch is lost: one user's NaN silences a slot."""

    def count(rows: Rows) -> Integers:
        readable = all(value in VALUES for _, value in rows)
        return units(rows if readable else ())

    return Counts(count)


def broken_queue() -> Counts:
    """A queue of a hundred rows for everybody: one user's flood pushes the others out."""
    return Counts(lambda rows: units(rows[:CAPACITY]))


def broken_records() -> Counts:
    """Every row counts one: a user with 400 rows counts 400."""

    def count(rows: Rows) -> Integers:
        bins = [VALUES.index(str(value)) for _, value in rows]
        return np.bincount(bins, minlength=len(VALUES)) * GRAINS

    return Counts(count)


def _first_rows(slot: int) -> Rows:
    """The user's one row stands before those of others, who have several each."""
    others = tuple((f"other-{i}", VALUES[(i + j) % 3]) for i in range(6) for j in range(3))
    return ((TARGET, VALUES[0]), *others)


ROW_NUMBERS = pair("first row", [_first_rows(slot) for slot in range(SLOTS)])


def broken_truncation() -> Counts:
    """Of each user's rows the one with the lowest hash of its *row number* is kept: one row more moves all numbers."""

    def count(rows: Rows) -> Integers:
        kept: dict[str, tuple[int, object]] = {}
        for number, (user, value) in enumerate(rows):
            mixed = (number * 2654435761) % 2**32
            if str(user) not in kept or mixed < kept[str(user)][0]:
                kept[str(user)] = mixed, value
        return units(tuple((user, value) for user, (_, value) in kept.items()))

    return Counts(count)


PAIRS = (
    Pair(
        "a batch that fails on one row",
        "a row is dropped by itself",
        on(broken_batch, BROKEN_ROWS),
        on(stream_session(), BROKEN_ROWS),
    ),
    Pair(
        "a shared queue that drops under a flood",
        "per-user caps come before anything shared",
        on(broken_queue, GIANT),
        on(stream_session(), GIANT),
    ),
    Pair(
        "bounding per record, not per user",
        "one user, one unit",
        on(broken_records, GIANT, runs=512),
        on(stream_session(), GIANT),
    ),
    Pair(
        "truncation by row number",
        "which rows are kept is decided by the user's own content",
        on(broken_truncation, ROW_NUMBERS),
        on(stream_session(compression=truncate(1, bytes(range(32)))), ROW_NUMBERS),
    ),
)
