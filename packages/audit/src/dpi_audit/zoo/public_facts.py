"""Public facts that were read off the data: a domain, a period, a total, what accounts hold."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import polars as pl

from dpi_audit import neighbours
from dpi_audit.changing import ChangedSession
from dpi_audit.neighbours import Rows
from dpi_audit.session import StreamSession
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream, stream_session
from dpi_audit.zoo.base import Counts, Pair, on

ALONE = neighbours.alone(SLOTS, VALUES)
EVERY = neighbours.every_slot(SLOTS, VALUES)
RUNS = 512


def broken_domain() -> Counts:
    """The values seen so far are the domain: a value that one user alone has gives them away."""
    seen: set[object] = set()

    def domain(rows: Rows) -> Hashable:
        seen.update(value for _, value in rows)
        return tuple(sorted(map(str, seen)))

    return Counts(also=domain)


def broken_period() -> Counts:
    """The first slot is that of the first event: whose event that was, everybody learns."""
    begun = False

    def started(rows: Rows) -> Hashable:
        nonlocal begun
        begun = begun or bool(rows)
        return begun

    return Counts(also=started)


def broken_change() -> Counts:
    """Other options begin after the last slot that holds an event: the chain tells everybody which that is."""
    last = step = -1

    def begins(rows: Rows) -> Hashable:
        nonlocal last, step
        step += 1
        last = step if rows else last
        return last + 1 if step == SLOTS // 2 else None

    return Counts(also=begins)


def broken_total() -> Counts:
    """The number of users is printed as it is."""
    return Counts(also=lambda rows: len({user for user, _ in rows}))


class BrokenSpent(StreamSession):
    """`epsilon_spent` is the largest account instead of min(ε, Σ ε_t): it tells whether somebody was there."""

    def __init__(self) -> None:
        self._users = set[str]()
        super().__init__(stream())

    def force(self, output: object) -> str:
        """The release, with what accounts really hold."""
        release = super().force(output)
        self._users |= {str(user) for user, _ in self._rows}
        accounts = self.stream._accounts
        assert accounts is not None  # noqa: S101 - the stream has a ledger
        left = accounts.remaining(pl.Series(sorted(self._users), dtype=pl.String), 0)
        return f"{release} spent {float(EPSILON - min(left, default=Fraction(1)))}"


PAIRS = (
    Pair(
        "a domain learnt from data",
        "the set of values seen is private",
        on(broken_domain, ALONE, EVERY, runs=RUNS),
        on(stream_session(), EVERY, ALONE),
    ),
    Pair(
        "a period read off the data",
        "the first and last event decide what is released",
        on(broken_period, ALONE, runs=RUNS),
        on(stream_session(), ALONE),
    ),
    Pair(
        "a change that begins after the last event",
        "options change with a slot that follows from the public clock (dpi.stream.registration)",
        on(broken_change, ALONE, runs=RUNS),
        on(ChangedSession, ALONE, EVERY),
    ),
    Pair(
        "released true totals",
        "the size of a slot is private",
        on(broken_total, EVERY, runs=RUNS),
        on(Counts, EVERY, runs=RUNS),
    ),
    Pair(
        "epsilon_spent read off accounts",
        "what accounts really hold is private",
        on(BrokenSpent, EVERY, ALONE),
        on(stream_session(), EVERY, ALONE),
    ),
)
