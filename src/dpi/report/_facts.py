"""What is drawn: a stream of releases reduced to a bounded number of values and columns. It sees releases only.

Releases are read one at a time and once, so a sequence that loads them from a store one by one needs no more memory
than one release and the page.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

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
from dpi.release.people import COUNTS, tell_people
from dpi.release.quality import Quality, Unit, with_weeks
from dpi.release.release import MEASURED
from dpi.release.shown import show_answer, show_grid, show_shares
from dpi.report import _times
from dpi.report._figures import fact_text
from dpi.report._rows import Rows
from dpi.report.empty_check import are_noise, signals_to_noise

COLUMNS = 1500  # the most columns; with more slots, neighbours are averaged
GRIDS = 3  # pairs of parts of a product that are drawn as grids
RECENT = 24  # how many of the last slots are listed


VALUE, LOWER, UPPER, CODE = range(4)
"""The first axis of a band: numbers, the ends of their intervals, and why some are not shown (`dpi.release.quality`).

Its last axis is slots or columns.
"""


class Recent(NamedTuple):
    """One of the last slots, for the table."""

    name: str
    slot: int
    measured: float
    top: tuple[tuple[str, Floats], ...]
    total: Floats
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
    per_column: int  # how many slots a column averages; the newest slot has a column of its own
    names: tuple[str, ...]  # what each column is called
    marks: tuple[tuple[int, str], ...]  # columns with a mark on the time axis, and its text
    rows: Rows  # which values have a row, and which are drawn where
    shares: Floats  # a band with a row for each label
    rest: Floats | None  # the band of all other values, if there are any
    grids: tuple[Grid, ...]  # pairs of parts of a product, in the newest slot
    total: Floats  # the band of numbers of users
    people: Floats  # bands of newcomers, of users who came before and of all who ever came, where they can be told
    measured: npt.NDArray[np.bool_]
    """For each column, whether at least half of its picture was measured in its slots and not carried on."""
    epsilon: Floats
    spent: Floats
    guarantees: tuple[tuple[str, int], ...]  # each different guarantee, and how many slots carry it
    recent: tuple[Recent, ...]  # newest first
    empty: bool  # whether the totals look as if nobody had been there
    measured_in: str | None  # what the slot is called that the newest picture is from, on average, if it is in the page
    changes: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Stretches of slots with another domain than the newest: the first, the last, and rows without a number."""
    quality: Quality | None
    """By which rules numbers are shown."""

    @property
    def largest(self) -> float:
        """The largest share of a named value: the end of the colour scale."""
        return float(np.nanmax(self.shares[VALUE]))

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

    def __init__(self, rows: Rows, domain: Domain, count: int, quality: Quality | None) -> None:
        self.domain, self.by_domain, self.quality = domain, {domain.digest: rows}, quality
        self.shares, (self.rest, self.total) = np.empty((4, len(rows.labels), count)), np.empty((2, 4, count))
        self.people = np.full((len(COUNTS), 4, count), np.nan)
        self.measured, self.epsilon, self.spent = np.empty((3, count))
        self.slots, self.starts, self.domains = list[int](), list[str | None](), list[str]()
        self.guarantees, self.signals = Counter[str](), list[tuple[float, float]]()
        self.tops: deque[tuple[tuple[str, Floats], ...]] = deque(maxlen=RECENT)

    def add(self, release: Release, week: Release | None) -> None:
        """Keep what is drawn of the next release, beside the mean of its week if rules ask for one."""
        if self.slots and release.slot <= self.slots[-1]:
            raise OptionError("`releases` must be in the order of their slots, each slot once.")
        i, digest = len(self.slots), release.domain.digest
        if digest not in self.by_domain:
            self.by_domain[digest] = self.by_domain[self.domain.digest].find_in(release.domain, self.domain)
        rows = self.by_domain[digest]
        self.shares[..., i] = self._show_shares(rows, release, week)
        self.rest[:, i] = self._show(
            rows.rest(release, LEVEL), None if week is None else rows.rest(week, LEVEL), "points"
        )
        self.total[:, i] = self._show(_total(release), None if week is None else _total(week), "%")
        told = tell_people(release)
        if told:
            self.people[..., i] = [show_answer(told[name], None, self.quality, "%") for name in COUNTS]
        self.measured[i], self.epsilon[i], self.spent[i] = release.measured, release.epsilon, release.epsilon_spent
        self.slots.append(release.slot)
        self.starts.append(release.start_text)
        self.domains.append(digest)
        self.signals.append(signals_to_noise(release))
        self.guarantees[release.guarantee] += 1
        if i >= self.epsilon.size - RECENT:
            codes = rows.largest(release, 3)
            top = show_shares(release, week, self.quality, [np.array([code]) for code in codes]).T
            self.tops.append(
                tuple((short_label(release.domain, code), band) for code, band in zip(codes, top, strict=True))
            )

    def _show_shares(self, rows: Rows, release: Release, week: Release | None) -> Floats:
        """Return the band of all rows; what the domain does not have is no number, and has no reason."""
        band = rows.shares(release, LEVEL)
        if self.quality is None:
            return np.concatenate([band, np.zeros_like(band[:1])])
        users = None if self.quality.size is None else np.where(rows.there, band[VALUE] * release.total, math.inf)
        return self.quality.show(band, None if week is None else rows.shares(week, LEVEL), unit="points", users=users)

    def _show(self, slot: Numbers, week: Numbers | None, unit: Unit) -> Floats:
        if self.quality is None or math.isnan(slot[VALUE]):
            return np.array([*slot, 0.0])
        return self.quality.show(slot, week, unit=unit)


