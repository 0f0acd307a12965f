"""Algorithm 1 as published: scores that add up over slots, and an accounting that forgets it.

The pool has one synopsis that says what the user says (all in bin a), and many that are uniform. With the user, alone
in a slot, the lone synopsis scores +1 and the others -1; in an empty slot, which counts as uniform, the reverse.
"""

from __future__ import annotations

import math
from fractions import Fraction

import dpi
from dpi.testing.laws import Finite, Joint, Law
from dpi.theory import claimed_loss, exponents
from dpi_audit import neighbours
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream_session
from dpi_audit.tight import tight_published
from dpi_audit.zoo.base import Pair, on

MU = ZETA = 0.1
POOL = 10**6


def choice_law(coefficient: float, score: float) -> Finite:
    """One draw from the pool: the lone synopsis has weight e^(coefficient·score), each other e^(-coefficient·score)."""
    lone, other = coefficient * score, -coefficient * score
    top = max(lone, other)
    total = top + math.log(math.exp(lone - top) + (POOL - 1) * math.exp(other - top))
    return Finite({"lone": lone - total, "other": other - total})


class BrokenAlgorithm1:
    """Weights exp(α_t·Σ_{j≤t} score_j), α_t = X_t/2, drawn from in every slot; Theorem 1 charges for one score."""

    def __init__(self, draws: int, slots: int) -> None:
        self._draws, self._step, self._sum = draws, 0, 0.0
        self._exponents = exponents(slots, float(EPSILON), MU, ZETA)

    def look(self, rows: Rows) -> Law:
        """Draws of synopses by the sum of all scores so far."""
        score = 1.0 if rows else -1.0
        law = choice_law(float(self._exponents[self._step]) / 2, self._sum + score)
        self._next = self._sum + score
        return Joint((law,) * self._draws)

    def force(self, output: object) -> object:
        """Go on."""
        self._sum = self._next
        self._step += 1
        return None

    @property
    def claimed(self) -> Fraction:
        """Theorem 1."""
        return Fraction(claimed_loss(max(1, self._step), float(EPSILON), MU, ZETA))


class BrokenAccumulation:
    """Scores are the mean over *all* slots, of the data: who has left and paid no more is still drawn from."""

    cost = Fraction(1, 5)

    def __init__(self) -> None:
        self._scores: list[float] = []

    def look(self, rows: Rows) -> Law:
        """The exponential mechanism, at a rate that is right for one slot's score: ε_t/(2·2)."""
        self._score = 1.0 if rows else -1.0
        mean = (sum(self._scores) + self._score) / (len(self._scores) + 1)
        return choice_law(float(self.cost) / 4, mean)

    def force(self, output: object) -> object:
        """Go on."""
        self._scores.append(self._score)
        return None

    @property
    def claimed(self) -> Fraction:
        """What the ledger has charged a user of five slots: all of ε, and no more."""
        return EPSILON


DEPARTED = pair("there for five slots", [(((TARGET, VALUES[0]),) if slot < 5 else ()) for slot in range(60)])
ALONE = neighbours.alone(SLOTS, VALUES)

PAIRS = (
    Pair(
        "Algorithm 1 with its own accounting, 20 draws",
        "the sum of t scores moves by t terms, and every draw counts",
        on(lambda: BrokenAlgorithm1(20, SLOTS), ALONE),
        on(
            stream_session(mechanism=tight_published(3), budget=dpi.Converging(dpi.budget.Spence(mu=MU, zeta=ZETA))),
            ALONE,
        ),
    ),
    Pair(
        "accumulative scores with a ledger",
        "the past of a user who left is drawn from again",
        on(BrokenAccumulation, DEPARTED),
        on(
            stream_session(mechanism=tight_published(3, accumulative=True), budget=dpi.Ledger(per_slot="0.2")),
            neighbours.returning(SLOTS, VALUES),
            ALONE,
        ),
    ),
)
