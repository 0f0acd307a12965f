"""Who pays what: exact amounts, converging series, allocations, and a ledger with an account for every user."""

from dpi.budget.accounts import Accounts
from dpi.budget.allocation import RBA, Allocation, Constant, InOrder
from dpi.budget.auto_allocation import Auto
from dpi.budget.charge import Bill
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Converging, Ledger
from dpi.budget.policy import clocked, fade, spend_first
from dpi.budget.series import Geometric, LogSquared, Series, Spence, Zeta

__all__ = [
    "RBA",
    "Accounts",
    "Allocation",
    "Auto",
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
    "clocked",
    "fade",
    "spend_first",
]
