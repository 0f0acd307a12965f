"""How near the released PDFs are to the truth where all users are new in every slot.

    python benchmarks/utility.py [--streams published,drift.01] [--ways constant,every=5] [--slots 300] [--name utility]

A way is a budget, ε in every slot on average: `constant` spends ε in each; `every=5` spends 30 % of it evenly and the
rest in every fifth slot; `auto` spends it in as few slots as the tracked drift allows (`Ledger(every="auto")`); `bins`
measures bins alone and `rotation` partitions in turn, as `constant` does. `converging` is LogSquared, a total of 2.

For every stream, the mean over slots of KL(PDF that the slot was drawn from ‖ released), for the uniform guess, the
noisy histogram (clipped and normalised) and every way. Then, for the last way, the share of bins whose 95 % interval
covers the slot's own probability: bins below and above the uniform probability, and over the ten slots after everything
was reshuffled.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpi.budget import Allocation, Constant, Epsilon, InOrder, LogSquared
from dpi.budget.allocation import Concentrated
from dpi.budget.saving import Saving
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Estimate
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.release.interval import interval
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets.generators import STREAMS, Floats
from dpi_research.evaluation import divergence
from measure import ESTIMATES, Cell, record

Budget = Callable[[], Allocation]
"""Opens the budget of slot 0, 1, … for one run."""
STREAM_LABELS = {
    "published": "100 bins, nearly uniform",
    "drift.01": "1,000 bins, zipf, drift 0.01",
    "drift.1": "1,000 bins, zipf, drift 0.1",
    "reshuffle": "1,000 bins, reshuffled every 250 slots",
    "small20": "20 bins, 2,000 users, reshuffled every 300 slots",
    "n50k20": "20 bins, 50 users",
    "n50k1000": "1,000 bins, 50 users",
    "empty": "1,000 bins, slots without users",
    "bursts": "1,000 bins, bursts",
    "seasonal": "200 bins, season of 24, not declared",
    "seasonal+24": "200 bins, season of 24, declared",
    "sparse10k": "10,000 bins, zipf",
    "sparse112k": "112,000 bins, zipf",
    "smooth": "`Bins`, two bells, 2,000 users",
    "smooth50k": "`Bins`, two bells, 50,000 users",
    "spikes": "`Bins`, a bell and ten single values",
    "shuffled": "`Bins` in random order, 50,000 users",
    "pairs": "`Product`, nearly independent",
    "pairs2": "`Product`, dependent",
}
"""The streams of the pages, and how these call them."""
WAY_LABELS = {
    "constant": "equal budgets",
    "auto": '`every="auto"`',
    "bins": "bins alone",
    "rotation": "in rotation",
    "converging": "converging",
}

AFTERMATH = 10
"""Slots after a reshuffle that are counted apart."""


def budget(way: str, epsilon: str) -> Budget:
    """The budget of a way."""
    kind, _, every = way.partition("=")
    budgets: dict[str, Budget] = {
        "every": lambda: Concentrated(epsilon, int(every)),
        "auto": lambda: Saving(epsilon, Epsilon.at_most(1024)),
        "converging": lambda: InOrder(LogSquared(), Epsilon.at_most(2)),
    }
    return budgets.get(kind, lambda: Constant(epsilon))


class Tally:
    """Sums over the slots of one run."""

    def __init__(self) -> None:
        self.divergences: dict[str, list[float]] = defaultdict(list)
        self.covered: dict[str, list[float]] = defaultdict(list)

    def cover(self, rate: Floats, own: Floats, estimate: Estimate, after: bool) -> None:
        """Count which bins' intervals cover the slot's own probability."""
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
        inside = (lower <= own) & (own <= upper)
        large = rate > 1 / rate.size
        for name, bins in (("small", ~large), ("large", large)):
            for when in ("all", "after") if after else ("all",):
                self.covered[f"{name} {when}"] += inside[bins].tolist()

    def mean(self, name: str) -> float:
        """Mean of a divergence."""
        return float(np.mean(self.divergences[name]))

    def inside(self, name: str) -> float | None:
        """Share of bins inside their intervals, in %; None if none was counted."""
        covered = self.covered[name]
        return 100 * float(np.mean(covered)) if covered else None


def run(name: str, way: str, slots: int, epsilon: str, seed: int) -> Tally:
    stream, tally = STREAMS[name], Tally()
    mechanism = Boosted(season=stream.period)
    if way == "bins":
        mechanism = replace(mechanism, partitions=())
    data = name.partition("+")[0]  # a stream whose period is declared has the same data as without
    rng = np.random.default_rng([seed, zlib.crc32(data.encode())])  # the data; the noise is the mechanism's
    source = UnsafeSeededSource(seed)
    state, allocation = None, budget(way, epsilon)()
    for slot, (counts, rate) in enumerate(stream.make(rng, slots)):
        state = state or mechanism.initial(stream.domain(counts.size))
        measurement = mechanism.measure(
            state, Histogram(counts * GRAINS, GRAINS), allocation.draw(source), slot, source
        )
        state, estimate = mechanism.update(state, measurement)
        bins = float(np.exp(-(estimate.pdf @ np.log(estimate.pdf))))
        allocation.observe(estimate.total, bins, mechanism.drift(state))
        if counts.sum() == 0:
            continue
        tally.divergences["ours"].append(divergence(rate, estimate.pdf))
        tally.divergences["uniform"].append(divergence(rate, np.full(counts.size, 1 / counts.size)))
        if measurement.values.size == counts.size:  # not a coarse partition
            tally.divergences["noisy"].append(divergence(rate, as_pdf(measurement.values / GRAINS)))
        after = bool(stream.reshuffle and slot >= stream.reshuffle and slot % stream.reshuffle < AFTERMATH)
        tally.cover(rate, counts / counts.sum(), estimate, after)
    return tally


def row(name: str, ways: list[str], slots: int, epsilon: str, seed: int) -> list[Cell]:
    """The cells of one stream."""
    tallies = [run(name, way, min(slots, STREAMS[name].length), epsilon, seed) for way in ways]
    last = tallies[-1]
    return [
        STREAM_LABELS[name],
        last.mean("uniform"),
        tallies[0].mean("noisy"),
        *(each.mean("ours") for each in tallies),
        *(last.inside(f"{bins} {when}") for when in ("all", "after") for bins in ("small", "large")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default=",".join(STREAM_LABELS), help="names, separated by commas")
    parser.add_argument("--ways", default="constant", help="constant, every=N, auto, bins, rotation, converging")
    parser.add_argument("--slots", type=int, default=300, help="of each stream, at most")
    parser.add_argument("--epsilon", default="0.05", help="budget of every slot, on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="utility", help="of the result")
    options = parser.parse_args()
    ways = options.ways.split(",")
    rows = []
    for name in options.streams.split(","):
        rows.append(row(name, ways, options.slots, options.epsilon, options.seed))
        print(*rows[-1], flush=True)
    inside = [f"{bins} bins inside{when}, %" for when in ("", " after a reshuffle") for bins in ("small", "large")]
    record(
        options.name,
        parts=(*ESTIMATES, "datasets"),
        columns=["stream", "uniform", "noisy histogram", *(WAY_LABELS.get(way, f"`{way}`") for way in ways), *inside],
        rows=rows,
        seeds=[options.seed],
    )


if __name__ == "__main__":
    main()
