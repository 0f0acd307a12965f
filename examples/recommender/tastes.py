"""Made-up readers of a library in many towns, for `recommend.py`: who of which town borrowed a book of which kind.

The truth is known: every town likes kinds of books as one of three sorts of towns does, with tastes of its own on top.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

KINDS = [
    "art", "biography", "children", "comics", "cookery", "crime", "fantasy", "gardening", "health", "history", "horror",
    "poetry", "romance", "school", "science", "sport", "travel", "war",
]  # fmt: skip
START = datetime(2026, 1, 5)


def towns(count: int) -> list[str]:
    """The names of the towns."""
    return [f"town-{number}" for number in range(count)]


def tastes(count: int, seed: int = 1) -> npt.NDArray[np.float64]:
    """Which share of a town's readers borrows each kind: a row for each town. This is the truth."""
    rng = np.random.default_rng(seed)  # made-up data, no privacy noise
    sorts = rng.dirichlet(np.full(len(KINDS), 0.6), 3)
    own = rng.dirichlet(np.full(len(KINDS), 0.6), count)
    return np.asarray(0.8 * sorts[np.arange(count) % 3] + 0.2 * own)


def make(path: Path, count: int, weeks: int, readers: int, seed: int = 2) -> None:
    """Write what the readers of all towns borrow: columns `reader`, `town`, `kind` and `time`.

    There are as many `readers` in every town; each week half of them come.
    """
    rng = np.random.default_rng(seed)  # made-up data, no privacy noise
    truth, names, frames = tastes(count), towns(count), []
    for week in range(weeks):
        for town in range(count):
            here = np.flatnonzero(rng.random(readers) < 0.5)
            frames.append(
                pl.DataFrame(
                    {
                        "reader": [f"{names[town]}-{reader}" for reader in here.tolist()],
                        "town": names[town],
                        "kind": pl.Series(KINDS).gather(rng.choice(len(KINDS), here.size, p=truth[town])),
                        "time": START + timedelta(weeks=week, days=int(rng.integers(0, 7))),
                    }
                )
            )
    pl.concat(frames).write_parquet(path)
