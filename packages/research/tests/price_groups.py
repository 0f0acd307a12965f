"""What a price list asks, in the ledger's words."""

from fractions import Fraction

import numpy as np

from dpi.budget.classes import ClassBudget, GroupBudget
from dpi.budget.epsilon import Epsilon


def in_groups(budget, asked, epsilon):
    """The groups of a slot: due histograms with their price, of which nobody pays more than half of what is left."""
    member, groups = budget.histogram(), []
    for histogram in np.flatnonzero(asked.due):
        price = Epsilon(round(float(asked.prices[histogram]) * epsilon.units))
        share = Fraction(1, 2) if histogram else Fraction(1)
        classes = [ClassBudget(int(m), price, share, epsilon.units) for m in np.flatnonzero(member == histogram)]
        groups.append(GroupBudget(price, tuple(classes)))
    return tuple(groups)
