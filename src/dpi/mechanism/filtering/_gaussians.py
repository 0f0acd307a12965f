"""Beliefs about the levels of bins: means and variances, for one forecast or many; and quick copies of frozen values.

Sees numbers made of measurements after noise; no histogram, no user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value")


def fast_replace(value: Value, **changes: object) -> Value:
    """A copy of a frozen dataclass with other fields; what it has cached is not copied.

    Its `__init__` and `__post_init__` are not run, so it is for values that check nothing.

    >>> import numpy as np
    >>> from dpi.mechanism.filtering._gaussians import Gaussians
    >>> fast_replace(Gaussians(np.zeros(1), np.ones(1)), mean=np.full(1, 0.5))
    Gaussians(mean=array([0.5]), variance=array([1.]))
    """
    names = value.__dataclass_fields__  # type: ignore[attr-defined]
    parts = value.__dict__ | changes
    if len(parts) > len(names):
        if not changes.keys() <= names.keys():
            raise TypeError(f"{type(value).__name__} has no fields {sorted(changes.keys() - names.keys())}.")
        for cached in parts.keys() - names.keys():
            del parts[cached]
    new = object.__new__(type(value))
    object.__setattr__(new, "__dict__", parts)
    return new


Floats = npt.NDArray[np.float64]

UNKNOWN = 1e6
"""Variance of a message that says nothing; a level is a probability. Source: by definition."""
PATIENCE = 0.7
"""Prior weight of each tracker relative to the next slower one: most streams change slowly. Source: by trial."""
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
