"""What is drawn: a stream of releases reduced to a bounded number of values and columns. It sees releases only.

Releases are read one at a time and once, so a sequence that loads them from a store one by one needs no more memory
than one release and the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import UNITS
from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.choice import Values, short_label
from dpi.release.grid import Grid, grid, pairs
from dpi.release.interval import LEVEL
from dpi.release.queries import Floats
from dpi.release.release import MEASURED
from dpi.report import times
from dpi.report.earlier import Earlier
from dpi.report.figures import fact_text
from dpi.report.nobody import loudness, unheard
from dpi.report.rows import Rows, by_parts

COLUMNS = 1500
"""The most columns; with more slots, neighbours are averaged."""
GRIDS = 3
"""How many pairs of parts of a product are drawn as grids."""
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
    measured: float
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
    rows: Rows
    """Which values have a row, and which are drawn where."""
    shares: Band
    """A row for each label."""
    rest: Band | None
    """The share of all other values, if there are any."""
    grids: tuple[Grid, ...]
    """Pairs of parts of a product, in the newest slot."""
    total: Band
    measured: npt.NDArray[np.bool_]
    """For each column, whether at least half of its picture was measured in its slots and not carried on."""
    epsilon: Floats
    spent: Floats
    epsilon_total: float | None
    guarantees: tuple[tuple[str, int], ...]
    """Each different guarantee, and how many slots carry it."""
    certificate: tuple[tuple[str, str], ...]
    """The newest certificate."""
    recent: tuple[tuple[str, Recent], ...]
    """The last slots with what they are called, newest first."""
    nobody: bool
    """Whether the totals look as if nobody had been there."""
    by_class: bool = False
    """Whether users are measured by class, so that totals are those of all active users."""
    freshness: str | None = None
    """How old the newest picture is, in words, where users are measured by class or nothing was measured."""
    measured_ago: float | None = None
    """How many slots before the newest its picture was measured, on average; None if the release cannot tell."""
    measured_in: str | None = None
    """What that slot is called, if it is in the page."""
    changes: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Stretches of slots with another domain than the newest: the first, the last, and rows without a number."""

    @property
    def largest(self) -> float:
        """The largest share of a named value: the end of the colour scale."""
        return float(np.nanmax(self.shares.value))


class _Numbers:
    """What is kept of each release, filled one release at a time."""

    def __init__(self, rows: Rows, domain: Domain, count: int) -> None:
        self.rows, self.domain = rows, domain
        self.earlier = dict[str, Earlier]()
        self.shares = Band(*(np.empty((len(rows.labels), count)) for _ in range(3)))
        self.rest, self.total = (Band(*(np.empty(count) for _ in range(3))) for _ in range(2))
        self.measured, self.epsilon, self.spent = (np.empty(count) for _ in range(3))
        self.slots, self.starts = list[int](), list[str | None]()
        self.guarantees, self.recent = dict[str, int](), list[Recent]()
        self.loudnesses = list[float]()

    def add(self, release: Release) -> None:
        """Keep what is drawn of the next release."""
        i, rows = len(self.slots), self.rows_in(release.domain)
        self.shares.put(i, *rows.shares(release, LEVEL))
        self.rest.put(i, *rows.rest(release, LEVEL))
        self.total.put(i, *_total(release))
        self.measured[i], self.epsilon[i], self.spent[i] = release.measured, release.epsilon, release.epsilon_spent
        self.slots.append(release.slot)
        self.starts.append(release.start_text)
        self.loudnesses.append(loudness(release))
        self.guarantees[release.guarantee] = self.guarantees.get(release.guarantee, 0) + 1
        if len(self.slots) > self.epsilon.size - RECENT:
            self.recent.append(_recent(release, rows))

    def rows_in(self, domain: Domain) -> Rows | Earlier:
        """The rows, or what of them another domain has."""
        if domain is self.domain or domain == self.domain:
            return self.rows
        if domain.digest not in self.earlier:
            self.earlier[domain.digest] = Earlier(self.rows, self.domain, domain)
        return self.earlier[domain.digest]


def reduce(releases: Sequence[Release], values: Values | None = None) -> Facts:
    """The facts of a stream with at least one release; `values` have a row, or the largest (`dpi.report.rows`).

    Where the domain has changed on the way, rows are those of the newest, and have numbers where the domain of a slot
    has the same values (`dpi.report.earlier`).
    """
    newest = releases[len(releases) - 1]
    rows = Rows.of(newest, values)
    read, last, domains = _Numbers(rows, newest.domain, len(releases)), -math.inf, list[Domain]()
    for release in releases:
        if release.slot <= last:
            raise OptionError("`releases` must be in the order of their slots, each slot once.")
        last = release.slot
        read.add(release)
        domains.append(release.domain)
    count = len(read.slots)
    clock = times.moments(read.starts)
    called = times.names(clock) if clock else [f"slot {slot:,}" for slot in read.slots]
    per_column = max(1, math.ceil((count - 1) / (COLUMNS - 1)))
    borders = np.append(np.arange(0, count - 1, per_column), count - 1)
    marks = (
        times.time_marks([clock[b] for b in borders]) if clock else times.slot_marks([read.slots[b] for b in borders])
    )
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
        rows=rows,
        shares=read.shares.averaged(borders),
        rest=read.rest.averaged(borders) if rows.others else None,
        grids=tuple(grid(newest, *pair, by_parts(values)) for pair in pairs(newest.domain)[:GRIDS]),
        total=read.total.averaged(borders),
        measured=_means(read.measured, borders) >= MEASURED,
        epsilon=_means(read.epsilon, borders),
        spent=np.maximum.reduceat(read.spent, borders),
        epsilon_total=units / UNITS if isinstance(units, int) else None,
        guarantees=tuple(read.guarantees.items()),
        certificate=tuple((key, fact_text(value)) for key, value in sorted(newest.certificate.items())),
        recent=tuple(zip(reversed(called), reversed(read.recent), strict=False)),
        nobody=unheard(read.loudnesses),
        by_class=newest.carried is not None,
        freshness=newest.freshness,
        measured_ago=newest.measured_ago,
        measured_in=_measured_in(newest, read.slots, called),
        changes=tuple(_changes(read, domains, called)),
    )


def _changes(
    read: _Numbers, domains: Sequence[Domain], called: Sequence[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Stretches of slots with another domain than the newest."""
    for digest, group in groupby(range(len(domains)), key=lambda i: domains[i].digest):
        places = list(group)
        if digest in read.earlier:
            yield called[places[0]], called[places[-1]], read.earlier[digest].missing


def _measured_in(newest: Release, slots: Sequence[int], called: Sequence[str]) -> str | None:
    """What the slot is called that the newest picture is from, on average."""
    ago = newest.measured_ago
    return None if ago is None else dict(zip(slots, called, strict=True)).get(newest.slot - round(ago))


def _total(release: Release) -> tuple[float, float, float]:
    if math.isnan(release.total):
        return math.nan, math.nan, math.nan
    lower, upper = release.count().interval(LEVEL)
    return release.total, min(release.total, max(0.0, lower)), upper


def _recent(release: Release, rows: Rows | Earlier) -> Recent:
    lower, upper = release.interval(LEVEL)
    top = tuple(
        (short_label(release.domain, code), float(release.pdf[code]), float(lower[code]), float(upper[code]))
        for code in rows.largest(release, 3)
    )
    return Recent(release.slot, release.measured, top, _total(release), release.epsilon, release.epsilon_spent)


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
