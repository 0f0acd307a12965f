"""What it takes to read texts: times in ISO 8601, lines of NDJSON and of CSV, beside readers of every form and polars.

    POLARS_MAX_THREADS=1 python benchmarks/texts.py [rows, 300000 unless said]

Nanoseconds of processor time a row; all take turns, medians of five rounds.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import polars as pl

from dpi.events.slots import Slots
from dpi.sources._inputs import BLOCK
from dpi.sources.textual import Delimited, Lines, Ndjson
from measure import record

ROUNDS = 5


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    rng = np.random.default_rng(0)  # benchmark data, no privacy noise
    moments = pl.Series(rng.integers(0, 10**15, rows)).cast(pl.Datetime("us", "UTC"))
    times = moments.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    users = pl.Series(rng.integers(0, 10**9, rows)).cast(pl.String)
    names = ["user", "at", "value"]
    frame = pl.DataFrame(dict(zip(names, (users, times, rng.integers(0, 1000, rows)), strict=True)))
    file, fields = io.BytesIO(), io.BytesIO()
    frame.write_ndjson(file)
    frame.write_csv(fields, include_header=False)
    lines, slots, reader = file.getvalue(), Slots("1h"), Ndjson(names)
    delimited, cut, csv = Delimited(names, names), Lines(), fields.getvalue()
    blocks = [cut.feed(csv[at : at + BLOCK]) for at in range(0, len(csv), BLOCK)]  # as files are read
    ways: dict[str, Callable[[], object]] = {
        "times, as they are read": lambda: slots.moments(times),
        "times, by the reader of every form": lambda: slots._parse_any(times),
        "CSV, as it is read": lambda: [delimited.parse(block) for block in blocks],
        "CSV, by polars, with inferred types": lambda: pl.read_csv(csv, has_header=False),
        "lines, as they are read": lambda: reader.parse(lines),
        "lines, one by one": lambda: reader._read(pl.Series(lines.decode().split("\n")[:-1])),
        "lines, by polars, with inferred types": lambda: pl.read_ndjson(lines),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            way()
            taken[name].append(1e9 * (time.process_time() - began) / rows)
    record(
        "texts",
        parts=("events", "sources"),
        columns=["", "ns a row"],
        rows=[[name, [median(each), min(each), max(each)]] for name, each in taken.items()],
        about=f"{rows:,} rows, {ROUNDS} rounds.",
        spread="the least and the most",
    )


if __name__ == "__main__":
    main()
