"""What is drawn: a stream of releases reduced to a bounded number of values and columns. It sees releases only.

Releases are read one at a time and once, so a sequence that loads them from a store one by one needs no more memory
than one release and the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import UNITS
from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release import Release
from dpi.release.choice import Floats, Values, short_label
from dpi.release.grid import Grid, grid, pairs
from dpi.release.interval import LEVEL
from dpi.release.release import MEASURED
from dpi.report import _times
from dpi.report._figures import fact_text
from dpi.report._rows import Rows
from dpi.report.empty_check import are_noise, signal_to_noise

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

    @classmethod
    def empty(cls, *shape: int) -> Band:
        """Return a band that is filled later."""
        return cls(*np.empty((3, *shape)))

    def put(self, column: int, ends: Sequence[float] | Floats) -> None:
        """Fill one column."""
        self.value[..., column], self.lower[..., column], self.upper[..., column] = ends

    def average(self, borders: Integers) -> Band:
        """Return the means of neighbouring slots.

        Ends are averaged too, as if all errors went the same way: for normal errors that is never too narrow.
        """
        return Band(*(_means(end, borders) for end in (self.value, self.lower, self.upper)))

    def row(self, index: int) -> Band:
        """Return one row."""
        return Band(self.value[index], self.lower[index], self.upper[index])

    def at(self, column: int) -> tuple[float, float, float]:
        """Return one number and its interval, of a single row."""
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
    """Everything the page shows of a stream that has at least one release, the newest of which is `newest`."""

    newest: Release
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
    guarantees: tuple[tuple[str, int], ...]
    """Each different guarantee, and how many slots carry it."""
    recent: tuple[tuple[str, Recent], ...]
    """The last slots with what they are called, newest first."""
    empty: bool
    """Whether the totals look as if nobody had been there."""
    measured_in: str | None
    """What the slot is called that the newest picture is from, on average, if it is in the page."""
    changes: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Stretches of slots with another domain than the newest: the first, the last, and rows without a number."""

    @property
    def largest(self) -> float:
        """The largest share of a named value: the end of the colour scale."""
        return float(np.nanmax(self.shares.value))

    @property
    def kind(self) -> str:
        """What a value is: its parts' names in a product."""
        domain = self.newest.domain
        return " · ".join(domain.parts) if isinstance(domain, Product) else "Value"

    @property
    def epsilon_total(self) -> float | None:
        """What the newest certificate states as ε."""
        units = self.newest.certificate.get("epsilon_total_units")
        return units / UNITS if isinstance(units, int) else None

    @property
    def certificate(self) -> list[tuple[str, str]]:
        """The newest certificate, in words."""
        return [(key, fact_text(value)) for key, value in sorted(self.newest.certificate.items())]


class _Numbers:
    """What is kept of each release, filled one release at a time."""

    def __init__(self, rows: Rows, domain: Domain, count: int) -> None:
        self.domain, self.by_domain = domain, {domain.digest: rows}
        self.shares, self.rest, self.total = Band.empty(len(rows.labels), count), Band.empty(count), Band.empty(count)
        self.measured, self.epsilon, self.spent = np.empty((3, count))
        self.slots, self.starts, self.domains = list[int](), list[str | None](), list[str]()
        self.guarantees, self.recent, self.signals = dict[str, int](), list[Recent](), list[float]()

    def add(self, release: Release) -> None:
        """Keep what is drawn of the next release."""
        if self.slots and release.slot <= self.slots[-1]:
            raise OptionError("`releases` must be in the order of their slots, each slot once.")
        i, digest = len(self.slots), release.domain.digest
        if digest not in self.by_domain:
            self.by_domain[digest] = self.by_domain[self.domain.digest].find_in(release.domain, self.domain)
        rows = self.by_domain[digest]
        self.shares.put(i, rows.shares(release, LEVEL))
        self.rest.put(i, rows.rest(release, LEVEL))
        self.total.put(i, _total(release))
        self.measured[i], self.epsilon[i], self.spent[i] = release.measured, release.epsilon, release.epsilon_spent
        self.slots.append(release.slot)
        self.starts.append(release.start_text)
        self.domains.append(digest)
        self.signals.append(signal_to_noise(release))
        self.guarantees[release.guarantee] = self.guarantees.get(release.guarantee, 0) + 1
        if len(self.slots) > self.epsilon.size - RECENT:
            self.recent.append(_recent(release, rows))


