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
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.small import EPSILON, VALUES, tight_published
from dpi_audit.zoo.base import ALONE, COST, RETURNING, SLOTS, Frame, Pair, on, stream_session

MU = ZETA = 0.1
POOL = 10**6


def choice_law(coefficient: float, score: float) -> Finite:
    """Return the law of a draw: the lone synopsis has weight e^(coefficient·score), others e^(-coefficient·score)."""
    lone, other = coefficient * score, -coefficient * score
    top = max(lone, other)
    total = top + math.log(math.exp(lone - top) + (POOL - 1) * math.exp(other - top))
    return Finite({"lone": lone - total, "other": other - total})


class BrokenAlgorithm1(Frame):
    """Weights exp(α_t·Σ_{j≤t} score_j), α_t = X_t/2, drawn from in every slot; Theorem 1 charges for one score."""

    def __init__(self, draws: int, slots: int) -> None:
        self._draws, self._sum = draws, 0.0
        self._exponents = exponents(slots, float(EPSILON), MU, ZETA)

    def look(self, rows: Rows) -> Law:
        """Return the law of draws of synopses by the sum of all scores so far."""
        self._next = self._sum + (1.0 if rows else -1.0)
        return Joint((choice_law(float(self._exponents[self.step]) / 2, self._next),) * self._draws)

    def force(self, output: object) -> object:
        """Add the score."""
        self._sum = self._next
        return super().force(output)

    @property
    def claimed(self) -> Fraction:  # type: ignore[override]
        """Theorem 1."""
        return Fraction(claimed_loss(max(1, self.step), float(EPSILON), MU, ZETA))


class _Accumulation(Frame):
    """Scores are the mean over *all* slots, of the data: who has left and paid no more is still drawn from.

    A user of five slots was charged all of ε, and no more.
    """

    def __init__(self) -> None:
        self._sum = 0.0

    def look(self, rows: Rows) -> Law:
        """Return the exponential mechanism, at a rate that is right for one slot's score: ε_t/(2·2)."""
        self._next = self._sum + (1.0 if rows else -1.0)
        return choice_law(float(COST) / 4, self._next / (self.step + 1))

    def force(self, output: object) -> object:
        self._sum = self._next
        return super().force(output)


DEPARTED = pair("there for five slots", [(((TARGET, VALUES[0]),) if slot < 5 else ()) for slot in range(60)])
SPENCE = dpi.Converging(dpi.budget.Spence(mu=MU, zeta=ZETA))
ACCUMULATIVE = stream_session(mechanism=tight_published(3, accumulative=True), budget=dpi.Ledger(per_slot=COST))

PAIRS = (
    Pair("Algorithm 1 with its own accounting, 20 draws",
         "the sum of t scores moves by t terms, and every draw counts",
         on(lambda: BrokenAlgorithm1(20, SLOTS), ALONE),
         on(stream_session(mechanism=tight_published(3), budget=SPENCE), ALONE)),
    Pair("accumulative scores with a ledger", "the past of a user who left is drawn from again",
         on(_Accumulation, DEPARTED), on(ACCUMULATIVE, RETURNING, ALONE)),
)  # fmt: skip
