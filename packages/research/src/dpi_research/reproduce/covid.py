"""COVID-19 as a stream of people: somebody is a case once, in one region, on one day. Public data.

The publisher counts 189 million cases. The published evaluation has 48,925 users; so many people, or more, are drawn
from all cases without replacement. The regions, 110 as published, are those with the most cases, taken as public.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.budget import Ledger
from dpi.domain import Categories
from dpi.exact.integers import Integers
from dpi_research.datasets import load
from dpi_research.datasets.covid import cases
from dpi_research.reproduce.crowd import without_replacement

if TYPE_CHECKING:
    import polars as pl

REGIONS, PEOPLE, DAYS = 110, 48_925, 540
"""Regions and people as published; days of our edition."""
FIRST = date(2020, 1, 22)
ONCE = Ledger(returning=False)
"""What the ledger is told: nobody is a case twice. Accounts are kept all the same."""


@dataclass(frozen=True, eq=False)
class Slot:
    """The people of a slot, their regions, and how many each region has."""

    users: pl.Series
    values: pl.Series
    counts: Integers

    @property
    def pdf(self) -> npt.NDArray[np.float64]:
        """The true PDF; only for a slot with people."""
        return np.asarray(self.counts / self.counts.sum())


@dataclass(frozen=True, eq=False)
class People:
    """The domain of regions and the people of each slot."""

    domain: Categories
    slots: tuple[Slot, ...]


@lru_cache(maxsize=2)
def stream_of(people: int = PEOPLE, *, first: int = 0, days: int = DAYS, per_day: int = 1) -> People:
    """The stream of some days, from `first` on, out of the folder that DPI_DATA names."""
    return drawn(load("covid19"), people, first=first, days=days, per_day=per_day)


def drawn(table: pl.DataFrame, people: int, *, first: int, days: int, per_day: int = 1) -> People:
    """So many people of a table of counts, and their slots; with `per_day`, each is in a random part of the day."""
    import polars as pl

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
    order = np.argsort(number, kind="stable")
    borders = np.searchsorted(number[order], np.arange(days * per_day + 1))
    events = events[order]
    slots = []
    for begin, stop in pairwise(borders):
        rows = events.slice(int(begin), int(stop - begin))
        counts = np.bincount(domain.encode(rows["value"]), minlength=domain.size)
        slots.append(Slot(rows["user"], rows["value"], counts))
    return People(domain, tuple(slots))
