"""A shop with weekdays and a jump, person by person: 8,000 of 40,000 users a day, 25 values, 120 days."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpi.estimator.prices import Wholes

BINS, DAYS, USERS, ACTIVE = 25, 120, 40_000, 8_000
JUMP_DAY, JUMPED, TIMES = 80, 12, 3.0
LIFTED = {3: (5, 1.4), 7: (6, 1.5), 11: (1, 1.6)}
"""Values with a weekday of their own: which one, and how many times as many visits it has then."""


def shop(seed: int) -> Iterator[tuple[Wholes, Wholes]]:
    """Yield the users and the value of each, day after day; one in 200 users is replaced every day."""
    rng = np.random.default_rng([seed, 58])
    base = 1 / (np.arange(BINS) + 2.0)
    base[JUMPED] = 0.014 * base.sum()
    rates = rng.beta(0.8, 3.2, USERS)
    rates *= ACTIVE / rates.sum()
    names, newest = np.arange(USERS), USERS
    for day in range(DAYS):
        law = base.copy()
        for value, (weekday, lift) in LIFTED.items():
            law[value] *= lift if day % 7 == weekday else 1
        if day >= JUMP_DAY:
            law[JUMPED] *= TIMES
        gone = np.flatnonzero(rng.random(USERS) < 0.005)
        names[gone] = newest + np.arange(gone.size)
        newest += gone.size
        active = np.flatnonzero(rng.random(USERS) < rates)
        yield names[active], rng.choice(BINS, active.size, p=law / law.sum())
