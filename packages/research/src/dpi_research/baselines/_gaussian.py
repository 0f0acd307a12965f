"""Exact discrete Gaussian noise (Canonne, Kamath, Steinke, NeurIPS 2020), by rejection from discrete Laplace noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.exponential import Mask, below_exp, geometric
from dpi.noise.laplace import LARGEST_VALUE, SATURATION
from dpi.noise.source import WORD_BITS, LazyUniform, RandomSource

LARGEST_VARIANCE = 1 << 112
"""Up to σ = 2^56; beyond that noise would be cut by saturation, not drawn."""

_TWO_64 = 2.0**64
_EXPONENT_ERROR = 2.0**-46
"""Allowed to a float exponent (|y| - m)²/(2σ²), times (1 + |y|/σ)²: six roundings of 2^-53 each stay below 2^-49."""


def add_gaussian(values: Integers, variance: Fraction, source: RandomSource) -> Integers:
    """Values + Z, saturated, with independent Z of law P(z) ∝ e^(-z²/(2·variance)) on all integers.

    **Guarantee.** If one user moves `values` by at most Δ in ℓ₂, the result is ρ-zCDP for that user, with
    ρ = Δ²/(2·variance).

    *Why.* For a shift by whole numbers the Rényi divergence of order α between the two laws is at most α·Δ²/(2σ²),
    as for the continuous Gaussian (Canonne, Kamath, Steinke 2020, Theorem 4). The sampler is exact: y is discrete
    Laplace with scale t = ⌊σ⌋ + 1 and is kept with probability e^(-(|y| - σ²/t)²/(2σ²)), so that what is kept has
    P(y) ∝ e^(-|y|/t - (|y| - σ²/t)²/(2σ²)) ∝ e^(-y²/(2σ²)). Both parts use random bits until they are decided.
    Saturation is post-processing; values beyond ± 2^60 are cut first, which moves no two of them further apart. How
    often y is redrawn depends on the variance and the randomness, not on values, and no value is refused.

    >>> from dpi.noise import SystemSource
    >>> add_gaussian(np.array([5, 7]), Fraction(1, 1000), SystemSource()).tolist()
    [5, 7]
    """
    if values.ndim != 1 or values.dtype.kind != "i":
        raise OptionError("`values` must be a vector of (signed) whole numbers.")
    if not 0 < variance <= LARGEST_VARIANCE:
        raise OptionError(f"`variance` must be above 0 and at most 2^112. Got {float(variance):g}.")
    noisy = np.clip(values.astype(np.int64), -LARGEST_VALUE, LARGEST_VALUE)
    open_ = np.arange(values.size)
    while open_.size:
        kept, noise = _proposals(open_.size, variance, source)
        # |noise| < 2^62 + 2^51 and |values| ≤ 2^60, so the sum stays below 2^63.
        noisy[open_[kept]] += noise[kept]
        open_ = open_[~kept]
    return np.clip(noisy, -SATURATION, SATURATION)


def _proposals(size: int, variance: Fraction, source: RandomSource) -> tuple[Mask, Integers]:
    """Discrete Laplace draws, cut to ± 2^62, and which of them are kept."""
    scale = math.isqrt(int(variance)) + 1
    high, low, bits = geometric(2 * size, Fraction(scale), source)
    high, low = high[:size] - high[size:], low[:size] - low[size:]
    middle = variance / scale
    magnitude = np.abs(high * 2.0**bits + low)
    exponent = (magnitude - float(middle)) ** 2 / (2 * float(variance))
    error = (1 + magnitude / math.sqrt(variance)) ** 2 * _EXPONENT_ERROR
    drawn = cut(high, low, bits)  # after the decision, which sees the whole draw

    def exact(i: int) -> Fraction:
        return (abs((int(high[i]) << bits) + int(low[i])) - middle) ** 2 / (2 * variance)

    words = source.words(size)
    kept, doubt = _below_exp(words, exponent, error)
    for i in np.flatnonzero(doubt):
        kept[i] = below_exp(LazyUniform(int(words[i]), WORD_BITS, source), exact(int(i)))
    return kept, drawn


def cut(high: Integers, low: Integers, bits: int) -> Integers:
    """A draw of high · 2^bits + low, for |low| < 2^bits, that is cut to ± 2^62 where |high|·2^bits reaches it.

    The sum of a cut draw with a value of up to 2^60 is beyond 2^61, as it would be without the cut.
    """
    far = np.abs(high) >> np.int64(62 - bits) != 0
    return np.where(far, np.sign(high) << np.int64(62), (np.where(far, 0, high) << np.int64(bits)) + low)


def _below_exp(
    words: npt.NDArray[np.uint64], exponent: npt.NDArray[np.float64], error: npt.NDArray[np.float64]
) -> tuple[Mask, Mask]:
    """Whether U < e^-x where floats can tell, and where they cannot; x is known up to `error`."""
    power = np.exp(-exponent)
    # e^-x is off by a factor of at most 1 ± 2·error while error ≤ 1/2, and by 2^-49 of itself in floating point.
    margin = power * (2 * error + 2.0**-49) + 2.0**-1000
    u = words / _TWO_64
    heads: Mask = u * (1 + 2.0**-52) + 2.0**-64 <= power - margin
    tails: Mask = u * (1 - 2.0**-52) >= power + margin
    loose = error > 0.5
    return heads & ~loose, ~(heads | tails) | loose
