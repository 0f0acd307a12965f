"""What a slot makes of accounts: the weight of each user before it, and what they hold after it.

**Guarantee.** A weight is a function of the user's own account, of public budgets, and of nothing else; what it costs
is at most what is left (`dpi.budget.billing`, where the rounding is proved).

Sees what accounts hold; no name, no id. Private.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.budget import billing
from dpi.budget.account_table import Standings, chosen
from dpi.budget.classes import ClassBudget
from dpi.budget.epsilon import Epsilon
from dpi.budget.policy import Policy
from dpi.exact.integers import GRAINS, Integers


def by_policy(policy: Policy, epsilon: Epsilon, share: Fraction, standing: Standings, available: int) -> Integers:
    """The weight of each user, in grains, as the policy has it and the account can pay."""
    if epsilon.units == 0:
        return np.zeros(standing.size, dtype=np.int64)
    grains = policy.grains(standing["active"].astype(np.int64))
    limit = billing.part(billing.left(available, standing["spent"]), share)
    short = np.flatnonzero(limit < epsilon.units)
    grains[short] = billing.affordable(grains[short], limit[short], epsilon.units)
    return grains


def by_class(
    classes: tuple[ClassBudget, ...], left: Integers, paid: npt.NDArray[np.uint32], top: int
) -> tuple[Integers, Integers]:
    """The weight of each user in the class they are in, by how often they have paid, and which one it is."""
    payments = np.minimum(paid.astype(np.int64), top)
    due = payments < len(classes)
    member = np.where(due, payments, 0)
    units = np.array([each.epsilon.units for each in classes])[member]
    steps = np.array([each.steps for each in classes])[member]
    limit = billing.parts(left, steps)
    grains = np.where(due, GRAINS, 0)
    short = np.flatnonzero(due & (limit < units))
    grains[short] = billing.affordable(grains[short], limit[short], units[short])
    return grains, member


def paid(standing: Standings, cost: Integers, paying: npt.NDArray[np.bool_]) -> Standings:
    """What those who pay hold afterwards."""
    standing["spent"] += cost
    standing["active"] += 1
    return standing if paying.all() else chosen(standing, paying)
