"""Divergence over time where everybody stays, where a twentieth is replaced in each slot, and where all are.

    python benchmarks/populations_picture.py [--out docs/images/populations.svg]

The churn streams of `clocked.py` over 200 slots, seed 0; lines are means of five slots.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from clocked import BUDGETS, exact, play
from dpi.mechanism.base import Floats
from populations import STREAMS

PANELS = {
    "everybody stays": "churn 0% x200",
    "5 % replaced in each slot": "churn 5% x200",
    "all replaced in each slot": "churn 100% x200",
}
LINES = {"ledger": ("spend first, auto", "#b0b0b0"), "converging": ("converging", "#6a8fb5")}
SMOOTHED = 5


def smooth(errors: list[float]) -> Floats:
    """Means of five slots."""
    return np.convolve(errors, np.full(SMOOTHED, 1 / SMOOTHED), "valid")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("docs/images/populations.svg"))
    options = parser.parse_args()
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "populations", "font.size": 8})
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (title, name) in zip(axes, PANELS.items(), strict=True):
        population = STREAMS[name](0)
        for budget in BUDGETS:
            label, colour = LINES[budget]
            axis.plot(smooth(exact(population, budget, 0)), color=colour, linewidth=1, label=label)
        axis.plot(smooth(play(population, 0).errors), color="#b5482a", linewidth=1.5, label="Ledger()")
        axis.set(title=title, xlabel="slot", yscale="log")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("KL(truth ‖ released)")
    axes[0].legend(frameon=False)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
