"""Who comes again: reach, distinct users of the last slots, and how many newcomers of some slots ago are active.

`Seen` counts individuals. `Expected` follows people who are alike on average; who of a cohort is active is drawn.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from dpi.estimator import AFTER, WINDOWS
from dpi.estimator.prices import Floats, Wholes
from dpi_research.learn.worlds import Kind, Random


class Again(NamedTuple):
    """The truth of one slot."""

    reach: float
    """Distinct users so far."""
    distinct: tuple[float, ...]
    """Those of the last slots, for each of `WINDOWS`."""
    cohorts: tuple[float, ...]
    """How many newcomers there were so many slots ago, for each of `AFTER`; zero before."""
    active: tuple[float, ...]
    """How many of them are active now."""


class Seen:
    """Individuals, by number."""

    def __init__(self) -> None:
        self._last, self._slot, self._reach = np.zeros(0, dtype=np.int64), 0, 0
        self._cohorts = deque[Wholes](maxlen=AFTER[-1] + 1)

    def see(self, users: Wholes) -> Again:
        """Return the truth of the next slot, whose users are each listed once."""
        self._slot += 1
        if users.size and users.max() >= self._last.size:
            more = max(int(users.max()) + 1 - self._last.size, self._last.size)
            self._last = np.r_[self._last, np.zeros(more, dtype=np.int64)]
        new = users[self._last[users] == 0]
        self._last[users] = self._slot
        self._reach += new.size
        self._cohorts.appendleft(new)
        past = [self._cohorts[k] if k < len(self._cohorts) else users[:0] for k in AFTER]
        return Again(
            float(self._reach),
            tuple(float((self._last > max(self._slot - window, 0)).sum()) for window in WINDOWS),
            tuple(float(cohort.size) for cohort in past),
            tuple(float((self._last[cohort] == self._slot).sum()) for cohort in past),
        )


class Expected:
    """People by kind: how many were last active so many slots ago, and what is left of each slot's newcomers."""

    def __init__(self, kinds: list[Kind], rng: Random) -> None:
        self._kinds, self._rng, self._reach = kinds, rng, 0.0
        self._keep = 1 - np.array([kind.leave for kind in kinds])
        self._since: Floats = np.zeros((len(kinds), WINDOWS[-1]))
        self._gone: Floats = np.zeros(WINDOWS[-1])
        self._cohorts: Floats = np.zeros((len(kinds), AFTER[-1] + 1))
        self._sizes: Floats = np.zeros(AFTER[-1] + 1)

    def see(self, people: Floats, active: Floats, new: Floats) -> Again:
        """Return the truth of the next slot: people, active ones and newcomers of each kind."""
        self._gone = _later(self._gone + (1 - self._keep) @ self._since)
        self._since, self._cohorts = (_later(table * self._keep[:, None]) for table in (self._since, self._cohorts))
        self._sizes = _later(self._sizes)
        for number, kind in enumerate(self._kinds):
            for table in (self._since, self._cohorts) if kind.turn else ():
                part = kind.turn * table[number]
                table[number] -= part
                table[kind.into] += part
        rate = np.minimum(active / np.maximum(people, 1e-9), 1.0)
        self._since *= 1 - rate[:, None]
        self._since[:, 0] = active
        self._cohorts[:, 0], self._sizes[0] = new, new.sum()
        self._reach += new.sum()
        back = [self._rng.poisson(rate @ self._cohorts[:, k]) for k in AFTER]
        sizes = [float(self._sizes[k]) for k in AFTER]
        return Again(
            self._reach,
            tuple(float(self._since[:, :window].sum() + self._gone[:window].sum()) for window in WINDOWS),
            tuple(sizes),
            tuple(min(float(number), size) for number, size in zip(back, sizes, strict=True)),
        )


def _later(table: Floats) -> Floats:
    return np.concatenate([np.zeros_like(table[..., :1]), table[..., :-1]], axis=-1)
