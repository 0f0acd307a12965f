"""What one slot of the boosted mechanism costs, next to drawing its noise.

    python benchmarks/mechanism.py [--bins 10000,112000] [--slots 30]

Noise and update take turns, slot after slot, on a zipf stream of 50,000 users whose log-levels drift by 0.01 a slot, at
ε = 0.05. Medians of processor time, so that other work on the machine counts less, and the median of the slots' own
ratios.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from dpi.budget import Epsilon
from dpi.domain import Bins, Domain, Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
from dpi.noise import SystemSource, add_laplace
from dpi_research.datasets.generators import drifting

EPSILON = Epsilon.at_most("0.05")


def slots(domain: Domain, count: int) -> tuple[list[float], list[float]]:
    """Processor seconds of drawing the noise and of the update, slot after slot; the first slot warms up."""
    mechanism, source = Boosted(), SystemSource()
    state = mechanism.initial(domain)
    noise: list[float] = []
    update: list[float] = []
    for slot, (counts, _) in enumerate(drifting(np.random.default_rng(0), count + 1, domain.size)):
        grains = counts * GRAINS
        start = time.process_time()
        add_laplace(grains, EPSILON.scale, source)
        middle = time.process_time()
        measurement = mechanism.measure(state, Histogram(grains, GRAINS), EPSILON, slot, source)
        measured = time.process_time()
        state, _ = mechanism.update(state, measurement)
        noise.append(middle - start)
        update.append(time.process_time() - measured)
    return noise[1:], update[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bins", default="10000,112000", help="numbers of bins, separated by commas")
    parser.add_argument("--slots", type=int, default=30)
    options = parser.parse_args()
    print(f"{'boosted mechanism':40}{'noise s':>12}{'update s':>12}{'ratio':>10}")
    for bins in map(int, options.bins.split(",")):
        kinds = {"values without order": Hashed(bins, bytes(32)), "`Bins`, in rotation": Bins(range(1, bins))}
        for kind, domain in kinds.items():
            noise, update = slots(domain, options.slots)
            ratio = median(u / n for n, u in zip(noise, update, strict=True))
            name = f"{bins:,} bins, {kind}"
            print(f"{name:40}{median(noise):12.3g}{median(update):12.3g}{ratio:8.1f} ×", flush=True)


if __name__ == "__main__":
    main()
