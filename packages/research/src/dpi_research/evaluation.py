"""How far releases are from a truth: for whoever holds the truth, and for nobody else.

A truth is a clean PDF or statistic, which is private, and so is a number computed from it: a mean squared error tells
about users. Nothing that an analyst can reach imports this module (a contract of the package holds it), and it is not
among the names of `dpi.apps`. Use it on public or made-up data, or as the curator.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError

Floats = npt.NDArray[np.float64]


def mean_squared_error(truth: Sequence[float], released: Sequence[float]) -> float:
    """The mean of squared differences.

    >>> mean_squared_error([1, 2], [1, 4])
    2.0
    """
    wanted, estimate = np.asarray(truth, dtype=np.float64), np.asarray(released, dtype=np.float64)
    if wanted.shape != estimate.shape or not wanted.size:
        raise OptionError("`truth` and `released` must have the same length, at least one.")
    return float(((wanted - estimate) ** 2).mean())


def divergence(truth: Floats, released: Floats) -> float:
    """KL(truth ‖ released): the information lost if the release is taken for the truth.

    >>> round(divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])), 4)
    0.6931
    """
    if truth.shape != released.shape:
        raise OptionError("`truth` and `released` must have the same length.")
    some = truth > 0
    return float(truth[some] @ np.log(truth[some] / np.maximum(released[some], 1e-300)))


@dataclass(frozen=True)
class Agreement:
    """What of the found was wanted, and what of the wanted was found."""

    precision: float
    recall: float


def agreement(wanted: Iterable[Hashable], found: Iterable[Hashable]) -> Agreement:
    """Precision and recall of a set against the non-private result; of nothing, both are 0.

    >>> agreement({"a", "b"}, {"b", "c", "d", "e"})
    Agreement(precision=0.25, recall=0.5)
    """
    one, other = set(wanted), set(found)
    both = len(one & other)
    return Agreement(both / len(other) if other else 0.0, both / len(one) if one else 0.0)


def highest(scores: Floats, share: float) -> frozenset[int]:
    """The places of the highest scores, a share of all; of equal scores the earlier ones.

    >>> sorted(highest(np.array([3.0, 9.0, 1.0, 9.0]), 0.5))
    [1, 3]
    """
    if not 0 < share <= 1:
        raise OptionError(f"`share` must be above 0 and at most 1. Got {share!r}.")
    flat = scores.ravel()
    return frozenset(np.argsort(-flat, kind="stable")[: round(share * flat.size)].tolist())
