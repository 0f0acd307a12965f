"""What a system releases of a crowd, slot after slot, beside the truth. It knows the counts: for made-up data alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpi.budget.epsilon import Amount
from dpi.domain import Categories
from dpi_research.datasets.generators import Counts
from dpi_research.evaluation import Floats, divergence
from dpi_research.reproduce.crowd import Played
from dpi_research.reproduce.systems import System, open_stream

Reference = Literal["truth", "uniform"]
"""Releases that no system makes: the truth itself, and the guess that all bins are alike."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A PDF and what was released of it."""

    truth: Floats
    released: Floats

    @property
    def mse(self) -> float:
        """The mean over bins of (p - q)²."""
        return float(((self.truth - self.released) ** 2).mean())

    @property
    def kl(self) -> float:
        """KL(truth ‖ released), in nats."""
        return divergence(self.truth, self.released)

    @property
    def errors(self) -> tuple[float, float]:
        """MSE and KL."""
        return self.mse, self.kl


@dataclass(frozen=True, eq=False)
class Moment:
    """A slot that was played: its own PDF (instantaneous) and that of all slots so far (accumulative)."""

    users: int
    """Of the slot."""
    own: Pair
    accumulated: Pair
    spent: float
    """The most that any one user can have lost so far."""

    @property
    def errors(self) -> dict[str, float]:
        """Of both PDFs, by the name of the column."""
        own, accumulated = self.own, self.accumulated
        return {
            "mse": own.mse,
            "kl": own.kl,
            "accumulated_mse": accumulated.mse,
            "accumulated_kl": accumulated.kl,
        }


def follow(
    system: System | Reference, data: Counts, bins: int, epsilon: Amount, *, churn: float, seed: int
) -> Iterator[Moment]:
    """Play the counts; the truth of a slot is its own PDF, not the one that it was drawn from.

    >>> from dpi_research.datasets.generators import published
    >>> data = published(np.random.default_rng(0), slots=2, bins=3)
    >>> [round(moment.own.kl, 4) for moment in follow("truth", data, 3, 1, churn=0.0, seed=0)]
    [0.0, 0.0]
    """
    played = None
    if system != "truth" and system != "uniform":
        stream = open_stream(system, Categories(range(bins), other=None), epsilon, seed=seed)
        played = Played(stream, churn=churn, seed=seed)
    even, sums = np.full(bins, 1 / bins), np.zeros(bins, dtype=np.int64)
    for counts, _ in data:
        users = int(counts.sum())
        sums += counts
        own, accumulated, spent = counts / users, sums / sums.sum(), 0.0
        released = (own, accumulated) if system == "truth" else (even, even)
        if played is not None:
            release = played.release(counts)
            released, spent = (release.pdf, release.accumulated), release.epsilon_spent
        yield Moment(users, Pair(own, released[0]), Pair(accumulated, released[1]), spent)
