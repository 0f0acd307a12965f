"""The rows of a page in another domain of the same stream: where a row is the same values, and where it is nothing.

A row has a number in an earlier slot if some bins of that slot's domain are together exactly its values: a country
that was listed then too, an age from 20 to 40 where both were edges. A value that was counted in `other` then has none.

Sees public domains and releases.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpi.domain import Domain
from dpi.domain.overlap import Overlap
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.queries import Floats
from dpi.report.rows import Rows

NOTHING = math.nan, math.nan, math.nan


class Earlier:
    """Rows that were made for one domain, read off releases of another.

    >>> from dpi.domain import Categories
    >>> now, then = Categories(["DE", "IT"]), Categories(["DE", "FR"])
    >>> [None if codes is None else codes.tolist() for codes in found_in(then, now, [np.array([0]), np.array([1])])]
    [[0], None]
    """

    def __init__(self, rows: Rows, newest: Domain, domain: Domain) -> None:
        sets = found_in(domain, newest, rows.sets)
        self._there = np.array([codes is not None for codes in sets])
        kept = tuple(codes for codes in sets if codes is not None)
        others = domain.size - sum(codes.size for codes in kept)
        self._rows = replace(rows, sets=kept, size=domain.size, others=others)
        self.missing = tuple(label for label, codes in zip(rows.labels, sets, strict=True) if codes is None)
        """The rows that have no number in this domain."""

    def shares(self, release: Release, level: float) -> tuple[Floats, Floats, Floats]:
        """The share of each row with the ends of its interval; NaN where the domain has no such values."""
        found = tuple(np.full(self._there.size, np.nan) for _ in range(3))
        if self._there.any():
            for whole, part in zip(found, self._rows.shares(release, level), strict=True):
                whole[self._there] = part
        return found[0], found[1], found[2]

    def rest(self, release: Release, level: float) -> tuple[float, float, float]:
        """The share of the values without a row: nothing, unless every row is there."""
        return self._rows.rest(release, level) if self._there.all() else NOTHING

    def largest(self, release: Release, count: int) -> list[int]:
        """The largest bins of one slot: of those chosen, or of all but `other`."""
        if self._rows.chosen and not self._there.any():
            return []
        return self._rows.largest(release, count)


def found_in(domain: Domain, newest: Domain, sets: tuple[Integers, ...] | list[Integers]) -> list[Integers | None]:
    """For some sets of bins of the newest domain, the bins of another one that are together the same values."""
    overlap = Overlap.of(domain, newest)
    if overlap is None:
        return [None] * len(sets)
    found: list[Integers | None] = []
    for codes in sets:
        inside = np.isin(overlap.new, codes)
        old = np.unique(overlap.old[inside])
        whole = np.isin(codes, overlap.new).all() and inside[np.isin(overlap.old, old)].all()
        found.append(old if old.size and whole else None)
    return found
