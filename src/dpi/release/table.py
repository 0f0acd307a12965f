"""Releases as a tidy table for SQL and data frames: one row for each slot and value. It sees nothing private.

Each number has the interval that `dpi query` gives for it. Sums over values do not follow from rows: errors of
different bins are independent but for their sum, which is zero. A sum of interval ends ignores both facts. So `groups`
computes a sum from the release itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.exact.integers import Integers
from dpi.release.choice import Floats, check_part, choose
from dpi.release.grid import Shares, variance_of_sets
from dpi.release.interval import LEVEL, deviations
from dpi.release.people import NUMBERS, tell_people
from dpi.release.quality import Quality, note
from dpi.release.release import Release

if TYPE_CHECKING:
    import polars as pl

Groups = Mapping[str, Sequence[object]] | str
"""Values that are counted together, by the name of each group; or the name of a part of a product."""


PEOPLE = [f"{end}{name}" for name in NUMBERS for end in ("", "lower_", "upper_")]
"""Columns about all users of a slot."""


VALUES = ("share", "lower", "upper", "users", "lower_users", "upper_users")
"""Columns about a value, or a group of values."""
COLUMNS = (
    *("slot", "start", "end", "value", *VALUES, *PEOPLE),
    *("measured_at", "carried", "payers", "epsilon_spent", "certificate"),
)
RULED = ("note", "rules")
"""Columns under rules of what is shown."""


class _Rows(NamedTuple):
    """The rows of one slot."""

    release: Release
    names: tuple[str, ...]
    numbers: tuple[Floats, ...]
    """Those of `VALUES`, each with a number for each name."""
    notes: Sequence[str] = ()
    """Under rules, what is said of each row."""


def tidy(
    releases: Iterable[tuple[Release, Release | None]],
    slots: Slots | None,
    groups: Groups | None = None,
    quality: Quality | None = None,
) -> pl.DataFrame:
    """Return one row for each slot and value, or for each slot and group of values.

    Each release stands beside the mean of its week, if rules ask for one (`dpi.release.quality`). `slots` is the
    stream's clock: without one there are no times. A slot whose domain lacks a value of `groups` has no rows; if that
    is so of all slots, it is refused. Under rules there are columns `note`, and `rules` in words.
    """
    import polars as pl

    rows = _rows_by_value(releases, quality) if groups is None else _rows_by_group(releases, groups, quality)
    places = np.repeat(np.arange(len(rows)), [len(each.names) for each in rows])
    slot_columns = _slot_columns([each.release for each in rows], slots, quality)
    about = {name: column.gather(places) for name, column in slot_columns}
    chosen = COLUMNS if quality is None else (*COLUMNS, *RULED)
    return pl.DataFrame(about | dict(_value_columns(rows))).select(chosen)


def _rows_by_value(releases: Iterable[tuple[Release, Release | None]], quality: Quality | None) -> list[_Rows]:
    """Return a row for each value; labels are made once for each domain."""
    rows, labels = list[_Rows](), dict[str, tuple[str, ...]]()
    for release, week in releases:
        domain = release.domain
        if domain.digest not in labels:
            labels[domain.digest] = tuple(map(domain.label, range(domain.size)))
        rows.append(_show(release, week, labels[domain.digest], None, quality))
    return rows


def _rows_by_group(
    releases: Iterable[tuple[Release, Release | None]], groups: Groups, quality: Quality | None
) -> list[_Rows]:
    """Return a row for each group, of the slots whose domain has its values."""
    rows: list[_Rows] = []
    refused: OptionError | None = None
    for release, week in releases:
        try:
            sets = _sets(release.domain, groups)
        except OptionError as error:
            refused = error
            continue
        rows.append(_show(release, week, tuple(sets), list(sets.values()), quality))
    if refused is not None and not rows:
        raise refused
    return rows


def _slot_columns(
    releases: Sequence[Release], slots: Slots | None, quality: Quality | None
) -> Iterator[tuple[str, pl.Series]]:
    """Yield the columns about a slot, with a row for each release."""
    import polars as pl

    time = pl.Datetime("us", slots.zone if slots is not None else "UTC")
    ends = [None if slots is None else slots.start(each.slot + 1) for each in releases]
    people = [_people(each, quality) for each in releases]
    columns: dict[str, tuple[list[object], pl.DataType | type[pl.DataType]]] = {
        "slot": ([each.slot for each in releases], pl.Int64),
        "start": ([each.start for each in releases], time),
        "end": ([*ends], time),
        **{name: ([of[i] for of in people], pl.Float64) for i, name in enumerate(PEOPLE)},
        "measured_at": ([each.measured_at(slots) for each in releases], time),
        "carried": ([each.carried for each in releases], pl.Float64),
        "payers": ([each.payers for each in releases], pl.Boolean),
        "epsilon_spent": ([each.epsilon_spent for each in releases], pl.Float64),
        "certificate": ([each.certificate.get("digest") for each in releases], pl.String),
        "rules": ([None if quality is None else str(quality)] * len(releases), pl.String),
    }
    for name, (cells, kind) in columns.items():
        yield name, pl.Series(cells, dtype=kind, strict=False)


def _value_columns(rows: Sequence[_Rows]) -> Iterator[tuple[str, pl.Series]]:
    """Yield the columns about a value or a group, with a row for each; what is not known is null."""
    import polars as pl

    yield "value", pl.Series([name for each in rows for name in each.names], dtype=pl.String)
    yield "note", pl.Series([note for each in rows for note in each.notes or [""] * len(each.names)], dtype=pl.String)
    for number, name in enumerate(VALUES):
        column = np.concatenate([each.numbers[number] for each in rows] or [np.zeros(0)])
        yield name, pl.Series(column, dtype=pl.Float64).fill_nan(None)


def _show(
    release: Release,
    week: Release | None,
    names: tuple[str, ...],
    sets: Sequence[Integers] | None,
    quality: Quality | None,
) -> _Rows:
    """Return the rows of a release as they are shown."""

    def read(of: Release) -> tuple[Floats, ...]:
        return _by_value(of) if sets is None else _by_group(of, sets)

    numbers = read(release)
    if quality is None:
        return _Rows(release, names, numbers)
    few = quality.small(numbers[0] * release.total)
    if few.any():
        sets = [np.array([code]) for code in range(few.size)] if sets is None else sets
        together = np.unique(np.concatenate([*compress(sets, few)]))
        sets, names = [*compress(sets, ~few), together], (*compress(names, ~few), quality.label(int(few.sum())))
        numbers = read(release)
    later = None if week is None else read(week)
    shares = quality.show(numbers[:3], later and later[:3], unit="points")
    users = quality.show(numbers[3:], later and later[3:], unit="%")
    users[:, np.isnan(numbers[3])] = np.nan  # a total that was not measured is no reason to say anything
    said = [
        "; ".join(filter(None, (note(share, "points"), note(number, "%") and f"users {note(number, '%')}")))
        for share, number in zip(shares[3], users[3], strict=True)
    ]
    return _Rows(release, names, (*shares[:3], *users[:3]), said)


def _by_value(release: Release) -> tuple[Floats, ...]:
    """Return shares and users of all values, each with the ends of its interval."""
    return (release.pdf, *release.interval(), *_users(release, release.pdf, np.sqrt(release.variance)))


def _by_group(release: Release, sets: Sequence[Integers]) -> tuple[Floats, ...]:
    """Return the same of sets of bins; a set of one bin has the interval of that bin."""
    pdf, variance = (np.array([each[codes].sum() for codes in sets]) for each in (release.pdf, release.variance))
    everything = float(release.variance.sum())
    shares = Shares.of(pdf, variance, everything, release.total)
    apart = variance_of_sets(variance, everything)
    lower, upper, own = shares.lower.copy(), shares.upper.copy(), release.interval()
    for place, codes in enumerate(sets):
        if codes.size == 1:
            lower[place], upper[place] = (end[codes[0]] for end in own)
            apart[place] = variance[place]
    return (shares.value, lower, upper, *_users(release, shares.value, np.sqrt(apart)))


def _users(release: Release, share: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
    """Return numbers of users as `Distribution.count` does, with their intervals; NaN for what is not known."""
    half = deviations(LEVEL) * np.hypot(error * release.total, share * math.sqrt(release.total_variance))
    users = share * release.total
    upper = np.full_like(users, np.nan) if release.payers else np.maximum(users + half, 0.0)
    return users, np.maximum(users - half, 0.0), upper


def _people(release: Release, quality: Quality | None) -> list[float | None]:
    """Return all numbers of users but that of the slot, each with its interval; None where it is not told or shown."""
    told, unknown = tell_people(release), (math.nan,) * 3
    numbers = np.array([
        (told[name].value, *told[name].interval()) if name in told else unknown for name in NUMBERS
    ])  # fmt: skip
    shown = numbers if quality is None else quality.show([*numbers.T], unit="%")[:3].T
    return [None if math.isnan(number) else float(number) for number in shown.ravel()]


def _sets(domain: Domain, groups: Groups) -> dict[str, Integers]:
    """Return the bins of each group."""
    if not isinstance(groups, str):
        if not groups:
            raise OptionError("`groups` must name at least one group of values.")
        return {name: choose(domain, np.ones(domain.size), list(values)) for name, values in groups.items()}
    if not isinstance(domain, Product):
        raise OptionError("`groups` by the name of a part is for a product domain: name values for each group.")
    part, codes = check_part(domain, groups), domain.codes(np.arange(domain.size))[groups]
    return {part.label(code): np.flatnonzero(codes == code) for code in range(part.size)}
