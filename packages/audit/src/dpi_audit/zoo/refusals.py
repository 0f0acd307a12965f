"""Refusals: a mechanism that raises, or not, by what is in the data. That it raised is an output without noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpi.exact.integers import GRAINS
from dpi.testing.laws import Finite, Law
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.small import EPSILON, SLOTS, VALUES
from dpi_audit.zoo.base import PER_SLOT, Pair, on, units

EVERY = neighbours.every_slot(SLOTS, VALUES)
LIMIT = GRAINS
"""Scores must span less than this many grains; a user moves one score by as many."""
RUNS = 512


class CorrectChoice:
    """The value that most have, by an exponential mechanism of 1/24 of ε in every step, whatever the scores span."""

    refuses = False

    def look(self, rows: Rows) -> Law:
        """The law of the choice; a refusal is an output like any other."""
        scores = units(rows)
        if self.refuses and int(scores.max() - scores.min()) >= LIMIT:
            return Finite({"refused": 0.0})
        logarithms = (scores - scores.max()) / GRAINS * float(PER_SLOT / 2)
        logarithms -= np.log(np.exp(logarithms).sum())
        return Finite(dict(zip(VALUES, logarithms.tolist(), strict=True)))

    def force(self, output: object) -> object:
        """Nothing besides."""
        return None

    @property
    def claimed(self) -> Fraction:
        """ε, over the 24 steps."""
        return EPSILON


class BrokenRefusal(CorrectChoice):
    """Scores whose span its arithmetic has no room for are refused: one user more, and the slot raises."""

    refuses = True


PAIRS = (
    Pair(
        "a refusal that depends on private scores",
        "whether a slot raises is seen by everybody, and has no noise",
        on(BrokenRefusal, EVERY, runs=RUNS),
        on(CorrectChoice, EVERY, runs=RUNS),
    ),
)
