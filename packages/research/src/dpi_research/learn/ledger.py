"""Accounts of individuals by the ledger's rules, in floating point: classes by payments, shares of what is left."""

from __future__ import annotations

import numpy as np

from dpi_research.learn.budgets import Asked, Budget
from dpi_research.learn.crowds import Slot
from dpi_research.learn.prices import HISTOGRAMS, TOP, Floats, Wholes


class Accounts:
    """What each user has left, as a part of ε, and how often they have paid; users are whole numbers from 0 on."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._member = budget, budget.histogram()
        self.left, self.payments = np.ones(0), np.zeros(0, dtype=np.int64)

    def pay(self, users: Wholes, asked: Asked) -> tuple[Wholes, Floats]:
        """Charge the slot's users, each listed once; return the histogram and the payment of each, as a part of ε."""
        if users.size and users.max() >= self.left.size:
            more = max(int(users.max()) + 1 - self.left.size, self.left.size)
            self.left = np.r_[self.left, np.ones(more)]
            self.payments = np.r_[self.payments, np.zeros(more, dtype=np.int64)]
        classes = np.minimum(self.payments[users], TOP)
        paid = asked.shares[classes] * (self.left[users] if self._budget.accounts else 1.0)
        if self._budget.accounts:
            self.left[users] -= paid
        self.payments[users] += asked.shares[classes] > 0
        return self._member[classes], paid

    def measure(self, users: Wholes, values: Wholes, bins: int, asked: Asked) -> Slot:
        """Return what a slot has whose users, each listed once, are in these bins."""
        before = self.payments.size
        new = float((users >= before).sum() + (self.payments[users[users < before]] == 0).sum())
        member, paid = self.pay(users, asked)
        sums: Floats = np.bincount(member * bins + values, paid, minlength=HISTOGRAMS * bins).astype(float)
        counts = np.bincount(values, minlength=bins).astype(float)
        return Slot(
            sums.reshape(HISTOGRAMS, bins), counts, np.bincount(member, minlength=HISTOGRAMS).astype(float), new
        )
