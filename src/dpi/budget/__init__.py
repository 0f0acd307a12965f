"""Who pays what: exact amounts, converging series, allocations, and a ledger with an account for every user."""

from dpi.budget.allocation import RBA, Allocation, Constant, Converging, InOrder
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Bill, Ledger, fade, spend_first
from dpi.budget.series import Geometric, LogSquared, Series, Spence, Zeta

__all__ = [
    "RBA",
    "Allocation",
    "Bill",
    "Constant",
    "Converging",
    "Epsilon",
    "Geometric",
    "InOrder",
    "Ledger",
    "LogSquared",
    "Series",
    "Spence",
    "Zeta",
    "fade",
    "spend_first",
]