Numbers = tuple[float, float, float]
"""A value and the ends of its interval."""


def reduce(
    releases: Sequence[Release],
    values: Values | None = None,
    quality: Quality | None = None,
    week: int | None = None,
) -> Facts:
    """Return the facts of a stream with at least one release; `values` have a row, or the largest (`dpi.report._rows`).

    Where the domain has changed on the way, rows are those of the newest, and have numbers where the domain of a slot
    has the same values. Numbers are shown by rules; `week` is how many slots a week has, where these ask for one.
    """
    newest = releases[len(releases) - 1]
    rows = Rows.of(newest, values)
    read = _Numbers(rows, newest.domain, len(releases), quality)
    for release, mean in ((each, None) for each in releases) if week is None else with_weeks(releases, week):
        read.add(release, mean)
    if not np.isfinite(read.shares[VALUE]).any():
        raise OptionError("`points` leaves no share to show: every interval is wider. Give a larger number.")
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
        shares=_column_bands(read.shares, borders),
        rest=_column_bands(read.rest, borders) if rows.others else None,
        grids=tuple(
            show_grid(grid(newest, *pair, parts), quality, newest.total) for pair in pairs(newest.domain)[:GRIDS]
        ),
        total=_column_bands(read.total, borders),
        people=np.stack([_column_bands(band, borders) for band in read.people]),
        measured=_means(read.measured, borders) >= MEASURED,
        epsilon=_means(read.epsilon, borders),
        spent=np.maximum.reduceat(read.spent, borders),
        guarantees=tuple(read.guarantees.items()),
        recent=tuple(_list_recent(read, called)),
        empty=are_noise(read.signals),
        measured_in=_measured_in(newest, read.slots, called),
        changes=tuple(_changes(read, called)),
        quality=quality,
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


def _list_recent(read: _Numbers, called: Sequence[str]) -> Iterator[Recent]:
    for i, top in zip(range(len(called) - 1, -1, -1), reversed(read.tops), strict=False):
        cost, spent = float(read.epsilon[i]), float(read.spent[i])
        yield Recent(called[i], read.slots[i], float(read.measured[i]), top, read.total[:, i], cost, spent)


def _means(values: Floats, borders: Integers) -> Floats:
    """Return means between borders along the last axis.

    Ends of intervals are averaged too, as if all errors went the same way: for normal errors that is never too narrow.
    """
    sizes = np.diff(np.append(borders, values.shape[-1]))
    means: Floats = np.add.reduceat(values, borders, axis=-1) / sizes
    return means


def _column_bands(band: Floats, borders: Integers) -> Floats:
    """Return the same of a band; its code is that of the widest interval, or else what is said of any slot."""
    most, least = (how.reduceat(band[CODE], borders, axis=-1) for how in (np.maximum, np.minimum))
    return np.concatenate([_means(band[:CODE], borders), np.where(most > 0, most, least)[np.newaxis]])


def _spans(called: Sequence[str], borders: Integers) -> list[str]:
    """Return what columns of one or more slots are called."""
    ends = [*(int(border) - 1 for border in borders[1:]), len(called) - 1]
    return [
        called[start] if start == end else f"{called[start]} … {called[end]}, mean of {end - start + 1} slots"
        for start, end in zip(borders.tolist(), ends, strict=True)
    ]
