"""What the zoo is built of: pairs of a broken mechanism and its correct twin, and small sessions with a known law."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.testing.laws import Joint, Laplace, Law, Point
from dpi_audit.empirical import BlackBox
from dpi_audit.exact import Finding, Open, worst_of
from dpi_audit.neighbours import Neighbours, Rows
from dpi_audit.small import EPSILON, SLOTS, VALUES
from dpi_audit.transcripts import transcripts

PER_SLOT = EPSILON / SLOTS
SAMPLED_SLOTS = 4
"""Where a fault shows in every slot, a few are enough to see it."""


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


def on(open_session: Open, *neighbours: Neighbours, claimed: Fraction = EPSILON, runs: int = 0) -> Check:
    """An exact check on given neighbours, in both directions; with `runs`, also as a black box in a few slots."""
    sample = transcripts(open_session, neighbours[0].first(SAMPLED_SLOTS)) if runs else None
    return Check(claimed, exact=lambda: worst_of(open_session, neighbours), sample=sample, most_runs=runs)


def units(rows: Rows, weights: Mapping[str, Fraction] | None = None) -> Integers:
    """The right way to count, in a few lines: one user, one unit, spread over the user's values."""
    by_user: dict[str, list[int]] = defaultdict(list)
    for user, value in rows:
        if value in VALUES:
            by_user[str(user)].append(VALUES.index(str(value)))
    total = np.zeros(len(VALUES), dtype=np.int64)
    for user, bins in by_user.items():
        weight = int((Fraction(1) if weights is None else weights[user]) * GRAINS)
        total += np.bincount(bins, minlength=len(VALUES)) * weight // len(bins)
    return total


class Counts:
    """Lets out counts with Laplace noise in every step, 1/24 of ε each, and perhaps something without noise."""

    def __init__(self, count: Callable[[Rows], Integers] = units, also: Callable[[Rows], Hashable] = lambda rows: None):
        self._count, self._also = count, also

    def look(self, rows: Rows) -> Law:
        """Noisy counts; what comes without noise is a point."""
        return Joint((Point(self._also(rows)), Laplace(self._count(rows), GRAINS / PER_SLOT)))

    def force(self, output: object) -> object:
        """Nothing besides."""
        return None

    @property
    def claimed(self) -> Fraction:
        """ε, over the 24 steps."""
        return EPSILON
