"""How near the accumulative PDF is to the truth, for several ways to make it at the same price.

    python benchmarks/accumulative.py [--streams drift.01,reshuffle] [--slots 1000] [--epsilon 0.05]
    python benchmarks/accumulative.py --ledgers [--slots 200]

Truth is the user-weighted PDF of all slots so far. After 100, 1,000 and 10,000 slots: KL(truth ‖ accumulated) for

* `releases`: the mean of releases, each weighted by its estimated number of users;
* `counts`: the sum of noisy counts, clipped at zero and normalised;
* `both`: releases corrected by counts (`dpi.stream.accumulation`), which is what a stream does;
* `tree`: `PrefixTree` with half of each slot's budget, beside the releases of a mechanism that has the other half;
* `signed`: the same with a tree whose nodes may also be subtracted, simulated at its best: arity and depth are chosen
  for the number of slots, and the number of nodes in a prefix is the mean over the second half of the slots.

The last columns are the mean divergences of the
*slots'* releases from the slots' own PDFs, with all of the budget and with half of it.

With `--ledgers`, streams with accounts instead: the populations of `churn.py`, whose users stay, come and go or are all
new, with a total of ε = 2 per user for ever, by `Ledger()`, by a ledger that is spent first and by a converging series.
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass, field

import numpy as np

import churn
import dpi
from dpi.budget import Epsilon
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.stream.accumulation import Accumulation
from dpi.stream.prefix_tree import PrefixSums, PrefixTree
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets.generators import STREAMS, Floats
from dpi_research.evaluation import divergence
from measure import ESTIMATES, Cell, record
from utility import STREAM_LABELS

CHECKPOINTS = (100, 1_000, 10_000)
LEDGER_CHECKPOINTS = (10, 200)
ARITIES = range(3, 60, 2)
SHARES = (0.0, 0.01, 0.05, 1.0)
"""Of the users who are replaced in each slot."""


@dataclass
class Branch:
    """One mechanism with its accumulators and its mean divergence."""

    epsilon: Epsilon
    source: UnsafeSeededSource
    tree: PrefixSums | None = None
    state: object = None
    sums: Accumulation | None = None
    counts: Floats | None = None
    divergences: list[float] = field(default_factory=list)

    def add(self, mechanism: Boosted, name: str, slot: int, counts: Floats) -> None:
        """One slot."""
        if self.state is None or self.sums is None or self.counts is None:
            self.state = mechanism.initial(STREAMS[name].domain(counts.size))
            self.sums, self.counts = Accumulation.of(counts.size), np.zeros(counts.size)
        histogram = Histogram(np.asarray(counts * GRAINS, dtype=np.int64), GRAINS)
        if self.tree is not None:
            self.tree = self.tree.added(histogram, self.source)
        measurement = mechanism.measure(self.state, histogram, self.epsilon, slot, self.source)  # type: ignore[arg-type]
        self.state, estimate = mechanism.update(self.state, measurement)  # type: ignore[arg-type]
        self.sums = self.sums.added(estimate)
        self.counts = self.counts + measurement.values / GRAINS
        self.divergences.append(divergence(counts / counts.sum(), estimate.pdf))


def bins(name: str) -> int:
    """Bins of a stream."""
    counts, _ = next(STREAMS[name].make(np.random.default_rng(0), 1))
    return counts.size


def nodes(slots: int, arity: int) -> int:
    """Nodes whose signed sum is a prefix of so many slots: the digits of a balanced numeral system."""
    count = 0
    while slots:
        digit = (slots + arity // 2) % arity - arity // 2
        count, slots = count + abs(digit), (slots - digit) // arity
    return count


def best_tree(slots: int) -> tuple[int, int, int]:
    """Arity, levels and nodes of the signed tree with the smallest variance for so many slots."""
    trees = []
    for arity in ARITIES:
        levels = 1
        while (arity**levels - 1) // 2 < slots:
            levels += 1
        used = round(np.mean([nodes(t, arity) for t in range(slots // 2, slots + 1, max(1, slots // 500))]))
        trees.append((levels**2 * used, arity, levels, used))
    return min(trees)[1:]


def play(name: str, slots: int, epsilon: str, seed: int) -> list[list[Cell]]:
    """The rows of one stream."""
    mechanism, rng = Boosted(), np.random.default_rng([seed, zlib.crc32(name.encode())])
    whole = Branch(Epsilon.at_most(epsilon), UnsafeSeededSource(seed))
    half = Branch(Epsilon(whole.epsilon.units // 2), UnsafeSeededSource(seed + 1))
    half.tree = PrefixTree(half.epsilon.fraction).planted(bins(name), half.source)
    noise_rng = np.random.default_rng(seed)  # of the simulated tree
    truth: Floats | None = None
    rows = list[list[Cell]]()
    for slot, (drawn, _) in enumerate(STREAMS[name].make(rng, slots)):
        counts = drawn.astype(np.float64)
        truth = counts if truth is None else truth + counts
        for branch in (whole, half):
            branch.add(mechanism, name, slot, counts)
        if slot + 1 in CHECKPOINTS:
            rows.append([f"{STREAM_LABELS[name]}; {slot + 1:,} slots", *row(slot + 1, truth, whole, half, noise_rng)])
            print(*rows[-1], flush=True)
    return rows


def row(slots: int, truth: Floats, whole: Branch, half: Branch, noise_rng: np.random.Generator) -> list[float]:
    """The divergence of each way, and that of the slots' releases."""
    assert whole.sums is not None
    assert half.sums is not None
    assert half.tree is not None
    assert whole.counts is not None
    _, levels, used = best_tree(slots)
    scale = levels / float(half.epsilon)
    prefix = truth + noise_rng.laplace(0, scale, (used, truth.size)).sum(0)
    ways = [
        whole.sums.released / whole.sums.released.sum(),
        as_pdf(whole.counts),
        whole.sums.pdf(),
        half.sums.beside(half.tree.sums(), half.tree.variance, half.tree.nodes).pdf(),
        half.sums.beside(prefix, 2 * used * scale**2, used).pdf(),
    ]
    divergences = [divergence(truth / truth.sum(), way) for way in ways]
    return [*divergences, *(float(np.mean(branch.divergences)) for branch in (whole, half))]


