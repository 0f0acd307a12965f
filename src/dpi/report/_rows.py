"""Which values have a row in the page, in which order, and where each is drawn. It sees domains and releases only.

Unless values are chosen, they are the largest by the PDF over all slots and those of the newest slot. Ordered bins keep
their order; where there are too many of them, neighbours share a row, so that there is no gap. The bin `other`, which
may be larger than all the rest, has no row unless it is named: it is part of everything else, on a scale of its own.

Where the domain has changed, a row has a number in an earlier slot if some bins of that slot's domain are together
exactly its values: a country that was listed then too, an age from 20 to 40 where both were edges. A value that was
counted in `other` then has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpi.domain import Bins, Domain
from dpi.domain.overlap import Overlap
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.choice import Floats, Values, catch_all, choose, neighbours, short_label, span
from dpi.release.interval import deviations, interval

VALUES = 60  # the most values that are drawn by name; all others are one row
BARS = 15  # how many values of one slot are drawn as bars; the newest slot's largest are always among the named values
ORDERED = 40  # the most rows of an ordered domain; of more bins neighbours share a row
CURVES, MOST_CURVES = 5, 12  # how many values are drawn as curves, and how many of those that were chosen


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a page: sets of bins, nearly always of one bin each."""

    labels: tuple[str, ...]
    there: npt.NDArray[np.bool_]  # which rows the domain has; all of them in the newest one
    sets: tuple[Integers, ...]  # the bins of those
    bars: tuple[int, ...]  # the rows that are drawn as bars, in the newest slot's order
    curves: tuple[int, ...]  # the rows that are drawn as curves
    fixed: bool  # whether the order of bars is that of the rows in every slot; otherwise it is by their shares
    chosen: bool  # whether the values were chosen, so that they need not be the largest
    others: int  # how many values have no row
    rest_label: str  # what those are called together
    size: int

    @classmethod
    def of(cls, newest: Release, values: Values | None) -> Rows:
        """Return the rows of a stream, by its newest release."""
        domain, chosen = newest.domain, values is not None
        if values is None and isinstance(domain, Bins):
            sets = neighbours(domain, ORDERED)
            labels = tuple(span(domain, int(codes[0]), int(codes[-1])) for codes in sets)
        else:
            codes = _find_largest(newest) if values is None else choose(domain, newest.accumulated, values)
            if codes.size > VALUES:
                if not isinstance(values, Mapping):
                    raise OptionError(f"at most {VALUES} values can be chosen. Got {codes.size}.")
                codes = codes[:VALUES]  # combinations of chosen parts, largest first
            sets = [codes[place : place + 1] for place in range(codes.size)]
            labels = tuple(short_label(domain, int(code)) for code in codes)
        fixed = isinstance(domain, Bins) or (chosen and not isinstance(values, int | Mapping))
        now, ever = (np.array([vector[codes].sum() for codes in sets]) for vector in (newest.pdf, newest.accumulated))
        rank = list(range(len(sets))) if fixed and chosen else np.argsort(-ever, kind="stable").tolist()
        curves = rank[: MOST_CURVES if chosen else CURVES]
        bars = list(range(len(sets))) if fixed else np.argsort(-now, kind="stable").tolist()[:BARS]
        outside = np.setdiff1d(np.arange(domain.size), np.concatenate(sets))
        return cls(
            labels=labels,
            there=np.ones(len(sets), dtype=np.bool_),
            sets=tuple(sets),
            bars=tuple(bars),
            curves=tuple(sorted(curves) if isinstance(domain, Bins) else curves),
            fixed=fixed,
            chosen=chosen,
            others=int(outside.size),
            rest_label=short_label(domain, int(outside[0])) if outside.size == 1 else "everything else",
            size=domain.size,
        )

    def find_in(self, domain: Domain, newest: Domain) -> Rows:
        """Return what another domain has of the rows that were made for the newest one."""
        sets = find_sets(domain, newest, self.sets)
        kept = tuple(codes for codes in sets if codes is not None)
        others = domain.size - sum(codes.size for codes in kept)
        there = np.array([codes is not None for codes in sets])
        return replace(self, there=there, sets=kept, size=domain.size, others=others)

    @property
    def missing(self) -> tuple[str, ...]:
        """The rows that have no number in this domain."""
        return tuple(label for label, there in zip(self.labels, self.there, strict=True) if not there)

    @cached_property
    def codes(self) -> Integers:
        """All bins that have a row, row by row."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self.sets])

    @property
    def shared(self) -> bool:
        """Whether neighbours share rows."""
        return self.codes.size > len(self.sets)

    def shares(self, release: Release, level: float) -> Floats:
        """Return the share of each row and the ends of its interval; NaN where the domain has no such values."""
        band = np.full((3, self.there.size), np.nan)
        if not self.there.any():
            return band
        pdf, variance, skew = (vector[self.codes] for vector in (release.pdf, release.variance, release.skew))
        if self.shared:
            starts = np.cumsum([0, *(codes.size for codes in self.sets[:-1])])
            pdf, weights, skewed = (np.add.reduceat(vector, starts) for vector in (pdf, variance, skew * variance))
            skew = skewed / np.maximum(weights, 1e-300)
            variance = weights * np.maximum(0.0, 1 - weights / max(float(release.variance.sum()), 1e-300))
        band[:, self.there] = pdf, *interval(pdf, variance, skew, release.total, level)
        return band

    def rest(self, release: Release, level: float) -> tuple[float, float, float]:
        """Return the share of the values without a row: one bin's own interval, or a normal one from the variances.

        There is none unless the domain has every row.
        """
        if not self.there.all():
            return math.nan, math.nan, math.nan
        if self.others == 1:
            code = np.setdiff1d(np.arange(self.size), self.codes)
            pdf, variance, skew = (vector[code] for vector in (release.pdf, release.variance, release.skew))
            lower, upper = interval(pdf, variance, skew, release.total, level)
            return float(pdf[0]), float(lower[0]), float(upper[0])
        share = max(0.0, 1 - float(release.pdf[self.codes].sum()))
        everything, inside = float(release.variance.sum()), float(release.variance[self.codes].sum())
        noise = max(0.0, everything - inside) * inside / everything if everything > 0 else 0.0
        half = deviations(level) * math.sqrt(noise)
        return share, max(0.0, share - half), min(1.0, share + half)

    def largest(self, release: Release, count: int) -> list[int]:
        """Return the largest bins of one slot: of those chosen, or of all but `other`."""
        codes = self.codes if self.chosen else np.flatnonzero(~catch_all(release.domain))
        return [int(code) for code in codes[np.argsort(-release.pdf[codes], kind="stable")[:count]]]


def find_sets(domain: Domain, newest: Domain, sets: Sequence[Integers]) -> list[Integers | None]:
    """Return, for sets of bins of the newest domain, the bins of another one that are together the same values.

    >>> from dpi.domain import Categories
    >>> now, then = Categories(["DE", "IT"]), Categories(["DE", "FR"])
    >>> [None if codes is None else codes.tolist() for codes in find_sets(then, now, [np.array([0]), np.array([1])])]
    [[0], None]
    """
    overlap = Overlap.of(domain, newest)
    if overlap is None:
        return [None] * len(sets)
    old_sets: list[Integers | None] = []
    for codes in sets:
        inside = np.isin(overlap.new, codes)
        old = np.unique(overlap.old[inside])
        whole = np.isin(codes, overlap.new).all() and inside[np.isin(overlap.old, old)].all()
        old_sets.append(old if old.size and whole else None)
    return old_sets


def _find_largest(newest: Release) -> Integers:
    """Return the codes that get a row, in the order of rows."""
    listed = np.flatnonzero(~catch_all(newest.domain))
    by_all = listed[np.argsort(-newest.accumulated[listed], kind="stable")[:VALUES]]
    by_newest = listed[np.argsort(-newest.pdf[listed], kind="stable")[:BARS]]
    missing = by_newest[~np.isin(by_newest, by_all)]
    codes = np.concatenate((by_all[: VALUES - missing.size], missing))
    return codes[np.argsort(-newest.accumulated[codes], kind="stable")]
