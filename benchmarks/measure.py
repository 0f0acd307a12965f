"""Side-by-side timing: every contender in turn, round after round, so that a noisy machine is noisy for all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

_STATUS = Path("/proc/self/status")


def interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender over `repeats` rounds, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: median(t) for name, t in times.items()}


def peak_of(run: Callable[[], object]) -> int:
    """Bytes by which the peak of resident memory during `run` exceeds what was resident before (Linux)."""
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return _resident("VmHWM") - before


def in_child(run: Callable[[], int]) -> int:
    """The number that `run` returns in a forked process: memory is measured where nothing else has been allocated."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(run()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return int(text)


def _resident(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not reported by this system")


def row(*cells: object) -> None:
    """Print one row of a table."""
    first, *others = (f"{c:,.3g}" if isinstance(c, float) else str(c) for c in cells)
    print(f"{first:54s}" + "".join(f"{c:>13s}" for c in others), flush=True)
