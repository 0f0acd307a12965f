"""What a private choice from each pool says of a zipf stream: mean KL from the slot's PDF, for each calibration.

    python benchmarks/published.py [--quick]

Each pool is calibrated by the sensitivity 2, and by a lowest number of users.
"""

from __future__ import annotations

import sys

import numpy as np

import dpi
from dpi.budget import Epsilon
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import dyadic
from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial, Pool, nearest
from dpi.noise import SystemSource
from measure import Cell, record

BINS, SIZE, DRAWS, USERS = 100, 6_500, 20, 50_000
LAM, MU = 0.1, 0.05
EPSILONS = ("0.05", "1", "10")


def slots(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    return [rng.multinomial(USERS, zipf(BINS)) for _ in range(count)]


def zipf(bins: int) -> np.ndarray:
    weights = 1 / np.arange(1, bins + 1)
    return np.asarray(weights / weights.sum())


def divergence(true: np.ndarray, pdf: np.ndarray) -> float:
    used = true > 0
    return float(true[used] @ np.log(true[used] / pdf[used]))


class Ours:
    """The calibrated mechanism on the same queries."""

    def __init__(self, pool: Pool, bins: int = BINS, **options: int) -> None:
        self.mechanism = Published(pool, dyadic(bins), lam=LAM, mu=MU, draws=DRAWS, **options)  # type: ignore[arg-type]
        self.state = self.mechanism.initial(dpi.Categories(range(bins), other=None))
        self.source = SystemSource()

    def slot(self, counts: np.ndarray, epsilon: str = "0.05") -> np.ndarray:
        """The release of one slot."""
        histogram = Histogram(counts.astype(np.int64) * GRAINS, GRAINS)
        measurement = self.mechanism.measure(self.state, histogram, Epsilon.at_most(epsilon), 0, self.source)
        self.state, estimate = self.mechanism.update(self.state, measurement)
        return estimate.pdf


def utility(count: int) -> None:
    """Record the mean KL of each pool."""
    data = slots(count)
    true = [counts / counts.sum() for counts in data]
    flat = np.full(BINS, 1 / BINS)
    uniform = float(np.mean([divergence(t, flat) for t in true]))
    pools: dict[str, Pool] = {
        "multinomial": Multinomial(SIZE, 10_000),
        "Dirichlet(1)": DirichletPool(SIZE, 1.0),
        "mixed": MixedPool(SIZE),
    }
    rows: list[list[Cell]] = [["uniform guess", *[uniform] * (len(EPSILONS) + 1)]]
    for name, pool in pools.items():
        for label, options in (("sensitivity 2", {}), ("`n_min` of 10,000", {"n_min": 10_000})):
            cells = []
            for epsilon in EPSILONS:
                ours = Ours(pool, **options)
                cells.append(np.mean([divergence(t, ours.slot(c, epsilon)) for t, c in zip(true, data, strict=True)]))
            rows.append([f"{name}, {label}", *map(float, cells), float(nearest(pool, zipf(BINS))[1])])
    record(
        "published-pools",
        parts=["noise", "mechanism"],
        about=f"KL; zipf, {BINS} bins, {USERS:,} users, mean of {count} slots.",
        columns=["pool", *(f"ε = {epsilon} a slot" for epsilon in EPSILONS), "nearest synopsis"],
        rows=rows,
    )


if __name__ == "__main__":
    utility(5 if "--quick" in sys.argv else 20)
