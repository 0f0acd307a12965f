"""Measures what docs/performance.md includes: ours beside other libraries, how a slot grows, and where its time goes.

    python benchmarks/performance.py peers|growth|costs|flames [--quick] [--pictures docs/images]

`make bench` makes the environments of the peers first. The quick form takes smaller sizes and fewer rounds: for a try.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import dpi
import performance_flames
import performance_growth
import performance_peers
from dpi_research.baselines import CATALOGUE, PublicFacts, baseline
from dpi_research.datasets.generators import stream_named
from measure import SLOT, quartiles, record

STREAM, EPSILON, WARM = "small20", "1", 20
Step = Callable[[np.ndarray, np.ndarray], object]


def ours(bins: int) -> Iterator[tuple[str, Step]]:
    """Our ways to spend and to measure, each as a stream."""
    domain = dpi.Categories(range(bins), other=None)
    ways: dict[str, Callable[[], dpi.Stream]] = {
        "dpi, clocked ledger (default)": lambda: dpi.Stream(domain=domain, epsilon=EPSILON),
        "dpi, ledger, spend first": lambda: dpi.Stream(
            domain=domain, epsilon=EPSILON, budget=dpi.Ledger(per_slot="0.05"), mechanism="boosted"
        ),
        "dpi, converging": lambda: dpi.Stream(
            domain=domain, epsilon=EPSILON, budget=dpi.Converging(dpi.budget.LogSquared()), mechanism="boosted"
        ),
        "dpi, published": lambda: dpi.Stream(
            domain=domain,
            epsilon=EPSILON,
            budget=dpi.Converging(dpi.budget.LogSquared()),
            mechanism=dpi.Published(),  # type: ignore[arg-type]
        ),
    }
    for name, made in ways.items():
        yield name, made().release


def costs(quick: bool, _: Path) -> None:
    """Processor time of one slot by mechanism of ours and by system of others, on one stream, all taking turns.

    A slot of ours is whole: accounts, noise, estimate, certificate, in memory. A slot of the others is what they
    publish, without accounts or certificate (`dpi_research.baselines`, each set up from public facts). Shown are the
    median and quartiles of the milliseconds that a slot takes.
    """
    warnings.simplefilter("ignore", dpi.errors.WeakPromise)
    slots = 60 if quick else 300
    stream = stream_named(STREAM)
    facts = PublicFacts(EPSILON, stream.bins, slots, largest=10 * stream.rows, rows=stream.rows)
    steps: dict[str, Step] = dict(ours(stream.bins))
    steps |= {f"`{name}`": baseline(name, facts).observe for name in CATALOGUE}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number, played in enumerate(stream.slots(0, slots)):
        for name, step in steps.items():
            start = time.process_time()
            partial(step, played.users, played.values)()
            if number >= WARM:
                times[name].append(1e3 * (time.process_time() - start))
    record(
        "performance-costs",
        parts=(*SLOT, "baselines", "datasets"),
        about=f"`{STREAM}`: {stream.bins} bins, {stream.rows:,} events a slot, {slots} slots, {WARM} to warm up.",
        columns=["", "ms of processor a slot"],
        rows=[[name, quartiles(numbers)] for name, numbers in times.items()],
        spread="quartiles of the slots",
    )


Section = Callable[[bool, Path], None]
SECTIONS: dict[str, Section] = {
    "peers": performance_peers.measure,
    "growth": performance_growth.measure,
    "costs": costs,
    "flames": performance_flames.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pictures", type=Path, help="a folder to draw pictures in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        SECTIONS[options.section](options.quick, options.pictures or Path(folder))


if __name__ == "__main__":
    main()
