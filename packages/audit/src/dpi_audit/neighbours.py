"""Neighbouring streams: the same rows with, and without, all rows of one user.

Each family is a way in which a mechanism may lose its promise: a user in every slot, one who is a crowd by rows, one
who leaves and comes back, one who is there at both ends of an epoch, one whose shares do not divide, one whose events
come late or from the future, one whose id has several types, one who pays in other slots than others. `mutate` changes
what the user does a little: the search in `dpi_audit.exact` climbs with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from dpi.events.columns import canonical
from dpi.events.slots import Clock, Slots

Row = tuple[object, object]
"""(user, value)"""
Rows = tuple[Row, ...]
"""The rows of one slot."""

TARGET: object = "zq-private-target"
"""The user who is in one of the two streams."""


@dataclass(frozen=True)
class Neighbours:
    """Two streams, slot by slot: `other` is `one` without one user."""

    name: str
    one: tuple[Rows, ...]
    other: tuple[Rows, ...]
    user: object = TARGET

    def __len__(self) -> int:
        return len(self.one)

    def first(self, slots: int) -> Neighbours:
        """Return the first slots alone."""
        return Neighbours(self.name, self.one[:slots], self.other[:slots], self.user)

    def describe(self) -> str:
        """Say the witness in words: in which slots the user was there, and with how many rows."""
        there = [(t, len(a) - len(b)) for t, (a, b) in enumerate(zip(self.one, self.other, strict=True)) if a != b]
        rows = ", ".join(f"{t}" if n == 1 else f"{t} (×{n})" for t, n in there[:12])
        return f"{self.name}: user in {len(there)} of {len(self)} slots: {rows}{' …' if len(there) > 12 else ''}"


def pair(name: str, slots: Sequence[Rows], user: object = TARGET) -> Neighbours:
    """Return the slots, and the slots without the user; ids are compared by canonical text: 7, 7.0 and "7" are one."""
    ids = list({someone for rows in slots for someone, _ in rows})
    *names, name_of_user = canonical([*ids, user, None], "user").cast(pl.String).to_list()[:-1]
    same = {someone for someone, text in zip(ids, names, strict=True) if text == name_of_user}
    other = tuple(tuple(row for row in rows if row[0] not in same) for rows in slots)
    return Neighbours(name, tuple(slots), other, user)


Family = Callable[[int, Sequence[object]], Neighbours]
"""Makes neighbours of so many slots with values of a domain."""


def _crowd(slot: int, values: Sequence[object], size: int = 6) -> Rows:
    """Others, who come and go: a third of them is new in every slot."""
    return tuple((f"other-{slot // 3 if i % 3 else slot}-{i}", values[(slot + i) % len(values)]) for i in range(size))


def _sometimes(name: str, slots: int, values: Sequence[object], rows: Callable[[int], Rows]) -> Neighbours:
    """Return a crowd, and rows of the user that depend on the slot."""
    return pair(name, [_crowd(t, values) + rows(t) for t in range(slots)])


def alone(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user alone in every slot: a total, a domain or an empty slot would show them."""
    return pair("alone", [((TARGET, values[0]),) for _ in range(slots)])


