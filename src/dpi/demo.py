"""A shop's visitors: they come and go, pages follow the time of day, and one evening an offer draws a crowd.

Made up, so that the truth is known and nobody's data is in the package. The same seed gives the same visits.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

PAGES = ("home", "search", "shoes", "coats", "books", "games", "garden", "offer", "help")
START = datetime(2026, 3, 2)
CROWD = range(9 * 24 + 18, 9 * 24 + 23)
"""The hours of the offer."""
VISITORS = 4000
"""Who may come in one hour."""
LEAVING = 0.05
"""The share of them who are replaced by newcomers each hour."""

_HOUR = 3_600_000_000


def pages(hour: int, crowd: bool = False) -> npt.NDArray[np.float64]:
    """Return the share of each page of a shop in one hour; with a crowd, an offer draws most.

    >>> dict(zip(PAGES, pages(9).round(2).tolist()))["home"]
    0.28
    """
    day = np.sin(2 * np.pi * (hour % 24 - 9) / 24)
    weight = np.array([3.0, 2.2, 1.4 + day, 1.1, 1.0 - 0.7 * day, 1.0 - 0.8 * day, 0.5 + 0.3 * day, 0.3, 0.25])
    if crowd:
        weight[PAGES.index("offer")] = 5.0
    return np.asarray(weight / weight.sum())


def hourly(hours: int, seed: int = 4) -> Iterator[pl.DataFrame]:
    """Yield the visits of each hour: columns `user`, `page` and `at`.

    >>> first = next(hourly(1))
    >>> first.columns, str(first["at"].min())[:13]
    (['user', 'page', 'at'], '2026-03-02 00')
    """
    import polars as pl

    rng = np.random.default_rng(seed)  # made-up data, no privacy noise
    visitors, newest = np.arange(VISITORS), VISITORS
    names = pl.Series(PAGES)
    for hour in range(hours):
        leaving = rng.random(visitors.size) < LEAVING
        visitors[leaving] = np.arange(newest, newest + leaving.sum())
        newest += int(leaving.sum())
        busy = 0.55 + 0.45 * np.sin(2 * np.pi * (hour % 24 - 9) / 24)
        here = np.repeat(visitors[rng.random(visitors.size) < busy], 2)
        page = rng.choice(len(PAGES), here.size, p=pages(hour, crowd=hour in CROWD))
        moment = rng.integers(0, _HOUR, here.size)
        yield pl.DataFrame(
            {
                "user": pl.Series(here).cast(pl.String).str.pad_start(6, "0").str.replace("^", "visitor-"),
                "page": names.gather(page),
                "at": pl.Series(moment).cast(pl.Duration("us")) + (START + timedelta(hours=hour)),
            }
        )
