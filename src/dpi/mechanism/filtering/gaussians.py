"""Beliefs about the levels of bins: means and variances, for one forecast or many.

Sees numbers made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNKNOWN = 1e6
"""Variance of a message that says nothing; a level is a probability.

Source: by definition; any number far above one serves.
"""

PATIENCE = 0.7
"""Prior weight of each tracker relative to the next slower one: most streams change slowly.

Source: by trial; not measured by itself.
"""

_BLOCK = 2048
"""Bins that are worked on at a time, so that they stay in the cache, for all experts.

Source: by trial; the speed that it leads to is measured by benchmarks/mechanism.py (docs/benchmarks.md, Mechanisms).
"""


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Means and variances on the PDF's scale: of shape (bins,) for one expert, (experts, bins) for a pool."""

    mean: Floats
    variance: Floats

    def __getitem__(self, key: int | slice) -> Gaussians:
        return Gaussians(self.mean[key], self.variance[key])

    def rescaled(self, factor: float) -> Gaussians:
        """The same beliefs about `factor` times the quantity."""
        return Gaussians(self.mean * factor, self.variance * factor**2)

    def rows(self) -> list[Gaussians]:
        """The single experts of a pool; an expert alone is its own row."""
        return [Gaussians(m, v) for m, v in zip(*map(np.atleast_2d, (self.mean, self.variance)), strict=True)]

    @staticmethod
    def empty(*shape: int, dtype: npt.DTypeLike = np.float64) -> Gaussians:
        """Room for beliefs that are filled in block by block."""
        return Gaussians(np.empty(shape, dtype), np.empty(shape, dtype))

    def astype(self, dtype: npt.DTypeLike) -> Gaussians:
        """The same beliefs in another precision."""
        return Gaussians(self.mean.astype(dtype), self.variance.astype(dtype))

    @staticmethod
    def stacked(rows: Sequence[Gaussians]) -> Gaussians:
        """A pool of single experts."""
        return Gaussians(np.stack([r.mean for r in rows]), np.stack([r.variance for r in rows]))


def blocks(bins: int, size: int = _BLOCK) -> Iterator[slice]:
    """Ranges of bins that are small enough to be worked on in the cache."""
    return (slice(first, min(first + size, bins)) for first in range(0, bins, size))
