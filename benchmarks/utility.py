"""How near the released PDFs are to the truth, next to what one could release instead.

    python benchmarks/utility.py [--quick] [--streams published,drift.01] [--budget constant] [--epsilon 0.05]

Budgets: `constant` spends ε in every slot (all users new in each); `concentrated` spends the same on average, 30 % of
it evenly and the rest in every fifth slot (`--every` for another period); `saving` in as few slots as the tracked drift
allows (`Ledger(every="auto")`); `converging` is LogSquared with a total of 2.

For every stream, the mean of KL(truth ‖ released) over the slots, for two truths: the PDF that the slot was drawn from
("rate") and the slot's own PDF ("slot"). Next to ours: the uniform guess; the noisy histogram, clipped and
normalised; the published demo's output, the mean of 20 fresh multinomials that never saw the data; and the best single
tracker, chosen in hindsight. Then the share of bins whose 95 % interval covers the
slot's own probability: bins below and above the uniform probability, over all slots and over the ten slots after
everything was reshuffled.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpi.budget import Allocation, Constant, Epsilon, InOrder, LogSquared
from dpi.budget.adaptive_allocation import Saving
from dpi.budget.allocation import Concentrated
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Estimate
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.release.interval import interval
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets.generators import STREAMS, Floats
from dpi_research.evaluation import divergence

Budget = Callable[[], Allocation]
"""Opens the budget of slot 0, 1, … for one run."""
DEMO_DRAWS = 20

NAMES = [name for name in STREAMS if name not in ("published1k", "published10k", "shop")]
"""The streams of the documented table."""

AFTERMATH = 10
"""Slots after a reshuffle that are counted apart."""


def budget(kind: str, epsilon: str, every: int = 5) -> Budget:
    """A budget by name."""
    budgets: dict[str, Budget] = {
        "constant": lambda: Constant(epsilon),
        "concentrated": lambda: Concentrated(epsilon, every),
        "saving": lambda: Saving(epsilon, Epsilon.at_most(1024)),
        "converging": lambda: InOrder(LogSquared(), Epsilon.at_most(2)),
    }
    return budgets[kind]


class Tally:
    """Sums over the slots of one run."""

    def __init__(self) -> None:
        self.divergences: dict[str, list[float]] = defaultdict(list)
        self.covered: dict[str, list[float]] = defaultdict(list)
        self.seconds: list[float] = []

    def compare(self, name: str, rate: Floats, own: Floats, released: Floats) -> None:
        """Count the divergences of one slot's release from both truths."""
        self.divergences[f"{name} rate"].append(divergence(rate, released))
        self.divergences[f"{name} slot"].append(divergence(own, released))

    def cover(self, rate: Floats, own: Floats, estimate: Estimate, after: bool) -> None:
        """Count which bins' intervals cover the slot's own probability."""
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
        inside = (lower <= own) & (own <= upper)
        large = rate > 1 / rate.size
        for name, bins in (("small", ~large), ("large", large)):
            for when in ("all", "after") if after else ("all",):
                self.covered[f"{name} {when}"] += inside[bins].tolist()

    def mean(self, name: str) -> float:
        """Mean of a divergence or a coverage; NaN if it was never counted."""
        values = self.divergences[name] if name in self.divergences else self.covered[name]
        return float(np.mean(values)) if values else float("nan")


def run(name: str, mechanism: Boosted, slots: int, budget: Budget, seed: int) -> Tally:
    stream, tally = STREAMS[name], Tally()
    data = name.partition("+")[0]  # a stream whose period is declared has the same data as without
    rng = np.random.default_rng([seed, zlib.crc32(data.encode())])  # the data; the noise is the mechanism's
    demo_rng = np.random.default_rng(seed)
    source = UnsafeSeededSource(seed)
    state, allocation = None, budget()
    for slot, (counts, rate) in enumerate(stream.make(rng, slots)):
        state = state or mechanism.initial(stream.domain(counts.size))
        epsilon = allocation.draw(source)
        measurement = mechanism.measure(state, Histogram(counts * GRAINS, GRAINS), epsilon, slot, source)
        start = time.perf_counter()
        state, estimate = mechanism.update(state, measurement)
        tally.seconds.append(time.perf_counter() - start)
        bins = float(np.exp(-(estimate.pdf @ np.log(estimate.pdf))))
        allocation.observe(estimate.total, bins, mechanism.drift(state))
        if counts.sum() == 0:
            continue
        own = counts / counts.sum()
        tally.compare("ours", rate, own, estimate.pdf)
        tally.compare("uniform", rate, own, np.full(counts.size, 1 / counts.size))
        demo = demo_rng.multinomial(int(counts.sum()), np.full(counts.size, 1 / counts.size), DEMO_DRAWS).mean(0)
        tally.compare("demo", rate, own, as_pdf(demo))
        if measurement.values.size == counts.size:  # not a coarse partition
            tally.compare("noisy", rate, own, as_pdf(measurement.values / GRAINS))
        after = bool(stream.reshuffle and slot >= stream.reshuffle and slot % stream.reshuffle < AFTERMATH)
        tally.cover(rate, own, estimate, after)
    return tally


def report(name: str, slots: int, budget: Budget, seed: int, partitions: str) -> None:
    mechanism = Boosted(season=STREAMS[name].period)
    ours = run(name, replace(mechanism, partitions=()) if partitions == "none" else mechanism, slots, budget, seed)
    cells = [f"{name:12s}{slots:5d} "]
    for truth in ("rate", "slot"):
        cells.append("|")
        cells += [f"{ours.mean(f'{peer} {truth}'):8.5f}" for peer in ("ours", "uniform", "noisy", "demo")]
    cells.append("|")
    cells += [f"{ours.mean(f'{bins} {when}'):6.3f}" for when in ("all", "after") for bins in ("small", "large")]
    cells.append(f"| {1e3 * float(np.median(ours.seconds)):6.1f}")
    print(" ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer slots")
    parser.add_argument("--streams", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--slots", type=int, help="slots of each stream")
    parser.add_argument("--budget", choices=("constant", "concentrated", "saving", "converging"), default="constant")
    parser.add_argument("--every", type=int, default=5, help="of `concentrated`")
    parser.add_argument("--epsilon", default="0.05", help="budget of every slot")
    parser.add_argument("--partitions", choices=("auto", "none"), default="auto", help="none: measure bins alone")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    truths = f"{'KL(rate ‖ released)':^37s}|{'KL(slot ‖ released)':^37s}"
    print(f"{'':18s}|{truths}|{'coverage: all':^15s}{'after':^14s}|")
    peers = " ".join(f"{peer:>8s}" for peer in ("ours", "uniform", "noisy", "demo"))
    cover = "small  large  small  large"
    print(f"{'stream':12s}{'slots':>5s}  | {peers} | {peers} |  {cover} | ms/slot")
    for name in options.streams.split(","):
        most = STREAMS[name].length
        slots = options.slots or (min(320, most) if options.quick else most)
        report(
            name,
            slots,
            budget(options.budget, options.epsilon, options.every),
            options.seed,
            options.partitions,
        )


if __name__ == "__main__":
    main()
