"""The estimator between its two measuring sticks: the exact filter, which is the limit, and a plain tracker.

    python benchmarks/estimator.py [--slots 300] [--seed 0] [row …]

Each row is a stream in which all users are new in every slot. Shown are mean divergences: from the rates for the
release, what the estimator believes of the rates (its forecast of the next slot: a release describes the slot as it
was, its own deviations included), the exact filter (which knows drift, levels and jumps; where there is no closed
model, nan), the same filter where it is told how often there are jumps but not when ("unaware"), and the ratio of the
belief to the limit, over all slots and after the first twenty; from the slots' own PDFs, which is what a release
describes, for the estimator, the exact filter, their ratio, the plain tracker and the uniform guess; the mean over the
last ten slots; and the share of bins, small and large, and of totals inside their 95 % intervals.
"""

from __future__ import annotations

import argparse
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tracking import ExactFilter, PlainTracker  # type: ignore[import-not-found]

Counts = Iterator[tuple[np.ndarray, Floats]]

NOTHING, UNSEEN = Epsilon(0), np.empty(0, dtype=np.int64)
BEGUN = 20
"""Slots in which the filter's knowledge of the set of levels tells most."""


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
    "zipf, 1,000 bins, drift 0.01": Row(lambda r, s: drifting(r, s), drift=0.01),
    "drift 0.1": Row(lambda r, s: drifting(r, s, drift=0.1), drift=0.1),
    "small20": Row(lambda r, s: drifting(r, s, 20, 2000, 0.02, reshuffle=300), drift=0.02, reshuffle=300),
    "published": Row(lambda r, s: published(r, s)),
    "40 bins, 300 users, jumps": Row(
        lambda r, s: drifting(r, s, 40, 300, 0.0, reshuffle=90), drift=0.0, reshuffle=90, longest=270
    ),
    "120 bins, period 24": Row(lambda r, s: seasonal(r, s, 120, 8000), longest=240),
    "empty beginning, 75 users": Row(lambda r, s: beginning(r, s, 75), "1", longest=60),
    "empty beginning, 2,825": Row(lambda r, s: beginning(r, s, 2825), "1", longest=60),
    "20,000 `Bins` without order": Row(lambda r, s: drifting(r, s, 20_000, 60_000, 0.0), longest=60, domain=ordered),
    "the same, no `Bins`": Row(lambda r, s: drifting(r, s, 20_000, 60_000, 0.0), longest=60),
}


def play(row: Row, slots: int, seed: int) -> list[float]:
    """The cells of one row."""
    mechanism, source, rng = Boosted(), UnsafeSeededSource(seed), np.random.default_rng(seed)
    state, plain, exact, budget = None, None, None, Epsilon.at_most(row.epsilon)
    unaware: Unaware | None = None
    rates, belief, limit, own_limit, blind, ours, simple, uniform, small, large, total = ([] for _ in range(11))
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
        rates.append(divergence(rate, estimate.pdf))
        belief.append(divergence(rate, mechanism.update(state, Measurement(slot + 1, NOTHING, UNSEEN))[1].pdf))
        ours.append(divergence(own, estimate.pdf))
        uniform.append(divergence(own, np.full(own.size, 1 / own.size)))
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
        inside, big = (lower <= own) & (own <= upper), rate > 1 / rate.size
        small += inside[~big].tolist()
        large += inside[big].tolist()
    cells = [_mean(values) for values in (rates, belief, limit, blind)]
    cells += [cells[1] / cells[2], _mean(belief[BEGUN:]) / _mean(limit[BEGUN:])]
    cells += [_mean(ours), _mean(own_limit), _mean(ours) / _mean(own_limit)]
    return cells + [_mean(values) for values in (simple, uniform, ours[-10:], small, large, total)]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'':30s}   rate  belief   limit unaware ratio later", end=" |   ")
    print("slot   limit ratio   plain uniform    last | small large total")
    for name in options.rows:
        row = ROWS[name]
        cells = play(row, min(options.slots, row.longest), options.seed)
        forms = ["7.5f"] * 4 + ["5.2f"] * 2 + ["7.5f"] * 2 + ["5.2f"] + ["7.5f"] * 3 + ["5.3f"] * 3
        shown = [format(cell, form) for cell, form in zip(cells, forms, strict=True)]
        print(f"{name:30s}", *shown[:6], "|", *shown[6:12], "|", *shown[12:], flush=True)


if __name__ == "__main__":
    main()
