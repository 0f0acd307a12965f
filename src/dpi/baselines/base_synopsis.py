"""Base generators for boosting: a synopsis that answers a few noisy queries well. Post-processing of noisy answers."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np

from dpi.baselines.accounting import Floats
from dpi.errors import OptionError
from dpi.integers import Integers

LARGEST_SEARCH = 1_000_000
"""More databases than this are not enumerated."""


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

    >>> pdf = best_on_simplex(np.array([[1, 0], [0, 1]]), np.array([0.7, 0.5]))
    >>> pdf.round(3).tolist()
    [0.6, 0.4]
    """
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise OptionError("boosting on the simplex needs scipy: install the extra `compare`.") from None
    count, bins = queries.shape
    slack = np.ones((count, 1))
    matrix = np.block([[queries, -slack], [-queries, -slack]])
    cost = np.append(np.zeros(bins), 1.0)
    total = np.append(np.ones(bins), 0.0)[None, :]
    found = linprog(cost, matrix, np.concatenate([answers, -answers]), total, [1.0], bounds=(0, None), method="highs")
    pdf = np.maximum(found.x[:bins], 0)
    return np.asarray(pdf / pdf.sum())
