"""A whole release of one large slot, beside bare polars and bare duckdb that do the bounding alone.

    POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/whole_release.py [--wall] [--per-slot] [events …]

The release is all of it: events of one slot in memory, compression, paying from accounts, noise, estimator, release.
The floor is the faster of the two doing the bounding (one user one unit) on the same frame, and nothing else. A stream
goes on from slot to slot with the same users, taking turns with the floors: "first" is the slot in which all of them
are new, "later" the median of those after it. With the default budget not every class of users is due in each slot;
with `--per-slot` everybody pays in all of them. Seconds are processor seconds, or with `--wall` those of the clock on
the wall. Without duckdb polars alone is the floor.

Memory is told twice, over the size of the input columns, each in a process of its own. *Working* is the peak of what
Python and numpy have allocated in the second slot, in which everybody pays again, above what was there before it (the
input and the accounts). *Resident* is what the system counts in the first slot, above what was there before it: it has
the new accounts, and what polars takes. In a later slot it says nothing, for it counts what the slot before has left to
use again.

    python benchmarks/whole_release.py --memory 1000000 integer|text [--per-slot] [--file]

tells the first alone; with `--file`, of a stream whose store is one.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import dpi
from dpi.exact.integers import GRAINS
from measure import SLOT, Cell, peak_of, record
from results import AT_MOST, Goal

BINS, EVENTS_A_USER = 1000, 5
LATER = 4
SIZES, KINDS = (1_000_000, 10_000_000), ("integer", "text")
SHARE, TIMES = 0.7, 2.0
"""Goals: of the time of polars, and of the input with integer ids."""


def events(rows: int, users: int, kind: str) -> pl.DataFrame:
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    frame = pl.DataFrame({"user": rng.integers(0, users, rows), "value": rng.integers(0, BINS, rows)})
    if kind == "text":
        frame = frame.with_columns(user=pl.format("user-{}", pl.col("user").cast(pl.String).str.zfill(9)))
    return frame.rechunk()


def column_bytes(frame: pl.DataFrame) -> int:
    """Bytes of the input columns: 8 a number; 16 a text's view, and its bytes where it is longer than 12."""
    text = frame["user"].dtype == pl.String
    sizes = frame["user"].str.len_bytes() if text else None
    return 8 * frame.height + (8 * frame.height if sizes is None else 16 * frame.height + int(sizes.sum()))


def with_polars(frame: pl.DataFrame) -> object:
    pairs = frame.lazy().group_by("user", "value").len().with_columns(rows=pl.col("len").sum().over("user"))
    grains = pl.col("len").cast(pl.Int64) * GRAINS // pl.col("rows")
    return pairs.group_by("value").agg(grains.sum()).sort("value").collect(engine="streaming")


def with_duckdb(frame: pl.DataFrame) -> object:
    import duckdb

    relation = duckdb.sql(
        f"""with pairs as (select "user", value, count(*) n from frame group by all),
                 users as (select "user", count(*) r from frame group by all)
            select value, sum(n * {GRAINS} // r)::bigint from pairs join users using ("user") group by all order by 1"""
    )
    assert relation is not None
    return relation.fetchnumpy()


def stream(per_slot: bool, store: Path | None = None) -> dpi.Stream:
    budget, domain = dpi.Ledger(per_slot=0.05) if per_slot else dpi.Ledger(), dpi.Categories(range(BINS))
    return dpi.Stream(domain=domain, epsilon=1, slot="1h", start="2026-01-01", budget=budget, store=store)


