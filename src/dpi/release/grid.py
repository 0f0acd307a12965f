"""Two parts of a product as a grid: the share of every pair, with the shares of each part by itself. Public only.

What is not drawn (`other`, or values that were not chosen) is summed up in one number; shares are of all users
whatever is drawn. Where an ordered part has too many bins, neighbours are drawn as one, so that there is no gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.mechanism.base import at_most_one
from dpi.release.choice import Floats, Values, check_part, choose, choose_sets, part_values
from dpi.release.interval import LEVEL, interval
from dpi.release.queries import Distribution


def variance_of_sets(variance: Floats, everything: float) -> Floats:
    """Return the variances of shares of sets of bins, from the sum of variances in each and over all bins.

    The errors of all bins sum to zero, so that a set's variance v has v²/V less, V being the sum over all bins
    (`dpi.release.queries`).
    """
    apart = variance - variance**2 / everything if everything > 0 else variance
    return np.maximum(apart, 0.0)


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of sets of bins with the ends of their intervals, of 95 % unless said; all three have one shape."""

    value: Floats
    lower: Floats
    upper: Floats
    codes: Floats | None = None
    """Under rules, why some are not shown (`dpi.release.quality`)."""

    @classmethod
    def of(cls, pdf: Floats, variance: Floats, everything: float, total: float, level: float = LEVEL) -> Shares:
        """Return the shares of summed probabilities and variances, beside the sum of all variances.

        A total that was not measured widens nothing.
        """
        known, pdf = total if np.isfinite(total) else np.inf, at_most_one(pdf)
        return cls(pdf, *interval(pdf, variance_of_sets(variance, everything), np.zeros_like(pdf), known, level))


@dataclass(frozen=True, eq=False)
class Side:
    """One part of the product: what is drawn of it, in order, and the shares of that by itself."""

    name: str
    labels: tuple[str, ...]
    shares: Shares


@dataclass(frozen=True, eq=False)
class Grid:
    """Two parts; `cells` has a row for each label of `rows` and a column for each label of `columns`."""

    rows: Side
    columns: Side
    cells: Shares
    left_out: float
    """The share of all pairs that are not drawn."""
    summed: tuple[str, ...]
    """The other parts of the product, which every cell sums over, with the values of them that were chosen."""


def pairs(domain: Domain) -> list[tuple[str, str]]:
    """Return the pairs of parts that can be drawn, in the order of the parts; none if there is no pair.

    >>> from dpi.domain import Bins
    >>> pairs(Product(a=Bins([0]), b=Bins([0]), c=Bins([0]))), pairs(Bins([0]))
    ([('a', 'b'), ('a', 'c'), ('b', 'c')], [])
    """
    return list(combinations(domain.parts, 2)) if isinstance(domain, Product) else []


def grid(
    distribution: Distribution,
    rows: str,
    columns: str,
    values: Values | None = None,
    *,
    most: tuple[int, int] = (24, 12),
) -> Grid:
    """Return the grid of two parts: chosen values, or the largest, at most so many rows and columns.

    Cells, and the shares of each part, sum over all values of the other parts, or over those that were named.
    """
    domain = distribution.domain
    if not isinstance(domain, Product) or {rows, columns} - domain.parts.keys() or rows == columns:
        raise OptionError("a grid needs two different parts of a product domain.")
    for name in values if isinstance(values, Mapping) else ():
        check_part(domain, name)
    names = list(domain.parts)
    others = tuple(place for place, name in enumerate(names) if name not in (rows, columns))
    summed, inside = _others(domain, {rows, columns}, values)
    pdf, variance = (
        vector.reshape(domain.shape)[inside].sum(axis=others) for vector in (distribution.pdf, distribution.variance)
    )
    if names.index(rows) > names.index(columns):
        pdf, variance = pdf.T, variance.T
    everything = float(distribution.variance.sum())

    def side(name: str, across: int, bound: int) -> tuple[Side, list[Integers]]:
        part, share, noise = domain.parts[name], pdf.sum(axis=across), variance.sum(axis=across)
        sets, labels = choose_sets(part, share, None if values is None else part_values(values, name), bound)
        shares = Shares.of(_sums(share, sets, 0), _sums(noise, sets, 0), everything, distribution.total)
        return Side(name, labels, shares), sets

    down, row_sets = side(rows, 1, most[0])
    across, column_sets = side(columns, 0, most[1])
    shares, noise = (_sums(_sums(matrix, row_sets, 0), column_sets, 1) for matrix in (pdf, variance))
    cells = Shares.of(shares, noise, everything, distribution.total)
    return Grid(down, across, cells, max(0.0, 1.0 - float(shares.sum())), summed)


def _others(domain: Product, shown: set[str], values: Values | None) -> tuple[tuple[str, ...], tuple[Integers, ...]]:
    """Return what is summed over, in words, and the codes of each part that are not left out."""
    words, codes = [], []
    for name, part in domain.parts.items():
        inside, named = np.arange(part.size), name
        chosen = None if values is None or name in shown else part_values(values, name)
        if chosen is not None and not isinstance(chosen, int):
            inside = choose(part, np.ones(part.size), chosen)
            named = f"{name} ({', '.join(part.label(int(code)) for code in inside)})"
        codes.append(inside)
        words += [] if name in shown else [named]
    return tuple(words), np.ix_(*codes)


def _sums(array: Floats, sets: Sequence[Integers], axis: int) -> Floats:
    return np.stack([array.take(codes, axis=axis).sum(axis=axis) for codes in sets], axis=axis)
