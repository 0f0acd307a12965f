"""What heads are trained and judged by: what was released of simulated worlds, and the truth. Numpy alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpi.estimator import Released, Weights
from dpi.estimator.prices import Floats
from dpi_research.learn.batches import make
from dpi_research.learn.evaluation import FEWEST, Follower

SETS, LAGS = 4, (1, 7, 28)
"""Sums and differences of a world that are looked at in a slot; from how many slots back."""


class Example(NamedTuple):
    """A world: what was released of T slots, the truth, and some sums and differences."""

    released: Released
    again: Floats
    active: Floats
    sums: list[tuple[Floats, ...]]
    """Shares, their scales, users, weights, and the error of the weighted sum, of some slots."""
    differences: list[tuple[Floats, ...]]
    """Shares and scales now and then, slots apart, users, and errors."""


def example(seed: int, *, weights: Weights, longest: int, most_bins: int, script: Path | None = None) -> Example | None:
    """Return the example of a seed."""
    record = make(seed, longest=longest, most_bins=most_bins, script=script)
    if record is None:
        return None
    rng = np.random.default_rng([seed, 60])
    sums = record.noisy(rng)
    follower = Follower(weights, sums.shape[2], record.period, record.partial, record.width)
    for slot, due, price in zip(sums, record.due, record.price, strict=True):
        follower.hear(slot, due, price)
    total = record.users.sum(1)
    truth = record.users / np.maximum(total, 1)[:, None]
    rows, changes = list[tuple[Floats, ...]](), list[tuple[Floats, ...]]()
    for slot in rng.choice(len(total), min(20, len(total)), replace=False):
        if total[slot] < FEWEST:
            continue
        said = follower.posteriors[slot]
        users: Floats = np.array(np.expm1(said.numbers[0]))
        for of in weighted(rng, sums.shape[2]):
            rows.append((said.shares, said.share_scale, users, of, of @ (truth[slot] - said.shares)))
        back = int(rng.choice(LAGS))
        if slot >= back and total[slot - back] >= FEWEST:
            then = follower.posteriors[slot - back]
            some = rng.integers(0, sums.shape[2], 8)
            wrong = (truth[slot] - truth[slot - back]) - (said.shares - then.shares)
            pairs = (said.shares, said.share_scale, then.shares, then.share_scale)
            changes.append((*(part[some] for part in pairs), np.array(back, np.float32), users, wrong[some]))
    released = Released(*(np.array(part, np.float32) for part in zip(*follower.released, strict=True)))
    return Example(released, record.again, total, rows, changes)


def weighted(rng: np.random.Generator, bins: int) -> Iterator[Floats]:
    """Yield weights of bins: sets of many sizes, and values of bins in an order."""
    for _ in range(SETS - 1):
        yield (rng.random(bins) < rng.uniform(0, 1) ** 2 + 0.5 / bins).astype(np.float32)
    yield (rng.permutation(bins) / max(bins - 1, 1)).astype(np.float32)
