"""The most frequent bins so far, from one counter per bin."""

from __future__ import annotations

import math

import numpy as np

from dpi_research.baselines.accounting import Floats
from dpi_research.baselines.base import check_count
from dpi_research.baselines.binary import Binary
from dpi_research.baselines.hybrid import Hybrid


def top_k(release: Floats, k: int) -> list[tuple[int, float]]:
    """The k largest estimates with their bins, the largest first. Post-processing: it costs no privacy.

    >>> top_k(np.array([3.0, 9.0, 7.0]), 2)
    [(1, 9.0), (2, 7.0)]
    """
    check_count(k, "k")
    order = np.argsort(-release, kind="stable")[:k]
    return [(int(i), float(release[i])) for i in order]


def certain_gap(counter: Binary | Hybrid, slot: int, beta: float) -> float:
    """The gap that decides: a bin whose true count is this far above the (k + 1)-th is among the k largest estimates.

    Except with probability β. It is twice the error that no bin exceeds but with probability β, by the union bound.

    >>> round(certain_gap(Hybrid(epsilon=1, bins=100), slot=1024, beta=0.01))
    118
    """
    bound = counter.error_bound(slot, beta / counter.bins)
    return math.nextafter(2 * bound, math.inf)
