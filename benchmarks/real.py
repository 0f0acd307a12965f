"""Utility on real streams: a total ε = 2 per user for ever, users without budget left counted in the truth.

    DPI_DATA=folder python benchmarks/real.py [--seeds 2] [stream …]

Each row is the mean over slots of KL(true user-weighted PDF ‖ released PDF): a uniform guess, a converging series,
the ledger with each `per_slot`, and `per_slot="auto"`. The domain is a list of the file's most frequent values, taken
as public.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

import dpi
from dpi.noise import UnsafeSeededSource
from dpi_research.evaluation import divergence
from dpi_research.reproduce.streams import by_clock, frequent, in_slots

PER_SLOT = ("0.05", "0.1", "0.2", "0.5", "1", "2")


@dataclass(frozen=True)
class Source:
    """A file of `DPI_DATA`, the column of values, the slot and the number of listed values."""

    file: str
    value: str
    slot: str
    listed: int


STREAMS = {
    "honeypot": Source("network_aws_honeypot.parquet", "value", "1d", 100),
    "retail": Source("clicks_online_retail.parquet", "value", "7d", 50),
    "flights": Source("trips_nycflights13.parquet", "value", "7d", 105),
    "wiki": Source("web_wikiticker_20150912.parquet", "value", "30m", 52),
    # Not looked at while constants were chosen:
    "retail-country": Source("clicks_online_retail.parquet", "country", "7d", 20),
    "honeypot-host": Source("network_aws_honeypot.parquet", "host", "1h", 20),
    "flights-carrier": Source("trips_nycflights13.parquet", "carrier", "1d", 20),
    "wiki-country": Source("web_wikiticker_20150912.parquet", "country", "1h", 40),
}
LONGEST = 600
Slot = tuple[pl.Series, pl.Series]
"""Users and their values."""


def load(source: Source) -> tuple[dpi.Categories, list[Slot]]:
    """The domain and the (users, values) of every slot."""
    frame = pl.read_parquet(Path(os.environ["DPI_DATA"]) / source.file).select(
        pl.col("user").cast(pl.String), "timestamp", value=pl.col(source.value).cast(pl.String)
    )
    frame = frame.drop_nulls("user")
    domain = frequent(frame.drop_nulls(), "value", source.listed)
    numbers = by_clock(frame, source.slot)
    slots = in_slots(frame, numbers, ["value"], min(int(numbers.max()) + 1, LONGEST))
    return domain, cast("list[Slot]", slots)


def play(
    domain: dpi.Categories, slots: list[Slot], budget: dpi.Ledger | dpi.Converging, seed: int
) -> tuple[float, float]:
    """Mean divergence over the slots that are not empty, and the share of bins inside their 95 % intervals."""
    stream = dpi.Stream(domain=domain, epsilon=2, budget=budget, unsafe_source=UnsafeSeededSource(seed))
    errors, covered = [], []
    for users, values in slots:
        release = stream.release(users, values)
        truth = dpi.histogram.compress(users, values, domain).grains.astype(float)
        if truth.sum() > 0:
            truth /= truth.sum()
            errors.append(divergence(truth, release.pdf))
            lower, upper = release.interval(0.95)
            covered.append(float(((truth >= lower) & (truth <= upper)).mean()))
    return float(np.mean(errors)), float(np.mean(covered))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if "DPI_DATA" not in os.environ:
        sys.exit("Set DPI_DATA to the folder with the parquet files.")
    budgets: list[dpi.Ledger | dpi.Converging] = [
        dpi.Converging(dpi.budget.LogSquared()),
        *(dpi.Ledger(per_slot=e) for e in PER_SLOT),
        dpi.Ledger(policy=dpi.budget.spend_first),
    ]
    print(
        "stream           slots bins  uniform converging "
        + " ".join(f"{e:>6s}" for e in PER_SLOT)
        + "   auto  auto/best  cover"
    )
    for name in options.streams:
        domain, slots = load(STREAMS[name])
        truths = [dpi.histogram.compress(u, v, domain).grains.astype(float) for u, v in slots]
        even = np.full(domain.size, 1 / domain.size)
        uniform = np.mean([divergence(t / t.sum(), even) for t in truths if t.sum() > 0])
        rows = [[play(domain, slots, budget, seed) for seed in range(options.seeds)] for budget in budgets]
        means = [float(np.mean([error for error, _ in row])) for row in rows]
        ratio = means[-1] / min(means[1:-1])
        cover = np.mean([c for _, c in rows[-1]])
        cells = " ".join(f"{m:6.4f}" for m in means[1:])
        head = f"{name:16s} {len(slots):5d} {domain.size:4d}  {uniform:7.4f} {means[0]:10.4f}"
        print(f"{head} {cells} {ratio:10.2f} {cover:6.3f}", flush=True)


if __name__ == "__main__":
    main()
