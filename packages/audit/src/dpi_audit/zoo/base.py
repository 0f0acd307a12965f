"""What the zoo is built of: pairs of a broken mechanism and its correct twin, and frames that make a fault a few lines.

A twin is a session with a known law. `Frame` is what all of them share. `Counts` lets out noisy counts: a fault is
another way to count, or something that is told without noise. `Balances` keeps accounts: a fault is what they hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.testing.class_sums import ClassSums
from dpi.testing.laws import Joint, Laplace, Law, Point
from dpi_audit import neighbours
from dpi_audit.empirical import BlackBox, transcripts
from dpi_audit.exact import Finding, Open, worst_of
from dpi_audit.neighbours import Neighbours, Rows
from dpi_audit.session import MakeStream, StreamSession
from dpi_audit.small import EPSILON, VALUES
from dpi_audit.small import stream as small_stream

SLOTS = 24
PER_SLOT = EPSILON / SLOTS
COST = EPSILON / 5
"""What a slot costs where accounts run dry."""
SAMPLED_SLOTS, RUNS = 4, 512
"""Where a fault shows in every slot, a few slots and runs are enough to see it."""

ALONE = neighbours.alone(SLOTS, VALUES)
EVERY = neighbours.every_slot(SLOTS, VALUES)
RETURNING = neighbours.returning(SLOTS, VALUES)


@dataclass(frozen=True)
class Check:
    """What can be asked of one mechanism: an exact search, runs of it, what an analyst reaches; at least one."""

    claimed: Fraction
    exact: Callable[[], Finding] | None = None
    sample: BlackBox | None = None
    most_runs: int = 4_000


@dataclass(frozen=True)
class Pair:
    """A mechanism that is broken in one way, and the same without that."""

    name: str
    why: str
    """Why it is broken, and where the docs say so."""
    broken: Check
    correct: Check


def stream(**options: object) -> MakeStream:
    """Return how to make a real stream that does it right: small, and with a mechanism of a few lines."""
    return small_stream(**{"mechanism": ClassSums(), **options})


@cache
def stream_session(restart_every: int | None = None, /, **options: object) -> Open:
    """Return how to open sessions of such a stream."""
    return lambda: StreamSession(stream(**options), restart_every=restart_every)


@cache
def on(open_session: Open, *pairs: Neighbours, runs: int = 0) -> Check:
    """Check exactly on given neighbours, in both directions; with `runs`, also as a black box in a few slots.

    Twins that several faults have in common are checked once.
    """
    sample = transcripts(open_session, pairs[0].first(SAMPLED_SLOTS)) if runs else None
    return Check(EPSILON, exact=cache(lambda: worst_of(open_session, pairs)), sample=sample, most_runs=runs)


def units(rows: Rows, weights: Mapping[str, Fraction] | None = None) -> Integers:
    """Count the right way: one user, one unit or the user's weight, spread over the user's values."""
    by_user: dict[str, list[int]] = defaultdict(list)
    for user, value in rows:
        if value in VALUES:
            by_user[str(user)].append(VALUES.index(str(value)))
    total = np.zeros(len(VALUES), dtype=np.int64)
    for user, bins in by_user.items():
        weight = int((Fraction(1) if weights is None else weights[user]) * GRAINS)
        total += np.bincount(bins, minlength=len(VALUES)) * weight // len(bins)
    return total


class Frame(ABC):
    """A session that claims ε and shows nothing besides its outputs."""

    step = 0
    claimed: Fraction = EPSILON

    @abstractmethod
    def look(self, rows: Rows) -> Law:
        """Return the law of this step's output."""

    def force(self, output: object) -> object:
        """Go on to the next step."""
        self.step += 1
        return None


class Counts(Frame):
    """Lets out counts with Laplace noise in every step, 1/24 of ε each, and perhaps something without noise."""

    def look(self, rows: Rows) -> Law:
        """Return the law of noisy counts; what comes without noise is a point."""
        return Joint((Point(self._told(rows)), Laplace(self._counted(rows), GRAINS / PER_SLOT)))

    def _counted(self, rows: Rows) -> Integers:
        return units(rows)

    def _told(self, rows: Rows) -> Hashable:
        return None


class Balances(Frame):
    """Accounts that pay `COST` a step as long as they hold something, each user by their weight."""

    def __init__(self) -> None:
        self._spent: dict[Hashable, Fraction] = defaultdict(Fraction)

    def look(self, rows: Rows) -> Law:
        """Return the law of counts by what is left on the accounts."""
        left = {user: max(Fraction(0), self._held() - self._spent[self._key(user)]) for user in map(self._name, rows)}
        self._weights = {user: min(Fraction(1), each / COST) for user, each in left.items()}
        return Laplace(units(tuple((self._name(row), row[1]) for row in rows), self._weights), GRAINS / COST)

    def force(self, output: object) -> object:
        """Debit."""
        for user, weight in self._weights.items():
            self._spent[self._key(user)] += weight * COST
        return super().force(output)

    def _name(self, row: tuple[object, object]) -> str:
        return str(row[0])

    def _key(self, user: str) -> Hashable:
        """Return which account a user pays from in this step."""
        return user

    def _held(self) -> Fraction:
        """Return what accounts hold in all."""
        return EPSILON
