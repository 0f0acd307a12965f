"""Base generators for boosting: a synopsis that answers a few noisy queries well. Post-processing of noisy answers."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats

LARGEST_SEARCH = 1_000_000
"""More databases than this are not enumerated."""

_SLACK = 1e-7
"""Within the solver's own tolerance."""


def sample_size(rows: int, universe: int, eta: float, beta: float) -> int:
    """Queries that make a database that is right on them right on most: ⌈2(ln(2/β) + rows·ln|X|)/(1 - 2η)⌉.

    >>> sample_size(rows=3, universe=4, eta=0.1, beta=0.05)
    20
    """
    return math.ceil(2 * (math.log(2 / beta) + rows * math.log(universe)) / (1 - 2 * eta))


def first_database(queries: Integers, answers: Floats, rows: int, tolerance: float) -> Floats | None:
    """The lexicographically first database of n rows within `tolerance` of every noisy answer, as a PDF; None is ⊥.

    Answers are normalised counts. The first of all row sequences is sorted, so only sorted ones are tried:
    C(|X| + n - 1, n) of them.

    >>> points = np.eye(3, dtype=np.int64)
    >>> first_database(points, np.array([0.5, 0.5, 0.0]), rows=2, tolerance=0.1).tolist()
    [0.5, 0.5, 0.0]
    >>> first_database(points, np.array([0.9, 0.9, 0.9]), rows=2, tolerance=0.1) is None
    True
    """
    universe = queries.shape[1]
    if math.comb(universe + rows - 1, rows) > LARGEST_SEARCH:
        raise OptionError(
            f"the exact generator tries all databases, at most {LARGEST_SEARCH:,}: use fewer rows or bins, or the "
            'generator "simplex".'
        )
    for database in combinations_with_replacement(range(universe), rows):
        shares = np.bincount(database, minlength=universe) / rows
        if np.all(np.abs(queries @ shares - answers) <= tolerance):
            return np.asarray(shares)
    return None


def best_on_simplex(queries: Integers, answers: Floats) -> Floats:
    """The PDF with the smallest largest error on the noisy answers, by linear programming (scipy).

    Bins that the queries do not tell apart share evenly. Of all PDFs that are left, the one whose densest or thinnest
    part is nearest to uniform: without that, a corner of the simplex is found and most bins are empty.

    >>> pdf = best_on_simplex(np.array([[1, 0, 0], [0, 1, 1]]), np.array([0.7, 0.5]))
    >>> pdf.round(3).tolist()
    [0.6, 0.2, 0.2]
    """
    parts, place, sizes = np.unique(queries, axis=1, return_inverse=True, return_counts=True)
    error, _ = _least_largest(parts, answers)
    density = np.full(sizes.size, 1 / sizes.sum())
    _, masses = _least_largest(np.diag(1 / sizes), density, (parts, answers, error + _SLACK))
    pdf = (np.maximum(masses, 0) / sizes)[place.ravel()]
    return np.asarray(pdf / pdf.sum())


def _least_largest(
    matrix: Integers | Floats, goal: Floats, within: tuple[Integers, Floats, float] | None = None
) -> tuple[float, Floats]:
    """The least max|matrix·z - goal| over PDFs z, and such a z; `within` (M, y, s) demands |M·z - y| ≤ s as well."""
    from scipy.optimize import linprog

    rows, bins = matrix.shape
    slack = np.ones((rows, 1))
    left = [np.block([[matrix, -slack], [-matrix, -slack]])]
    right = [goal, -goal]
    if within is not None:
        kept, around, most = within
        left.append(np.pad(np.vstack([kept, -kept]), ((0, 0), (0, 1))))
        right += [around + most, most - around]
    cost, total = np.append(np.zeros(bins), 1.0), np.append(np.ones(bins), 0.0)[None, :]
    found = linprog(cost, np.vstack(left), np.concatenate(right), total, [1.0], bounds=(0, None), method="highs")
    return float(found.x[bins]), np.asarray(found.x[:bins])
