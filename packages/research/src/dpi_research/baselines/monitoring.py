"""Sliding windows and events over PeGaSus: post-processing of its noisy counts and groups, at no cost in privacy."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpi_research.baselines.accounting import Floats
from dpi_research.baselines.base import check_count
from dpi_research.baselines.pegasus import Pegasus

Flags = npt.NDArray[np.bool_]


@dataclass
class _Group:
    start: int
    noisy: list[float] = field(default_factory=list)

    def overlap(self, first: int) -> int:
        return len(self.noisy) - max(0, first - self.start)


class SlidingWindow:
    """Sums of the last `width` slots of every bin.

    Each group that overlaps the window counts with the median of all its noisy counts so far, once for each slot of
    the overlap.

    >>> mechanism, window = Pegasus(epsilon=500), SlidingWindow(width=2)
    >>> for count in (5, 5, 9):
    ...     _ = mechanism.update(count)
    ...     total = window.update(mechanism)
    >>> round(float(total[0]))
    14
    """

    def __init__(self, width: int) -> None:
        check_count(width, "width")
        self.width = width
        self._groups: list[deque[_Group]] = []

    def update(self, mechanism: Pegasus) -> Floats:
        """The window's sums after the mechanism's last slot; to be called once in every slot."""
        if not self._groups:
            self._groups = [deque() for _ in range(mechanism.bins)]
        first = mechanism.slot - self.width + 1
        for groups, start, noisy in zip(self._groups, mechanism.group_starts, mechanism.perturbed, strict=True):
            if not groups or groups[-1].start != start:
                groups.append(_Group(int(start)))
            groups[-1].noisy.append(float(noisy))
            while groups[0].overlap(first) <= 0:
                groups.popleft()
        return np.array([sum(g.overlap(first) * float(np.median(g.noisy)) for g in gs) for gs in self._groups])


def jumps(estimates: Floats, width: int, change: float) -> Flags:
    """Whether each slot's estimate differs by at least `change` from the one `width` slots before.

    >>> jumps(np.array([1.0, 1.0, 9.0, 9.0]), width=1, change=5).tolist()
    [False, False, True, False]
    """
    check_count(width, "width")
    found = np.zeros(estimates.size, dtype=np.bool_)
    found[width:] = np.abs(estimates[width:] - estimates[:-width]) >= change
    return found


def low_signal(window_sums: Floats, level: float) -> Flags:
    """Whether each window's sum is at most `level`.

    >>> low_signal(np.array([4.0, 0.5]), level=1).tolist()
    [False, True]
    """
    return np.asarray(window_sums <= level)
