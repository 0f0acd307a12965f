"""Exact discrete Laplace noise.

Its law, in Coq: `mass_sums_to_one`, `proofs/Laplace.v`; `likelihood_ratio`, `proofs/Laplace.v`. The sampler
as a program over random words has this law: `exact_sampler_law`, `proofs/Sampler.v`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.noise.exponential import geometric
from dpi.noise.source import RandomSource

SATURATION = 1 << 61
"""Noisy values are cut to ± this; it is a function of the noisy value, so it costs no privacy."""

LARGEST_VALUE = 1 << 60
"""Values are cut to ± this before noise is added: cut, not refused, because how large they are is private."""


def add_laplace(values: Integers, scale: Fraction, source: RandomSource) -> Integers:
    """Values + Z, saturated, with independent Z of law P(z) ∝ e^(-|z|/scale) on all integers.

    **Guarantee.** If one user moves `values` by at most s in ℓ₁, the result is (s/scale)-DP for that user.

    *Why.* Z = g₁ - g₂ with independent geometric g: P(Z = z) = Σ_j P(g₁ = j + z)·P(g₂ = j), which is proportional
    to e^(-|z|/scale). So the likelihoods of one output under two inputs differ by a factor of at most
    ∏ e^(|Δᵢ|/scale) ≤ e^(s/scale). The sampler is exact for every scale, its support is not bounded, and
    saturation, decided on the sum in wide integers, is post-processing. Values beyond ± 2^60 are cut first, each by
    itself, which moves no two of them further apart, so s stays a bound. Time depends on the scale and the randomness,
    not on values, and no value is refused.

    >>> from dpi.noise import SystemSource
    >>> add_laplace(np.array([5, 7]), Fraction(1, 1000), SystemSource()).tolist()
    [5, 7]
    """
    if values.ndim != 1 or values.dtype.kind != "i":
        raise OptionError("`values` must be a vector of (signed) whole numbers.")
    values = np.clip(values.astype(np.int64), -LARGEST_VALUE, LARGEST_VALUE)
    high, low, bits = geometric(2 * values.size, scale, source)
    high = high[: values.size] - high[values.size :]
    low = low[: values.size] - low[values.size :]
    return saturated(values, high, low, bits)


def saturated(values: Integers, high: Integers, low: Integers, bits: int) -> Integers:
    """Return values + high · 2^bits + low, cut to ± 2^61, for any high, |values| ≤ 2^60, |low| < 2^bits, bits ≤ 51.

    If |high|·2^bits reaches 2^62, the sum is beyond 2^61, on the side of `high`; if not, it stays below 2^63.
    """
    far = np.abs(high) >> np.int64(62 - bits) != 0
    noisy = values + low + (np.where(far, 0, high) << np.int64(bits))
    return np.where(far, np.sign(high) * SATURATION, np.clip(noisy, -SATURATION, SATURATION))