def reduce(releases: Sequence[Release], values: Values | None = None) -> Facts:
    """Return the facts of a stream with at least one release; `values` have a row, or the largest (`dpi.report._rows`).

    Where the domain has changed on the way, rows are those of the newest, and have numbers where the domain of a slot
    has the same values.
    """
    newest = releases[len(releases) - 1]
    rows = Rows.of(newest, values)
    read = _Numbers(rows, newest.domain, len(releases))
    for release in releases:
        read.add(release)
    count = len(read.slots)
    clock = _times.moments(read.starts)
    called = _times.names(clock) if clock else [f"slot {slot:,}" for slot in read.slots]
    per_column = max(1, math.ceil((count - 1) / (COLUMNS - 1)))
    borders = np.append(np.arange(0, count - 1, per_column), count - 1)
    marks = (
        _times.time_marks([clock[b] for b in borders]) if clock else _times.slot_marks([read.slots[b] for b in borders])
    )
    parts = values if isinstance(values, int | Mapping) else None  # nothing of parts, where combinations are named
    return Facts(
        newest=newest,
        slots=count,
        first=called[0],
        last=called[-1],
        zone=_times.zone(clock) if clock else "",
        width=_times.width(clock) if clock else "",
        per_column=per_column,
        names=tuple(_spans(called, borders)),
        marks=tuple(marks),
        rows=rows,
        shares=read.shares.average(borders),
        rest=read.rest.average(borders) if rows.others else None,
        grids=tuple(grid(newest, *pair, parts) for pair in pairs(newest.domain)[:GRIDS]),
        total=read.total.average(borders),
        measured=_means(read.measured, borders) >= MEASURED,
        epsilon=_means(read.epsilon, borders),
        spent=np.maximum.reduceat(read.spent, borders),
        guarantees=tuple(read.guarantees.items()),
        recent=tuple(zip(reversed(called), reversed(read.recent), strict=False)),
        empty=are_noise(read.signals),
        measured_in=_measured_in(newest, read.slots, called),
        changes=tuple(_changes(read, called)),
    )


def _changes(read: _Numbers, called: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    stretches = [(digest, [*places]) for digest, places in groupby(range(len(called)), read.domains.__getitem__)]
    return [
        (called[places[0]], called[places[-1]], read.by_domain[digest].missing)
        for digest, places in stretches
        if digest != read.domain.digest
    ]


def _measured_in(newest: Release, slots: Sequence[int], called: Sequence[str]) -> str | None:
    ago = newest.measured_ago
    return None if ago is None else dict(zip(slots, called, strict=True)).get(newest.slot - round(ago))


def _total(release: Release) -> tuple[float, float, float]:
    if math.isnan(release.total):
        return math.nan, math.nan, math.nan
    lower, upper = release.count().interval(LEVEL)
    return release.total, min(release.total, max(0.0, lower)), upper


def _recent(release: Release, rows: Rows) -> Recent:
    lower, upper = release.interval(LEVEL)
    top = tuple(
        (short_label(release.domain, code), float(release.pdf[code]), float(lower[code]), float(upper[code]))
        for code in rows.largest(release, 3)
    )
    return Recent(release.slot, release.measured, top, _total(release), release.epsilon, release.epsilon_spent)


def _means(values: Floats, borders: Integers) -> Floats:
    """Return means between borders along the last axis."""
    sizes = np.diff(np.append(borders, values.shape[-1]))
    means: Floats = np.add.reduceat(values, borders, axis=-1) / sizes
    return means


def _spans(called: Sequence[str], borders: Integers) -> list[str]:
    """Return what columns of one or more slots are called."""
    ends = [*(int(border) - 1 for border in borders[1:]), len(called) - 1]
    return [
        called[start] if start == end else f"{called[start]} … {called[end]}, mean of {end - start + 1} slots"
        for start, end in zip(borders.tolist(), ends, strict=True)
    ]
