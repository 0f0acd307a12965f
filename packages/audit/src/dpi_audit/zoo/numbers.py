"""Numbers of finite precision: float noise, noise of 64 bits, weights that become zero."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpi.noise import RandomSource, SystemSource, add_laplace
from dpi.testing.laws import Finite
from dpi_audit.distinguishers import Floats
from dpi_audit.draws import LEVELS, RATE, SCALE, SCORES, exponential_loss, noise_loss
from dpi_audit.samplers import geometric_loss, selection_law, selection_loss
from dpi_audit.small import EPSILON
from dpi_audit.zoo.base import Check, Pair


def broken_float_laplace(with_user: bool, runs: int) -> Floats:
    """-sign(u)·ln(1 - 2|u|) in floats, added to a count in floats: the last bits tell the count (Mironov 2012)."""
    words = SystemSource().words(runs)
    u = (words >> np.uint64(11)) / 2.0**53 - 0.5
    with np.errstate(divide="ignore"):
        noisy: Floats = float(with_user) - np.sign(u) * np.log1p(-2 * np.abs(u))
    return noisy[:, None]


def correct_discrete_laplace(with_user: bool, runs: int) -> Floats:
    """Exact whole numbers: a count of 2^20 grains, noise of scale 2^20."""
    noisy = add_laplace(np.full(runs, int(with_user) << 20), Fraction(1 << 20), SystemSource())
    return noisy[:, None].astype(np.float64)


def broken_geometric(source: RandomSource) -> int:
    """floor(-s·ln U) with U a multiple of 2^-64: the largest noise is 44 s, and beyond that the loss is infinite."""
    u = (int(source.words(1)[0]) + 1) / 2.0**64
    return int(-float(SCALE) * np.log(u))


def broken_selection(scores: Sequence[int], source: RandomSource) -> int:
    """Weights as whole numbers of 2^-62: a candidate far behind has weight zero and can never be chosen."""
    top = max(scores)
    weights = [int(2.0**62 * np.exp(-float(RATE) * (top - score))) for score in scores]
    target = int(source.words(1)[0]) * sum(weights) >> 64
    return int(np.searchsorted(np.cumsum(np.array(weights, dtype=object)), target, side="right"))


def broken_law(scores: Sequence[int]) -> Finite:
    """The law of the broken one."""
    return selection_law(lambda source: broken_selection(scores, source), len(scores))


PAIRS = (
    Pair(
        "float Laplace noise",
        "sums of floats keep a trace of their parts (Mironov 2012)",
        Check(EPSILON, sample=broken_float_laplace, most_runs=400_000),
        Check(EPSILON, sample=correct_discrete_laplace, most_runs=8_000),
    ),
    Pair(
        "noise of 64 fixed bits",
        "bounded support is not pure DP",
        Check(1 / SCALE, exact=lambda: geometric_loss(broken_geometric, SCALE, LEVELS)),
        Check(1 / SCALE, exact=noise_loss),
    ),
    Pair(
        "weights truncated to zero",
        "a candidate that cannot be chosen tells its score",
        Check(2 * RATE, exact=lambda: selection_loss(broken_law, SCORES, RATE)),
        Check(2 * RATE, exact=exponential_loss),
    ),
)
