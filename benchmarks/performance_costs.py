"""Processor time of one slot by mechanism of ours and by system of others, on one stream, all taking turns.

A slot of ours is whole: accounts, noise, estimate, certificate, in memory. A slot of the others is what they publish,
without accounts or certificate (`dpi_research.baselines`, each set up from public facts).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import dpi
from dpi_research.baselines import CATALOGUE, PublicFacts, baseline
from dpi_research.datasets.generators import stream_named

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


def table(quick: bool, _: Path) -> list[str]:
    """Median and quartiles of the milliseconds that a slot takes."""
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
    lines = [
        f"`{STREAM}`: {stream.bins} bins, {stream.rows:,} events a slot, {slots} slots, {WARM} of them to warm up.",
        "",
        "| | ms of processor a slot, median | quartiles |",
        "|---|---|---|",
    ]
    for name, numbers in times.items():
        low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75))
        lines.append(f"| {name} | {middle:.3g} | {low:.3g} – {high:.3g} |")
    return lines
