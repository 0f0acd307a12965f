"""The accumulative PDF: all slots so far as one, each weighted by its number of users.

Two sums are at hand, both made of what was released anyway, so that neither costs privacy. The sum of *releases* has
little noise, but shrinks small bins and lags behind changes, and that stays however many slots there are. The sum of
*noisy counts* has no such bias, but the noise of every slot. Their difference shows the bias: where it is larger than
the noise explains, it is added to the sum of releases, by the share

    g = τ²/(τ² + σ²),    τ² = mean(difference²) - σ²,

with σ² the variance of the summed noise; τ² is lowered by five standard errors, so that chance is not taken for bias,
and it is at most the mean square of the sum of releases: where noise is larger than all that, next to nothing is added.

A tree of noisy sums (`dpi.stream.prefix_tree`) can stand in for the sum of noisy counts. Sees estimates; no user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpi.domain.overlap import Overlap
from dpi.errors import StateError
from dpi.mechanism.base import Estimate, Floats

CAUTION = 5.0
"""Standard errors by which the difference must be above the noise before any of it counts as bias."""

SMALLEST = 0.05
"""A correction takes at most all but this share of a probability away."""


def users_of(estimate: Estimate) -> float:
    """Return how many users a slot counts for: one, if its size is unknown."""
    return 1.0 if np.isnan(estimate.total) else max(estimate.total, 0.0)


@dataclass(frozen=True, eq=False)
class Accumulation:
    """Sums over the slots so far, in users, bin by bin; its size does not grow with the slots.

    >>> none = Accumulation.of(2)
    >>> slot = Estimate(np.array([0.75, 0.25]), np.zeros(2), np.zeros(2), total=8.0, total_variance=1.0)
    >>> none.added(slot).pdf().tolist()
    [0.75, 0.25]
    """

    released: Floats
    """Releases times their number of users."""
    difference: Floats
    """Noisy counts minus that, over the slots whose bins were measured."""
    variance: float
    """Of the noise in `difference`, the same for every bin."""
    squares: float
    """Sum of squared variances of the draws of noise in `difference`: how heavy its tails are."""

    @classmethod
    def of(cls, bins: int) -> Accumulation:
        """Return the sums before the first slot."""
        return cls(np.zeros(bins), np.zeros(bins), 0.0, 0.0)

    def added(self, estimate: Estimate) -> Accumulation:
        """Add one more slot."""
        released = users_of(estimate) * estimate.pdf
        if estimate.counts is None:
            return replace(self, released=self.released + released)
        difference = self.difference + (estimate.counts - released)
        drawn = estimate.counts_variance
        return Accumulation(self.released + released, difference, self.variance + drawn, self.squares + drawn**2)

    def adapt_to_domain(self, overlap: Overlap | None, bins: int) -> Accumulation:
        """Return the sums for another domain: what was counted in a bin stays in it, and new values begin with nothing.

        What was counted as `other` is not told apart later. Anew, if the sums of some bin have no place to stay.
        """
        if overlap is None or overlap.into is None:
            return Accumulation.of(bins)
        return replace(self, released=overlap.gathered(self.released), difference=overlap.gathered(self.difference))

    def beside(self, sums: Floats, variance: float, draws: int) -> Accumulation:
        """Set the releases beside other noisy sums over all slots, of that variance from so many equal draws."""
        return Accumulation(self.released, sums - self.released, variance, variance**2 / max(draws, 1))

    def pdf(self) -> Floats:
        """Return the accumulative PDF; uniform if no slot had users."""
        mass = float(self.released.sum())
        if not mass > 0:
            return np.full(self.released.size, 1 / self.released.size)
        pdf = self.released + self._share() * self.difference
        pdf = np.maximum(pdf, SMALLEST * self.released)
        return np.asarray(pdf / pdf.sum())

    def _share(self) -> float:
        """Return g: the share of the difference that is bias.

        Laplace draws of variances v have together an excess kurtosis of 3·Σv²/(Σv)²: the few largest decide, if their
        scales differ as those of a converging series do.
        """
        noise = self.variance
        if not noise > 0:
            return 0.0
        error = float(np.sqrt((2 + 3 * self.squares / noise**2) / self.difference.size))
        excess = float(np.mean(self.difference**2)) - noise * (1 + CAUTION * error)
        bias = min(max(excess, 0.0), float(np.mean(self.released**2)))
        return bias / (bias + noise)

    def to_bytes(self) -> bytes:
        """Encode the sums, for storage: little-endian doubles."""
        numbers = np.concatenate([[self.variance, self.squares], self.released, self.difference])
        return bytes(numbers.astype("<f8").tobytes())

    @classmethod
    def from_bytes(cls, bins: int, data: bytes) -> Accumulation:
        """Read the sums of `to_bytes`, bit for bit; raise `StateError` if they are of another number of bins."""
        if len(data) != 8 * (2 + 2 * bins):
            raise StateError("the accumulated sums are damaged, or belong to another domain.")
        numbers = np.frombuffer(data, dtype="<f8").astype(np.float64)
        return cls(numbers[2 : 2 + bins], numbers[2 + bins :], float(numbers[0]), float(numbers[1]))
