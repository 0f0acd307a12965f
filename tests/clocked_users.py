"""Users who pay by a public clock, in floats: what the estimator of users by class is tested with."""

from __future__ import annotations

import numpy as np

from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.class_estimator import GroupSums, UsersState

EPSILON = 2.0


class Users:
    """Accounts of all users there ever were, and the noise of their measurements."""

    def __init__(self, bins, classes, seed, epsilon=EPSILON):
        self.rng = np.random.default_rng(seed)
        self.bins, self.top, self.epsilon = bins, classes - 1, epsilon
        self.left, self.payments = np.ones(0), np.zeros(0, dtype=np.int64)

    def measure(self, users, values, asked):
        """What the users of each group pay in each bin, and noise; each user has one value."""
        more = max(int(users.max(initial=-1)) + 1 - self.left.size, 0)
        self.left = np.r_[self.left, np.ones(more)]
        self.payments = np.r_[self.payments, np.zeros(more, dtype=np.int64)]
        member, left = np.minimum(self.payments[users], self.top), self.left[users]
        result = []
        for group in asked:
            classes, shares = np.array([m for m, _ in group]), np.array([float(share) for _, share in group])
            share = np.bincount(classes, shares, minlength=self.top + 1)[member]
            counts = np.bincount(values, self.epsilon * share * left, minlength=self.bins)
            result.append(GroupSums(counts + self.rng.laplace(0, 1, self.bins), classes, shares, 1.0))
            self.left[users] *= 1 - share
            self.payments[users] += share > 0
        return result


def play(slots, bins, classes=9, seed=0, epsilon=EPSILON, season=0):
    """The state and the estimate after every slot of (users, values)."""
    accounts, state = Users(bins, classes, seed, epsilon), UsersState.begun(bins, classes, season)
    for number, (users, values) in enumerate(slots):
        groups = accounts.measure(users, values, estimator.request_payments(state, number))
        state, estimate = estimator.close_slot(state, number, epsilon, groups)
        yield state, estimate


def divergence(truth, guess):
    """KL of a histogram against a PDF."""
    some = truth > 0
    share = truth[some] / truth.sum()
    return float(share @ np.log(share / guess[some]))
