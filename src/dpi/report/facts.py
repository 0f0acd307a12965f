"""What is drawn: a stream of releases reduced to a bounded number of values and columns. It sees releases only.

Releases are read one at a time and once, so a sequence that loads them from a store one by one needs no more memory
than one release and the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpi.brain._interval import interval
from dpi.budget.epsilon import UNITS
from dpi.domain import Bins, Domain, Product
from dpi.errors import OptionError
from dpi.integers import Integers
from dpi.queries import Floats
from dpi.release import Release
from dpi.report import times

LEVEL = 0.95
VALUES = 60
"""The most values that are drawn by name; all others are one row."""
COLUMNS = 1500
"""The most columns; with more slots, neighbours are averaged."""
BARS = 15
"""How many values of one slot are drawn as bars; the newest slot's largest are always among the named values."""
RECENT = 24
"""How many of the last slots are listed."""


@dataclass(frozen=True, eq=False)
class Band:
    """Numbers with the ends of their intervals; the last axis is slots or columns."""

    value: Floats
    lower: Floats
    upper: Floats

    def put(self, column: int, value: Floats | float, lower: Floats | float, upper: Floats | float) -> None:
        """Fill one column."""
        self.value[..., column], self.lower[..., column], self.upper[..., column] = value, lower, upper

    def averaged(self, borders: Integers) -> Band:
        """The means of neighbouring slots.

        Ends are averaged too, as if all errors went the same way: for normal errors that is never too narrow.
        """
        return Band(*(_means(end, borders) for end in (self.value, self.lower, self.upper)))

    def row(self, index: int) -> Band:
        """One row."""
        return Band(self.value[index], self.lower[index], self.upper[index])

    def at(self, column: int) -> tuple[float, float, float]:
        """One number and its interval, of a single row."""
        return float(self.value[column]), float(self.lower[column]), float(self.upper[column])

    @property
    def last(self) -> tuple[float, float, float]:
        """The newest number and its interval, of a single row."""
        return self.at(-1)


@dataclass(frozen=True)
class Recent:
    """One of the last slots, for the table."""

    slot: int
    top: tuple[tuple[str, float, float, float], ...]
    total: tuple[float, float, float]
    epsilon: float
    spent: float


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the page shows of a stream that has at least one release."""

    domain: Domain
    slots: int
    first: str
    last: str
    zone: str
    width: str
    per_column: int
    """How many slots a column averages; the newest slot has a column of its own."""
    names: tuple[str, ...]
    """What each column is called."""
    marks: tuple[tuple[int, str], ...]
    """Columns with a mark on the time axis, and its text."""
    kind: str
    """What a value is: its parts' names in a product."""
    labels: tuple[str, ...]
    rank: tuple[int, ...]
    """The rows in falling order of the accumulated PDF."""
    shares: Band
    """A row for each label."""
    rest: Band | None
    """The share of all other values, if there are any."""
    others: int
    """How many values `rest` stands for."""
    total: Band
    epsilon: Floats
    spent: Floats
    epsilon_total: float | None
    guarantees: tuple[tuple[str, int], ...]
    """Each different guarantee, and how many slots carry it."""
    certificate: tuple[tuple[str, str], ...]
    """The newest certificate."""
    recent: tuple[tuple[str, Recent], ...]
    """The last slots with what they are called, newest first."""

    @property
    def largest(self) -> float:
        """The largest share of a named value: the end of the colour scale."""
        return float(self.shares.value.max())


class _Numbers:
    """What is kept of each release, filled one release at a time."""

    def __init__(self, codes: Integers, count: int) -> None:
        self.codes = codes
        self.shares = Band(*(np.empty((codes.size, count)) for _ in range(3)))
        self.rest, self.total = (Band(*(np.empty(count) for _ in range(3))) for _ in range(2))
        self.epsilon, self.spent = np.empty(count), np.empty(count)
        self.slots, self.starts = list[int](), list[str | None]()
        self.guarantees, self.recent = dict[str, int](), list[Recent]()

    def add(self, release: Release) -> None:
        """Keep what is drawn of the next release."""
        if self.slots and release.slot <= self.slots[-1]:
            raise OptionError("`releases` must be in the order of their slots, each slot once.")
        i, codes = len(self.slots), self.codes
        pdf, variance, skew = release.pdf[codes], release.variance[codes], release.skew[codes]
        self.shares.put(i, pdf, *interval(pdf, variance, skew, release.total, LEVEL))
        self.rest.put(i, *_rest(release, codes))
        self.total.put(i, *_total(release))
        self.epsilon[i], self.spent[i] = release.epsilon, release.epsilon_spent
        self.slots.append(release.slot)
        self.starts.append(release.start)
        self.guarantees[release.guarantee] = self.guarantees.get(release.guarantee, 0) + 1
        if len(self.slots) > self.epsilon.size - RECENT:
            self.recent.append(_recent(release))


