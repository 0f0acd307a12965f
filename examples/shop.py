"""Two weeks of a shop's visitors, hour by hour: releases with a total loss of at most ε = 1 about any one visitor.

The visitors are made up: they come and go, the mix of pages follows the time of day, and on one evening an offer draws
a crowd. The program knows the truth, so it can say how far the releases are from it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from dpi.datasets.generators import PAGES, pages
from dpi.queries import Floats

HOURS = 14 * 24
CROWD = range(9 * 24 + 18, 9 * 24 + 23)
START, END = "2026-03-02", "2026-03-16"


def visits() -> pl.DataFrame:
    """Every visit of the two weeks: visitors stay for some hours, and one in twenty is replaced each hour."""
    rng = np.random.default_rng(4)  # example data, no privacy noise
    visitors, newest = np.arange(4000), 4000
    frames = []
    for hour in range(HOURS):
        leaving = rng.random(visitors.size) < 0.05
        visitors[leaving] = np.arange(newest, newest + leaving.sum())
        newest += int(leaving.sum())
        busy = 0.55 + 0.45 * np.sin(2 * np.pi * (hour % 24 - 9) / 24)
        here = np.repeat(visitors[rng.random(visitors.size) < busy], 2)
        page = rng.choice(len(PAGES), here.size, p=pages(hour, crowd=hour in CROWD))
        minute = rng.integers(0, 3_600_000_000, here.size)
        frames.append(pl.DataFrame({"user": here, "page": page, "at": hour * 3_600_000_000 + minute}))
    start = pl.lit(START).str.to_datetime(time_unit="us")
    return pl.concat(frames).select(
        pl.format("visitor-{}", "user").alias("user"),
        pl.col("page").replace_strict(dict(enumerate(PAGES))).alias("page"),
        (start + pl.col("at").cast(pl.Duration("us"))).alias("at"),
    )


def divergence(truth: Floats, guess: Floats) -> float:
    """KL(truth ‖ guess)."""
    some = truth > 0
    return float(truth[some] @ np.log(truth[some] / np.maximum(guess[some], 1e-12)))


def main() -> None:
    """Play the two weeks, write a picture, print a summary."""
    events = visits()
    domain = dpi.Categories(PAGES)
    stream = dpi.Stream(domain=domain, epsilon=1, slot="1h", budget=dpi.Ledger(per_slot="auto"))
    print(f"{events.height:,} made-up visits of {events['user'].n_unique():,} visitors, {HOURS} hours, {domain}")
    print(stream.guarantee, "", sep="\n")
    began = time.perf_counter()
    releases = list(stream.replay(events, start=START, end=END, time="at", value="page"))
    seconds = time.perf_counter() - began
    hours = events.with_columns(pl.col("at").dt.truncate("1h")).partition_by("at", maintain_order=True)
    truths = [
        dpi.compress(h["user"], h["page"], domain).grains.astype(float) for h in sorted(hours, key=lambda h: h["at"][0])
    ]
    print("hour                    most visited, as released                     the truth")
    for index in (0, 60, CROWD[0] - 1, CROWD[1], HOURS - 1):
        release, truth = releases[index], truths[index] / truths[index].sum()
        shown = ", ".join(f"{label} {share:.3f}" for label, share in release.top(3))
        true = ", ".join(f"{domain.label(int(i))} {truth[i]:.3f}" for i in np.argsort(-truth)[:3])
        print(f"{(release.start or '')[:16]}   {shown:44s}  {true}")
    ours = np.mean([divergence(t / t.sum(), r.pdf) for t, r in zip(truths, releases, strict=True)])
    guess = np.mean([divergence(t / t.sum(), np.full(domain.size, 1 / domain.size)) for t in truths])
    print(f"\nMean divergence from the truth: {ours:.4f} (a uniform guess: {guess:.3f}); {seconds:.1f} s in all.")
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/shop.svg")
    target.parent.mkdir(parents=True, exist_ok=True)
    dpi.plot_series(releases).savefig(target)
    print(f"Look at {target}: shares with their 95 % bands, and the budget of each hour.")


if __name__ == "__main__":
    main()
