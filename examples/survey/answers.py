"""Answers to a made-up survey, for `survey.py`: each month some of the same people are asked where they read the news.

Of the young, more and more read online; of those above sixty, hardly any.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

ANSWERS = ["paper", "online", "television", "nowhere"]
YEAR = 2025


def shares(age: int, month: int) -> list[float]:
    """How people of an age answer in a month, which is counted from the first.

    >>> shares(20, 0)[1] < shares(20, 11)[1], shares(70, 11)[1] < shares(20, 0)[1]
    (True, True)
    """
    online = (0.35 + 0.02 * month) if age < 40 else (0.25 + 0.01 * month) if age < 60 else 0.1
    paper = (1 - online) * min(0.7, age / 100)
    return [paper, online, (1 - online - paper) * 0.8, (1 - online - paper) * 0.2]


def make(path: Path, months: int = 12, people: int = 6000, asked: float = 0.4, seed: int = 1) -> None:
    """Write the answers: columns `person`, `age`, `answer` and `day`. Each month each person answers, or does not."""
    rng = np.random.default_rng(seed)  # made-up data, no privacy noise
    ages = rng.integers(18, 90, people)
    rows = []
    for month in range(months):
        for person in np.flatnonzero(rng.random(people) < asked).tolist():
            age = int(ages[person])
            day = datetime(YEAR + month // 12, month % 12 + 1, 1) + timedelta(days=int(rng.integers(0, 28)), hours=12)
            rows.append((f"person-{person}", age, ANSWERS[rng.choice(4, p=shares(age, month))], day))
    pl.DataFrame(rows, schema=["person", "age", "answer", "day"], orient="row").write_csv(path)
