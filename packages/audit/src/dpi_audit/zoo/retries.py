"""Retries: a slot that is drawn again, or drawn until it looks right."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpi.exact.integers import GRAINS
from dpi.noise import SystemSource, add_laplace
from dpi.testing.laws import Finite, Joint, Laplace, Law
from dpi_audit import neighbours
from dpi_audit.distinguishers import Floats
from dpi_audit.exact import loss_on
from dpi_audit.neighbours import Rows
from dpi_audit.small import EPSILON, SLOTS, VALUES
from dpi_audit.zoo.base import PER_SLOT, Check, Counts, Pair, on, units

ALONE = neighbours.alone(SLOTS, VALUES)


class BrokenRetry(Counts):
    """After a crash the slot is measured anew: two draws of the same histogram are out, one is paid."""

    def look(self, rows: Rows) -> Law:
        """Two measurements."""
        return Joint((Laplace(units(rows), GRAINS / PER_SLOT),) * 2)


def _log_mass(y: int, value: int, rate: float) -> float:
    return math.log(math.tanh(rate / 2)) - rate * abs(y - value)


class BrokenRejection:
    """A negative count is drawn again until it is none: the number of tries depends on the count."""

    rate = float(PER_SLOT)
    again = True

    def look(self, rows: Rows) -> Law:
        """The Laplace law, given that the result is not negative."""
        count = sum(value == VALUES[0] for _, value in rows)
        # P(y ≥ 0) for a count of c is 1 - e^(-rate·(c + 1))/(1 + e^-rate).
        accepted = math.log1p(-math.exp(-self.rate * (count + 1)) / (1 + math.exp(-self.rate))) if self.again else 0.0
        first = 0 if self.again else -400
        return Finite({y: _log_mass(y, count, self.rate) - accepted for y in range(first, 400)})

    def force(self, output: object) -> object:
        """Nothing besides."""
        return None

    @property
    def claimed(self) -> Fraction:
        """ε over all steps."""
        return EPSILON


class CorrectSaturation(BrokenRejection):
    """A negative count is let out as it is (or cut to zero, which is a function of it)."""

    again = False


def _sampled(draws: int) -> Check:
    """Runs of one slot with ε = 1, drawn once or twice."""

    def run(with_user: bool, runs: int) -> Floats:
        count = np.full(runs * draws, int(with_user) * GRAINS)
        noisy = add_laplace(count, Fraction(GRAINS), SystemSource())
        return noisy.reshape(runs, draws).astype(np.float64)

    broken = draws > 1
    return Check(
        EPSILON,
        exact=lambda: loss_on(BrokenRetry if broken else Counts, ALONE),
        sample=run,
        most_runs=70_000 if broken else 2_000,
    )


PAIRS = (
    Pair(
        "fresh noise on retry",
        "two draws of one slot cost twice",
        _sampled(2),
        _sampled(1),
    ),
    Pair(
        "a retry that depends on the value",
        "P(y)/P(accepted) is no Laplace law",
        on(BrokenRejection, ALONE),
        on(CorrectSaturation, ALONE),
    ),
)
