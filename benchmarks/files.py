"""The whole job from files: every slot read, partitioned, bounded, paid and released, next to a bare pass.

    POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/files.py [--quick]

The floor is polars doing the same bounding (one user one unit) over the same file, without noise, accounts or releases.
Seconds are processor seconds, so that other work on the machine does not count. Memory is the peak of a process of its
own. Rows lie in no order.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

import dpi
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import count
from dpi.histogram.grouping import Groups
from dpi.sources import Admission
from measure import SLOT, Cell, interleaved, record, resident

USERS, BINS, SLOTS = 200_000, 1_000, 200
ORIGIN = "2026-01-01"
MEMORY = 1 << 28
CLOCK = dpi.Slots("1h", origin=ORIGIN)


def write(rows: int, kind: str, path: str) -> None:
    """Events in no order, written in parts so that memory is not the limit."""
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    part = 1_000_000
    frames = []
    for start in range(0, rows, part):
        size = min(part, rows - start)
        at = CLOCK.origin + rng.integers(0, SLOTS * CLOCK.width, size)
        frame = pl.DataFrame({"user": rng.integers(0, USERS, size), "value": rng.integers(0, BINS, size)})
        frames.append(frame.with_columns(at=pl.Series(at).cast(pl.Datetime("us", "UTC"))))
    table = pl.concat(frames)
    if kind == "text":
        name = pl.format("user-{}", pl.col("user").cast(pl.String).str.zfill(9))
        table = table.with_columns(user=name, value=pl.format("v{}", "value"))
    table.write_parquet(path)


def domain(kind: str) -> dpi.Categories:
    return dpi.Categories([f"v{code}" for code in range(BINS)] if kind == "text" else range(BINS), other=None)


def with_dpi(path: str, kind: str, memory: int = 1 << 30) -> None:
    budget = dpi.Ledger(per_slot=0.05)
    stream = dpi.Stream(domain=domain(kind), epsilon=1, slot="1h", origin=ORIGIN, budget=budget)
    for number, rows in stream.play(dpi.read(path, time="at"), 0, SLOTS, memory=memory):
        stream.release_rows(rows, slot=number)


def only_slots(path: str, kind: str, memory: int = 1 << 30) -> None:
    for _ in dpi.read(path, time="at").slots(Admission(CLOCK, domain(kind), bytes(32), 0, SLOTS), memory=memory):
        pass


def with_polars(path: str) -> pl.DataFrame:
    slot = ((pl.col("at").dt.epoch("us") - CLOCK.origin) // CLOCK.width).alias("slot")
    pairs = pl.scan_parquet(path).select(slot, "user", "value").group_by("slot", "user", "value").len()
    pairs = pairs.with_columns(rows=pl.col("len").sum().over("slot", "user"))
    grains = (pl.col("len").cast(pl.Int64) * GRAINS // pl.col("rows")).sum().alias("grains")
    return pairs.group_by("slot", "value").agg(grains).collect(engine="streaming")


def check(path: str, kind: str) -> None:
    """Both passes give the same grains in every bin of every slot."""
    bare, bins = with_polars(path), domain(kind)
    for number, rows in dpi.read(path, time="at").slots(Admission(CLOCK, bins, bytes(32), 0, SLOTS), memory=1 << 26):
        here = bare.filter(pl.col("slot") == number)
        expected = np.zeros(bins.size, dtype=np.int64)
        expected[bins.encode(here["value"])] = here["grains"].to_numpy()
        assert (count(Groups(rows, bins.size), bins.size) == expected).all()


def peak(task: str, path: str, kind: str) -> int:
    """Peak of resident memory of a process that does nothing else, in bytes."""
    command = [sys.executable, __file__, "--task", task, path, kind]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def task(name: str, path: str, kind: str) -> None:
    tasks: dict[str, Callable[[], object]] = {
        "import": lambda: None,
        "slots": partial(only_slots, path, kind, MEMORY),
        "dpi": partial(with_dpi, path, kind, MEMORY),
        "polars": partial(with_polars, path),
    }
    tasks[name]()
    print(resident("VmHWM"))


def whole_job(folder: str, rows: int, repeats: int) -> None:
    rows_of_table = list[list[Cell]]()
    for kind in ("integer", "text"):
        path = f"{folder}/{kind}.parquet"
        write(rows, kind, path)
        check(path, kind)
        contenders: dict[str, Callable[[], object]] = {
            "dpi": partial(with_dpi, path, kind),
            "slots": partial(only_slots, path, kind),
            "polars": partial(with_polars, path),
        }
        seconds = interleaved(contenders, repeats, clock=time.process_time)
        label, ratio = f"{rows:,} events, {kind} ids", seconds["dpi"] / seconds["polars"]
        rows_of_table.append([label, seconds["dpi"], seconds["slots"], seconds["polars"], ratio])
    columns = ["Parquet, in no order", "dpi s", "of it slots", "polars s", "dpi / polars"]
    record("files-parquet", parts=(*SLOT, "sources"), columns=columns, rows=rows_of_table)


def memory(folder: str, sizes: list[int]) -> None:
    rows_of_table, tasks = list[list[Cell]](), ("import", "slots", "dpi", "polars")
    for rows in sizes:
        path = f"{folder}/large.parquet"
        write(rows, "integer", path)
        rows_of_table.append([f"{rows:,} events, integer ids", *(peak(name, path, "integer") >> 20 for name in tasks)])
    columns = [f"peak MiB, with `memory` of {MEMORY >> 20} MiB", *tasks]
    record("files-memory", parts=(*SLOT, "sources"), columns=columns, rows=rows_of_table)


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        task(*sys.argv[2:5])
        return
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        whole_job(folder, 1_000_000 if quick else 10_000_000, 1 if quick else 3)
        memory(folder, [1_000_000, 4_000_000] if quick else [10_000_000, 40_000_000])


if __name__ == "__main__":
    main()
