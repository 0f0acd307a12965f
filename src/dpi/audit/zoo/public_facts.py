"""Public facts that were read off the data: a domain, a period, a total, what accounts hold."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import polars as pl

import dpi
from dpi.audit import neighbours
from dpi.audit.neighbours import Rows
from dpi.audit.session import StreamSession
from dpi.audit.small import EPSILON, SLOTS, VALUES, stream, stream_session
from dpi.audit.zoo.base import Counts, Pair, on

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


def broken_total() -> Counts:
    """The number of users is printed as it is."""
    return Counts(also=lambda rows: len({user for user, _ in rows}))


class BrokenSpent(StreamSession):
    """`epsilon_spent` is the largest account instead of min(ε, Σ ε_t): it tells whether somebody was there."""

    def __init__(self) -> None:
        accounts = dpi.Accounts(dpi.Epsilon.at_most(1), key=bytes(32))
        self._accounts, self._users = accounts, set[str]()
        super().__init__(stream(accounts=accounts, name="visits"))

    def force(self, output: object) -> str:
        """The release, with what accounts really hold."""
        release = super().force(output)
        self._users |= {str(user) for user, _ in self._rows}
        left = self._accounts.remaining(pl.Series(sorted(self._users), dtype=pl.String), 0)
        return f"{release} spent {float(EPSILON - min(left, default=Fraction(1)))}"


PAIRS = (
    Pair(
        "a domain learnt from data",
        "the set of values seen is private (DESIGN §1; PAPER-NOTES row 1)",
        on(broken_domain, ALONE, EVERY, runs=RUNS),
        on(stream_session(), EVERY, ALONE),
    ),
    Pair(
        "a period read off the data",
        "the first and last event decide what is released (DESIGN §8.4)",
        on(broken_period, ALONE, runs=RUNS),
        on(stream_session(), ALONE),
    ),
    Pair(
        "released true totals",
        "the size of a slot is private (PAPER-NOTES row 8)",
        on(broken_total, EVERY, runs=RUNS),
        on(Counts, EVERY, runs=RUNS),
    ),
    Pair(
        "epsilon_spent read off accounts",
        "what accounts really hold is private (DESIGN §5, §8.6)",
        on(BrokenSpent, EVERY, ALONE),
        on(stream_session(), EVERY, ALONE),
    ),
)