def reduce(releases: Sequence[Release]) -> Facts:
    """The facts of a stream with at least one release."""
    count = len(releases)
    newest = releases[count - 1]
    codes, rank = _named(newest)
    read = _Numbers(codes, count)
    for release in releases:
        if release.domain is not newest.domain and release.domain != newest.domain:
            raise OptionError("`releases` must be of one stream: all with the same domain.")
        read.add(release)
    clock = times.moments(read.starts)
    called = times.names(clock) if clock else [f"slot {slot:,}" for slot in read.slots]
    per_column = max(1, math.ceil((count - 1) / (COLUMNS - 1)))
    borders = np.append(np.arange(0, count - 1, per_column), count - 1)
    marks = (
        times.time_marks([clock[b] for b in borders]) if clock else times.slot_marks([read.slots[b] for b in borders])
    )
    others = newest.domain.size - codes.size
    units = newest.certificate.get("epsilon_total_units")
    return Facts(
        domain=newest.domain,
        slots=count,
        first=called[0],
        last=called[-1],
        zone=times.zone(clock) if clock else "",
        width=times.width(clock) if clock else "",
        per_column=per_column,
        names=tuple(_spans(called, borders)),
        marks=tuple(marks),
        kind=" · ".join(newest.domain.parts) if isinstance(newest.domain, Product) else "Value",
        labels=tuple(_label(newest.domain, int(code)) for code in codes),
        rank=rank,
        shares=read.shares.averaged(borders),
        rest=read.rest.averaged(borders) if others else None,
        others=others,
        total=read.total.averaged(borders),
        epsilon=_means(read.epsilon, borders),
        spent=np.maximum.reduceat(read.spent, borders),
        epsilon_total=units / UNITS if isinstance(units, int) else None,
        guarantees=tuple(read.guarantees.items()),
        certificate=tuple((key, str(value)) for key, value in sorted(newest.certificate.items())),
        recent=tuple(zip(reversed(called), reversed(read.recent), strict=False)),
    )


def _named(newest: Release) -> tuple[Integers, tuple[int, ...]]:
    """The codes that get a row, in the order of rows, and the rows' order by the accumulated PDF."""
    by_all = np.argsort(-newest.accumulated, kind="stable")[:VALUES]
    by_newest = np.argsort(-newest.pdf, kind="stable")[:BARS]
    missing = by_newest[~np.isin(by_newest, by_all)]
    codes = np.concatenate((by_all[: VALUES - missing.size], missing))
    codes = codes[np.argsort(-newest.accumulated[codes], kind="stable")]
    if not isinstance(newest.domain, Bins):
        return codes, tuple(range(codes.size))
    rows = np.argsort(codes)  # an ordered domain keeps its order
    return codes[rows], tuple(np.argsort(rows).tolist())


def _rest(release: Release, codes: Integers) -> tuple[float, float, float]:
    """The share of the values without a row, with a normal interval from the variances, as `dpi.queries` has it."""
    share = max(0.0, 1 - float(release.pdf[codes].sum()))
    everything = float(release.variance.sum())
    inside = float(release.variance[codes].sum())
    variance = max(0.0, everything - inside) * inside / everything if everything > 0 else 0.0
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(variance)
    return share, max(0.0, share - half), min(1.0, share + half)


def _total(release: Release) -> tuple[float, float, float]:
    if math.isnan(release.total):
        return math.nan, math.nan, math.nan
    lower, upper = release.count().interval(LEVEL)
    return release.total, min(release.total, max(0.0, lower)), upper


def _recent(release: Release) -> Recent:
    order = np.argsort(-release.pdf, kind="stable")[:3]
    lower, upper = release.interval(LEVEL)
    top = tuple(
        (_label(release.domain, int(c)), float(release.pdf[c]), float(lower[c]), float(upper[c])) for c in order
    )
    return Recent(release.slot, top, _total(release), release.epsilon, release.epsilon_spent)


def _label(domain: Domain, code: int) -> str:
    """The bin's name; in a product its parts' names alone, since what the parts are stands in the table's head."""
    if not isinstance(domain, Product):
        return domain.label(code)
    return " · ".join(domain.parts[name].label(part) for name, part in domain.codes(code).items())


def _means(values: Floats, borders: Integers) -> Floats:
    """Means between borders along the last axis."""
    sizes = np.diff(np.append(borders, values.shape[-1]))
    means: Floats = np.add.reduceat(values, borders, axis=-1) / sizes
    return means


def _spans(called: Sequence[str], borders: Integers) -> list[str]:
    """What columns of one or more slots are called."""
    ends = [*(int(border) - 1 for border in borders[1:]), len(called) - 1]
    return [
        called[start] if start == end else f"{called[start]} … {called[end]}, mean of {end - start + 1} slots"
        for start, end in zip(borders.tolist(), ends, strict=True)
    ]
