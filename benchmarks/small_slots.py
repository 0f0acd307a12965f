"""Processor time of small slots, in memory and in a durable file, beside that of a fixed kernel.

    python benchmarks/small_slots.py [--quick] [--against src-of-another-version]

Each row is a stream of its own: integer ids, texts as values, half of the users active in a slot. After 48 slots it is
in its stride, and the median of the next ones is told. The kernel is 60,000 small numpy operations: on a machine that
is busy with other things both columns grow alike, so that the last one, slots by kernels, can be compared.
With `--against`, versions are measured in turns, each in processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from measure import SLOT, Cell, record

SIZES = ((10, 100), (100, 2_000), (1_000, 2_000), (1_000, 20_000))
WARM = 48
THREADS = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def kernel() -> float:
    """Seconds that the fixed kernel takes."""
    numbers, start = np.arange(100.0), time.process_time()
    for _ in range(20_000):
        numbers = np.sqrt(numbers * numbers + 1.0)
    return time.process_time() - start


def slots(bins: int, users: int, durable: bool, repeats: int) -> tuple[float, float]:
    """Median seconds of processor time that a slot takes, and the kernel's in the same process."""
    import dpi

    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    names = np.array([f"v{bin}" for bin in range(bins)])
    times = []
    with tempfile.TemporaryDirectory() as folder:
        store, domain = Path(folder) / "store.db" if durable else None, dpi.Categories(names)
        with dpi.Stream(domain=domain, epsilon=2, slot="1h", origin="2026-01-01", store=store) as stream:
            for slot in range(WARM + repeats):
                ids, values = rng.integers(0, 2 * users, users), names[rng.integers(0, bins, users)]
                start = time.process_time()
                stream.release(ids, values, slot=slot)
                times.append(time.process_time() - start)
    return median(times[WARM:]), kernel()


def child(source: str | None, *arguments: object) -> tuple[float, float]:
    """`slots` in a process of its own, with the package of a source folder if one is given."""
    path = {} if source is None else {"PYTHONPATH": source}
    command = [sys.executable, "-W", "ignore", __file__, "--child", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **THREADS, **path}, capture_output=True, text=True, check=True)
    seconds, floor = json.loads(done.stdout)
    return seconds, floor


def main() -> None:
    """Print the table."""
    quick, other = "--quick" in sys.argv, None
    if "--against" in sys.argv:
        other = sys.argv[sys.argv.index("--against") + 1]
    rounds, repeats = (1, 32) if quick else (3, 64)
    versions: dict[str, str | None] = {"this": None, **({} if other is None else {"other": other})}
    rows = list[list[Cell]]()
    for bins, users in SIZES:
        for durable in (False, True):
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in versions}
            for _ in range(rounds):
                for name, source in versions.items():
                    times[name].append(child(source, bins, users, int(durable), repeats))
            for name, pairs in times.items():
                seconds, floor = (median(column) for column in zip(*pairs, strict=True))
                where = "SQLite, durable" if durable else "memory"
                rows.append([f"{bins:,} / {users:,}, {where}", 1e3 * seconds, seconds / floor])
                rows[-1][0] = f"{rows[-1][0]}, {name}" if other else rows[-1][0]
    columns = ["bins / users, store", "ms a slot", "of the kernel"]
    record("small-slots", parts=SLOT, columns=columns, rows=rows, about=f"Medians of {rounds} × {repeats} slots.")


if __name__ == "__main__":
    if "--child" in sys.argv:
        bins, users, durable, repeats = map(int, sys.argv[-4:])
        print(json.dumps(slots(bins, users, bool(durable), repeats)))
    else:
        main()
