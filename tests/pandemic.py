"""A made-up pandemic: counts of regions and days, in the columns of the real table."""

from datetime import timedelta

import numpy as np
import polars as pl

from dpi_research.datasets.generators import zipf
from dpi_research.reproduce.streams import FIRST


def pandemic(days: int = 12, regions: int = 16, cases: int = 5_000) -> pl.DataFrame:
    """Zipf shares; one region takes cases back on the first day."""
    rng = np.random.default_rng(4)
    counts = rng.multinomial(cases, zipf(regions), size=days)
    counts[0, 3] = -7
    return pl.DataFrame(
        {
            "user": [f"region {r:02}" for _ in range(days) for r in range(regions)],
            "timestamp": [FIRST + timedelta(days=day) for day in range(days) for _ in range(regions)],
            "value": counts.ravel(),
        }
    )
