"""The published ramp on integers: how well a synopsis answers a query, and how far one user moves that.

Answers of queries with values in [0, 1] are whole numbers of 2^-bits. With λ and μ in the same units, the score of an
answer that is off by x is

    s(x) = μ - 2·(x - λ), cut to [-μ, μ]:

μ up to an error of λ, -μ from λ + μ on, linear between; s/μ is the published ramp.

**What one user changes.** Let h be the histogram in grains, n its sum, M = n_min·2^24 a public floor, u the uniform
PDF. The data's answer is F = floor(2^bits · q(D̃)), computed exactly, for

    D̃ = (h + max(0, M - n)·u) / max(n, M).

*Claim.* If h and h′ differ by γ ≥ 1 grains in ℓ₁, then |q(D̃) - q(D̃′)| ≤ γ/M, and every score moves by at most
2·γ·(2^bits/M + 1) and by at most 2μ.

*Proof.* min(h, h′) is reached from both by removing grains, γ in all, so let h′ = h + g with g ≥ 0 and sum γ. While
n + γ ≤ M, the answer moves by (Σ g_i·q_i - γ·q(u))/M, a difference of two numbers in [0, γ], over M. While n ≥ M, it
moves by γ·(q(g/γ) - q(D))/(n + γ), at most γ/(n + γ) < γ/M. Passing M, the two parts of γ add up. Rounding down
moves a whole number: |F - F′| < 2^bits·γ/M + 1 ≤ γ·(2^bits/M + 1), because γ ≥ 1. The error x moves by no more, and
s by twice that. The second bound is the range of s. ∎

The first bound is *proportional to the grains moved*: a user of weight w counts w times. `bits` is chosen so that
2^bits ≥ 2^8·M; the rounding costs less than 2^-8 of the bound. The second bound does not shrink with the weight, and
without a floor it is the only one: a user of any positive weight can be alone in a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAIN_BITS, GRAINS, Integers, wide_sum
from dpi.mechanism.published.linear import LinearQueries

GUARD_BITS = 8
PLAIN_BITS = 40
LARGEST_FLOOR = 1 << 20


@dataclass(frozen=True)
class Ramp:
    """λ, μ and the floor as whole numbers; see the module for the formulas."""

    bits: int
    lam: int
    mu: int
    floor: int | None
    """M in grains, or None."""

    @classmethod
    def of(cls, lam: Fraction, mu: Fraction, n_min: int | None) -> Ramp:
        """The ramp with resolution fit for the floor.

        >>> Ramp.of(Fraction(1, 10), Fraction(1, 20), n_min=1000).bits
        42
        """
        bits = PLAIN_BITS if n_min is None else GRAIN_BITS + GUARD_BITS + (n_min - 1).bit_length()
        floor = None if n_min is None else n_min * GRAINS
        return cls(bits, int(lam * (1 << bits)), int(mu * (1 << bits)), floor)

    @property
    def description(self) -> str:
        """The ramp with all its digits, for saved state."""
        return f"Ramp(bits={self.bits}, lam={self.lam}, mu={self.mu}, floor={self.floor})"

    def score(self, answers: Integers, truth: Integers | int) -> Integers:
        """The scores of answers, in whole numbers from -μ to μ."""
        scores: Integers = np.clip(self.mu - 2 * (np.abs(answers - truth) - self.lam), -self.mu, self.mu)
        return scores

    def sensitivity(self, grains: int) -> Fraction:
        """The most that a user who moves the histogram by `grains` can move a score.

        >>> ramp = Ramp.of(Fraction(1, 10), Fraction(1, 20), n_min=1000)
        >>> round(float(ramp.sensitivity(2**24) / ramp.mu), 4)
        0.0402
        """
        if self.floor is None:
            return Fraction(2 * self.mu)
        moved = 2 * grains * (Fraction(1 << self.bits, self.floor) + 1)
        if moved > 2 * self.mu:
            smallest = -(-grains // GRAINS) * Fraction(1 << self.bits, self.mu)
            raise OptionError(
                f"`n_min` must be above {float(smallest):.6g} for this `mu` and compression: below that, a floor "
                "does not limit what one user moves."
            )
        return moved

    def truth(self, queries: LinearQueries, grains: Integers) -> Integers:
        """F for every query: private. Without a floor, an empty histogram counts as uniform."""
        floor = 1 if self.floor is None else self.floor
        total = wide_sum(grains)
        missing, whole = max(0, floor - total), queries.bins * queries.scale * max(total, floor)
        here = zip(queries.exact(grains), queries.sizes, strict=True)
        answers = ((a * queries.bins + size * missing << self.bits) // whole for a, size in here)
        return np.fromiter(answers, dtype=np.int64, count=len(queries))

    def public(self, answers: Integers, units: int) -> Integers:
        """Answers of synopses, in units of 1/`units`, on the scale of F; their rounding is public."""
        return np.rint(answers / units * float(1 << self.bits)).astype(np.int64)
