"""200,000 slots at k = 10,000: whether errors, time and memory stay as they are (published: Figure "200,000 slots")."""

from __future__ import annotations

import time

import numpy as np

from dpi.apps.evaluation import divergence
from dpi.datasets.generators import published
from dpi.domain import Categories
from dpi.reproduce.crowd import Played
from dpi.reproduce.drawing import finish, legend, line, panels
from dpi.reproduce.experiment import Case, Experiment, Rows, Sheet, Summary, Value
from dpi.reproduce.systems import LABELS, SYSTEMS, System, open_stream

BINS, MEAN, EPSILON, CHURN = 10_000, 100, 2, 0.05
WINDOW = 1_000
STEP = {"ledger": 1, "converging": 10, "strict": 100}
"""Of how many slots one is played. The published brain looks at a slot alone, so that a part of them is a sample; the
converging series skips slots, which is a series of its own that spends less."""


def course(system: System, bins: int, slots: int, step: int, window: int, seed: int) -> list[dict[str, Value]]:
    """Means over windows of so many slots."""
    stream = open_stream(system, Categories(range(bins), other=None), EPSILON, seed=seed)
    played = Played(stream, churn=CHURN, seed=seed)
    data = published(np.random.default_rng([seed, 0]), slots // step, bins, MEAN)
    rows: list[dict[str, Value]] = []
    sums, start = np.zeros(4), time.perf_counter()
    for count, (counts, pdf) in enumerate(data, 1):
        released = played.release(counts).pdf
        even = np.full(bins, 1 / bins)
        errors = [float(((pdf - q) ** 2).mean()) for q in (released, even)]
        sums += [*errors, divergence(pdf, released), divergence(pdf, even)]
        if count * step % window == 0:
            played_here = window // step
            mse, uniform_mse, kl, uniform_kl = (float(x) for x in sums / played_here)
            seconds = (time.perf_counter() - start) / played_here
            rows.append(
                {"system": system, "slot": count * step, "mse": mse, "kl": kl, "uniform_mse": uniform_mse,
                 "uniform_kl": uniform_kl, "milliseconds": 1e3 * seconds}
            )  # fmt: skip
            sums, start = np.zeros(4), time.perf_counter()
    return rows


def cases(quick: bool) -> list[Case]:
    """One for each system; the longest first."""
    bins, slots, window = (1_000, 2_000, 200) if quick else (BINS, 200_000, WINDOW)
    return [
        Case(
            course, {"system": system, "bins": bins, "slots": slots, "step": STEP[system], "window": window, "seed": 0}
        )
        for system in reversed(SYSTEMS)
    ]


def sheet(rows: Rows) -> Sheet:
    """Errors over time, relative to those of the uniform guess; the time of a slot."""
    figure, (kl, mse, cost) = panels(3)
    found: dict[str, str] = {}
    for system in SYSTEMS:
        own = [row for row in rows if row["system"] == system]
        if not own:
            continue
        table = {name: np.array([float(row[name] or 0) for row in own]) for name in own[0] if name != "system"}
        line(kl, table["slot"], table["kl"], system)
        line(mse, table["slot"], table["mse"], system)
        line(cost, table["slot"], table["milliseconds"], system)
        if system == "ledger":
            line(kl, table["slot"], table["uniform_kl"], "uniform")
            line(mse, table["slot"], table["uniform_mse"], "uniform")
        found[system] = f"{table['kl'][0]:.5f} → {table['kl'][-1]:.5f}"
        uniform = f"{table['uniform_kl'].mean():.5f}"
    finish(kl, "KL from the slot's PDF", "slot", "KL (nats), mean of a window")
    finish(mse, "MSE of the slot's PDF", "slot", "mean over bins of (p - q)²")
    finish(cost, "time of a slot, all included", "slot", "milliseconds")
    for axes in (kl, mse, cost):
        axes.set_ylim(bottom=0)
    legend(figure, kl)
    last = max(int(row["slot"] or 0) for row in rows)
    return Sheet(
        found=tuple(
            f"{LABELS[name]}: KL in the first and in the last window {change}." for name, change in found.items()
        ),
        figures={"course": (figure, f"Means of windows over {last:,} slots, ε = {EPSILON}, churn 5 %.")},
        summary=(
            Summary(
                f"KL, first → last window of {last:,} slots",
                published="“stable”",
                uniform=uniform,
                **found,
            ),
        ),
    )


EXPERIMENT = Experiment(
    name="endurance",
    title="200,000 slots",
    published="“The results are still stable even after 200,000 time slots”, k = 10,000, medians of KL and MSE; no "
    "numbers are printed.",
    setting=f"k = {BINS:,}, counts N({MEAN}, σ²) with σ of 1 … 10 drawn for every slot, so about a million users, of "
    f"whom 5 % are replaced in every slot; total ε = {EPSILON}.",
    deviations=(
        "Means over windows of 1,000 slots instead of moving medians.",
        "The published brain plays every hundredth slot (it looks at a slot alone, so this is a sample of its slots), "
        "with the budgets of the first 2,000 elements of its series, which are larger than those it would have; the "
        "converging series plays every tenth slot. The ledger plays all of them.",
        "Users are played as cohorts (`dpi.reproduce.crowd`): the same law, without a million ids in every slot.",
    ),
    cases=cases,
    sheet=sheet,
)
