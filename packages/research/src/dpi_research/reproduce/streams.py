"""Real streams, slot by slot: who did what, in a domain of frequent values, and the truth beside it.

Sees events, and the truth: for public data alone. The list of frequent values is read off the data and taken as public;
an owner of private data must know it beforehand.

COVID-19 is a stream of people: somebody is a case once, in one region, on one day. The publisher counts 189 million
cases. The published evaluation has 48,925 users; so many people, or more, are drawn from all cases without replacement.
The regions, 110 as published, are those with the most cases, taken as public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpi.budget import Ledger
from dpi.domain import Categories, Domain
from dpi.events.slots import Slots
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import compress
from dpi.mechanism.base import Estimate, Measurement
from dpi.mechanism.boosted import Boosted
from dpi.release.queries import Floats
from dpi_research.datasets import load
from dpi_research.datasets.loaders import cases
from dpi_research.reproduce.play import without_replacement

if TYPE_CHECKING:
    from dpi.mechanism.boosted import State

Events = tuple[pl.Series, pl.Series | dict[str, pl.Series]]
"""Users and values of a slot; for several columns, values by column."""


@dataclass(frozen=True, eq=False)
class RealStream:
    """What of a real stream is played: its domain, and the events of every slot, empty ones too."""

    domain: Domain
    slots: Sequence[Events]

    @cached_property
    def counts(self) -> list[Floats]:
        """The truth: how many users each bin has, slot by slot; a user of several bins is shared out among them."""
        return [compress(users, values, self.domain).grains / GRAINS for users, values in self.slots]

    @cached_property
    def pdfs(self) -> list[Floats]:
        """The truth as PDFs; an empty slot has that of the slot before."""
        return fill_pdfs(self.counts)

    @cached_property
    def accumulated(self) -> list[Floats]:
        """The truth over all slots so far, as PDFs."""
        return fill_pdfs(np.cumsum(self.counts, axis=0))


def fill_pdfs(counts: Sequence[Floats] | Floats) -> list[Floats]:
    """Counts as PDFs; where there are none, the PDF before, and the uniform one at the beginning.

    >>> [pdf.tolist() for pdf in fill_pdfs([np.zeros(2), np.array([1.0, 3.0]), np.zeros(2)])]
    [[0.5, 0.5], [0.25, 0.75], [0.25, 0.75]]
    """
    pdfs: list[Floats] = []
    for slot in counts:
        total = slot.sum()
        pdfs.append(slot / total if total > 0 else pdfs[-1] if pdfs else np.full(slot.size, 1 / slot.size))
    return pdfs


def frequent(table: pl.DataFrame, column: str, listed: int, *, other: bool = True) -> Categories:
    """The most frequent values of a column, and a bin for the rest if there is one and `other` is wanted.

    >>> frequent(pl.DataFrame({"port": [22, 80, 80, 443, 443, 443]}), "port", 2)
    Categories(['443', '80'], other='other')
    """
    values = table.group_by(column).len().sort("len", column, descending=True)[column]
    return Categories(values[:listed], other="other" if other and values.len() > listed else None)


def by_clock(table: pl.DataFrame, width: str) -> Integers:
    """The slot of each event, in slots of one width from the first event on."""
    first = table["timestamp"].min()
    return Slots(width, origin=first).numbers(table["timestamp"])  # type: ignore[arg-type]


def in_slots(table: pl.DataFrame, numbers: Integers, columns: Sequence[str], slots: int | None = None) -> list[Events]:
    """The events of every slot from 0 to the last that has some, or of so many slots.

    >>> table = pl.DataFrame({"user": ["a", "b"], "value": [5, 7]})
    >>> [(users.to_list(), values.to_list()) for users, values in in_slots(table, np.array([2, 0]), ["value"])]
    [(['b'], [7]), ([], []), (['a'], [5])]
    """
    order = np.argsort(numbers, kind="stable")
    borders = np.searchsorted(numbers[order], np.arange((int(numbers.max()) + 1 if slots is None else slots) + 1))
    table = table[order]
    events: list[Events] = []
    for first, end in pairwise(borders):
        rows = table.slice(int(first), int(end - first))
        values = {column: rows[column] for column in columns}
        events.append((rows["user"], values if len(values) > 1 else rows[columns[0]]))
    return events


@dataclass(frozen=True)
class Recorded(Boosted):
    """The boosted mechanism, which keeps its noisy counts: they are public, and are the noisy histogram beside it."""

    noisy: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def update(self, state: State, measurement: Measurement) -> tuple[State, Estimate]:
        """As the boosted mechanism does, and keep the counts; zeros where a slot was not measured."""
        after, estimate = super().update(state, measurement)
        counts = _of_groups(measurement, estimate.pdf.size) if measurement.groups else estimate.counts
        self.noisy.append(np.zeros(estimate.pdf.size) if counts is None else counts)
        return after, estimate


def _of_groups(measurement: Measurement, bins: int) -> Floats:
    """The noisy counts of groups added up, each by its precision: those of the first in full.

    >>> from dpi.budget.classes import GroupBudget
    >>> from dpi.budget.epsilon import Epsilon
    >>> due = tuple(GroupBudget(Epsilon.at_most(e), ()) for e in (1, 0.5))
    >>> _of_groups(Measurement(0, Epsilon.at_most(1), np.array([3, 0, 4, 8]) * GRAINS, False, due), 2).tolist()
    [4.0, 2.0]
    """
    precision = np.array([float(group.epsilon) ** 2 for group in measurement.groups])
    return np.asarray(precision / precision[0] @ (measurement.values.reshape(-1, bins) / GRAINS))


REGIONS, PEOPLE, DAYS = 110, 48_925, 540
"""Regions and people as published; days of our edition."""
FIRST = date(2020, 1, 22)
ONCE = Ledger(returning=False)
"""What the ledger is told: nobody is a case twice. Accounts are kept all the same."""


@lru_cache(maxsize=2)
def stream_of(people: int = PEOPLE, *, first: int = 0, days: int = DAYS, per_day: int = 1) -> RealStream:
    """The stream of some days, from `first` on, out of the folder that DPI_DATA names."""
    return draw_people(load("covid19"), people, first=first, days=days, per_day=per_day)


def draw_people(table: pl.DataFrame, people: int, *, first: int, days: int, per_day: int = 1) -> RealStream:
    """So many people of a table of counts, and their slots; with `per_day`, each is in a random part of the day."""
    rng = np.random.default_rng([0, 19])
    table = table.filter(pl.col("value") > 0)
    totals = table.group_by("user").agg(pl.col("value").sum()).sort("value", "user", descending=[True, False])
    domain = Categories(sorted(totals["user"][:REGIONS]), other=None)
    start = FIRST + timedelta(days=first)
    end = start + timedelta(days=days)
    here = pl.col("timestamp").is_between(start, end, closed="left")
    table = table.filter(here & pl.col("user").is_in(list(domain.values)))
    sample = without_replacement(table["value"].to_numpy(), people, rng)
    events = cases(table.with_columns(value=pl.Series(sample)), start, end, value="user")
    day = (events["timestamp"].dt.date() - start).dt.total_days().to_numpy()
    number = day * per_day + rng.integers(per_day, size=day.size)
    return RealStream(domain, in_slots(events, number, ["value"], days * per_day))
