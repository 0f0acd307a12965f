"""An experiment: what was published, independent cases that are computed, and what is shown of their rows.

Everything here is made from public or made-up data: rows hold errors, which are private of private data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from dpi_research.reproduce._code import code

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | int | None
Row = Mapping[str, Value]
Rows = Sequence[Row]
Made = list[dict[str, Value]]
"""The rows that a case makes."""


@dataclass(frozen=True)
class Case:
    """A piece of work that needs no other: a function of its module and what it is called with.

    Options, seeds included, and the code decide the result, so that a case is computed once and kept. `data` names what
    must be under DPI_DATA.
    """

    make: Callable[..., Made]
    options: Mapping[str, Value]
    data: str | None = None

    @property
    def code(self) -> str:
        """A digest of the code that makes the result."""
        return code(self.make.__module__, self.make.__name__)

    @property
    def digest(self) -> str:
        """A name for the result: other options, other code or another function have another one."""
        what = {"options": dict(self.options), "make": self.make.__qualname__, "code": self.code}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """For progress.

        >>> Case(list, {"epsilon": 2, "seed": 0}).label
        'epsilon 2, seed 0'
        """
        return ", ".join(f"{name} {value}" for name, value in self.options.items())


def every(make: Callable[..., Made], data: str | None = None, /, **options: Value | Sequence[Value]) -> list[Case]:
    """Return a case for every combination of options, of which some are given as several; the first varies slowest.

    >>> [case.label for case in every(list, epsilon=(1, 2), seed=0)]
    ['epsilon 1, seed 0', 'epsilon 2, seed 0']
    """
    choices = [(it,) if isinstance(it, str | float | int | None) else it for it in options.values()]
    return [Case(make, dict(zip(options, chosen, strict=True)), data) for chosen in product(*choices)]


@dataclass(frozen=True)
class Table:
    """A table of a page."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, title: str, rows: Rows, columns: Mapping[str, str]) -> list[Table]:
        """Return the table of these rows, none without rows; columns are heads with the format of their cells.

        >>> Table.of("Loss", [{"epsilon": 0.5}], {"ε": "{epsilon:.2f}"})
        [Table(title='Loss', columns=('ε',), rows=(('0.50',),))]
        """
        lines = tuple(tuple(cell.format_map(row) for cell in columns.values()) for row in rows)
        return [cls(title, tuple(columns), lines)] if lines else []


@dataclass(frozen=True)
class Summary:
    """A line of the table that sums all experiments up: one measure, at the same total ε."""

    measure: str
    published: str = "–"
    """What the published text states."""
    uniform: str = "–"
    """A release that knows nothing."""
    strict: str = "–"
    """The published mechanism, with a guarantee that holds."""
    converging: str = "–"
    ledger: str = "–"

    @classmethod
    def of(cls, measure: str, published: str, cell: Callable[[str], str]) -> Summary:
        """Return the line whose cells are told by system: "uniform", "strict", "converging", "ledger"."""
        return cls(measure, published, *map(cell, ("uniform", "strict", "converging", "ledger")))


@dataclass(frozen=True)
class Sheet:
    """What an experiment shows: sentences, figures with captions, tables, and its lines of the summary."""

    found: tuple[str, ...] = ()
    figures: Mapping[str, tuple[Figure, str]] = field(default_factory=dict)
    """By the end of the file's name: the figure and its caption."""
    tables: tuple[Table, ...] = ()
    summary: tuple[Summary, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the evaluation."""

    name: str
    title: str
    published: str
    """What the published text states."""
    setting: str
    """What is done here."""
    deviations: tuple[str, ...]
    """Where the setting is another than the published one."""
    cases: Callable[[bool], list[Case]]
    """The work, in full or (True) in the quick form."""
    sheet: Callable[[Rows], Sheet]
    """What is shown; called with the rows of the cases that could be computed."""
