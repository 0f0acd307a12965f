"""Consistent counts: whole numbers that never fall and never rise by more than a slot can hold."""

from __future__ import annotations

import numpy as np

from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats
from dpi_research.baselines.base import check_count


class Consistent:
    """Turns the releases of a counter into counts that a stream can have. Post-processing: it costs no privacy.

    From one slot to the next the output rises by what the counter's rounded release is above it, cut to 0 … `most`,
    the most records that one slot can add to a bin. With whole true counts that rise by at most `most`, the largest
    error so far is never above that of the rounded releases (Chan, Shi, Song, Theorem 6.1, by induction over slots).

    >>> steps = Consistent(most=1)
    >>> [int(steps.update(np.array([x]))[0]) for x in (0.2, 3.9, -2.0, 1.6)]
    [0, 1, 1, 2]
    """

    def __init__(self, most: int = 1) -> None:
        check_count(most, "most")
        self.most = most
        self._last: Integers | None = None

    def update(self, release: Floats) -> Integers:
        """The consistent counts of the next slot."""
        last = np.zeros(release.size, dtype=np.int64) if self._last is None else self._last
        rounded = np.rint(np.clip(release, -(2.0**60), 2.0**60)).astype(np.int64)
        self._last = last + np.clip(rounded - last, 0, self.most)
        return self._last
