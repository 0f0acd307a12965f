"""Budget absorption (BA) of Kellaris et al.: a publication takes the shares of slots that were skipped before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpi_research.baselines.base import Facts
from dpi_research.baselines.w_event import WEvent, facts
from dpi_research.baselines.window import Absorption


@dataclass(kw_only=True, eq=False)
class BudgetAbsorption(WEvent):
    """Every slot has a share u = ε/(2w); a publication after j skipped slots has the budget (j + 1)·u, at most w·u.

    **Guarantee.** ε-DP for all records of a user within any `window` slots, one record a slot (w-event privacy).
    *Why:* tests cost ε/(2w) a slot. A publication that took the shares of j slots before its own is followed by j
    slots in which nothing may be published, so a window's publications sum to at most w shares, ε/2.

    *A user* of all t slots loses at most c·(t - 1)·ε/(2w) in tests and c·t·ε/(2w) in publications, which use shares of
    slots that are over.

    >>> mechanism = BudgetAbsorption(epsilon=1000, bins=2, window=4)
    >>> [round(x) for x in mechanism.update([5, 9]).tolist()], mechanism.budget
    ([5, 9], Fraction(125, 1))
    >>> BudgetAbsorption(epsilon=1, window=10).user_epsilon(100)
    9.95
    """

    division: ClassVar = Absorption
    facts: ClassVar[Facts] = facts(
        "2/e² in a slot that is published with budget e; after j skipped slots e = (j + 1)·ε/(2w)",
        "at most c·(2t - 1)·ε/(2w)",
        "1 number a bin, and 2",
    )
