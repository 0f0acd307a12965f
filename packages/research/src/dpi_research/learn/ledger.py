"""Accounts of individuals by the ledger's rules, in floating point: histograms by payments, one price in each."""

from __future__ import annotations

import numpy as np

from dpi.estimator import HISTOGRAMS
from dpi.estimator.prices import TOP, Floats, Wholes, pay
from dpi_research.learn.budgets import Asked, Budget
from dpi_research.learn.crowds import Slot
from dpi_research.learn.returns import Seen

Visits = Wholes | tuple[Wholes, Wholes, Floats]
"""The bin of each user; or the places of users in their list, bins, and the parts of the user's one unit."""


class Accounts:
    """What each user has left, as a part of ε, and how often they have paid; users are whole numbers from 0 on."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._member = budget, budget.histogram()
        self._seen = Seen()
        self.left, self.payments = np.ones(0), np.zeros(0, dtype=np.int64)

    def pay(self, users: Wholes, asked: Asked) -> tuple[Wholes, Floats]:
        """Charge the slot's users, each listed once; return the histogram and the payment of each, as a part of ε."""
        if users.size and users.max() >= self.left.size:
            more = max(int(users.max()) + 1 - self.left.size, self.left.size)
            self.left = np.r_[self.left, np.ones(more)]
            self.payments = np.r_[self.payments, np.zeros(more, dtype=np.int64)]
        member: Wholes = self._member[np.minimum(self.payments[users], TOP)]
        paid = asked.prices[member] * (asked.due[member] > 0)
        if self._budget.accounts:
            paid = pay(paid, self.left[users], member)
            self.left[users] -= paid
        self.payments[users] += asked.due[member] > 0
        return member, paid

    def measure(self, users: Wholes, visits: Visits, bins: int, asked: Asked) -> Slot:
        """Return what a slot has whose users, each listed once, are in these bins."""
        before = self.payments.size
        new = float((users >= before).sum() + (self.payments[users[users < before]] == 0).sum())
        member, paid = self.pay(users, asked)
        every = np.arange(users.size), visits, np.ones(users.size)
        row, values, share = visits if isinstance(visits, tuple) else every
        sums = np.bincount(member[row] * bins + values, paid[row] * share, minlength=HISTOGRAMS * bins)
        counts = np.bincount(values, share, minlength=bins).astype(float)
        members = np.bincount(member, minlength=HISTOGRAMS).astype(float)
        return Slot(sums.reshape(HISTOGRAMS, bins).astype(float), counts, members, new, self._seen.see(users))
