"""Synthetic rows of a slot, for tools that take rows and no shares. They are drawn from a release alone.

So they cost no privacy, and no row is a user: a row has what all users together had, with the release's error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.release.interval import LEVEL
from dpi.release.queries import edges_of
from dpi.release.release import Release

if TYPE_CHECKING:
    import polars as pl

MOST = 100_000_000
"""Rows at most."""


def draw_rows(release: Release, number: int | None = None) -> tuple[pl.DataFrame, dict[str, object]]:
    """Return so many rows in random order, and what is to be said of them: their origin, and the release's intervals.

    A row has a value, or a column for each part of a product; a value of an ordered domain is the middle of its bin,
    of which the outer ones are taken as wide as their neighbours.
    Of each value there are as many rows as its share says, up to one. `users` is how many users a row stands for: it
    sums to the released total. Equal releases give equal rows. Without a `number`, a row stands for one user.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=1))
    >>> release = stream.release([f"user {n}" for n in range(900)], ["DE", "FR", "FR"] * 300)
    >>> rows, about = draw_rows(release, 3000)
    >>> rows.columns, abs((rows["value"] == "DE").mean() - release.probability("DE").value) < 1 / 3000
    (['value', 'users', 'synthetic'], True)
    """
    import polars as pl

    if number is None:
        number = round(release.total) if math.isfinite(release.total) else 0
        if not 1 <= number <= MOST:
            raise OptionError("`number` is required: this slot's number of users gives no number of rows.")
    if not 1 <= number <= MOST:
        raise OptionError(f"`number` must be from 1 to {MOST:,} rows. Got {number}.")
    domain, random = release.domain, np.random.default_rng(int(release.digest[:16], 16))
    order = random.permutation(domain.size)
    ends = np.cumsum(np.maximum(release.pdf[order], 0.0))
    places = (np.arange(number) + random.random()) / number * ends[-1]
    codes = random.permutation(order[np.minimum(np.searchsorted(ends, places, side="right"), domain.size - 1)])
    parts = domain.parts if isinstance(domain, Product) else {"value": domain}
    named = domain.codes(codes) if isinstance(domain, Product) else {"value": codes}
    each = release.total / number if math.isfinite(release.total) else None
    columns = {name: _values(part, named[name]) for name, part in parts.items()}
    frame = pl.DataFrame(columns).with_columns(users=pl.lit(each, dtype=pl.Float64), synthetic=pl.lit(value=True))
    return frame, _describe(release, np.unique(codes), number)


def _values(domain: Domain, codes: Integers) -> pl.Series:
    """Return the values of bins as a column: numbers of an ordered domain, names of any other."""
    import polars as pl

    if isinstance(domain, Bins):
        edges = edges_of(domain)
        return pl.Series((edges[:-1] / 2 + edges[1:] / 2)[codes])
    unique_codes, places = np.unique(codes, return_inverse=True)
    return pl.Series([domain.label(int(code)) for code in unique_codes], dtype=pl.String).gather(places)


def _describe(release: Release, codes: Integers, number: int) -> dict[str, object]:
    """Return what is said of rows as JSON values."""
    lower, upper = release.interval()
    users = None
    if math.isfinite(release.total):
        ends = (release.total, *release.count().interval())
        users = {key: end if math.isfinite(end) else None for key, end in zip(_ENDS, ends, strict=True)}
    shares = [
        {"label": release.domain.label(code), "value": float(release.pdf[code]),
         "lower": float(lower[code]), "upper": float(upper[code])}
        for code in codes.tolist()
    ]  # fmt: skip
    return {
        "synthetic": True,
        "origin": "Drawn from a release with differential privacy. No row is a user.",
        "rows": number,
        "slot": release.slot,
        "start": release.start_text,
        "certificate": release.certificate.get("digest"),
        "guarantee": release.guarantee,
        "level": LEVEL,
        "users": users,
        "shares": shares,
    }


_ENDS = ("value", "lower", "upper")
