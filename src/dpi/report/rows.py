"""Which values have a row in the page, in which order, and where each is drawn. It sees releases only.

Unless values are chosen, they are the largest by the PDF over all slots and those of the newest slot. Ordered bins keep
their order; where there are too many of them, neighbours share a row, so that there is no gap. The bin `other`, which
may be larger than all the rest, has no row unless it is named: it is part of everything else, on a scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from dpi.domain import Bins
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.choice import Values, catch_all, choose, neighbours, short_label, span
from dpi.release.interval import interval
from dpi.release.queries import Floats

VALUES = 60
"""The most values that are drawn by name; all others are one row."""
BARS = 15
"""How many values of one slot are drawn as bars; the newest slot's largest are always among the named values."""
ORDERED = 40
"""The most rows of an ordered domain; of more bins neighbours share a row."""
CURVES = 5
"""How many values are drawn as curves, unless they are chosen."""
MOST_CURVES = 12
"""How many of the chosen values are drawn as curves."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a page: sets of bins, nearly always of one bin each."""

    sets: tuple[Integers, ...]
    labels: tuple[str, ...]
    bars: tuple[int, ...]
    """The rows that are drawn as bars, in the newest slot's order."""
    curves: tuple[int, ...]
    """The rows that are drawn as curves."""
    fixed: bool
    """Whether the order of bars is that of the rows in every slot; otherwise it is by their shares."""
    chosen: bool
    """Whether the values were chosen, so that they need not be the largest."""
    others: int
    """How many values have no row."""
    rest_label: str
    """What those are called together."""
    size: int

    @classmethod
    def of(cls, newest: Release, values: Values | None) -> Rows:
        """The rows of a stream, by its newest release."""
        domain, chosen = newest.domain, values is not None
        if values is None and isinstance(domain, Bins):
            sets = neighbours(domain, ORDERED)
            labels = tuple(span(domain, int(codes[0]), int(codes[-1])) for codes in sets)
        else:
            codes = _largest(newest) if values is None else choose(domain, newest.accumulated, values)
            if codes.size > VALUES:
                if not isinstance(values, Mapping):
                    raise OptionError(f"at most {VALUES} values can be chosen. Got {codes.size}.")
                codes = codes[:VALUES]  # combinations of chosen parts, largest first
            sets = [codes[place : place + 1] for place in range(codes.size)]
            labels = tuple(short_label(domain, int(code)) for code in codes)
        fixed = isinstance(domain, Bins) or (chosen and not isinstance(values, int | Mapping))
        now, ever = (np.array([vector[codes].sum() for codes in sets]) for vector in (newest.pdf, newest.accumulated))
        rank = range(len(sets)) if fixed and chosen else np.argsort(-ever, kind="stable").tolist()
        curves = list(rank)[: MOST_CURVES if chosen else CURVES]
        bars = list(range(len(sets))) if fixed else np.argsort(-now, kind="stable").tolist()
        named = np.concatenate(sets)
        outside = np.setdiff1d(np.arange(domain.size), named)
        return cls(
            sets=tuple(sets),
            labels=labels,
            bars=tuple(bars if fixed else bars[:BARS]),
            curves=tuple(sorted(curves) if isinstance(domain, Bins) else curves),
            fixed=fixed,
            chosen=chosen,
            others=int(outside.size),
            rest_label=short_label(domain, int(outside[0])) if outside.size == 1 else "everything else",
            size=domain.size,
        )

    @cached_property
    def codes(self) -> Integers:
        """All bins that have a row, row by row."""
        return np.concatenate(self.sets)

    @property
    def shared(self) -> bool:
        """Whether neighbours share rows."""
        return self.codes.size > len(self.sets)

    def shares(self, release: Release, level: float) -> tuple[Floats, Floats, Floats]:
        """The share of each row with the ends of its interval."""
        pdf, variance, skew = (vector[self.codes] for vector in (release.pdf, release.variance, release.skew))
        if self.shared:
            starts = np.cumsum([0, *(codes.size for codes in self.sets[:-1])])
            pdf, weights, skewed = (np.add.reduceat(vector, starts) for vector in (pdf, variance, skew * variance))
            skew = skewed / np.maximum(weights, 1e-300)
            variance = weights * np.maximum(0.0, 1 - weights / max(float(release.variance.sum()), 1e-300))
        return pdf, *interval(pdf, variance, skew, release.total, level)

    def rest(self, release: Release, level: float) -> tuple[float, float, float]:
        """The share of the values without a row: one bin's own interval, or a normal one from the variances."""
        if self.others == 1:
            code = np.setdiff1d(np.arange(self.size), self.codes)
            pdf, variance, skew = (vector[code] for vector in (release.pdf, release.variance, release.skew))
            lower, upper = interval(pdf, variance, skew, release.total, level)
            return float(pdf[0]), float(lower[0]), float(upper[0])
        share = max(0.0, 1 - float(release.pdf[self.codes].sum()))
        everything = float(release.variance.sum())
        inside = float(release.variance[self.codes].sum())
        noise = max(0.0, everything - inside) * inside / everything if everything > 0 else 0.0
        half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(noise)
        return share, max(0.0, share - half), min(1.0, share + half)

    def largest(self, release: Release, count: int) -> list[int]:
        """The largest bins of one slot: of those chosen, or of all but `other`."""
        codes = self.codes if self.chosen else np.flatnonzero(~catch_all(release.domain))
        return [int(code) for code in codes[np.argsort(-release.pdf[codes], kind="stable")[:count]]]


def by_parts(values: Values | None) -> Values | None:
    """What is chosen of the parts of a product; nothing, where combinations are named."""
    return values if isinstance(values, int | Mapping) else None


def _largest(newest: Release) -> Integers:
    """The codes that get a row, in the order of rows."""
    listed = np.flatnonzero(~catch_all(newest.domain))
    by_all = listed[np.argsort(-newest.accumulated[listed], kind="stable")[:VALUES]]
    by_newest = listed[np.argsort(-newest.pdf[listed], kind="stable")[:BARS]]
    missing = by_newest[~np.isin(by_newest, by_all)]
    codes = np.concatenate((by_all[: VALUES - missing.size], missing))
    return codes[np.argsort(-newest.accumulated[codes], kind="stable")]
