"""How many users are in a bin, from one noisy sum: the posterior of a whole number.

A bin's number of users c is Poisson around a level that is known as a gamma law: negative binomial with mean m and
variance m + v. Everybody pays e, so the sum y is e·c plus Laplace noise of scale one, and the posterior of c is
proportional to P(c)·exp(-|y - e·c|). Numbers of c with e·c > y have a closed form: weights P(c)·exp(-e·c) are those of
another negative binomial law. So moments of the posterior are those of that law, without the difference
P(c)·(exp(-e·c) - exp(e·c - 2·y)) for each c up to y/e: none, where y is negative. Where y is so large that this
difference is all (`NEAR`), terms are summed directly, up to `MOST`; where a bin may hold more, a normal law serves
(`laplace_gauss`).

Sees sums after noise; no histogram, no user.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpi.mechanism.base import Floats

MOST = 48
"""Numbers of users that are told apart; beyond them a normal law is as good. Source: by calculation
(tests/mechanism/class_estimator/test_counts.py)."""
NEAR = 8.0
"""The closed form is used up to this sum y. It subtracts two numbers whose difference may be e^-2y of them: at 8, nine
of sixteen digits remain. Source: by calculation."""
FAINT = 0.25
"""Below this payment a user does not stand out from noise of scale one, and numbers need not be whole. Source: by
calculation (tests/mechanism/class_estimator/test_counts.py)."""
BLOCK = 1 << 10
"""Bins whose terms are in memory at a time. Source: by calculation; they fit in a cache."""
REACH = 6.0
"""A bin may hold its mean and so many deviations. Source: by calculation; a normal law has 10⁻⁹ beyond."""

_NUMBERS: Floats = np.arange(float(MOST))[:, None]
_POWERS: Floats = _NUMBERS.T ** [[0], [1], [2]]


def posterior(sums: Floats, payment: float, mean: Floats, doubt: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the number of users in each bin, expected as `mean`, a level of variance `doubt`.

    `sums` are (bins,), the expectations (hypotheses, bins).

    >>> users, spread = posterior(np.array([2.1]), 1.0, np.array([[2.0]]), np.array([[0.0]]))
    >>> users.round(2).tolist(), spread.round(2).tolist()
    ([[1.96]], [[0.69]])
    """
    shape = np.clip(mean * mean / np.maximum(doubt, 1e-9 * mean * mean + 1e-12), 1e-3, 1e6)
    ratio = mean / (mean + shape)
    odds = ratio * np.exp(-payment)
    odds /= 1 - odds
    moments = np.empty((3, *mean.shape))
    moments[0] = np.exp(-shape * np.log1p(-np.expm1(-payment) * (mean / shape)))
    moments[1] = moments[0] * shape * odds
    moments[2] = moments[1] * (1 + (shape + 1) * odds)
    moments = moments.reshape(3, -1)
    every = np.stack([np.broadcast_to(sums, mean.shape), shape, ratio]).reshape(3, -1)
    here, far = np.flatnonzero(every[0] > 0), np.flatnonzero(every[0] > NEAR)
    y, shape, ratio = every[:, here]
    mass = np.exp(shape * np.log1p(-ratio))
    for users in range(int(NEAR / payment) + 1):
        short = mass * (np.exp(-payment * users) - np.exp(payment * users - 2 * y))
        for moment in moments:
            moment[here] -= short
            short *= users
        on = (y > payment * (users + 1)) & (y <= NEAR)
        if not on.any():
            break
        here, y, shape, ratio, mass = here[on], y[on], shape[on], ratio[on], mass[on]
        mass *= ratio * ((users + shape) / (users + 1))
    for at in range(0, far.size, BLOCK):
        some = far[at : at + BLOCK]
        moments[:, some] = _summed(payment, *every[:, some])
    total, first, second = moments.reshape(3, *mean.shape)
    np.maximum(total, 1e-300, out=total)
    first /= total
    second /= total
    second -= first * first
    return first, second


def _summed(payment: float, sums: Floats, shape: Floats, ratio: Floats) -> Floats:
    """Sum the moments, up to a factor, by terms."""
    near = np.abs(sums - payment * np.clip(np.rint(sums / payment), 0, MOST - 1))
    mass = np.empty((MOST, sums.size))
    mass[0], mass[1:] = np.exp(shape * np.log1p(-ratio)), ratio * ((_NUMBERS[:-1] + shape) / _NUMBERS[1:])
    likely = np.cumprod(mass, axis=0, out=mass)
    likely *= np.exp(near - np.abs(sums - payment * _NUMBERS))
    return np.asarray(_POWERS @ likely)


def whole(sums: Floats, payment: float, mean: Floats, doubt: Floats) -> npt.NDArray[np.bool_]:
    """Where `posterior` holds all numbers that are likely."""
    high = mean + REACH * np.sqrt(mean + doubt)
    return np.asarray((high < MOST - 2) & (sums < payment * (MOST - 8)))
