"""What moved between two slots, or between the averages of two periods, with intervals. It sees releases alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpi.domain import Domain
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release.choice import Floats
from dpi.release.grid import Shares
from dpi.release.release import Release


@dataclass(frozen=True, eq=False)
class Changes:
    """For each bin of the domain its share now and before, and the interval of the difference."""

    domain: Domain
    now: Shares
    before: Shares
    change: Shares

    @property
    def sure(self) -> npt.NDArray[np.bool_]:
        """Whether each bin moved beyond its interval."""
        return (self.change.lower > 0) | (self.change.upper < 0)

    def largest(self, k: int) -> Integers:
        """Return the bins that moved most, those that moved beyond their interval first."""
        return np.lexsort((-np.abs(self.change.value), ~self.sure))[:k]


def find_changes(new: Sequence[Release], old: Sequence[Release], level: float) -> Changes:
    """Return how the average share of each value over some slots differs from that over others.

    The interval goes from the lowest to the highest that the intervals of both allow. Each of these has a level half as
    far from 1: whatever the errors have in common, the difference has `level` or more. Errors of slots may be shared in
    whole, so that the ends of an average are the averages of the ends.
    """
    domain = new[0].domain
    if any(each.domain != domain for each in (*new, *old)):
        raise OptionError("the domain has changed between these slots: ask of slots since.")
    now, before = _average(new, (1 + level) / 2), _average(old, (1 + level) / 2)
    change = Shares(now.value - before.value, now.lower - before.upper, now.upper - before.lower)
    return Changes(domain, _average(new, level), _average(old, level), change)


def _average(slots: Sequence[Release], level: float) -> Shares:
    ends = [release.interval(level) for release in slots]
    columns = [release.pdf for release in slots], [low for low, _ in ends], [high for _, high in ends]
    return Shares(*(_mean(column) for column in columns))


def _mean(rows: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(np.stack(rows), axis=0))
