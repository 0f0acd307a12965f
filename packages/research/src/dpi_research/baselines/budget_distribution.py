"""Budget distribution (BD) of Kellaris et al.: each publication takes half of what a window has left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpi_research.baselines.base import Facts
from dpi_research.baselines.w_event import WEvent, facts
from dpi_research.baselines.window import Distribution


@dataclass(kw_only=True, eq=False)
class BudgetDistribution(WEvent):
    """Few publications in a window: the i-th of a fresh window has the budget ε/2^(i+1).

    **Guarantee.** ε-DP for all records of a user within any `window` slots, one record a slot (w-event privacy).
    *Why:* tests cost ε/(2w) a slot, ε/2 a window; a publication costs half of what the last w - 1 slots have left of
    ε/2, so a window's publications sum to less than ε/2.

    *A user* of all t slots loses at most c·(t - 1)·ε/(2w) in tests and c·min(t·ε/4, ⌈t/w⌉·ε/2) in publications.

    >>> mechanism = BudgetDistribution(epsilon=1000, bins=2, window=3)
    >>> [round(x) for x in mechanism.update([5, 9]).tolist()], mechanism.budget
    ([5, 9], Fraction(250, 1))
    >>> BudgetDistribution(epsilon=1, window=10).user_epsilon(100)
    9.95
    """

    division: ClassVar = Distribution
    facts: ClassVar[Facts] = facts(
        "2/e² in a slot that is published with budget e; the i-th of a fresh window has e = ε/2^(i+1)",
        "at most c·[(t - 1)·ε/(2w) + min(t·ε/4, ⌈t/w⌉·ε/2)]",
        "1 number a bin, and w",
    )
