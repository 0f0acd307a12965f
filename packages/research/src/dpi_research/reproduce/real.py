"""Real streams, slot by slot: who did what, in a domain of frequent values, and the truth beside it.

Sees events, and the truth: for public data alone. The list of frequent values is read off the data and taken as public;
an owner of private data must know it beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import Categories, Domain
from dpi.events.slots import Slots
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import compress
from dpi.mechanism.base import Estimate, Measurement
from dpi.mechanism.boosted import Boosted
from dpi.release.queries import Floats

if TYPE_CHECKING:
    import polars as pl

    from dpi.mechanism.boosted.boosted import State

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
        return known_pdfs(self.counts)

    @cached_property
    def accumulated(self) -> list[Floats]:
        """The truth over all slots so far, as PDFs."""
        return known_pdfs(np.cumsum(self.counts, axis=0))


def known_pdfs(counts: Sequence[Floats] | Floats) -> list[Floats]:
    """Counts as PDFs; where there are none, the PDF before, and the uniform one at the beginning.

    >>> [pdf.tolist() for pdf in known_pdfs([np.zeros(2), np.array([1.0, 3.0]), np.zeros(2)])]
    [[0.5, 0.5], [0.25, 0.75], [0.25, 0.75]]
    """
    pdfs: list[Floats] = []
    for slot in counts:
        total = slot.sum()
        pdfs.append(slot / total if total > 0 else pdfs[-1] if pdfs else np.full(slot.size, 1 / slot.size))
    return pdfs


def frequent(table: pl.DataFrame, column: str, listed: int, *, other: bool = True) -> Categories:
    """The most frequent values of a column, and a bin for the rest if there is one and `other` is wanted.

    >>> import polars as pl
    >>> frequent(pl.DataFrame({"port": [22, 80, 80, 443, 443, 443]}), "port", 2)
    Categories(['443', '80'], other='other')
    """
    values = table.group_by(column).len().sort("len", column, descending=True)[column]
    return Categories(values[:listed], other="other" if other and values.len() > listed else None)


def by_clock(table: pl.DataFrame, width: str) -> Integers:
    """The slot of each event, in slots of one width from the first event on."""
    first = table["timestamp"].min()
    return Slots(width, origin=first).numbers(table["timestamp"])  # type: ignore[arg-type]


def in_slots(table: pl.DataFrame, numbers: Integers, columns: Sequence[str]) -> list[Events]:
    """The events of every slot from 0 to the last that has some.

    >>> import polars as pl
    >>> table = pl.DataFrame({"user": ["a", "b"], "value": [5, 7]})
    >>> [(users.to_list(), values.to_list()) for users, values in in_slots(table, np.array([2, 0]), ["value"])]
    [(['b'], [7]), ([], []), (['a'], [5])]
    """
    order = np.argsort(numbers, kind="stable")
    borders = np.searchsorted(numbers[order], np.arange(int(numbers.max()) + 2))
    table = table[order]
    slots: list[Events] = []
    for first, end in pairwise(borders):
        rows = table.slice(int(first), int(end - first))
        values = {column: rows[column] for column in columns}
        slots.append((rows["user"], values if len(values) > 1 else rows[columns[0]]))
    return slots


@dataclass(frozen=True)
class Recorded(Boosted):
    """The boosted mechanism, which keeps its noisy counts: they are public, and are the noisy histogram beside it."""

    noisy: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def update(self, state: State, measurement: Measurement) -> tuple[State, Estimate]:
        """As the boosted mechanism does, and keep the counts; zeros where a slot was not measured."""
        after, estimate = super().update(state, measurement)
        counts = _of_classes(measurement, estimate.pdf.size) if measurement.classes else estimate.counts
        self.noisy.append(np.zeros(estimate.pdf.size) if counts is None else counts)
        return after, estimate


def _of_classes(measurement: Measurement, bins: int) -> Floats:
    """The noisy counts of classes added up, each by its precision: those of class 0 in full.

    >>> from fractions import Fraction
    >>> from dpi.budget.classes import ClassBudget
    >>> from dpi.budget.epsilon import Epsilon
    >>> due = tuple(ClassBudget(Epsilon.at_most(e), Fraction(1, 2), 1) for e in (1, Fraction(1, 2)))
    >>> _of_classes(Measurement(0, Epsilon.at_most(1), np.array([3, 0, 4, 8]) * GRAINS, False, due), 2).tolist()
    [4.0, 2.0]
    """
    precision = np.array([float(due.epsilon) ** 2 for due in measurement.classes])
    return np.asarray(precision / precision[0] @ (measurement.values.reshape(-1, bins) / GRAINS))
