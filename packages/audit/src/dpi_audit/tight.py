"""Published mechanisms for which one user moves the scores as far as the proof allows.

An exponential mechanism loses its whole share only if one candidate gains what all others lose, and if that candidate
is one of many. Here one synopsis says what the data say with the user, and a thousand say what they say without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpi.exact.integers import Integers
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import Ranges, points
from dpi.mechanism.published.pool import Pool

POOL_SIZE = 1_000


@dataclass(frozen=True)
class OneAgainstMany(Pool):
    """Synopsis 0 is `lone`; the others are `many`."""

    lone: tuple[int, ...]
    many: tuple[int, ...]
    size: int = POOL_SIZE
    seed: int = 0

    @property
    def precision(self) -> int:  # type: ignore[override]
        """Units of a synopsis."""
        return sum(self.lone)

    def _make(self, index: int, bins: int) -> Integers:
        return np.array(self.many if index else self.lone, dtype=np.int64)


def tight_published(bins: int, *, size: int = POOL_SIZE, accumulative: bool = False) -> Published:
    """No floor: with the user alone the slot is the first bin, without it is uniform; one query, so no share for it."""
    lone = (bins, *[0] * (bins - 1))
    return Published(
        OneAgainstMany(lone, (1,) * bins, size),
        queries=Ranges([0], [1], bins=bins),
        lam=0.1,
        mu=0.05,
        draws=1,
        accumulative=accumulative,
    )


FLOOR_BINS = 40


def tight_with_floor(n_min: int = 50) -> Published:
    """A user moves answers by 1/n_min: all synopses lie on the ramp's slope, the lone one on its other side.

    A uniform slot answers 1/40; the lone synopsis answers 2/40, the others 0, and the ramp falls from 0 to 2/40.
    """
    rest = [1] * (FLOOR_BINS - 1)
    lone = (2, 0, *rest[1:])
    many = (0, 2, *rest[1:])
    return Published(
        OneAgainstMany(lone, many),
        queries=Ranges([0], [1], bins=FLOOR_BINS),
        lam=0,
        mu="0.05",
        draws=1,
        n_min=n_min,
    )


def tight_questions(bins: int) -> Published:
    """Several queries: half of the budget buys them, and one user does not move all of them against each other."""
    return Published(OneAgainstMany((bins, *[0] * (bins - 1)), (1,) * bins), queries=points(bins), draws=1)


def values(bins: int) -> Sequence[str]:
    """Names of bins."""
    return tuple(f"v{i}" for i in range(bins))
