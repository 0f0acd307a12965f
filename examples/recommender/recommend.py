"""Which books to recommend in which town, from releases alone, beside the truth that made-up data have.

    python examples/recommender/recommend.py [FOLDER]

It needs scikit-learn: `pip install '.[apps]'`.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from dpi.apps import Recommender
from dpi_research.evaluation import agreement
from tastes import KINDS, START, make, tastes, towns

BEST = 5
"""How many kinds are recommended."""


def recommended(folder: Path, count: int, weeks: int) -> dict[str, list[str]]:
    """The best kinds of each town, by what was released after so many weeks."""
    events = dpi.read(folder / "borrowed.parquet", user="reader", time="time", value={"town": "town", "kind": "kind"})
    domain = dpi.Product(town=dpi.Categories(towns(count), other=None), kind=dpi.Categories(KINDS, other=None))
    stream = dpi.Stream(domain=domain, epsilon=1, slot="7d", origin=START)
    releases = list(stream.replay(events, start=START, end=START + timedelta(weeks=weeks)))
    best = Recommender(releases, group="town", item="kind")
    return {town: [found.item for found in best.top(town, BEST)] for town in towns(count)}


def main(folder: Path, count: int = 12, weeks: int = 10, readers: int = 400) -> tuple[float, float]:
    """Make the loans, recommend, compare: which share of the truly best is found, and by one list for all towns."""
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / "borrowed.parquet", count, weeks, readers)
    found, truth = recommended(folder, count, weeks), tastes(count)
    wanted = {town: _best(row) for town, row in zip(towns(count), truth, strict=True)}
    popular = _best(truth.mean(axis=0))
    right = float(np.mean([agreement(wanted[town], found[town]).recall for town in found]))
    same = float(np.mean([agreement(wanted[town], popular).recall for town in found]))
    table = pl.DataFrame(
        {
            "town": list(found),
            "recommended": [", ".join(kinds) for kinds in found.values()],
            "truly best": [", ".join(wanted[town]) for town in found],
        }
    )
    table.write_csv(folder / "recommended.csv")
    for town, kinds, best in table.iter_rows():
        print(f"{town:8} {kinds:55} truly {best}")
    print(f"Of the {BEST} best kinds of a town {right:.0%} are found; one list for all towns would find {same:.0%}.")
    print(f"Look at {folder / 'recommended.csv'}.")
    return right, same


def _best(shares: np.ndarray) -> list[str]:
    return [KINDS[code] for code in np.argsort(-shares, kind="stable")[:BEST].tolist()]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/recommender"))
