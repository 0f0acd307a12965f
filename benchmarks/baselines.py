"""Every baseline on one stream, as published: what it protects, and what it costs in memory, time and error.

    python benchmarks/baselines.py [--stream small20] [--slots 300] [--epsilon 1] [--page docs/baselines.md [--facts]]

Prints a table in Markdown, or writes it between the marks of a page, and the table of facts too; `--facts`: only that.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from dpi_research.baselines import CATALOGUE, PublicFacts, baseline
from dpi_research.baselines.catalogue import with_table
from dpi_research.datasets.generators import stream_named

BEGIN, END = "<!-- measured: made by benchmarks/baselines.py -->", "<!-- end of measured -->"


def measured(name: str, stream_name: str, slots: int, epsilon: str) -> str:
    """One line: facts, numbers held at the end, time a slot, and the root mean square error of a bin's release."""
    stream = stream_named(stream_name)
    setting = PublicFacts(epsilon, stream.bins, slots, largest=10 * stream.rows, rows=stream.rows)
    mechanism = baseline(name, setting)
    prefix = mechanism.facts.releases == "prefix"
    truth, squares, seconds = np.zeros(stream.bins), [], 0.0
    for slot in stream.slots(0, slots):
        histogram = np.bincount(slot.values, minlength=stream.bins)
        truth = prefix * truth + histogram
        start = time.perf_counter()
        release = mechanism.observe(slot.users, slot.values)
        seconds += time.perf_counter() - start
        if mechanism.slot > mechanism.warm_up:
            squares.append(float(np.mean((release - truth) ** 2)))
    facts = mechanism.facts
    delta = "0" if mechanism.delta == 0 else f"{mechanism.delta:.0e}"
    error = f"{math.sqrt(np.mean(squares)):.3g}"
    cells = (f"`{name}`", facts.unit, facts.horizon, delta, f"{mechanism.memory:,}", f"{1e3 * seconds / slots:.2f}")
    return "| " + " | ".join((*cells, facts.releases, error)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stream", default="small20")
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--page", type=Path, help="a page with the two marks")
    parser.add_argument("--facts", action="store_true", help="write the page's table of facts, and measure nothing")
    options = parser.parse_args()
    if options.page:
        options.page.write_text(with_table(options.page.read_text(encoding="utf-8")), encoding="utf-8")
    if options.facts:
        return
    head = ("mechanism", "protected with ε", "horizon", "δ", "numbers held", "ms a slot", "releases", "error of a bin")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += [measured(name, options.stream, options.slots, options.epsilon) for name in CATALOGUE]
    if not options.page:
        print(*lines, sep="\n")
        return
    before, _, rest = options.page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    options.page.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
