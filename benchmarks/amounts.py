"""Amounts summed by user: the grid that follows releases, beside bins that an oracle has chosen.

    DPI_DATA=folder python benchmarks/amounts.py [--seeds 3] [--epsilon 1] [stream …]

    retail   revenue of the Online Retail customers, by week, with returns (needs DPI_DATA)
    heavy    made up: 30,000 users of unlike means, amounts of a Pareto tail of index 1.6, 3 % of them negative, prices
             that rise by 2 % a slot, users who come, return and leave

A row has the median over slots of the relative error of the total, the mean per user and the median, and the share of
slots in which each lies in its 95 % interval; totals and means are of sums that are cut to the slot's cap, the error of
the total and of the mean is of sums that are not. "oracle" are bins of one grid for all slots, made of the true amounts
of all slots: quantiles up to 0.9 and a geometric tail to the quantile 0.99 or 0.999, 6 to 16 of them; of these, those
with the smallest error of the total. Truths are private: this is no release.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

import dpi
from dpi.noise import UnsafeSeededSource

Floats = npt.NDArray[np.float64]
Slots = list[tuple[npt.NDArray[np.int64], Floats]]
"""Users of a slot, and the sum of each."""


def retail() -> Slots:
    frame = pl.read_parquet(Path(os.environ["DPI_DATA"]) / "clicks_online_retail.parquet").drop_nulls("user")
    weeks = (pl.col("timestamp") - pl.datetime(2009, 11, 30)).dt.total_days() // 7
    sums = frame.group_by(weeks.alias("week"), "user").agg((pl.col("quantity") * pl.col("price")).sum().round(2))
    by_week = sums.sort("week", "user").partition_by("week", maintain_order=True)
    return [(week["user"].to_numpy().astype(np.int64), week["quantity"].to_numpy()) for week in by_week]


def heavy(slots: int = 60, people: int = 30_000) -> Slots:
    chance = np.random.default_rng(0)
    scale, activity = chance.lognormal(0, 1, people), chance.beta(0.6, 2, people)
    born = chance.integers(-slots, slots, people)
    played = []
    for t in range(slots):
        users = np.flatnonzero((born <= t) & (born > t - 80) & (chance.random(people) < activity))
        sums = 20 * scale[users] * (1 + chance.pareto(1.6, users.size)) * np.exp(0.02 * t)
        sums = np.where(chance.random(users.size) < 0.03, -0.3 * sums, sums)
        played.append((users, sums.round(2)))
    return played


STREAMS = {"retail": retail, "heavy": heavy}


@dataclass
class Scores:
    """Relative errors and whether intervals hold, slot by slot."""

    errors: list[tuple[float, ...]]
    inside: list[tuple[bool, ...]]
    grids: int = 1

    def row(self) -> list[float]:
        """Medians of errors, and shares of slots."""
        return [*np.median(self.errors, axis=0), *np.mean(self.inside, axis=0)]


def play(slots: Slots, domain: dpi.Bins, epsilon: float, seed: int) -> Scores:
    stream = dpi.Stream(domain=domain, epsilon=epsilon, unsafe_source=UnsafeSeededSource(seed))
    scores, grids = Scores([], []), set()
    for users, sums in slots:
        grid = stream.domain
        assert isinstance(grid, dpi.Bins)
        grids.add(grid.digest)
        release, cut = stream.release(users, sums), np.clip(sums, grid.edges[0], grid.edges[-1])
        answers = release.sum(), release.mean(), release.median(), release.quantile(0.9)
        truths = [float(each) for each in (sums.sum(), sums.mean(), np.median(sums))]
        held = [cut.sum(), cut.mean(), np.median(cut), np.quantile(cut, 0.9), sums.sum()]
        scores.errors.append(tuple(abs(a.value / t - 1) for a, t in zip(answers, truths, strict=False)))
        ends = [answer.interval() for answer in (*answers, answers[0])]
        scores.inside.append(tuple(low <= truth <= high for (low, high), truth in zip(ends, held, strict=True)))
    scores.grids = len(grids)
    return scores


def oracle(slots: Slots, bins: int, top: float) -> dpi.Bins:
    every = np.concatenate([sums for _, sums in slots])
    tail = np.geomspace(np.quantile(every, 0.9), np.quantile(every, top), max(3, bins // 3))
    body = np.quantile(every, np.linspace(0.01, 0.9, bins - tail.size + 1))
    return dpi.Bins(np.unique(np.concatenate([body, tail]).round(2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1)
    parser.add_argument("streams", nargs="*", default=list(STREAMS))
    args = parser.parse_args()
    names = ("total", "mean", "median", "in total", "in mean", "in median", "in 0.9", "in uncut total")
    print(f"{'stream':8} {'grid':14} " + " ".join(f"{name:>9}" for name in names) + "  grids")
    for name in args.streams:
        slots = STREAMS[name]()
        grids: dict[str, dpi.Bins] = {"amounts": dpi.Amounts("0.01")}
        grids |= {f"oracle {b} {t}": oracle(slots, b, t) for b in (6, 8, 12, 16) for t in (0.99, 0.999)}
        rows = {}
        for grid, domain in grids.items():
            runs = [play(slots, domain, args.epsilon, seed) for seed in range(1, args.seeds + 1)]
            rows[grid] = np.mean([run.row() for run in runs], axis=0), np.mean([run.grids for run in runs])
        best = min((grid for grid in rows if grid != "amounts"), key=lambda grid: rows[grid][0][0])
        for grid in ("amounts", best):
            row, used = rows[grid]
            print(f"{name:8} {grid:14} " + " ".join(f"{each:9.3f}" for each in row) + f"  {used:.0f}", flush=True)


if __name__ == "__main__":
    main()
