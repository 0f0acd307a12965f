"""PeGaSus: perturb every count, group like slots, smooth inside a group; sliding windows and events over it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Baseline, check_count

Smoother = Literal["median", "average", "js"]

LONGEST_GROUP = 1 << 16
"""A group is closed at this length: a public rule that bounds memory."""


class Pegasus(Baseline):
    """Counts of single slots, smoothed over groups of slots with like counts.

    share: the part of ε that the perturber gets; the grouper has the rest.
    threshold: how much a group may deviate from its mean, θ, in records; by default 5/ε_g.

    **Guarantee.** ε-DP for one record, ε = ε_p + ε_g. *Why:* the perturber adds Laplace noise of scale 1/ε_p. The
    grouper runs an above-threshold test per group on Σ|c_i - mean|, which one record moves by less than 2: noise 4/ε_g
    on the threshold and 8/ε_g on the query make a run ε_g-DP, and a slot takes part in one run. The smoother sees noisy
    counts and groups only. (Public ports compare absolute values of the noisy numbers: there is no such proof.)

    *A user* with c records in each of t slots loses c·t·ε_p in the perturber, exactly, and at most c·t·ε_g/4 in
    the grouper: over a run of n slots the deviation moves by at most n·c/2, at a cost of ε_g/2 for each unit.

    >>> mechanism = Pegasus(epsilon=500, threshold=3)
    >>> [round(float(mechanism.update(7)[0])) for _ in range(3)], mechanism.group_starts.tolist()
    ([7, 7, 7], [1])
    >>> Pegasus(epsilon=0.5).user_epsilon(50)
    21.25
    """

    held = ("_counts", "_noisy", "_open", "_thresholds", "group_starts")

    share: Amount = Fraction(4, 5)
    threshold: Amount | None = None
    smoother: Smoother = "median"

    def _start(self) -> None:
        share = rational(self.share, "share")
        check_between(share, "share")
        if self.smoother not in ("median", "average", "js"):
            raise OptionError(f'`smoother` must be "median", "average" or "js". Got {self.smoother!r}.')
        self.perturber_rate, self.grouper_rate = share * self.rate, (1 - share) * self.rate
        theta = 5 / self.grouper_rate if self.threshold is None else rational(self.threshold, "threshold")
        self._theta = int(theta * GRAINS)
        self._counts: list[list[int]] = [[] for _ in range(self.bins)]
        self._noisy: list[list[float]] = [[] for _ in range(self.bins)]
        self._open = np.zeros(self.bins, dtype=np.bool_)
        self._thresholds = np.zeros(self.bins, dtype=np.int64)
        self.group_starts = np.zeros(self.bins, dtype=np.int64)
        """The first slot of each bin's current group: public."""
        self.perturbed: Floats = np.full(self.bins, np.nan)
        """The noisy counts of the last slot: public."""

    def _step(self, grains: Integers) -> Floats:
        counts = grains // GRAINS
        self.perturbed = self._laplace(counts * GRAINS, 1 / self.perturber_rate) / GRAINS
        joins = self._group(counts)
        for i in range(self.bins):
            if not joins[i]:
                self._counts[i], self._noisy[i] = [], []
                self.group_starts[i] = self.slot
            self._counts[i].append(int(counts[i]))
            self._noisy[i].append(float(self.perturbed[i]))
        return np.array([smooth(values, self.smoother) for values in self._noisy])

    def _group(self, counts: Integers) -> list[bool]:
        """Which bins' slots join the open group; opens and closes groups."""
        tested = np.flatnonzero(self._open)
        joins = [False] * self.bins
        deviations = np.array([_deviation([*self._counts[i], int(counts[i])]) for i in tested], dtype=np.int64)
        noisy = self._laplace(deviations, 8 / self.grouper_rate)
        opened = np.flatnonzero(~self._open)
        self._open[opened] = True
        self._thresholds[opened] = self._laplace(np.full(opened.size, self._theta), 4 / self.grouper_rate)
        for i, deviation in zip(tested, noisy, strict=True):
            joins[i] = bool(deviation < self._thresholds[i]) and len(self._counts[i]) < LONGEST_GROUP
            self._open[i] = joins[i]
        return joins

    def loss(self, slots: int) -> Loss:
        """The perturber's releases, and the bound of the grouper."""
        return Loss({self.perturber_rate: slots}, slots * self.grouper_rate / 4)


def _deviation(counts: list[int]) -> int:
    """Σ|c_i - mean| in grains, rounded down.

    One record moves the sum by at most 2(1 - 1/n), so rounding keeps it at most 2 while n ≤ 2^25.
    """
    size, total = len(counts), sum(counts)
    distance = sum(abs(size * count - total) for count in counts)
    return min(distance * GRAINS // size, 1 << 60)


def smooth(values: list[float], smoother: Smoother) -> float:
    """The estimate of a group's last slot from the noisy counts of the group so far.

    >>> [smooth([1.0, 2.0, 6.0], kind) for kind in ("median", "average", "js")]
    [2.0, 3.0, 4.0]
    """
    if smoother == "median":
        return median(values)
    mean = sum(values) / len(values)
    return mean if smoother == "average" else mean + (values[-1] - mean) / len(values)


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
    is_change = np.zeros(estimates.size, dtype=np.bool_)
    is_change[width:] = np.abs(estimates[width:] - estimates[:-width]) >= change
    return is_change


def low_signal(window_sums: Floats, level: float) -> Flags:
    """Whether each window's sum is at most `level`.

    >>> low_signal(np.array([4.0, 0.5]), level=1).tolist()
    [False, True]
    """
    return np.asarray(window_sums <= level)
