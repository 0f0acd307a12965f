"""Makes the measured parts of docs/performance.md.

    python benchmarks/performance.py [--quick] [--only peers,growth,costs,flames] [--page docs/performance.md]

Without a page, tables are printed and no picture is drawn. `make bench` makes the environments of the peers first.
The quick form takes smaller sizes and fewer rounds, and says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

import dpi
import performance_flames
import performance_growth
import performance_peers
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


def costs(quick: bool, _: Path) -> list[str]:
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


Section = Callable[[bool, Path], list[str]]
SECTIONS: dict[str, Section] = {
    "peers": performance_peers.table,
    "growth": performance_growth.table,
    "costs": costs,
    "flames": performance_flames.table,
}


def machine(quick: bool) -> str:
    """What it was measured on, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ours = ", ".join(f"{name} {version(name)}" for name in ("numpy", "polars"))
    return (
        f"Measured on {platform.system()}, {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {ours}; load at the start {os.getloadavg()[0]:.1f}"
        f"{'; quick form' if quick else ''}."
    )


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with what stands between the marks of a section exchanged."""
    begin, end = f"<!-- {name}: made by benchmarks/performance.py -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"the page has no marks for {name}.")
    return "\n".join([before + begin, "", *lines, "", end + after])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pictures = options.page.parent / "images" if options.page else Path(folder)
        for name in options.only.split(","):
            lines = [machine(options.quick), "", *SECTIONS[name](options.quick, pictures)]
            print(*lines, "", sep="\n", flush=True)
            if options.page:
                page = options.page.read_text(encoding="utf-8")
                options.page.write_text(replaced(page, name, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
