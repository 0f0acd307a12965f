"""Random budget allocation that gives an element of the series twice."""

from __future__ import annotations

from dataclasses import dataclass

import dpi
from dpi.budget.allocation import Allocation, NearestUnused
from dpi.budget.epsilon import Epsilon
from dpi.budget.index_set import IndexSet
from dpi.budget.series import Series
from dpi.noise import RandomSource
from dpi_audit import neighbours
from dpi_audit.session import StreamSession
from dpi_audit.small import SLOTS, VALUES, stream, stream_session
from dpi_audit.zoo.accounts import BrokenRestart
from dpi_audit.zoo.base import Pair, on

EVERY = neighbours.every_slot(SLOTS, VALUES)
LAMBDA = 4


class _BrokenNearest(NearestUnused):
    """Forgets what it has drawn."""

    def draw(self, source: RandomSource) -> Epsilon:
        self._used = IndexSet()
        return super().draw(source)


@dataclass(frozen=True, init=False, repr=False)
class BrokenRBA(dpi.budget.RBA):
    """The nearest element, used or not: nothing bounds the sum."""

    def open(self, series: Series, epsilon: Epsilon) -> Allocation:
        """An allocation with replacement."""
        return _BrokenNearest(series, epsilon, self.rate)


WITH = stream_session(budget=dpi.Converging(dpi.budget.Zeta(2), BrokenRBA(LAMBDA)))
WITHOUT = stream(budget=dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(LAMBDA)))

PAIRS = (
    Pair(
        "RBA with replacement",
        "elements are drawn once each, or their sum has no bound",
        on(WITH, EVERY),
        on(lambda: StreamSession(WITHOUT), EVERY),
    ),
    Pair(
        "RBA state refilled on restart",
        "the used elements are state",
        on(lambda: BrokenRestart(WITHOUT, restart_every=3), EVERY),
        on(lambda: StreamSession(WITHOUT, restart_every=3), EVERY),
    ),
)
