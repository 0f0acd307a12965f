"""Sparse vector: one question a slot, "is the count above the threshold?", and what goes wrong with it.

The right one (Lyu, Su and Li 2017, Algorithm 1): the threshold gets noise of scale 2/ε once, every count noise of scale
4c/ε, and after c times "above" it stops. The variants leave out one of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.testing.laws import Finite, Law, Point
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.small import EPSILON, SLOTS, VALUES
from dpi_audit.zoo.base import Pair, on

Floats = npt.NDArray[np.float64]
THRESHOLD = 3
_FAR = 240
"""The threshold's noise is summed up to ± this many steps: what lies beyond has a probability below e^-60."""


@dataclass(frozen=True)
class Variant:
    """Which noise, and when to stop."""

    threshold_scale: float
    count_scale: float
    stop_after: int | None


CUT = 3
CORRECT = Variant(2.0, 4.0 * CUT, CUT)
NO_NOISE = Variant(2.0, 0.0, CUT)
NO_STOP = Variant(2.0, 4.0, None)
NO_CUT_FACTOR = Variant(2.0, 4.0, 12)


class SparseVector:
    """Keeps the law of the threshold's noise given all answers so far, so each next answer's law is exact."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._noise = np.arange(-_FAR, _FAR + 1)
        self._weights = np.exp(-np.abs(self._noise) / variant.threshold_scale)
        self._above: Floats = np.zeros(self._noise.size)
        self._found = 0

    def look(self, rows: Rows) -> Law:
        """Above or below, given the past; nothing after the stop."""
        if self._variant.stop_after is not None and self._found >= self._variant.stop_after:
            return Point("stopped")
        count = sum(value == VALUES[0] for _, value in rows)
        self._above = _tail(THRESHOLD + self._noise - count, self._variant.count_scale)
        total = float(self._weights.sum())
        chances = {"above": float(self._weights @ self._above), "below": float(self._weights @ (1 - self._above))}
        return Finite({answer: math.log(p / total) for answer, p in chances.items() if p > 0})

    def force(self, output: object) -> object:
        """Remember the answer, and what it says of the threshold."""
        if output != "stopped":
            self._weights = self._weights * (self._above if output == "above" else 1 - self._above)
            self._weights = self._weights / max(float(self._weights.max()), 1e-300)
            self._found += output == "above"
        return None

    @property
    def claimed(self) -> Fraction:
        """ε for the whole transcript."""
        return EPSILON


def _tail(gap: npt.NDArray[np.int64], scale: float) -> Floats:
    """P(Z ≥ gap) for discrete Laplace noise Z of the given scale; without noise, whether gap ≤ 0."""
    if scale == 0:
        return (gap <= 0).astype(np.float64)
    rest = np.exp(-np.abs(gap) / scale) / (1 + math.exp(-1 / scale))
    return np.where(gap > 0, rest, 1 - rest * math.exp(-1 / scale))


def _rows(slot: int) -> Rows:
    """The user alone and somebody else alone, in turns: the same count, if the user is there."""
    return ((f"other-{slot}" if slot % 2 else TARGET, VALUES[0]),)


TURNS = pair("in turns", [_rows(slot) for slot in range(SLOTS)])
ALL = pair("every slot", [((TARGET, VALUES[0]),) for _ in range(SLOTS)])


def broken(variant: Variant) -> Pair:
    """One wrong variant beside the right one."""
    names = {NO_NOISE: "no noise on the counts", NO_STOP: "it never stops", NO_CUT_FACTOR: "noise not scaled by c"}
    return Pair(
        f"sparse vector: {names[variant]}",
        "Lyu, Su and Li 2017, Algorithms 4 to 6",
        on(lambda: SparseVector(variant), TURNS, ALL),
        on(lambda: SparseVector(CORRECT), TURNS, ALL),
    )


PAIRS = (broken(NO_NOISE), broken(NO_STOP), broken(NO_CUT_FACTOR))