def measured(rows: int, kind: str, per_slot: bool, wall: bool) -> list[Cell]:
    clock = time.perf_counter if wall else time.process_time
    frame = events(rows, rows // EVENTS_A_USER, kind)
    warm(per_slot, frame)
    floors: dict[str, Callable[[], object]] = {"polars": partial(with_polars, frame)}
    if find_spec("duckdb") is not None:
        floors["duckdb"] = partial(with_duckdb, frame)
    taken: dict[str, list[float]] = {name: [] for name in ("dpi", *floors)}
    with stream(per_slot) as opened:
        contenders: dict[str, Callable[[], object]] = {
            "dpi": partial(opened.release, frame["user"], frame["value"]),
            **floors,
        }
        for _ in range(1 + LATER):
            for name, run in contenders.items():
                start = clock()
                run()
                taken[name].append(clock() - start)
    first, *later = taken["dpi"]
    floor = {name: median(taken[name][1:]) for name in floors}
    label, rest = name_of(rows, kind), median(later)
    return [label, first, rest, floor["polars"], rest / floor["polars"], floor.get("duckdb")]


def name_of(rows: int, kind: str) -> str:
    return f"{rows:,} events, {rows // EVENTS_A_USER:,} users, {kind} ids"


def sized(rows: int, kind: str, per_slot: bool) -> list[Cell]:
    peaks = list[float]()
    for way in ("--memory", "--resident"):
        arguments = [sys.executable, __file__, way, str(rows), kind, *(["--per-slot"] if per_slot else [])]
        peaks.append(float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout))
    return [name_of(rows, kind), column_bytes(events(rows, rows // EVENTS_A_USER, kind)) / 2**20, *peaks]


def warm(per_slot: bool, frame: pl.DataFrame) -> None:
    with stream(per_slot) as opened:
        opened.release(frame["user"][:1000], frame["value"][:1000])


def memory(rows: int, kind: str, per_slot: bool, in_file: bool) -> None:
    frame = events(rows, rows // EVENTS_A_USER, kind)
    with TemporaryDirectory() as folder, stream(per_slot, Path(folder) / "visits.db" if in_file else None) as opened:
        tracemalloc.start(1)
        opened.release(frame["user"], frame["value"])
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        opened.release(frame["user"], frame["value"])
        print((tracemalloc.get_traced_memory()[1] - before) / column_bytes(frame))


def peak(rows: int, kind: str, per_slot: bool) -> None:
    frame = events(rows, rows // EVENTS_A_USER, kind)
    warm(per_slot, frame)
    with stream(per_slot) as opened:
        print(peak_of(partial(opened.release, frame["user"], frame["value"])) / column_bytes(frame))


def goals_of(rows: list[list[Cell]], column: int, what: str, most: float, kinds: Sequence[str]) -> Iterator[Goal]:
    for row in rows:
        if (name := str(row[0])).removesuffix(" ids").endswith(tuple(kinds)):
            yield f"{what}, {name}:", float(str(row[column])), AT_MOST, most


def main() -> None:
    per_slot, wall = "--per-slot" in sys.argv, "--wall" in sys.argv
    if "--memory" in sys.argv:
        memory(int(sys.argv[2]), sys.argv[3], per_slot, "--file" in sys.argv)
        return
    if "--resident" in sys.argv:
        peak(int(sys.argv[2]), sys.argv[3], per_slot)
        return
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or SIZES
    times = [measured(rows, kind, per_slot, wall) for rows in sizes for kind in KINDS]
    clock = "Seconds on the wall" if wall else "Processor seconds"
    record(
        "whole-release",
        parts=SLOT,
        about=f"{clock} of a slot. polars and duckdb only bound users and count.",
        columns=["", "first slot s", "later slots s", "polars s", "later / polars", "duckdb s"],
        rows=times,
        goals=goals_of(times, 4, "later slots / polars", SHARE, KINDS),
    )
    sizes_found = [sized(rows, kind, per_slot) for rows in sizes for kind in KINDS]
    record(
        "whole-release-memory",
        parts=SLOT,
        columns=["", "input, MiB", "working / input", "resident / input"],
        rows=sizes_found,
        goals=goals_of(sizes_found, 2, "working memory / input", TIMES, KINDS[:1]),
    )


if __name__ == "__main__":
    main()
