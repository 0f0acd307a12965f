"""Side-by-side timing: every contender in turn, round after round, so that a noisy machine is noisy for all.

What is found goes to `results/` by `record` (`tools/results.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from results import ESTIMATES, SLOT, Cell, record

__all__ = ["ESTIMATES", "SLOT", "Cell", "interleaved", "peak_of", "quartiles", "record", "resident"]

_STATUS = Path("/proc/self/status")


def interleaved(
    contenders: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each contender over `repeats` rounds, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            start = clock()
            run()
            if turn:
                times[name].append(clock() - start)
    return {name: median(t) for name, t in times.items()}


def quartiles(numbers: Sequence[float], scale: float = 1.0) -> Cell:
    """A median with its quartiles, or the one number that there is."""
    if len(numbers) < 2:
        return scale * numbers[0]
    low, middle, high = (scale * each for each in quantiles(numbers, n=4, method="inclusive"))
    return [middle, low, high]


def peak_of(run: Callable[[], object]) -> int:
    """Bytes by which the peak of resident memory during `run` exceeds what was resident before (Linux)."""
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """A size of this process in bytes, as Linux reports it."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not reported by this system")
