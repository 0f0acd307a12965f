"""Beliefs about the levels of bins: means and variances, for one forecast or many.

Sees numbers made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNKNOWN = 1e6
"""Variance of a message that says nothing; a level is a probability. Source: by definition."""
_BLOCK = 2048
"""Bins that are worked on at a time, so that they stay in the cache, for all experts. Source: by trial
(benchmarks/mechanism.py)."""


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Means and variances on the PDF's scale: of shape (bins,) for one expert, (experts, bins) for a pool."""

    mean: Floats
    variance: Floats

    def __getitem__(self, key: int | slice) -> Gaussians:
        return Gaussians(self.mean[key], self.variance[key])

    def rescaled(self, factor: float) -> Gaussians:
        """Return the same beliefs about `factor` times the quantity."""
        return Gaussians(self.mean * factor, self.variance * factor**2)


def blocks(bins: int, size: int = _BLOCK) -> Iterator[slice]:
    """Ranges of bins that are small enough to be worked on in the cache."""
    return (slice(first, min(first + size, bins)) for first in range(0, bins, size))
