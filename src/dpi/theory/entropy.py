"""How much a pool of synopses can express: entropy, in nats, of one multinomial draw and of N of them."""

import math

import numpy as np

from dpi.theory.bound import Bound, check_count
from dpi.theory.spence import Floats

_TAIL = 75.0
"""Counts outside a window are left out: by Bernstein's inequality their probability is below 2·e^-75."""


def multinomial_entropy(trials: int, categories: int) -> float:
    """Return the exact entropy of one draw, H = -ln n! + n·ln k + k·E[ln X!] with X ~ Binomial(n, 1/k).

    Written so that nothing large cancels. With s(x) = ln x! - x·ln x + x, Stirling's slowly growing part,
    and D(x) = x·ln(x/λ) - x + λ ≥ 0 around the mean λ = n/k, the same H is k·E[s(X) + D(X)] - s(n), because
    E[X] = λ.

    >>> round(multinomial_entropy(10_000, 100), 2)
    366.05
    """
    check_count(trials, "trials")
    check_count(categories, "categories")
    if categories == 1:
        return 0.0
    mean = trials / categories
    variance = mean * (1 - 1 / categories)
    reach = _TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * _TAIL * variance)
    low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    counts = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((trials - counts[:-1]) / (counts[1:] * (categories - 1)))
    logarithms = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logarithms - logarithms.max())
    divergence = counts * np.log(np.maximum(counts, 1) / mean) - (counts - mean)
    expected = float(weights @ (_stirling(counts) + divergence) / weights.sum())
    return categories * expected - float(_stirling(np.array([float(trials)]))[0])


def entropy_approximation(trials: int, categories: int) -> Bound:
    """Approximate the entropy of one draw for large n.

    Printed first: k - ½·ln(2πne) - (k/2)·ln k, called highly accurate. It is negative for every n and k, as
    k·(1 - ½·ln k) ≤ e/2 < ½·ln(2πe), and no entropy of a discrete variable is.

    Corrected, and printed further down with N, the size of the pool, in place of n:
    ((k-1)/2)·ln(2πne) - (k/2)·ln k. It is the entropy of the Gaussian limit: k - 1 free counts, whose
    covariance n·(diag(p) - ppᵀ) has the determinant n^{k-1}/k^k. The first form has lost the brackets of
    (k-1)/2. It needs n well above k: at k = 100,000 and n = 1,000 it is negative too.

    >>> entropy_approximation(10_000, 100)  # doctest: +ELLIPSIS
    Bound(printed=-136.28..., corrected=366.1...)
    """
    check_count(trials, "trials")
    check_count(categories, "categories")
    gauss = math.log(2 * math.pi * trials * math.e)
    shared = categories / 2 * math.log(categories)
    return Bound(categories - gauss / 2 - shared, (categories - 1) / 2 * gauss - shared)


def pool_entropy(size: int) -> float:
    """Return the most a pool of N synopses can have, ln N, whatever the N draws are.

    The lemma lets H(pool)/H(ideal) tend to 1 as N grows. So it does, once ln N is near H(ideal): with
    k = 100 and n = 10,000 that takes about e^366 synopses.

    >>> round(pool_entropy(6_500), 1)
    8.8
    """
    check_count(size, "size")
    return math.log(size)


def _stirling(x: Floats) -> Floats:
    """Return ln x! - x·ln x + x for whole x ≥ 0; from 16 on by a series whose next term is below 2e-14."""
    small = np.array([math.lgamma(j + 1) - j * math.log(max(j, 1)) + j for j in range(16)])
    y = np.maximum(x, 16)
    tail = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * y**2)) / y**2) / y**2) / y
    series = np.log(2 * math.pi * y) / 2 + tail
    return np.where(x < 16, small[np.minimum(x, 15).astype(np.int64)], series)
