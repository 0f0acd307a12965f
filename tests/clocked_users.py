"""Users who pay by a public clock, in floats: what the estimator of the clocked ledger is tested with."""

from __future__ import annotations

import numpy as np

from dpi.budget.classes import level
from dpi.mechanism import cells
from dpi.mechanism.cells import ClassCounts

EPSILON = 2.0


class Users:
    """Accounts of all users there ever were, and the noise of their measurements."""

    def __init__(self, bins, classes, seed, epsilon=EPSILON):
        self.rng = np.random.default_rng(seed)
        self.bins, self.top, self.epsilon = bins, classes - 1, epsilon
        self.left, self.payments = np.ones(0), np.zeros(0, dtype=np.int64)
        self.most = np.r_[1.0, np.zeros(self.top)]

    def measure(self, users, values, shares):
        """The noisy histograms of the due classes; each user has one value."""
        more = max(int(users.max(initial=-1)) + 1 - self.left.size, 0)
        self.left = np.r_[self.left, np.ones(more)]
        self.payments = np.r_[self.payments, np.zeros(more, dtype=np.int64)]
        member, left = np.minimum(self.payments[users], self.top), self.left[users]
        result = []
        for m, share in enumerate(map(float, shares)):
            most = float(self.most[m]) or 1.0
            noise = 1 / (self.epsilon * share * most)
            counts = np.bincount(values, np.where(member == m, left / most, 0.0), minlength=self.bins)
            result.append(ClassCounts(counts + self.rng.laplace(0, noise, self.bins), noise, share, most))
            self.left[users[member == m]] *= 1 - share
            self.payments[users[member == m]] += 1
        for m in reversed(range(len(shares))):
            after = min(m + 1, self.top)
            self.most[after] = max(self.most[after], (1 - float(shares[m])) * self.most[m])
        return tuple(result)


def play(slots, bins, classes=9, seed=0, epsilon=EPSILON, season=0):
    """The state and the estimate after every slot of (users, values)."""
    accounts, state = Users(bins, classes, seed, epsilon), cells.initial(bins, classes, season)
    for number, (users, values) in enumerate(slots):
        shares = cells.shares(state, level(number, classes - 1) + 1)
        state, estimate = cells.measured(state, number, accounts.measure(users, values, shares))
        yield state, estimate


def divergence(truth, guess):
    """KL of a histogram against a PDF."""
    some = truth > 0
    share = truth[some] / truth.sum()
    return float(share @ np.log(share / guess[some]))
