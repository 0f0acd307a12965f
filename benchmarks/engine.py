"""What an engine costs: one process that holds all accounts, one that works bucket by bucket, and a pool.

    python benchmarks/engine.py [--events 10000000] [--users 1000000] [--slots 4] [--bins 100] [--workers 2]
        [--repeats 3] [--ways polars,memory,local,pool]

Every run is a process of its own, from files on disk to releases in a store, and all ways take turns, so that what else
the machine does is shared by all of them. `seconds` are those of the whole process; `work` is from the first byte that
is read to the last release, with workers that are there. Processor time is of the process and its workers together;
`driver` is that of the driver alone. The plain group-by of the same events by polars, without privacy, stands beside
them. Bytes are those of the ledger on disk, for each account or payments' account in it: after the run, and merged.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from dpi.budget.account_table import merged
from dpi.engine import BucketEngine
from dpi.store.sql import SQLStore
from measure import resident

START = "2026-01-01"
BATCH = 5_000_000


def made(folder: Path, events: int, users: int, slots: int, bins: int) -> None:
    """Files of random events: users at random, as late and disordered as can be."""
    rng = np.random.default_rng(1)
    begin = dpi.Slots("1h").begin(dpi.Slots("1h").number(START)) // 1_000_000
    for part, first in enumerate(range(0, events, BATCH)):
        size = min(BATCH, events - first)
        columns = {
            "user": rng.integers(0, users, size),
            "time": begin + rng.integers(0, 3600 * slots, size),
            "value": pl.Series(rng.integers(0, bins, size)).cast(pl.String),
        }
        pl.DataFrame(columns).write_parquet(folder / f"{part}.parquet")


def engine_of(way: str, workers: int) -> BucketEngine | None:
    if way == "memory":
        return None
    return dpi.engine.local() if way == "local" else dpi.engine.pool(1 if way == "pool of 1" else workers)


def released(folder: Path, way: str, slots: int, bins: int, workers: int) -> dict[str, float]:
    """One run; times of this process and its workers, the largest memory of one, and bytes of the ledger."""
    files, store = str(folder / "*.parquet"), folder / "store" / "visits.db"
    if way == "polars":
        keys = ["user", pl.col("time") // 3600, "value"]
        pl.scan_parquet(files).group_by(keys).len().collect(engine="streaming")
        return {}
    engine = engine_of(way, workers)
    domain = dpi.Categories([str(number) for number in range(bins)], other=None)
    with dpi.open_store(store) as opened:
        stream = dpi.Stream(domain=domain, epsilon=1, slot="1h", start=START, store=opened, engine=engine)
        times, began = [time.process_time()], time.perf_counter()
        events = dpi.read(files, user="user", time="time", value="value", unit="s")
        for _, rows in stream.play(events, stream.next_slot, stream.next_slot + slots):
            times.append(time.process_time())
            stream.release_rows(rows)
        closing, work = time.process_time() - times[1], time.perf_counter() - began
        if engine is not None:
            engine.close()
        memory = resident("VmHWM") / 2**20
        sizes = sized(opened, folder)
    return {"work": work, "closing driver": closing / slots, "memory": memory, **sizes}


def sized(store: SQLStore, folder: Path) -> dict[str, float]:
    """Bytes of the ledger for each sub-account in it, as it is and merged."""
    if store.layout is None:
        return {}
    listed = sum(int(size) for (size,) in store.engine.rows("SELECT size FROM account_runs"))
    logs = [*(store.account_parts(name, text) for name, text in store.ledgers().items()), store.payment_parts("")]
    accounts = sum(len(merged(part)) // 36 for log in logs for part in log)
    store.lay_out(folder / "merged")
    assert store.folder is not None
    disk = sum(path.stat().st_size for path in store.folder.path.iterdir())
    return {"bytes": listed / accounts, "bytes merged": disk / accounts, "accounts": accounts}


def run_once(options: Mapping[str, object], way: str, folder: Path) -> dict[str, float]:
    """A run in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for path in folder.glob("*.parquet"):
            (Path(place) / path.name).symlink_to(path)
        (Path(place) / "store").mkdir()
        command = [sys.executable, __file__, "--run", way, "--folder", place]
        command += [text for name, number in options.items() for text in (f"--{name}", str(number))]
        began = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, **json.loads(done.stdout.splitlines()[-1])}


def child(arguments: argparse.Namespace) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # memory of whoever started this process is not its own
    result = released(arguments.folder, arguments.run, arguments.slots, arguments.bins, arguments.workers)
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = [each.ru_utime + each.ru_stime for each in (own, workers)]
    memory = {"memory": resident("VmHWM") / 2**20, **result}["memory"], workers.ru_maxrss / 1024
    print(json.dumps({"cpu": sum(cpu), "driver": cpu[0], **result, "memory": max(memory)}))


def main() -> None:
    parser = argparse.ArgumentParser()
    counts = {"events": 10_000_000, "users": 1_000_000, "slots": 4, "bins": 100, "workers": 2, "repeats": 3}
    for name, number in counts.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--ways", default="polars,memory,local,pool of 1,pool")
    parser.add_argument("--run")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.run:
        child(arguments)
        return
    options = {name: getattr(arguments, name) for name in counts}
    ways = arguments.ways.split(",")
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(dir=os.environ.get("DPI_BENCH")) as folder:
        made(Path(folder), arguments.events, arguments.users, arguments.slots, arguments.bins)
        for _ in range(arguments.repeats):
            for way in ways:
                found[way].append(run_once(options, way, Path(folder)))
    print(f"{options}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {arguments.repeats}")
    medians = {
        way: {name: statistics.median(run[name] for run in runs) for name in runs[0]} for way, runs in found.items()
    }
    base = medians.get("local", medians[ways[0]])
    names = ["seconds", "work", "cpu", "driver", "closing driver", "memory", "bytes", "bytes merged"]
    print(" | ".join(["way", *names, "local/this (of each run)", "cpu/local"]))
    for way, each in medians.items():
        cells = [f"{each[name]:.2f}" if name in each else "" for name in names]
        kind = "work" if "work" in each else "seconds"
        ratios = sorted(base[kind] / run[kind] for run in found[way])
        faster = f"{base[kind] / each[kind]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(" | ".join([way, *cells, faster, f"{each['cpu'] / base['cpu']:.2f}"]))


if __name__ == "__main__":
    main()
