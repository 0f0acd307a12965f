"""The learned estimator beside the present one on the streams of `populations.py`: the same slots, ε = 2 per user.

    DPI_DATA=folder python benchmarks/learned.py [--seeds 1] [--weights FILE] [stream …]
    python benchmarks/learned.py --sizes                the time of a slot, and bytes of state, by the number of bins

Each with its own prices, accounts and noise in floats. KL is the mean over slots of KL(active users ‖ release); inside
are the shares of bins, and of slots' numbers of users, inside of their 95 % intervals; error and half-width are of
numbers of users, relative, the medians over slots (the present half-width is not told by `clocked.py`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clocked import EPSILON, play
from dpi.estimator import HISTOGRAMS, Measurement, Weights, initial_state, load_weights, step
from dpi.exact.integers import Integers
from dpi_research.learn.beginning import histograms
from dpi_research.learn.evaluation import compare, follow_stream
from dpi_research.learn.ledger import Visits
from measure import ESTIMATES, Cell, record
from populations import STREAMS, Population

SIZES = 10, 1000, 100_000, 1_000_000
COLUMNS = [
    "stream", "uniform", "KL, present", "KL, learned", "ratio", "bins inside, %, present", "learned",
    "numbers inside, %, present", "numbers inside, %, learned", "error, learned", "half-width, learned",
]  # fmt: skip


def visits(population: Population) -> Iterator[tuple[Integers, Visits]]:
    """The slots, as the simulator's ledger takes them."""
    for slot in population.slots:
        yield slot.users, (slot.row, slot.bins, slot.share)


def sizes(weights: Weights) -> None:
    """Print the processor time of a slot of the filter alone, the median of several, and its state."""
    rows, rng = list[list[Cell]](), np.random.default_rng(1)
    ones = np.ones(HISTOGRAMS, np.float32)
    width = np.array([1, 4, 32, 0], np.float32)
    for bins in SIZES:
        state, times = initial_state(bins, 7), []
        for slot in range(9):
            sums = rng.laplace(size=(HISTOGRAMS, bins)).astype(np.float32)
            measured = Measurement(sums, ones, 0.01 * ones, slot % 7, np.float32(1), np.float32(0), width)
            begin = time.process_time()
            state, _ = step(weights, state, measured)
            times.append(time.process_time() - begin)
        kept = sum(np.asarray(part).nbytes for part in state if np.asarray(part).ndim > 0)
        rows.append([bins, 1000 * float(np.median(times[2:])), kept / bins])
        print(*rows[-1], sep=" | ", flush=True)
    record(
        "learned-sizes", parts=ESTIMATES, columns=["bins", "ms a slot", "bytes of state for a bin, period 7"], rows=rows
    )


def streams(weights: Weights, names: list[str], seeds: range) -> None:
    """Print a row for each stream."""
    rows = list[list[Cell]]()
    for name in names:
        errors = []
        for seed in seeds:
            population = STREAMS[name](seed)
            present = play(population, seed)
            bins = population.domain.size
            measured, said = follow_stream(weights, visits(population), bins, EPSILON, population.season, seed=seed)
            learned = compare(measured, said)
            errors.append([
                learned.uniform.mean(), np.mean(present.errors), learned.divergence.mean(),
                100 * np.mean(present.covered), 100 * learned.bins_inside.mean(), 100 * np.mean(present.sized),
                100 * learned.inside.mean(), np.median(learned.error), np.median(learned.half_width),
            ])  # fmt: skip
        uniform, before, now, *others = (float(value) for value in np.mean(np.array(errors), 0))
        rows.append([name, uniform, before, now, now / before, *others])
        print(*(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in rows[-1]), sep=" | ", flush=True)
    ratios = np.array([row[4] for row in rows], dtype=float)
    values = {"geometric mean": float(np.exp(np.log(ratios).mean())), "largest": float(ratios.max())}
    record("learned-populations", parts=ESTIMATES, columns=COLUMNS, rows=rows, values=values, seeds=seeds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", nargs="*", default=[*STREAMS])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--sizes", action="store_true")
    options = parser.parse_args()
    weights = load_weights(options.weights) if options.weights else histograms()
    if options.sizes:
        sizes(weights)
    else:
        streams(weights, options.streams, range(options.seeds))


if __name__ == "__main__":
    main()
