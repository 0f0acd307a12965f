"""Amounts: numbers that are summed by user, on a public grid that has no scale of its own.

A user's value in a slot is the sum of their amounts, in whole steps. The grid has a zero, both signs, and levels
between powers of four. What was released says which levels are worth a bin: the grid of a slot is a function of the
releases before it (`Amounts.refined`). Rows of events hold sums and no bins, so that none is read anew when it moves.

Knows public numbers; no user, and no histogram before noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from dpi.domain._domain import OUTSIDE, Bins, Domain
from dpi.errors import OptionError
from dpi.events.columns import numbers
from dpi.exact.integers import MOST, Integers

Floats = npt.NDArray[np.float64]
BASE = 4
LEVELS = 15
"""Levels of a side at most: 4^15 steps are the largest cap, below `MOST`. Source: by calculation."""
PLUS, MINUS, ZERO = range(3)
"""Codes of rows: the steps of a row above zero, below zero, or one event of zero."""
DEEPEST = 2
"""A level has at most 2^2 bins. Source: one and two halvings, on the two streams of `benchmarks/amounts.py`."""
SPLIT = 0.25
"""A bin of a level is halved above this share; two are one again below half of it. Source: 0.1 to 0.25, as above."""
SIGNIFICANT, KEPT = 2.0, 1.0
"""Deviations above zero from which a level is opened, and below which it is closed. Source: 1.7 to 3, as above."""
FIRST = 4.0
"""The same on a grid of all levels, of which noise would open one that nobody is in. Source: 2 and 4, as above."""
FLOOR = 0.001
"""Of an even share: so much an estimator leaves in a bin that it knows to be empty. It is nobody. Source: measured."""
LOW = 0.05
"""Levels of less than half this share of a side become one bin, which is cut again above it. Source: as above."""


@dataclass(frozen=True)
class Side:
    """The levels of one sign: from 4^first steps on, each with 2^depth bins; below is one bin, beyond them the cap.

    >>> Side(1, (0, 1)).cuts
    [4, 16, 32, 64]
    """

    first: int = 0
    depths: tuple[int, ...] = (0,) * LEVELS

    def __post_init__(self) -> None:
        fits = type(self.first) is int and 0 <= self.first <= LEVELS - len(self.depths)
        if not fits or not all(type(depth) is int and 0 <= depth <= DEEPEST for depth in self.depths):
            raise OptionError(
                f"the levels of an amount's side must lie within 0 and {LEVELS}, of depth 0 to {DEEPEST}."
            )

    @property
    def last(self) -> int:
        """The level of the cap."""
        return self.first + len(self.depths)

    @property
    def cuts(self) -> list[int]:
        """The ends of the bins, in steps: all above zero."""
        inner = ({0: (4,), 1: (4, 8), 2: (4, 6, 8, 12)}[depth] for depth in self.depths)
        levels = enumerate(inner, self.first)
        return sorted({quarter * BASE**k // 4 for k, quarters in levels for quarter in quarters} | {BASE**self.last})

    def refined(self, share: Floats, variance: Floats) -> Side | None:
        """Return the levels that released shares of its levels justify; None if nothing is significant.

        `share` and `variance` are those of everything below the first level, of each level, and of all beyond the cap.
        """
        deviation = np.sqrt(variance)
        bar, least = (FIRST, FIRST) if len(self.depths) == LEVELS else (SIGNIFICANT, KEPT)
        opened = np.flatnonzero(share[1:] > bar * deviation[1:])
        if not opened.size and not share[0] > bar * deviation[0]:
            return None
        kept = np.flatnonzero(share[1:-1] > least * deviation[1:-1])
        last = min(self.first + int(max(opened.max(initial=-1), kept.max(initial=-1))) + 1, LEVELS)
        whole, below, first = float(share[: last - self.first + 1].sum()), float(share[0]), self.first
        if first > 0 and below > LOW * whole and below > SIGNIFICANT * deviation[0]:
            first -= 1
        else:
            while first < last - 1 and (below := below + float(share[1 + first - self.first])) <= LOW / 2 * whole:
                first += 1
        first = min(first, max(last - 1, 0))
        return Side(first, tuple(self._depth(k, share, deviation) for k in range(first, last)))

    def _depth(self, level: int, share: Floats, deviation: Floats) -> int:
        """Return how often a level is halved: as often as its share and what is known of it allow."""
        at = level - self.first
        if not 0 <= at < len(self.depths):
            return 0
        mass, depth = float(share[1 + at]), self.depths[at]
        while depth < DEEPEST and mass / 2**depth > SPLIT and mass > 3 * deviation[1 + at]:
            depth += 1
        while depth > 0 and mass / 2 ** (depth - 1) < SPLIT / 2:
            depth -= 1
        return depth


class Amounts(Bins):
    """Sums of numbers by user: a user is in one bin, that of the sum of all their amounts in the slot.

    An amount is rounded to whole steps. Sums of what is above and below zero are exact up to 2^31 - 1 steps each. What
    is beyond the outermost edges counts as these: they are the public cap. A row that is not a number is dropped.

    >>> revenue = Amounts("0.01")
    >>> revenue.size, revenue.label(revenue.index(19.99))
    (34, '[10.24, 40.96)')
    >>> [part.tolist() for part in revenue.encode_rows(["19.99", -3, 0, "free"])]
    [[0, 1, 2, -1], [1999, 300, 1, 1]]
    """

    grows = summed = True

    def __init__(
        self, step: str | int | float | Fraction = "0.01", *, plus: Side | None = None, minus: Side | None = None
    ) -> None:
        try:
            self.step = Fraction(str(step))
        except (ValueError, ZeroDivisionError):
            self.step = Fraction(0)
        if not Fraction(1, 10**12) <= self.step <= 10**12:
            raise OptionError(f"`step` must be a number between 1e-12 and 1e12, for example 0.01. Got {step!r}.")
        self.plus, self.minus = plus or Side(), minus or Side()
        self.cuts = np.array([*(-cut for cut in reversed(self.minus.cuts)), 0, *self.plus.cuts], dtype=np.int64)
        super().__init__(self.cuts * float(self.step))

    def encode(self, column: object) -> Integers:
        """Return the bins of a column of sums."""
        codes, steps = self.encode_rows(column)
        return np.where(codes < 0, OUTSIDE, self.bins(self.signed(codes, steps)))

    def signed(self, codes: Integers, steps: Integers) -> Integers:
        """Return the steps of rows with their sign."""
        return np.where(codes == PLUS, steps, np.where(codes == MINUS, -steps, 0))

    def bins(self, sums: Integers) -> Integers:
        """Return the bins of sums in steps."""
        return np.searchsorted(self.cuts, sums, side="right")

    @property
    def unrefined(self) -> bool:
        """Whether this is the first grid, which no release has refined: nearly all of its bins are empty."""
        return self.plus == self.minus == Side()

    @property
    def row_codes(self) -> int:
        """Three: above zero, below zero, and zero."""
        return 3

    def encode_rows(self, column: object) -> tuple[Integers, Integers]:
        """Return the sign of each amount, and how many steps it is, at least one: equal signs of a user are summed."""
        values = numbers(column, "value")
        known = ~np.isnan(values)
        most = MOST * float(self.step)  # cut before it is scaled: no amount is so large that it overflows
        scaled = np.clip(np.where(known, values, 0.0), -most, most) * self.step.denominator / self.step.numerator
        steps = np.clip(np.rint(scaled), -MOST, MOST).astype(np.int64)
        codes = np.where(steps > 0, PLUS, np.where(steps < 0, MINUS, ZERO))
        return np.where(known, codes, OUTSIDE), np.maximum(np.abs(steps), 1)

    def same_rows(self, other: Domain) -> bool:
        """Tell whether rows of both are the same: they are if their steps are, whatever the grids."""
        return isinstance(other, Amounts) and other.step == self.step

    @property
    def middles(self) -> Floats:
        """Where an amount of each bin lies on average, if amounts of a bin are spread evenly by their logarithm."""
        ends = np.abs(self.cuts.astype(np.float64))
        low, high = np.minimum(ends[:-1], ends[1:]), np.maximum(ends[:-1], ends[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(low > 0, (high - low) / np.log(high / low), high / 2)
        inner[(low == 0) & (high == 1)] = 0.0
        inner *= np.where(self.cuts[1:] > 0, 1, -1)
        inner[self.cuts[:-1] == -1] = -1.0
        return np.concatenate(([self.edges[0]], inner * float(self.step), [self.edges[-1]]))

    def likely(self, pdf: Floats, variance: Floats) -> Floats:
        """Return the middles, cut to the cap that this release itself gives reason for.

        Beyond it an estimate is not significant. On the first grid it would be nobody's, and millions.
        """
        edges = self.refined(pdf, variance).edges
        return np.clip(self.middles, edges[0], edges[-1])

    def refined(self, pdf: Floats, variance: Floats) -> Self:
        """Return the domain of the next slot, from what was released of this one: a pure function of public numbers.

        A level is opened if its share is significant, so the cap grows fourfold in a slot while users are beyond it. It
        is closed if its share is not, and halved where many users are. If no level is significant, nothing changes.
        """
        zero, deep = int(np.searchsorted(self.cuts, 0)) + 1, variance.astype(np.float64)
        pdf = np.maximum(pdf - FLOOR / self.size, 0)
        sides = []
        for side, shares, doubts in (
            (self.plus, pdf[zero:], deep[zero:]),
            (self.minus, pdf[:zero][::-1], deep[:zero][::-1]),
        ):
            starts = np.array([0, *side.cuts])
            borders = [0, *(BASE**k for k in range(side.first, side.last + 1))]
            at = np.searchsorted(starts, borders)
            sides.append(side.refined(np.add.reduceat(shares, at), np.add.reduceat(doubts, at)))
        if sides == [None, None]:
            return self
        plus, minus = (Side(0, ()) if side is None else side for side in sides)
        return type(self)(self.step, plus=plus, minus=minus)

    def _description(self) -> Iterable[object]:
        return [str(self.step), *([side.first, list(side.depths)] for side in (self.plus, self.minus))]

    def _facts(self) -> dict[str, str]:
        low, high = (f"{edge:g}" for edge in (self.edges[0], self.edges[-1]))
        return {"sums by user, cut to": f"{low} … {high}", "in steps of": f"{float(self.step):g}"}

    def __repr__(self) -> str:
        return f"Amounts({float(self.step):g})"


def side_from(description: object) -> Side:
    """Return a side as it is described: its first level, and the depth of each; `TypeError` if it is no such thing."""
    match description:
        case [int(first), list(depths)]:
            return Side(first, tuple(depths))
    raise TypeError
