"""Whether a slot costs the same after many slots: time by a fixed kernel that takes turns with it, and memory.

    python benchmarks/endurance.py [--bins 10000] [--slots 200000]

Prints, every 1,000 slots, the mean processor time of a slot, the same divided by that of the kernel and relative to the
first 1,000 slots, and the memory of the process. The result has ten of these windows.
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
from measure import ESTIMATES, Cell, record, resident

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
    rows = list[list[Cell]]()
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
        rows.append([start + WINDOW, 1e3 * slot_time / WINDOW, ratio / first, round(resident("VmRSS") / 2**20)])
        print(*rows[-1], flush=True)
    shown = sorted({round(place) for place in np.linspace(0, len(rows) - 1, min(10, len(rows)))})
    record(
        "endurance",
        parts=ESTIMATES,
        about=f"An estimate over {options.bins:,} bins; each row is the mean of the {WINDOW:,} slots before.",
        columns=["slots", "ms a slot", "by a fixed kernel, relative to the first", "MiB"],
        rows=[rows[place] for place in shown],
    )


if __name__ == "__main__":
    main()
