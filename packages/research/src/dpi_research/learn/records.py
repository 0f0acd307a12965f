"""What a world leaves for training: payments before noise, what was asked, and the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpi.estimator import HISTOGRAMS
from dpi.estimator.prices import Floats, Wholes
from dpi_research.learn.budgets import Asked, Budget, draw_budget
from dpi_research.learn.crowds import Slot, crowds, mishear
from dpi_research.learn.individuals import individuals
from dpi_research.learn.worlds import draw_world


@dataclass(frozen=True)
class Record:
    """A stream: T slots, G histograms, K bins. Noise is drawn anew whenever the record is used."""

    paid: Floats
    """T × G × K: what users paid, in units of the noise."""
    due: Floats
    price: Floats
    """T × G: what a user is expected to pay, in units of the noise."""
    users: Floats
    """T × K: the truth."""
    members: Floats
    """T × G: active users by histogram."""
    newcomers: Floats
    again: Floats
    """T × 9: the numbers of `returns.Again`, one after the other."""
    width: Floats
    """G: how many payments users of a histogram make before they move on; zero where they never do."""
    period: int
    """The declared period, or 0."""
    partial: bool

    def noisy(self, rng: np.random.Generator) -> Floats:
        """Return what is measured: payments with Laplace noise of scale one where they are due."""
        noise = rng.laplace(size=self.paid.shape)
        return np.asarray((self.paid + noise) * self.due[..., None], dtype=np.float32)


def _stack(rows: list[Any]) -> Floats:
    return np.array(rows, dtype=np.float32)


def collect(slots: Iterable[tuple[Asked, Slot]], epsilon: float, period: int | None, budget: Budget) -> Record:
    """Return the record of a stream."""
    rows = [*slots]
    return Record(
        _stack([slot.paid * epsilon * asked.due[:, None] for asked, slot in rows]),
        _stack([asked.due for asked, _ in rows]),
        _stack([asked.prices * epsilon for asked, _ in rows]),
        _stack([slot.users for _, slot in rows]),
        _stack([slot.members for _, slot in rows]),
        _stack([slot.newcomers for _, slot in rows]),
        _stack([np.hstack(slot.again) for _, slot in rows]),
        widths(budget),
        period or 0,
        budget.partial,
    )


def widths(budget: Budget) -> Floats:
    """Return how many payments users of each histogram of a budget make before they move on, or zero."""
    counts = np.bincount(budget.histogram(), minlength=HISTOGRAMS)
    last = int(np.flatnonzero(counts)[-1])
    return np.where(np.arange(HISTOGRAMS) < last, counts, 0).astype(np.float32)


def record(seed: int, **options: int) -> Record:
    """Return the record of the world and the budget of a seed."""
    world = draw_world(seed, **options)
    budget = draw_budget(seed, world.bins, world.epsilon)
    return collect(crowds(world, budget, seed), world.epsilon, world.period if world.declared else None, budget)


def record_stream(
    seed: int, stream: Iterable[tuple[Wholes, Wholes]], bins: int, epsilon: float, period: int | None
) -> Record:
    """Return the record of a stream of users and values with the budget of a seed, which hears as in a world."""
    budget, rng = draw_budget(seed, bins, epsilon), np.random.default_rng([seed, 61])
    return collect(mishear(individuals(stream, bins, budget), budget, rng), epsilon, period, budget)
