"""How a slot's processor time grows with events, users, bins and slots, with the slope of each in a picture.

Every size is a stream of its own with integer ids; sizes take turns, and the least of the rounds counts, for other
work on a machine only ever adds. A slope is fitted to the logarithms of the upper half of the sizes, where what every
slot costs no longer hides the growth: 1 is proportional, 0 is not at all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import dpi
from measure import SLOT, Cell, record

AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "events": ("1,000 users, 100 bins", (1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
    "users": ("1,000,000 events, 100 bins", (100, 1_000, 10_000, 100_000, 1_000_000)),
    "bins": ("10,000 events of 1,000 users", (10, 100, 1_000, 10_000, 100_000)),
    "slots": ("100 events of 100 users each, 10 bins: all slots together", (8, 16, 32, 64, 128, 256)),
}
Sizes = dict[str, dict[int, float]]


def slot(events: int, users: int, bins: int, slots: int = 1) -> float:
    """Processor seconds of `slots` slots of a stream, after two others."""
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    stream = dpi.Stream(domain=dpi.Categories(range(bins), other=None), epsilon=1, slot="1h", origin="2026-01-01")
    taken = 0.0
    for number in range(slots + 2):
        ids, values = pl.Series(rng.integers(0, users, events)), pl.Series(rng.integers(0, bins, events))
        start = time.process_time()
        stream.release(ids, values, slot=number)
        taken += (number >= 2) * (time.process_time() - start)
    return taken


RUNS: dict[str, Callable[[int], float]] = {
    "events": lambda size: slot(size, 1_000, 100),
    "users": lambda size: slot(1_000_000, size, 100),
    "bins": lambda size: slot(10_000, 1_000, size),
    "slots": lambda size: slot(100, 100, 10, size),
}


def measured(quick: bool) -> Sizes:
    """Least seconds by axis and size."""
    axes = {axis: sizes[:-1] if quick else sizes for axis, (_, sizes) in AXES.items()}
    seconds_of: Sizes = {axis: dict.fromkeys(sizes, math.inf) for axis, sizes in axes.items()}
    for _ in range(1 if quick else 3):
        for axis, sizes in axes.items():
            for size in sizes:
                seconds_of[axis][size] = min(seconds_of[axis][size], partial(RUNS[axis], size)())
    return seconds_of


def slope(sizes: dict[int, float]) -> float:
    """Of the logarithms, over the upper half of the sizes."""
    upper = list(sizes)[len(sizes) // 2 :]
    return float(np.polyfit(np.log(upper), np.log([sizes[size] for size in upper]), 1)[0])


STYLE = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2933 }
  .paper { fill: #ffffff } .grid { stroke: #d5dde5 } .line { fill: none; stroke: #b5482a; stroke-width: 2 }
  circle { fill: #b5482a }
  @media (prefers-color-scheme: dark) {
    text { fill: #d9e2ec } .paper { fill: #1c2128 } .grid { stroke: #3b4653 }
    .line { stroke: #f0997d } circle { fill: #f0997d }
  }
"""
PANEL, HEIGHT, EDGE = 255, 230, 56


def picture(seconds_of: Sizes) -> str:
    """One panel for each axis, both scales logarithmic, seconds on one scale for all."""
    seconds = [each for sizes in seconds_of.values() for each in sizes.values()]
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    bottom, top = HEIGHT - EDGE, 30

    def up(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - top)

    width = PANEL * len(seconds_of)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img" '
        'aria-label="Processor seconds of a slot by events, users, bins and slots">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{HEIGHT}"/>',
    ]
    for number, (axis, sizes) in enumerate(seconds_of.items()):
        left, right = number * PANEL + EDGE, (number + 1) * PANEL - 12
        first, last = math.log10(min(sizes)), math.log10(max(sizes))
        points = []
        for size, value in sizes.items():
            points.append((left + (math.log10(size) - first) / (last - first) * (right - left), up(value)))
        for power in range(low, high + 1):
            parts.append(f'<path class="grid" d="M{left} {up(10**power):.1f} H{right}"/>')
            if number == 0:
                place = f'x="{left - 6}" y="{up(10**power) + 4:.1f}"'
                parts.append(f'<text {place} text-anchor="end">{10**power:g} s</text>')
        parts.append('<path class="line" d="M' + " L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
        parts.append(f'<text x="{left}" y="{bottom + 18}">{min(sizes):,}</text>')
        parts.append(f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{max(sizes):,}</text>')
        parts.append(f'<text x="{left}" y="{HEIGHT - 8}">{axis}: slope {slope(sizes):.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def measure(quick: bool, pictures: Path) -> None:
    """Seconds by size, and slopes; the picture is drawn beside them."""
    seconds_of = measured(quick)
    (pictures / "performance-growth.svg").write_text(picture(seconds_of), encoding="utf-8")
    rows: list[list[Cell]] = [
        [axis, AXES[axis][0], {f"{size:,}": seconds for size, seconds in sizes.items()}, slope(sizes)]
        for axis, sizes in seconds_of.items()
    ]
    record("performance-growth", parts=SLOT, columns=["grows", "the rest", "processor seconds", "slope"], rows=rows)
