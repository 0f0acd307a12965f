"""Short seeded streams of all kinds, and how the estimator does on them, for tests/mechanism/test_estimator.py.

    PYTHONPATH=src python tests/estimator_streams.py [--write]

prints one row a stream; `--write` stores them in tests/mechanism/estimator.json, which the guard compares with. Rewrite
it in the commit that means to change them, and say why there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpi.budget import Converging, Epsilon, LogSquared
from dpi.domain import Domain, Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.release.interval import interval
from dpi_research.datasets.generators import bursts, drifting, ordered, published, seasonal, smooth, zipf

STORED = Path(__file__).parent / "mechanism" / "estimator.json"


def divergence(truth, released):
    """KL(truth ‖ released)."""
    seen = truth > 0
    return float(truth[seen] @ np.log(truth[seen] / released[seen]))


def beginning(rng, slots, later):
    """Nobody at first, then some users."""
    pdf = rng.permutation(zipf(51))
    for slot in range(slots):
        yield rng.multinomial(later if slot >= 6 else 0, pdf), pdf


def quiet(rng, slots):
    """Some users, but for two slots in which hardly anybody is there; half of all are in one bin."""
    pdf = np.append(0.5 * rng.permutation(zipf(50)), 0.5)
    for slot in range(slots):
        users = 30 if slot in (3, 4) else rng.integers(250, 500)
        yield rng.multinomial(users, rng.dirichlet(200 * pdf)), pdf


def crowd(rng, slots):
    """In every tenth slot most users are in another bin than ever."""
    usual, rare = np.array([0.5, 0.15, 0.2, 0.15]), np.array([0.1, 0.7, 0.1, 0.1])
    for slot in range(slots):
        pdf = rare if slot % 10 == 9 else usual
        yield rng.multinomial(2000, pdf), pdf


def hashed(bins: int) -> Domain:
    """Bins without order."""
    return Hashed(bins, bytes(32))


@dataclass(frozen=True)
class Guarded:
    """A stream: how its counts are made, how many slots, the budget of each, and the domain."""

    make: Callable[[np.random.Generator, int], Iterator]
    slots: int
    epsilon: str = "0.05"
    """Of every slot, or "converging": a series that sums to 2."""
    domain: Callable[[int], Domain] = hashed
    season: int | None = None
    partial: bool = False
    """Whether accounts may be empty."""


STREAMS = {
    "nearly uniform": Guarded(lambda r, s: published(r, s), 100),
    "drift 0.01, 1,000 bins": Guarded(lambda r, s: drifting(r, s), 60),
    "drift 0.1": Guarded(lambda r, s: drifting(r, s, 200, 10_000, 0.1), 80),
    "20 bins, jumps": Guarded(lambda r, s: drifting(r, s, 20, 2000, 0.02, reshuffle=80), 240),
    "few users, jumps": Guarded(lambda r, s: drifting(r, s, 40, 300, 0.0, reshuffle=90), 270),
    "ten users, two bins": Guarded(lambda r, s: drifting(r, s, 2, 10, 0.02), 200, "0.3"),
    "a million users, a jump": Guarded(lambda r, s: drifting(r, s, 100, 1_000_000, 0.03, reshuffle=40), 80),
    "empty slots": Guarded(lambda r, s: drifting(r, s, 300, 20_000, empty=0.3), 80),
    "empty beginning": Guarded(lambda r, s: beginning(r, s, 75), 50, "1"),
    "empty beginning, a crowd": Guarded(lambda r, s: beginning(r, s, 2825), 30, "1"),
    "bursts": Guarded(lambda r, s: bursts(r, s, every=30, length=4), 60),
    "season": Guarded(lambda r, s: seasonal(r, s, 120, 8000), 120),
    "season, declared": Guarded(lambda r, s: seasonal(r, s, 120, 8000), 120, season=24),
    "much budget": Guarded(lambda r, s: drifting(r, s, 100, 5000, 0.05), 60, "1"),
    "converging, a quiet week": Guarded(lambda r, s: quiet(r, s), 100, "converging"),
    "a crowd, accounts may be empty": Guarded(lambda r, s: crowd(r, s), 60, partial=True),
    "ordered, 10,000 bins": Guarded(lambda r, s: smooth(r, s), 25, domain=ordered),
    "no order, 20,000 `Bins`": Guarded(lambda r, s: drifting(r, s, 20_000, 60_000, 0.0), 12, domain=ordered),
}
"""From 10 to 10⁶ users, 2 to 20,000 bins."""


def play(stream: Guarded, seed: int = 0) -> dict[str, float]:
    """Mean divergence from the slots' own PDFs, the uniform guess's, and the shares of truths in 95 % intervals."""
    mechanism, source, rng = Boosted(season=stream.season), UnsafeSeededSource(seed), np.random.default_rng(seed)
    state, budget = None, Converging(LogSquared()).allocation(Epsilon.at_most(2))
    ours, uniform, small, large, total = [], [], [], [], []
    for slot, (counts, rate) in enumerate(stream.make(rng, stream.slots)):
        state = state if state is not None else mechanism.initial(stream.domain(counts.size))
        epsilon = budget.draw(source) if stream.epsilon == "converging" else Epsilon.at_most(stream.epsilon)
        grains = Histogram(counts.astype(np.int64) * GRAINS, GRAINS)
        seen = replace(mechanism.measure(state, grains, epsilon, slot, source), partial=stream.partial and slot > 0)
        state, estimate = mechanism.update(state, seen)
        total.append(abs(estimate.total - counts.sum()) <= 1.96 * estimate.total_variance**0.5 + 0.5)
        if counts.sum() == 0:
            continue
        own = counts / counts.sum()
        ours.append(divergence(own, estimate.pdf))
        uniform.append(divergence(own, np.full(own.size, 1 / own.size)))
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
        inside = (lower <= own) & (own <= upper)
        big = rate > 1 / rate.size
        small += inside[~big].tolist()
        large += inside[big].tolist()
    means = {"divergence": ours, "uniform": uniform, "small": small, "large": large, "total": total}
    return {name: round(float(np.mean(values)), 6) for name, values in means.items()}


def main() -> None:
    """Print, and with `--write` store, a row for each stream."""
    rows = {}
    for name, stream in STREAMS.items():
        rows[name] = play(stream)
        print(f"{name:28s}", rows[name], flush=True)
    if "--write" in sys.argv:
        STORED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
