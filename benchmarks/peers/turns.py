"""What a contender does: load the events once, then release one histogram whenever it is asked, and say what it took.

A contender is a process in an environment of its own, started as `python with_NAME.py FILE`. It prints one line of JSON
when it has loaded the Parquet file (columns `user` and `value`), and one for every line it is sent. Nothing but the
standard library is used here, so that each library under test brings what it likes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

VALUES = 1000
"""The public list of values is 0, 1, … 999."""

EPSILON = 1

Data = TypeVar("Data")
TICKS = os.sysconf("SC_CLK_TCK")


def processes() -> list[int]:
    """The process that asks, and all that it has started."""
    parents: dict[int, int] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    ours, children = {os.getpid()}, {os.getpid()}
    while children:
        children = {process for process, parent in parents.items() if parent in ours} - ours
        ours |= children
    return sorted(ours)


def processor() -> float:
    """Processor seconds of this process and of those it has started: the JVM of Spark is one."""
    total = time.process_time()
    for process in processes():
        if process != os.getpid():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:13])) / TICKS
    return total


def resident(field: str) -> int:
    """Bytes of this process and of those it has started: `VmRSS` now, `VmHWM` at most."""
    total = 0
    for process in processes():
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(field):
                total += int(line.split()[1]) * 1024
    return total


def serve(
    load: Callable[[str], Data], release: Callable[[Data], Iterable[float]], packages: list[str], note: str = ""
) -> None:
    """Load the file, then release once for each line that comes in.

    The baseline of memory is taken here, when all is imported and nothing is loaded.
    """
    imported = resident("VmRSS")
    data = load(sys.argv[1])
    say({"versions": {name: version(name) for name in packages}, "note": note})
    for _ in sys.stdin:
        for process in processes():
            Path(f"/proc/{process}/clear_refs").write_text("5")
        wall, used = time.perf_counter(), processor()
        histogram = release(data)
        took = {"wall": time.perf_counter() - wall, "cpu": processor() - used, "peak": resident("VmHWM") - imported}
        counts = [float(count) for count in histogram]
        say({**took, "bins": len(counts), "total": sum(counts)})


def say(message: object) -> None:
    """One line to whoever started this process."""
    print(json.dumps(message), flush=True)
