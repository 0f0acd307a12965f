"""How many users are in a bin, from one noisy sum: the posterior of a whole number.

A bin's number of users c is Poisson around a level that is known as a gamma law: negative binomial with mean m and
variance m + v. Everybody pays e, so the sum is e·c plus Laplace noise of scale one. The posterior of c is a finite sum,
exact but for a tail beyond `MOST` users; where a bin may hold more, a normal law serves (`laplace_gauss`).

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpi.mechanism.base import Floats

MOST = 48
"""Numbers of users that are told apart; beyond them a normal law is as good. Source: by calculation
(tests/mechanism/users/test_counts.py)."""
FAINT = 0.25
"""Below this payment a user does not stand out from noise of scale one, and numbers need not be whole. Source: by
calculation (tests/mechanism/users/test_counts.py)."""
REACH = 6.0
"""A bin may hold its mean and so many deviations. Source: by calculation; a normal law has 10⁻⁹ beyond."""


def posterior(sums: Floats, payment: float, mean: Floats, doubt: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the number of users in each bin, expected as `mean`, a level of variance `doubt`.

    `sums` are (bins,), the expectations (hypotheses, bins).

    >>> found, spread = posterior(np.array([2.1]), 1.0, np.array([[2.0]]), np.array([[0.0]]))
    >>> found.round(2).tolist(), spread.round(2).tolist()
    ([[1.96]], [[0.69]])
    """
    shape = np.clip(mean * mean / np.maximum(doubt, 1e-9 * mean * mean + 1e-12), 1e-3, 1e6)
    mass = np.exp(-shape * np.log1p(mean / shape))
    ratio = mean / (mean + shape)
    near = np.abs(sums - payment * np.clip(np.rint(sums / payment), 0, MOST - 1))
    total, first, second = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
    high = float(np.max(mean + 4 * REACH * np.sqrt(mean + doubt), initial=0.0))
    for users in range(min(int(max(high, float(sums.max()) / payment + 8 + 8 / payment)) + 2, MOST)):
        likely = mass * np.exp(near - np.abs(sums - payment * users))
        total += likely
        likely *= users
        first += likely
        likely *= users
        second += likely
        mass = mass * ((users + shape) / (users + 1)) * ratio
    np.maximum(total, 1e-300, out=total)
    first /= total
    second /= total
    second -= first * first
    return first, second


def whole(sums: Floats, payment: float, mean: Floats, doubt: Floats) -> npt.NDArray[np.bool_]:
    """Where `posterior` holds all numbers that are likely."""
    high = mean + REACH * np.sqrt(mean + doubt)
    return np.asarray((high < MOST - 2) & (sums < payment * (MOST - 8)))