LEDGERS: dict[str, dpi.Ledger | dpi.Converging] = {
    "`Ledger()`": dpi.Ledger(),
    "spend first": dpi.Ledger(policy=dpi.budget.spend_first),
    "converging": dpi.Converging(dpi.budget.LogSquared()),
}


def by_ledger(share: float, slots: int, seed: int) -> list[list[Cell]]:
    """KL(truth ‖ accumulated) at the checkpoints, where a share of the users is replaced in each slot."""
    domain = dpi.Categories(range(churn.BINS), other=None)
    streams = [
        dpi.Stream(domain=domain, epsilon=2, budget=budget, unsafe_source=UnsafeSeededSource(seed))
        for budget in LEDGERS.values()
    ]
    truth, rows = np.zeros(churn.BINS), list[list[Cell]]()
    for slot, (users, values) in enumerate(churn.slots(share, slots, seed), 1):
        truth += np.bincount(values.to_numpy(), minlength=churn.BINS)
        accumulated = [stream.release(users, values).accumulated for stream in streams]
        if slot in LEDGER_CHECKPOINTS:
            errors = [divergence(truth / truth.sum(), each) for each in accumulated]
            rows.append([f"{share:.0%} replaced; {slot} slots".replace("%", " %"), *errors])
            print(*rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default="drift.01,reshuffle,published", help="names, with commas")
    parser.add_argument("--slots", type=int, default=1_000)
    parser.add_argument("--epsilon", default="0.05", help="budget of every slot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ledgers", action="store_true", help="streams with accounts instead")
    options = parser.parse_args()
    if options.ledgers:
        rows = [each for share in SHARES for each in by_ledger(share, options.slots, options.seed)]
        record(
            "accumulative-ledgers",
            parts=ESTIMATES,
            columns=["users; after", *LEDGERS],
            rows=rows,
            seeds=[options.seed],
        )
        return
    names = options.streams.split(",")
    record(
        "accumulative",
        parts=(*ESTIMATES, "datasets"),
        columns=["stream", "releases", "counts", "both", "tree", "signed tree", "slots, all of ε", "slots, half of ε"],
        rows=[each for name in names for each in play(name, options.slots, options.epsilon, options.seed)],
        seeds=[options.seed],
    )


if __name__ == "__main__":
    main()
