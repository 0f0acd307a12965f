"""Noise: numbers of finite precision, draws that are repeated, sparse vector, and texts that only occur with a user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import TextHistogram
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.text_histogram import FoundTexts, SparseHistogram
from dpi.mechanism.value_discovery import Discovering
from dpi.noise import RandomSource, SystemSource, add_laplace
from dpi.testing.laws import Finite, Joint, Laplace, Law, Point, Shown
from dpi_audit._distinguishers import Floats
from dpi_audit.exact import loss_on
from dpi_audit.neighbours import TARGET, Rows, pair
from dpi_audit.samplers import (
    LEVELS,
    RATE,
    SCALE,
    SCORES,
    exponential_loss,
    geometric_loss,
    noise_loss,
    selection_law,
    selection_loss,
)
from dpi_audit.small import EPSILON, VALUES, discovery_session, growing_session
from dpi_audit.zoo.base import ALONE, EVERY, PER_SLOT, SLOTS, Check, Counts, Frame, Pair, on, units


def _float_laplace(with_user: bool, runs: int) -> Floats:
    """-sign(u)·ln(1 - 2|u|) in floats, added to a count in floats: the last bits tell the count (Mironov 2012)."""
    u = (SystemSource().words(runs) >> np.uint64(11)) / 2.0**53 - 0.5
    with np.errstate(divide="ignore"):
        noisy: Floats = float(with_user) - np.sign(u) * np.log1p(-2 * np.abs(u))
    return noisy[:, None]


def _discrete_laplace(with_user: bool, runs: int) -> Floats:
    """Exact whole numbers: a count of 2^20 grains, noise of scale 2^20."""
    noisy = add_laplace(np.full(runs, int(with_user) << 20), Fraction(1 << 20), SystemSource())
    return noisy[:, None].astype(np.float64)


def _geometric(source: RandomSource) -> int:
    """floor(-s·ln U) with U a multiple of 2^-64: the largest noise is 44 s, and beyond that the loss is infinite."""
    return int(-float(SCALE) * np.log((int(source.words(1)[0]) + 1) / 2.0**64))


def _selection_law(scores: Sequence[int]) -> Finite:
    """Weights as whole numbers of 2^-62: a candidate far behind has weight zero and can never be chosen."""
    weights = [int(2.0**62 * np.exp(-float(RATE) * (max(scores) - score))) for score in scores]
    edges = np.cumsum(np.array(weights, dtype=object))

    def choose(source: RandomSource) -> int:
        return int(np.searchsorted(edges, int(source.words(1)[0]) * sum(weights) >> 64, side="right"))

    return selection_law(choose, len(scores))


class _Retry(Counts):
    """After a crash the slot is measured anew: two draws of the same histogram are out, one is paid."""

    def look(self, rows: Rows) -> Law:
        return Joint((Laplace(units(rows), GRAINS / PER_SLOT),) * 2)


def _draw_again(draws: int) -> Check:
    """Sample runs of one slot with ε = 1, drawn once or twice."""

    def run(with_user: bool, runs: int) -> Floats:
        noisy = add_laplace(np.full(runs * draws, int(with_user) * GRAINS), Fraction(GRAINS), SystemSource())
        return noisy.reshape(runs, draws).astype(np.float64)

    kind, most = (_Retry, 70_000) if draws > 1 else (Counts, 2_000)
    return Check(EPSILON, exact=lambda: loss_on(kind, ALONE), sample=run, most_runs=most)


class _Saturation(Frame):
    """A negative count is let out as it is (or cut to zero, which is a function of it)."""

    again = False

    def look(self, rows: Rows) -> Law:
        """Return the Laplace law; where it is drawn again, given that the result is not negative."""
        rate, count = float(PER_SLOT), sum(value == VALUES[0] for _, value in rows)
        # P(y ≥ 0) for a count of c is 1 - e^(-rate·(c + 1))/(1 + e^-rate).
        accepted = math.log1p(-math.exp(-rate * (count + 1)) / (1 + math.exp(-rate))) if self.again else 0.0
        top = math.log(math.tanh(rate / 2)) - accepted
        return Finite({y: top - rate * abs(y - count) for y in range(0 if self.again else -400, 400)})


class _Rejection(_Saturation):
    """A negative count is drawn again until it is none: the number of tries depends on the count."""

    again = True


THRESHOLD, CUT = 3, 3
_FAR = 240
"""The threshold's noise is summed up to ± this many steps: what lies beyond has a probability below e^-60."""


