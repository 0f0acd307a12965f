"""Dwork, Rothblum and Vadhan: boosting for queries. Weak synopses, a harder sample of queries each round, medians."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.noise import exponential_choices
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Baseline, check_count

LARGEST_SEARCH = 1_000_000
"""More databases than this are not enumerated."""

_SLACK = 1e-7
"""Within the solver's own tolerance."""


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
    solution = linprog(cost, np.vstack(left), np.concatenate(right), total, [1.0], bounds=(0, None), method="highs")
    return float(solution.x[bins]), np.asarray(solution.x[:bins])


RAMP = 1 << 16
"""Scores are whole numbers; 1 is this many."""
ANSWER = 1 << 20
"""Answers of synopses are rounded to this part of a record: a public number."""
LARGEST_ROWS = 1 << 24


class QueryBoosting(Baseline):
    """Each slot's histogram from boosted synopses; slots are boosted one by one.

    rows: the public number n of rows that counts are divided by.
    queries: a matrix of 0 and 1, a query a row; by default every bin and every dyadic range.
    sample: queries drawn in each of the `rounds`.
    eta: margin of the weak learner; lam, mu: the ramp goes from λ to λ + μ.
    generator: "simplex" (a PDF by linear programming) or "exact" (the first database that fits, or ⊥).
    base_delta: None for pure noise k/ε_b; else noise 2·√(2k·ln(1/δ))/ε_b, (ε_b, δ)-DP in each round.

    **Guarantee.** ε-DP for one record (with T·δ if `base_delta` is given). *Why:* one record moves a query by ρ = 1/n,
    hence a past round's score by at most 2ρ/μ (and one unit of rounding). A draw of round t is an exponential mechanism
    over t - 1 past scores at rate α, so it loses 4α(t - 1)ρ/μ; k draws in each of T rounds lose ε_s = 2kαρT(T - 1)/μ.
    The k noisy answers lose ε_b a round, with ε_b = (ε - ε_s)/T. Everything else sees these only.

    >>> mechanism = QueryBoosting(epsilon=10, bins=4, rows=100, rounds=3, sample=8)
    >>> mechanism.update([50, 30, 20, 0]).shape
    (4,)
    >>> round(float(mechanism.sample_epsilon), 2), round(float(mechanism.base_epsilon), 2)
    (1.95, 2.68)
    """

    held = ("_synopses",)

    rows: int
    queries: Integers | None = field(default=None, repr=False)
    rounds: int = 5
    sample: int = 10
    eta: float = 0.1
    lam: Amount = Fraction(1, 10)
    mu: Amount = Fraction(1, 10)
    generator: Literal["simplex", "exact"] = "simplex"
    base_delta: float | None = None

    def _start(self) -> None:
        for name in ("rows", "rounds", "sample"):
            check_count(getattr(self, name), name)
        if self.rows > LARGEST_ROWS:
            raise OptionError(f"`rows` must be at most 2^24. Got {self.rows}.")
        if not 0 < self.eta < 0.5:
            raise OptionError(f"`eta` must be between 0 and 1/2. Got {self.eta}.")
        if self.generator not in ("simplex", "exact"):
            raise OptionError(f'`generator` must be "simplex" or "exact". Got {self.generator!r}.')
        lam, mu = rational(self.lam, "lam"), rational(self.mu, "mu")
        if not (0 < lam < 1 and 0 < mu < 1):
            raise OptionError(f"`lam` and `mu` must be between 0 and 1. Got {self.lam}, {self.mu}.")
        self._lam, self._mu = int(lam * self.rows * ANSWER), max(1, int(mu * self.rows * ANSWER))
        self._queries = dyadic_queries(self.bins) if self.queries is None else self.queries
        if self._queries.ndim != 2 or self._queries.shape[1] != self.bins or not np.isin(self._queries, (0, 1)).all():
            raise OptionError(f"`queries` must be a matrix of 0 and 1 with {self.bins} columns.")
        self.alpha = Fraction(math.log((1 + 2 * self.eta) / (1 - 2 * self.eta)) / 2)
        self._split()
        self._synopses: list[Floats] = []

    def _split(self) -> None:
        """Take the draws' loss off ε; the rest is for the noisy answers."""
        moved = 2 * RAMP * ANSWER // self._mu + 1  # how far one record moves one past score
        draws = self.sample * self.rounds * (self.rounds - 1) // 2
        self.sample_epsilon = 2 * draws * self.alpha * moved / RAMP
        self.base_epsilon = (self.rate - self.sample_epsilon) / self.rounds
        if self.base_epsilon <= 0:
            raise OptionError(
                f"drawing queries alone costs {float(self.sample_epsilon):.3g}: raise `epsilon`, `mu` or `rows`, or "
                "lower `rounds` or `sample`."
            )
        factor = Fraction(self.sample)
        if self.base_delta is not None:
            check_between(self.base_delta, "delta")
            factor = Fraction(2 * math.sqrt(2 * self.sample * math.log(1 / self.base_delta)) * (1 + 1e-12))
        self.scale = factor / self.base_epsilon
        """Of the noise on each sampled answer, in records."""

    def _step(self, grains: Integers) -> Floats:
        # Cutting a bin at n moves no two histograms further apart, and keeps the scores in 64 bits.
        truth = np.minimum(self._queries @ np.minimum(grains // GRAINS, self.rows), self.rows)
        scores = np.zeros(truth.size, dtype=np.int64)
        self._synopses = []
        for _ in range(self.rounds):
            drawn = exponential_choices(-scores, self.alpha / RAMP, self._source, self.sample)
            answers = self._laplace(truth[drawn] * GRAINS, self.scale) / (GRAINS * self.rows)
            synopsis = self._generate(self._queries[drawn], answers)
            if synopsis is not None:
                self._synopses.append(synopsis)
                scores = scores + self._score(truth, synopsis)
        return self.rows * self.answer(np.eye(self.bins, dtype=np.int64))

    def _generate(self, queries: Integers, answers: Floats) -> Floats | None:
        if self.generator == "simplex":
            return best_on_simplex(queries, answers)
        return first_database(queries, answers, self.rows, float(rational(self.lam)) / 2)

    def _score(self, truth: Integers, synopsis: Floats) -> Integers:
        """The ramp of every query, in whole numbers: 1 up to an error of λ, -1 from λ + μ."""
        answers = np.rint(self._queries @ synopsis * ANSWER).astype(np.int64)
        error = np.abs(truth * ANSWER - answers * self.rows)
        return np.asarray(np.clip(RAMP - 2 * RAMP * (error - self._lam) // self._mu, -RAMP, RAMP))

    def answer(self, queries: Integers) -> Floats:
        """Medians of the last slot's synopses on any queries, as shares of n; NaN if every round gave ⊥."""
        if not self._synopses:
            return np.full(len(queries), np.nan)
        return np.asarray(np.median([queries @ synopsis for synopsis in self._synopses], axis=0))

    @property
    def delta(self) -> float:
        """Of all rounds."""
        return 0.0 if self.base_delta is None else self.rounds * self.base_delta

    def loss(self, slots: int) -> Loss:
        """A bound by composition; the loss of the draws is a bound already."""
        return Loss(pure=slots * self.rate)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        pure = self.loss(slots).scaled(records).epsilon()
        if self.base_delta is None or slots == 0:
            return pure
        size = max(1.0, float(records))
        needed = slots * size * math.exp(min(700.0, (size - 1) * float(self.rate))) * self.delta
        return math.inf if delta is None or delta < needed else pure


def dyadic_queries(bins: int) -> Integers:
    """Every bin, and every block of 2, 4, 8, … bins.

    >>> dyadic_queries(3).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]]
    """
    rows = []
    size = 1
    while size < 2 * bins:
        for start in range(0, bins, size):
            row = np.zeros(bins, dtype=np.int64)
            row[start : start + size] = 1
            if row.sum() == min(size, bins):
                rows.append(row)
        size *= 2
    return np.array(rows)
