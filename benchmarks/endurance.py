"""Whether a slot costs the same after many slots: time by a fixed kernel that takes turns with it, and memory.

    python benchmarks/endurance.py [--bins 10000] [--slots 200000]

Prints, every 1,000 slots, the mean processor time of a slot divided by that of the kernel, relative to the first 1,000
slots.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dpi.budget import Epsilon
from dpi.domain import Hashed
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.mechanism.boosted import Boosted
from dpi.noise import SystemSource
from measure import resident

WINDOW = 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=200_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)  # benchmark data, no privacy noise
    weights = 1 / np.arange(1, options.bins + 1) ** 1.1
    histogram = Histogram(rng.multinomial(50_000, weights / weights.sum()) * GRAINS, GRAINS)
    mechanism, source, epsilon = Boosted(), SystemSource(), Epsilon.at_most("0.05")
    state = mechanism.initial(Hashed(options.bins, bytes(32)))
    kernel = rng.random((6, options.bins))
    first = 0.0
    for start in range(0, options.slots, WINDOW):
        slot_time = kernel_time = 0.0
        for slot in range(start, start + WINDOW):
            began = time.process_time()
            for _ in range(5):
                np.exp(-kernel * kernel).sum()
            middle = time.process_time()
            state, _ = mechanism.update(state, mechanism.measure(state, histogram, epsilon, slot, source))
            slot_time += time.process_time() - middle
            kernel_time += middle - began
        ratio = slot_time / kernel_time
        first = first or ratio
        memory = resident("VmRSS") / 2**20
        print(
            f"{start + WINDOW:8d} slots  {1e3 * slot_time / WINDOW:6.2f} ms  {ratio / first:5.3f}  {memory:5.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
