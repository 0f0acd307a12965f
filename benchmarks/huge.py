"""What a slot over very many bins costs: its noise, the mechanism's update, all the rest, and memory.

    python benchmarks/huge.py [--bins 100000,1000000] [--users 100000] [--budgets ledger,converging,spend_first]
                              [--kinds hashed,bins] [--slots 6]

Every row is a stream of its own, in memory and in a process of its own: zipf values, hashed into bins (values without
order) or as numbers (`Bins`), of users a quarter of whom is active in a slot. *noise* is exact noise on every bin once,
drawn between two slots, *update* the mechanism's, *rest* the slot without measurement and update: rows, accounts,
release, certificate and state. Medians of processor time, the ratio as the median of the slots' own. *peak* is what was
resident at most above what the imports take, for each bin.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

import numpy as np

import dpi
from dpi.budget import Epsilon, LogSquared
from dpi.mechanism.boosted import Boosted
from dpi.noise import SystemSource, add_laplace
from measure import SLOT, Cell, record, resident
from results import AT_MOST, Goal

WARM = 3
MOST = 5.0
"""The goal: an update takes at most so many times as long as the noise."""
BUDGETS: dict[str, Callable[[], Any]] = {
    "ledger": dpi.Ledger,
    "spend_first": lambda: dpi.Ledger(policy=dpi.budget.spend_first),
    "converging": lambda: dpi.Converging(LogSquared()),
}
NAMES = {"ledger": "default budget", "spend_first": "spend first", "converging": "converging"}
KINDS = {"hashed": "hashed values", "bins": "bins of numbers"}


class Clock:
    """Processor seconds that calls of a method have taken since the last reading."""

    def __init__(self, name: str) -> None:
        inner, self.seconds = getattr(Boosted, name), 0.0

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            result = inner(*arguments, **options)
            self.seconds += time.process_time() - start
            return result

        setattr(Boosted, name, timed)

    def read(self) -> float:
        """The seconds, which are then counted from zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def slots(kind: str, bins: int, users: int, budget: str, count: int) -> dict[str, float]:
    """Medians over the slots of one stream."""
    rng, source = np.random.default_rng(1), SystemSource()  # benchmark data, no privacy noise
    domain = dpi.Hashed(bins, bytes(32)) if kind == "hashed" else dpi.Bins(range(1, bins))
    measure, update = Clock("measure"), Clock("update")
    classes = Clock("measure_classes")
    before, scale, zeros = resident("VmRSS"), Epsilon.at_most("0.05").scale, np.zeros(bins, dtype=np.int64)
    seconds: dict[str, list[float]] = {"noise": [], "update": [], "rest": []}
    with dpi.Stream(domain=domain, epsilon=1, slot="1h", origin="2026-01-01", budget=BUDGETS[budget]()) as stream:
        for slot in range(WARM + count):
            ids, values = rng.integers(0, 4 * users, users), np.minimum(rng.zipf(1.2, users), bins) - 1
            start = time.process_time()
            add_laplace(zeros, scale, source)
            middle = time.process_time()
            stream.release(ids, values, slot=slot)
            whole, updated = time.process_time() - middle, update.read()
            seconds["noise"].append(middle - start)
            seconds["update"].append(updated)
            seconds["rest"].append(whole - updated - measure.read() - classes.read())
    ratio = median(u / n for n, u in zip(seconds["noise"][WARM:], seconds["update"][WARM:], strict=True))
    peak = (resident("VmHWM") - before) / bins
    return {**{name: median(times[WARM:]) for name, times in seconds.items()}, "ratio": ratio, "peak": peak}


def child(*arguments: object) -> dict[str, float]:
    """`slots` in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--child", *map(str, arguments)]
    medians: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return medians


def main() -> None:
    """Measure every combination."""
    if "--child" in sys.argv:
        kind, bins, users, budget, count = sys.argv[2:]
        print(json.dumps(slots(kind, int(bins), int(users), budget, int(count))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bins", default="100000,1000000", help="numbers of bins, separated by commas")
    parser.add_argument("--users", default="100000")
    parser.add_argument("--budgets", default="ledger,converging")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--slots", type=int, default=6)
    options = parser.parse_args()
    asked = (options.bins.split(","), options.users.split(","), options.budgets.split(","), options.kinds.split(","))
    rows, goals = list[list[Cell]](), list[Goal]()
    for many, people, paid, values in product(*asked):
        medians = child(values, many, people, paid, options.slots)
        name = f"{int(many):,} {KINDS[values]}, {int(people):,} events, {NAMES[paid]}"
        peak = round(medians["peak"])
        rows.append([name, medians["noise"], medians["update"], medians["ratio"], medians["rest"], peak])
        goals.append((f"update / noise, {name}:", medians["ratio"], AT_MOST, MOST))
    record(
        "huge-domains",
        parts=SLOT,
        about=f"Processor seconds of a slot, medians of {options.slots} slots after {WARM}.",
        columns=["", "noise s", "update s", "update / noise", "rest s", "peak, bytes a bin"],
        rows=rows,
        goals=[max(goals, key=lambda goal: goal[1])],
        notes=["The goal is told of the largest ratio."],
    )


if __name__ == "__main__":
    main()
