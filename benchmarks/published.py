"""The published mechanism against a naive loop that does the same per slot: answer, reweight, draw.

    python benchmarks/published.py [--quick] [speed|utility]

The naive loop is what Algorithm 1 reads like when it is typed in: for every synopsis and every query it sums the bins
that the query holds, compares with the slot's answer, steps through the ramp, and reweights both families; then it
draws 20 synopses and averages them. It has a fixed coefficient and no guarantee. It serves as a measure of time alone.

Utility: mean KL from the slot's PDF, for each pool and calibration.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

import dpi
from dpi.budget import Epsilon
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import dyadic
from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial, Pool, nearest
from dpi.noise import SystemSource
from measure import Cell, interleaved, record, row

BINS, SIZE, DRAWS, USERS = 100, 6_500, 20, 50_000
LAM, MU, COEFFICIENT = 0.1, 0.05, 0.1
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


class Naive:
    """Algorithm 1 with loops over synopses and queries; the past scores are summed, as published."""

    def __init__(self, queries: list[tuple[int, int]]) -> None:
        self.queries = queries
        self.rng = np.random.default_rng(0)  # a comparator without a guarantee
        self.pool = [self.rng.multinomial(10_000, [1 / BINS] * BINS) / 10_000 for _ in range(SIZE)]
        self.synopsis_score = [0.0] * SIZE
        self.query_score = [0.0] * len(queries)

    def slot(self, counts: np.ndarray) -> np.ndarray:
        """The mean of 20 synopses drawn after reweighting."""
        pdf = counts / counts.sum()
        truth = [float(np.sum(pdf[low:high])) for low, high in self.queries]
        self.reweight(truth)
        weights = [math.exp(COEFFICIENT * score) for score in self.synopsis_score]
        asked = [math.exp(-COEFFICIENT * score) for score in self.query_score]
        self.rng.choice(len(asked), size=DRAWS, p=np.array(asked) / sum(asked))
        chosen = self.rng.choice(SIZE, size=DRAWS, p=np.array(weights) / sum(weights))
        return np.asarray(np.mean([self.pool[i] for i in chosen], axis=0))

    def reweight(self, truth: list[float]) -> None:
        """Score every synopsis on every query."""
        for index, synopsis in enumerate(self.pool):
            for query, (low, high) in enumerate(self.queries):
                error = abs(float(np.sum(synopsis[low:high])) - truth[query])
                score = 1.0 if error <= LAM else -1.0 if error >= LAM + MU else 1 - 2 * (error - LAM) / MU
                self.synopsis_score[index] += score / len(self.queries)
                self.query_score[query] += score / SIZE


class Rowwise(Naive):
    """The same with numpy over the queries, one synopsis at a time: what a first improvement looks like."""

    def reweight(self, truth: list[float]) -> None:
        """Score a synopsis on all queries at once."""
        matrix = np.array([[low <= b < high for b in range(BINS)] for low, high in self.queries], dtype=float)
        answers, totals = np.array(truth), np.zeros(len(truth))
        for index, synopsis in enumerate(self.pool):
            scores = np.clip(1 - 2 * (np.abs(matrix @ synopsis - answers) - LAM) / MU, -1, 1)
            self.synopsis_score[index] += float(scores.mean())
            totals += scores / SIZE
        self.query_score = [a + b for a, b in zip(self.query_score, totals.tolist(), strict=True)]


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


def run(contender: Naive | Ours, data: Iterator[np.ndarray]) -> object:
    return contender.slot(next(data))


def speed(repeats: int) -> None:
    ranges = dyadic(BINS)
    queries = list(zip(ranges.starts.tolist(), ranges.stops.tolist(), strict=True))
    data = slots(repeats + 1)
    start = time.perf_counter()
    ours = Ours(Multinomial(SIZE, 10_000))
    ours.slot(data[0])
    first = time.perf_counter() - start
    contenders: dict[str, Naive | Ours] = {
        "naive": Naive(queries),
        "naive, numpy over the queries": Rowwise(queries),
        "ours": ours,
        "ours, accumulative": Ours(Multinomial(SIZE, 10_000), accumulative=True),
    }
    seconds = interleaved({name: partial(run, it, iter(data)) for name, it in contenders.items()}, repeats)
    row(f"k = {BINS}, N = {SIZE:,}, {len(queries)} queries, {DRAWS} draws", "s a slot", "× naive")
    for name, value in seconds.items():
        row(name, value, seconds["naive"] / value)
    row("ours: pool and its answers, once", first)
    assert seconds["naive"] > 50 * seconds["ours"]


def utility(count: int) -> None:
    """What a private choice from each pool says of a zipf stream."""
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


def main() -> None:
    quick = "--quick" in sys.argv
    if "utility" not in sys.argv:
        speed(1 if quick else 3)
    if "speed" not in sys.argv:
        utility(5 if quick else 20)


if __name__ == "__main__":
    main()
