"""What an engine costs: one process that holds all accounts, one that works bucket by bucket, and a pool.

    python benchmarks/engine.py [--events 10000000] [--users 1000000] [--slots 4] [--bins 100] [--workers 2]
        [--repeats 3] [--ways polars,memory,local,pool]
    python benchmarks/engine.py sizes       how work grows with users and bins: 5 million events, 2 slots

Every run is a process of its own, from files on disk to releases in a store, and all ways take turns, so that what else
the machine does is shared by all of them. `work` is from the first byte that is read to the last release, with workers
that are there. Processor time is of the process and its workers together, from
their start; `driver` is that of the driver alone for a slot. The plain group-by of the same events by polars, without
privacy, stands beside them. Bytes are those of the ledger on disk, for each account or payments' account in it: after
the run, and merged.
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
from dpi.budget.account_records import merged
from dpi.engine import BucketEngine
from dpi.store.sql import SQLStore
from measure import SLOT, Cell, quartiles, record, resident

START = "2026-01-01"
NAMES = {
    "polars": "polars, plain group-by, no privacy", "memory": "one process, accounts in memory",
    "local": "`local`, one process, bucket by bucket", "pool of 1": "`pool`, one worker", "pool": "`pool`, {} workers",
}  # fmt: skip
SIZES = ((250_000, 100), (1_000_000, 100), (2_000_000, 100), (1_000_000, 20_000))
"""Users and bins."""
CLASSES = 21
"""That users are measured by at most."""
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
        keys, start = ["user", pl.col("time") // 3600, "value"], time.perf_counter()
        pl.scan_parquet(files).group_by(keys).len().collect(engine="streaming")
        return {"work": time.perf_counter() - start}
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


def played(options: Mapping[str, int], ways: list[str]) -> dict[str, list[dict[str, float]]]:
    """What every way took, in each of its runs."""
    runs_of: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(dir=os.environ.get("DPI_BENCH")) as folder:
        made(Path(folder), *(options[name] for name in ("events", "users", "slots", "bins")))
        for _ in range(options["repeats"]):
            for way in ways:
                runs_of[way].append(run_once(options, way, Path(folder)))
                print(way, runs_of[way][-1], flush=True)
    return runs_of


def column(runs: list[dict[str, float]], name: str) -> list[float]:
    """A number of every run."""
    return [run[name] for run in runs]


def billion(event: float, account: float) -> None:
    """What follows for a billion users and ten million events a second, from what an event and an account take."""
    users, rate, buckets, bins, row = 10**9, 10**7, 1024, 100, 24
    state, grains = 2 * users * account, buckets * CLASSES * bins * 8
    record(
        "engine-billion",
        parts=(*SLOT, "engine", "sources"),
        about=f"Computed, not run: {users:,} users, {rate:,} events a second, {buckets:,} buckets, {bins} bins.",
        columns=["what", "derived from", "is"],
        rows=[
            ["processors", f"{rate:,}/s × {1e6 * event:.2g} µs, accounts included", f"{rate * event:.0f} cores"],
            ["rows written, and read again", f"{rate:,}/s × {row} bytes", f"{rate * row / 1e9:.2g} GB/s each way"],
            ["accounts on disk", f"2 × {users:,} × {account:.1f} bytes", f"{state / 1e9:.0f} GB"],
            ["a bucket on disk", f"1/{buckets:,} of that", f"{state / buckets / 1e6:.0f} MB"],
            [
                "counts through the driver",
                f"{buckets:,} × {CLASSES} classes × {bins} × 8 bytes",
                f"{grains / 1e6:.0f} MB a slot",
            ],
        ],
    )


def engines(options: Mapping[str, int], ways: list[str]) -> None:
    """The ways beside each other."""
    runs_of, rows = played(options, ways), list[list[Cell]]()
    for way, runs in runs_of.items():
        work = column(runs, "work")
        speed, memory = options["events"] / statistics.median(work) / 1e6, statistics.median(column(runs, "memory"))
        name = NAMES[way].format(options["workers"])
        rows.append([name, quartiles(work), speed, statistics.median(column(runs, "cpu")), memory])
    disk, notes = [run for way in ("local", "pool") for run in runs_of.get(way, [])], []
    if disk:
        bytes_, merged_ = (statistics.median(column(disk, name)) for name in ("bytes", "bytes merged"))
        driver = statistics.median(column(runs_of.get("pool", disk), "closing driver"))
        notes = [
            f"On disk a sub-account takes {bytes_:.1f} bytes after the run, and {merged_:.1f} when files are merged.",
            f"The driver of the pool spends {driver:.2g} s of its processor on a slot.",
        ]
    record(
        "engine",
        parts=(*SLOT, "engine", "sources"),
        about="{events:,} events of {users:,} users, {slots} slots, {bins} bins; from Parquet files to a store.".format(
            **options
        ),
        columns=["", "work s", "million events/s", "processor s", "largest process, MiB"],
        rows=rows,
        spread=f"quartiles of {options['repeats']} runs",
        notes=notes,
    )
    if disk:
        billion(statistics.median(column(disk, "cpu")) / options["events"], merged_)


def sizes(options: Mapping[str, int]) -> None:
    """How work grows with users and bins."""
    rows = list[list[Cell]]()
    for users, bins in SIZES:
        here = {**options, "users": users, "bins": bins, "slots": 2, "events": options["events"] // 2}
        runs_of = played(here, ["local", "pool"])
        work = {way: statistics.median(column(runs, "work")) for way, runs in runs_of.items()}
        rows.append([f"{users:,}", f"{bins:,}", work["local"], work["pool"], work["local"] / work["pool"]])
    record(
        "engine-sizes",
        parts=(*SLOT, "engine", "sources"),
        about=f"{options['events'] // 2:,} events in 2 slots; medians of {options['repeats']} runs.",
        columns=["users", "bins", "local, work s", f"pool of {options['workers']}, work s", "local / pool"],
        rows=rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    counts = {"events": 10_000_000, "users": 1_000_000, "slots": 4, "bins": 100, "workers": 2, "repeats": 3}
    parser.add_argument("section", nargs="?", choices=("sizes",))
    for name, number in counts.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--ways", default=",".join(NAMES))
    parser.add_argument("--run")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.run:
        child(arguments)
        return
    options = {name: int(getattr(arguments, name)) for name in counts}
    sizes(options) if arguments.section else engines(options, arguments.ways.split(","))


if __name__ == "__main__":
    main()
