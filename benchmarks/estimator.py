"""The estimator between its two measuring sticks: the exact filter, which is the limit, and a plain tracker.

    python benchmarks/estimator.py [--slots 300] [--seed 0] [row …]

Each row is a stream in which all users are new in every slot. Shown are mean divergences. From the slots' own PDFs,
which is what a release describes: those of the release, the exact filter (which knows drift, levels and jumps; none
where there is no closed model), the plain tracker and the uniform guess. From the rates: those of the forecast of the
next slot, which is what the estimator believes of the rates, the exact filter, and the same filter where it is told
how often there are jumps but not when. Then the share of bins, small and large, and of totals inside their 95 %
intervals.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpi.budget import Epsilon
from dpi.domain import Domain, Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Measurement
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.filtering.laplace_gauss import score_evidence
from dpi.noise import UnsafeSeededSource
from dpi.release.interval import interval
from dpi_research.datasets.generators import Floats, drifting, ordered, published, seasonal, zipf
from dpi_research.evaluation import divergence
from measure import ESTIMATES, Cell, record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tracking import ExactFilter, PlainTracker  # type: ignore[import-not-found]

Counts = Iterator[tuple[np.ndarray, Floats]]

NOTHING, UNSEEN = Epsilon(0), np.empty(0, dtype=np.int64)
BEGUN = 20
"""Slots in which the filter's knowledge of the set of levels tells most."""
COLUMNS = [
    "stream", "release", "exact filter", "ratio", "plain tracker", "uniform",
    "forecast", "exact forecast", "ratio of forecasts", "ratio after 20 slots", "exact forecast, jumps unknown",
    "small bins inside, %", "large bins inside, %", "totals inside, %",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A stream; with a `drift` the exact filter is played beside it, and with `reshuffle` one that is not told when."""

    make: Callable[[np.random.Generator, int], Counts]
    epsilon: str = "0.05"
    drift: float | None = None
    reshuffle: int | None = None
    longest: int = 1000
    domain: Callable[[int], Domain] = lambda bins: Hashed(bins, bytes(32))


def beginning(rng: np.random.Generator, slots: int, users: int) -> Counts:
    """Nobody for six slots, then some."""
    pdf = rng.permutation(zipf(51))
    for slot in range(slots):
        yield rng.multinomial(users if slot >= 6 else 0, pdf), pdf


class Scored(ExactFilter):  # type: ignore[misc]
    """An exact filter that also says how likely the slot was."""

    def evidence(self, values: Floats, noise: float) -> float:
        """Log density of the noisy counts before they are looked at."""
        log = score_evidence(
            values[:, None] - self.rates, np.broadcast_to(self.rates, self.weights.shape), noise
        ).log_density
        top = log.max(1)
        return float((top + np.log((self.weights * np.exp(log - top[:, None])).sum(1) + 1e-300)).sum())


class Unaware:
    """Exact filters that began at different slots, by their probabilities: all that one can know of when a jump was.

    With one jump in `every` slots on average, of which the `KEPT` likeliest are followed (Adams and MacKay 2007).
    """

    KEPT = 8

    def __init__(self, levels: Floats, drift: float, slots: int, every: int) -> None:
        self.model, self.rate = (levels, drift, slots), 1 / every
        self.runs = [Scored(*self.model)]
        self.log = np.zeros(1)

    def update(self, values: Floats, noise: float, levels: Floats) -> Floats:
        """The PDF of the rate after a slot; one that begins now knows the set of `levels`."""
        for run in self.runs:
            run.aged()
        born = Scored(*self.model)
        born.dealt(levels)
        self.runs.append(born)
        self.log = np.append(self.log + np.log1p(-self.rate), np.log(self.rate))
        self.log += [run.evidence(values, noise) for run in self.runs]
        best = np.argsort(-self.log)[: self.KEPT]
        self.runs, self.log = [self.runs[at] for at in best], self.log[best]
        self.log -= np.logaddexp.reduce(self.log)
        pdfs = [run.update(values, noise)[0] for run in self.runs]
        return np.asarray(np.exp(self.log) @ np.array(pdfs))


ROWS = {
    "1,000 bins, zipf, drift 0.01": Row(lambda r, s: drifting(r, s), drift=0.01),
    "1,000 bins, zipf, drift 0.1": Row(lambda r, s: drifting(r, s, drift=0.1), drift=0.1),
    "20 bins, 2,000 users, drift 0.02": Row(
        lambda r, s: drifting(r, s, 20, 2000, 0.02, reshuffle=300), drift=0.02, reshuffle=300
    ),
    "100 bins, nearly uniform": Row(lambda r, s: published(r, s)),
    "40 bins, 300 users, reshuffled every 90 slots": Row(
        lambda r, s: drifting(r, s, 40, 300, 0.0, reshuffle=90), drift=0.0, reshuffle=90, longest=270
    ),
    "120 bins, 8,000 users, season of 24, not declared": Row(lambda r, s: seasonal(r, s, 120, 8000), longest=240),
    "51 bins, six empty slots, then 75 users": Row(lambda r, s: beginning(r, s, 75), "1", longest=60),
    "51 bins, six empty slots, then 2,825 users": Row(lambda r, s: beginning(r, s, 2825), "1", longest=60),
    "20,000 `Bins` without order, 60,000 users": Row(
        lambda r, s: drifting(r, s, 20_000, 60_000, 0.0), longest=60, domain=ordered
    ),
    "20,000 categories, 60,000 users": Row(lambda r, s: drifting(r, s, 20_000, 60_000, 0.0), longest=60),
}


def play(row: Row, slots: int, seed: int) -> list[float]:
    """The numbers of one row, as in `COLUMNS`; NaN where there is none."""
    mechanism, source, rng = Boosted(), UnsafeSeededSource(seed), np.random.default_rng(seed)
    state, plain, exact, budget = None, None, None, Epsilon.at_most(row.epsilon)
    unaware: Unaware | None = None
    belief, limit, own_limit, blind, ours, simple, uniform, small, large, total = ([] for _ in range(10))
    noise = 1 / float(budget)
    for slot, (counts, rate) in enumerate(row.make(rng, slots)):
        if state is None or plain is None:
            state, plain = mechanism.initial(row.domain(counts.size)), PlainTracker(counts.size)
            if row.drift is not None and counts.size <= 1000:
                exact = ExactFilter(counts.sum() * rate, row.drift, slots)
                if row.reshuffle:
                    unaware = Unaware(counts.sum() * rate, row.drift, slots, row.reshuffle)
        measurement = mechanism.measure(state, Histogram(counts * GRAINS, GRAINS), budget, slot, source)
        state, estimate = mechanism.update(state, measurement)
        total.append(abs(estimate.total - counts.sum()) <= 1.96 * estimate.total_variance**0.5 + 0.5)
        if counts.sum() == 0:
            continue
        own = counts / counts.sum()
        if measurement.values.size == counts.size:  # not a coarse partition
            simple.append(divergence(own, plain.update(measurement.values / GRAINS, noise)))
            if exact is not None:
                if slot and row.reshuffle and slot % row.reshuffle == 0:
                    exact.dealt(counts.sum() * rate)
                elif slot:
                    exact.aged()
                best_rate, best_slot = exact.update(measurement.values / GRAINS, noise)
                limit.append(divergence(rate, best_rate))
                own_limit.append(divergence(own, best_slot))
            if unaware is not None:
                blind.append(divergence(rate, unaware.update(measurement.values / GRAINS, noise, counts.sum() * rate)))
        belief.append(divergence(rate, mechanism.update(state, Measurement(slot + 1, NOTHING, UNSEEN))[1].pdf))
        ours.append(divergence(own, estimate.pdf))
        uniform.append(divergence(own, np.full(own.size, 1 / own.size)))
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
        inside, big = (lower <= own) & (own <= upper), rate > 1 / rate.size
        small += inside[~big].tolist()
        large += inside[big].tolist()
    means = [_mean(ours), _mean(own_limit), _mean(ours) / _mean(own_limit), _mean(simple), _mean(uniform)]
    means += [_mean(belief), _mean(limit), _mean(belief) / _mean(limit)]
    means += [_mean(belief[BEGUN:]) / _mean(limit[BEGUN:]), _mean(blind)]
    return means + [100 * _mean(values) for values in (small, large, total)]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = list[list[Cell]]()
    for name in options.rows:
        row = ROWS[name]
        numbers = play(row, min(options.slots, row.longest), options.seed)
        rows.append([name, *(None if math.isnan(number) else number for number in numbers)])
        print(*rows[-1], flush=True)
    record("estimator", parts=(*ESTIMATES, "datasets"), columns=COLUMNS, rows=rows, seeds=[options.seed])


if __name__ == "__main__":
    main()
