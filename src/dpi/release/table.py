"""Releases as a tidy table for SQL and data frames: one row for each slot and value. It sees nothing private.

Each number has the interval that `dpi query` gives for it. Sums over values do not follow from rows: errors of
different bins are independent but for their sum, which is zero. A sum of interval ends ignores both facts. So `groups`
computes a sum from the release itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.exact.integers import Integers
from dpi.release.choice import Floats, check_part, choose
from dpi.release.grid import Shares, variance_of_sets
from dpi.release.interval import LEVEL, deviations
from dpi.release.people import COUNTS, tell_people
from dpi.release.release import Release

if TYPE_CHECKING:
    import polars as pl

Groups = Mapping[str, Sequence[object]] | str
"""Values that are counted together, by the name of each group; or the name of a part of a product."""


PEOPLE = [f"{end}{name}" for name in COUNTS for end in ("", "lower_", "upper_")]
"""Columns about all users of a slot."""


def tidy(releases: Iterable[Release], slots: Slots | None, groups: Groups | None = None) -> pl.DataFrame:
    """Return one row for each slot and value, or for each slot and group of values.

    `slots` is the stream's clock: without one there are no times. A slot whose domain lacks a value of `groups` has no
    rows; if that is so of all slots, it is refused.
    """
    import polars as pl

    rows: list[tuple[Release, tuple[str, ...], tuple[Floats, ...]]] = []
    labels: dict[str, tuple[str, ...]] = {}
    refused: OptionError | None = None
    for release in releases:
        domain = release.domain
        if groups is None:
            if domain.digest not in labels:
                labels[domain.digest] = tuple(map(domain.label, range(domain.size)))
            rows.append((release, labels[domain.digest], _by_value(release)))
            continue
        try:
            sets = _sets(domain, groups)
        except OptionError as error:
            refused = error
            continue
        rows.append((release, tuple(sets), _by_group(release, list(sets.values()))))
    if refused is not None and not rows:
        raise refused
    sizes = [len(names) for _, names, _ in rows]

    def repeat(each: Iterable[object], kind: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Return a number of each release as a column."""
        places = np.repeat(np.arange(len(rows)), sizes)
        return pl.Series(list(each), dtype=kind, strict=False).gather(places)

    numbers = [np.concatenate([columns[i] for _, _, columns in rows] or [np.zeros(0)]) for i in range(6)]
    time = pl.Datetime("us", slots.zone if slots is not None else "UTC")
    found = [release for release, _, _ in rows]
    ends = [None if slots is None else slots.start(release.slot + 1) for release in found]
    names = [name for _, group, _ in rows for name in group]
    share, lower, upper, *users = (pl.Series(column, dtype=pl.Float64).fill_nan(None) for column in numbers)
    people = [_people(release) for release in found]
    return pl.DataFrame(
        {
            "slot": repeat((release.slot for release in found), pl.Int64),
            "start": repeat((release.start for release in found), time),
            "end": repeat(ends, time),
            "value": pl.Series(names, dtype=pl.String),
            "share": share,
            "lower": lower,
            "upper": upper,
            "users": users[0],
            "lower_users": users[1],
            "upper_users": users[2],
            **{name: repeat((of[i] for of in people), pl.Float64) for i, name in enumerate(PEOPLE)},
            "measured_at": repeat((release.measured_at(slots) for release in found), time),
            "carried": repeat((release.carried for release in found), pl.Float64),
            "payers": repeat((release.payers for release in found), pl.Boolean),
            "epsilon_spent": repeat((release.epsilon_spent for release in found), pl.Float64),
            "certificate": repeat((release.certificate.get("digest") for release in found), pl.String),
        }
    )


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


def _people(release: Release) -> list[float | None]:
    """Return newcomers, returning users and reach, each with its interval; None where they cannot be told."""
    told = tell_people(release)
    if not told:
        return [None] * len(PEOPLE)
    return [number for name in COUNTS for number in (told[name].value, *told[name].interval())]


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