def every_slot(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user in every slot, among others."""
    return _sometimes("every slot", slots, values, lambda t: ((TARGET, values[t % len(values)]),))


def giant(slots: int, values: Sequence[object]) -> Neighbours:
    """Give the user four hundred rows in every third slot, between the rows of others."""
    flood = tuple((TARGET, values[i % len(values)]) for i in range(400))
    rest = [flood[200:] if t % 3 == 0 else () for t in range(slots)]
    return pair("giant", [(*flood[:200], *_crowd(t, values), *rest[t]) for t in range(slots)])


def returning(slots: int, values: Sequence[object]) -> Neighbours:
    """Let the user leave after a third of the time, and come back for the last third."""
    third = max(1, slots // 3)
    there = {*range(third), *range(slots - third, slots)}
    return _sometimes("leaves and returns", slots, values, lambda t: ((TARGET, values[0]),) if t in there else ())


def epochs(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user around every sixth slot: at the end of one epoch and the beginning of the next."""
    rows: Rows = ((TARGET, values[-1]),)
    return _sometimes("crosses epochs", slots, values, lambda t: rows * (1 + t % 2) if t % 6 in (4, 5, 0, 1) else ())


def rounding(slots: int, values: Sequence[object]) -> Neighbours:
    """Give the user rows that do not divide: 1, 2, 3, 7, 11 over the bins, so that every share is rounded."""
    rows: Rows = tuple((TARGET, values[i * i % len(values)]) for i in range(11))
    return _sometimes("rounding edges", slots, values, lambda t: rows[: (1, 2, 3, 7, 11)[t % 5]])


def late(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user send events of the past and of the far future with every one in time, under the public clock."""
    clock_slots = Slots("1h", origin="2026-01-01")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    arrivals: list[list[tuple[object, datetime, object]]] = []
    for t in range(slots):
        here = start + timedelta(hours=t, minutes=10)
        batch: list[tuple[object, datetime, object]] = [(user, here, value) for user, value in _crowd(t, values)]
        batch += [(TARGET, here + timedelta(days=d), values[t % len(values)]) for d in (-1, 0, 30_000)]
        arrivals.append(batch)
    ours = [[event for event in batch if event[0] != TARGET] for batch in arrivals]
    return Neighbours("late and early events", *(_routed(a, clock_slots, start) for a in (arrivals, ours)))


def _routed(
    arrivals: Sequence[Sequence[tuple[object, datetime, object]]], slots: Slots, start: datetime
) -> tuple[Rows, ...]:
    """Return what the public clock lets into each slot."""
    clock, routed = Clock(slots, start), []
    for hour, batch in enumerate(arrivals):
        clock.advance(start + timedelta(hours=hour, minutes=50))
        times = [moment.isoformat() for _, moment, _ in batch]
        admitted = clock.admit(times) & (slots.numbers(times) == clock.first_open)
        routed.append(tuple((batch[i][0], batch[i][2]) for i in np.flatnonzero(admitted).tolist()))
    return tuple(routed)


def types(slots: int, values: Sequence[object]) -> Neighbours:
    """Make the user's id 7, "7", 7.0, b"7" and a numpy integer in turn."""
    ids: tuple[object, ...] = (7, "7", 7.0, b"7", np.int64(7))
    return pair("ids of several types", [(*_crowd(t, values), (ids[t % 5], values[0])) for t in range(slots)], 7)


def broken_rows(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user send rows that cannot be read, NaN and unknown values, beside good ones, in every second slot."""
    bad: Rows = ((TARGET, float("nan")), (TARGET, None), (TARGET, "no such value"), (TARGET, values[0]))
    return _sometimes("broken rows", slots, values, lambda t: bad if t % 2 else ())


def classes(slots: int, values: Sequence[object]) -> Neighbours:
    """Let the user come late and stay away now and then: in other classes, and due in other slots, than the others."""
    regulars: Rows = tuple((f"regular-{i}", values[i % len(values)]) for i in range(4))
    there = [((TARGET, values[t % 2]),) if t % 7 != 4 and t > 2 else () for t in range(slots)]
    return _sometimes("other classes", slots, values, lambda t: regulars + there[t])


def staying(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user in every slot, beside another one who is: for lives of thousands of slots."""
    both: Rows = (("regular", values[-1]), (TARGET, values[0]))
    return pair("stays", [both] * slots)


def straying(slots: int, values: Sequence[object]) -> Neighbours:
    """Have the user away for one slot and for ten in turn, so that they pay less often than the other one."""
    here = [t % 17 != 5 and t % 41 < 31 for t in range(slots)]
    mine = [((TARGET, values[t % len(values)]),) if here[t] else () for t in range(slots)]
    return pair("comes and goes", [(("regular", values[-1]), *rows) for rows in mine])


FAMILIES: tuple[Family, ...] = (
    alone, every_slot, giant, returning, epochs, rounding, late, types, broken_rows, classes,
)  # fmt: skip


def mutate(neighbours: Neighbours, values: Sequence[object], chance: random.Random) -> Neighbours:
    """Return the same streams with the user's rows of one to three slots drawn anew; the others' rows stay."""
    slots = list(neighbours.one)
    for _ in range(chance.randint(1, 3)):
        t = chance.randrange(len(slots))
        count = chance.choice((0, 1, 1, 2, 3, 7))
        slots[t] = neighbours.other[t] + tuple((neighbours.user, chance.choice(values)) for _ in range(count))
    return pair(neighbours.name.removesuffix(", varied") + ", varied", slots, neighbours.user)
