"""Values that were found by asking the data: which there are, how many there are, whether a drawn one is somebody's."""

from __future__ import annotations

from dataclasses import dataclass

from dpi.budget.epsilon import Epsilon
from dpi.histogram.texts import TextHistogram
from dpi.mechanism.sparse import FoundTexts, SparseHistogram
from dpi.testing.laws import Joint, Law, Point, Shown
from dpi_audit import neighbours
from dpi_audit.discovering import discovery_session
from dpi_audit.small import SLOTS, VALUES
from dpi_audit.zoo.base import Pair, on

ALONE = neighbours.alone(SLOTS, VALUES)
EVERY = neighbours.every_slot(SLOTS, VALUES)


@dataclass(frozen=True)
class BrokenOnlySeen(SparseHistogram):
    """Noise and a threshold for values that occur, and no other: a value that is shown is somebody's, for sure.

    It is (ε, δ)-DP for the δ with which the value of one user alone passes, and ε-DP for no ε. So is a mechanism that
    draws values of nobody and then asks the data which of them occur.
    """

    kind = "broken_only_seen"

    def law(self, state: FoundTexts, histogram: TextHistogram, epsilon: Epsilon) -> Law:
        """Of texts that nobody has, none can be shown."""
        return Shown(self, state, histogram, epsilon, drawn=False)


@dataclass(frozen=True)
class BrokenSize(SparseHistogram):
    """The threshold is that of a universe of as many values as occur: it tells everybody how many there are."""

    kind = "broken_size"

    def law(self, state: FoundTexts, histogram: TextHistogram, epsilon: Epsilon) -> Law:
        """What is shown, beside the threshold, which is stated."""
        return Joint((Point(len(histogram.texts)), Shown(self, state, histogram, epsilon)))


PAIRS = (
    Pair(
        "discovery among the values that occur",
        "a value that nobody else has is shown with one user, and never without (dpi.noise.sparse)",
        on(discovery_session(BrokenOnlySeen(most=len(VALUES))), ALONE, EVERY),
        on(discovery_session(), ALONE, EVERY),
    ),
    Pair(
        "a threshold by the number of values seen",
        "how many values there are is private; the universe is declared (dpi.domain.texts)",
        on(discovery_session(BrokenSize(most=len(VALUES))), ALONE),
        on(discovery_session(), ALONE),
    ),
)