class SparseVector(Frame):
    """One question a slot, "is the count above the threshold?" (Lyu, Su and Li 2017, Algorithm 1).

    The threshold gets noise of scale 2/ε once, every count noise of scale 4c/ε, and after c times "above" it stops. The
    variants leave out one of these. It keeps the law of the threshold's noise given all answers so far, so each next
    answer's law is exact.
    """

    def __init__(self, count_scale: float = 4.0 * CUT, stop_after: int | None = CUT) -> None:
        self._scale, self._stop_after, self._found = count_scale, stop_after, 0
        self._noise = np.arange(-_FAR, _FAR + 1)
        self._weights = np.exp(-np.abs(self._noise) / 2.0)
        self._above: Floats = np.zeros(self._noise.size)

    def look(self, rows: Rows) -> Law:
        """Return the law of above or below, given the past; nothing after the stop."""
        if self._stop_after is not None and self._found >= self._stop_after:
            return Point("stopped")
        count = sum(value == VALUES[0] for _, value in rows)
        self._above = _tail(THRESHOLD + self._noise - count, self._scale)
        total = float(self._weights.sum())
        chances = {"above": float(self._weights @ self._above), "below": float(self._weights @ (1 - self._above))}
        return Finite({answer: math.log(p / total) for answer, p in chances.items() if p > 0})

    def force(self, output: object) -> object:
        """Remember the answer, and what it says of the threshold."""
        if output != "stopped":
            self._weights = self._weights * (self._above if output == "above" else 1 - self._above)
            self._weights = self._weights / max(float(self._weights.max()), 1e-300)
            self._found += output == "above"
        return super().force(output)


def _tail(gap: npt.NDArray[np.int64], scale: float) -> Floats:
    """P(Z ≥ gap) for discrete Laplace noise Z of the given scale; without noise, whether gap ≤ 0."""
    if scale == 0:
        return (gap <= 0).astype(np.float64)
    rest = np.exp(-np.abs(gap) / scale) / (1 + math.exp(-1 / scale))
    return np.where(gap > 0, rest, 1 - rest * math.exp(-1 / scale))


TURNS = pair("in turns", [((f"other-{t}" if t % 2 else TARGET, VALUES[0]),) for t in range(SLOTS)])
"""The user alone and somebody else alone, in turns: the same count, if the user is there."""


def _sparse_vector(name: str, count_scale: float, stop_after: int | None) -> Pair:
    return Pair(
        f"sparse vector: {name}",
        "Lyu, Su and Li 2017, Algorithms 4 to 6",
        on(lambda: SparseVector(count_scale, stop_after), TURNS, ALONE),
        on(SparseVector, TURNS, ALONE),
    )


@dataclass(frozen=True)
class _OnlySeen(SparseHistogram):
    """Noise and a threshold for values that occur, and no other: a value that is shown is somebody's, for sure.

    It is (ε, δ)-DP for the δ with which the value of one user alone passes, and ε-DP for no ε. So is a mechanism that
    draws values of nobody and then asks the data which of them occur.
    """

    kind = "broken_only_seen"

    def law(self, state: FoundTexts, histogram: TextHistogram, epsilon: Epsilon) -> Law:
        return Shown(self, state, histogram, epsilon, drawn=False)


@dataclass(frozen=True)
class _Size(SparseHistogram):
    """The threshold is that of a universe of as many values as occur: it tells everybody how many there are."""

    kind = "broken_size"

    def law(self, state: FoundTexts, histogram: TextHistogram, epsilon: Epsilon) -> Law:
        return Joint((Point(len(histogram.texts)), Shown(self, state, histogram, epsilon)))


@dataclass(frozen=True)
class _OnePrice(Discovering):
    """Listed values and texts are measured with the whole price each: two looks for one payment."""

    kind = "broken_one_price"

    def split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        return epsilon, epsilon


PAIRS = (
    Pair("discovery and releases for one price", "a part of every price is for each (dpi.mechanism.value_discovery)",
         on(growing_session(_OnePrice(Boosted())), ALONE, EVERY), on(growing_session(), ALONE, EVERY)),
    Pair("discovery among the values that occur",
         "a value that nobody else has is shown with one user, and never without (dpi.noise.sparse_laplace)",
         on(discovery_session(_OnlySeen(most=len(VALUES))), ALONE, EVERY), on(discovery_session(), ALONE, EVERY)),
    Pair("a threshold by the number of values seen",
         "how many values there are is private; the universe is declared (dpi.domain._texts)",
         on(discovery_session(_Size(most=len(VALUES))), ALONE), on(discovery_session(), ALONE)),
    Pair("fresh noise on retry", "two draws of one slot cost twice",
         _draw_again(2), _draw_again(1)),
    Pair("a retry that depends on the value", "P(y)/P(accepted) is no Laplace law",
         on(_Rejection, ALONE), on(_Saturation, ALONE)),
    Pair("float Laplace noise", "sums of floats keep a trace of their parts (Mironov 2012)",
         Check(EPSILON, sample=_float_laplace, most_runs=400_000),
         Check(EPSILON, sample=_discrete_laplace, most_runs=8_000)),
    Pair("noise of 64 fixed bits", "bounded support is not pure DP",
         Check(1 / SCALE, exact=lambda: geometric_loss(_geometric, SCALE, LEVELS)), Check(1 / SCALE, exact=noise_loss)),
    Pair("weights truncated to zero", "a candidate that cannot be chosen tells its score",
         Check(2 * RATE, exact=lambda: selection_loss(_selection_law, SCORES, RATE)),
         Check(2 * RATE, exact=exponential_loss)),
    _sparse_vector("no noise on the counts", 0.0, CUT),
    _sparse_vector("it never stops", 4.0, None),
    _sparse_vector("noise not scaled by c", 4.0, 12),
)  # fmt: skip
