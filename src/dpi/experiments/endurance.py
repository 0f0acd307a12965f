"""200,000 slots at k = 10,000: whether errors and time stay as they are (published: Figure "200,000 slots")."""

from __future__ import annotations

import time

import numpy as np

from dpi.datasets.generators import published
from dpi.reproduce.drawing import finish, legend, line, panels
from dpi.reproduce.experiment import Case, Experiment, Rows, Sheet, Summary, Value
from dpi.reproduce.rows import column, number, select
from dpi.reproduce.systems import LABELS, SYSTEMS, System
from dpi.reproduce.truth import Pair, follow

BINS, MEAN, EPSILON, CHURN = 10_000, 100, 2, 0.05
WINDOW = 1_000
STEP = {"ledger": 1, "converging": 10, "strict": 100}
"""Of how many slots one is played. The data of slots are independent, so that some of them are a sample; but a series
that is drawn from less often has larger elements left."""


def course(system: System, bins: int, slots: int, step: int, window: int, seed: int) -> list[dict[str, Value]]:
    """Mean errors over windows of so many slots, and the median time of a slot."""
    data = published(np.random.default_rng([seed, 0]), slots // step, bins, MEAN)
    even = np.full(bins, 1 / bins)
    rows: list[dict[str, Value]] = []
    errors: list[tuple[float, ...]] = []
    seconds: list[float] = []
    start = time.perf_counter()
    for count, moment in enumerate(follow(system, data, bins, EPSILON, churn=CHURN, seed=seed), 1):
        seconds.append(time.perf_counter() - start)
        own, guess = moment.own, Pair(moment.own.truth, even)
        errors.append((own.mse, own.kl, guess.mse, guess.kl))
        if count * step % window == 0:
            means = np.mean(errors, axis=0).tolist()
            named: dict[str, Value] = dict(zip(("mse", "kl", "uniform_mse", "uniform_kl"), means, strict=True))
            milliseconds = 1e3 * float(np.median(seconds))
            rows.append({"system": system, "slot": count * step, **named, "milliseconds": milliseconds})
            errors, seconds = [], []
        start = time.perf_counter()
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
    """Errors over time beside those of the uniform guess; the time of a slot."""
    played = {system: own for system in SYSTEMS if (own := select(rows, system=system))}
    figure, (kl, mse, cost) = panels(3)
    for system, own in played.items():
        for axes, name in ((kl, "kl"), (mse, "mse"), (cost, "milliseconds")):
            line(axes, column(own, "slot"), column(own, name), system)
    *_, most = played.values()  # plays the most slots
    line(kl, column(most, "slot"), column(most, "uniform_kl"), "uniform")
    line(mse, column(most, "slot"), column(most, "uniform_mse"), "uniform")
    finish(kl, "KL from the slot's PDF", "slot", "KL (nats)", log_y=True)
    finish(mse, "MSE of the slot's PDF", "slot", "MSE, (p - q)²", log_y=True)
    finish(cost, "time of a slot, data and crowd included", "slot", "milliseconds", log_y=True)
    legend(figure, kl)
    last = int(column(rows, "slot").max())
    change = {system: _change(own) for system, own in played.items()}
    return Sheet(
        found=tuple(_found(system, own) for system, own in played.items()),
        figures={
            "course": (
                figure,
                f"Means (errors) and medians (time) of windows, {last:,} slots, ε = {EPSILON}, churn {CHURN:.0%}. The "
                "first slot of the published brain makes its pool.",
            )
        },
        summary=(
            Summary(
                f"KL, first → last window of {last:,} slots",
                published="“stable”",
                uniform=number(float(column(most, "uniform_kl").mean())),
                **change,
            ),
        ),
    )


def _change(rows: Rows) -> str:
    kl = column(rows, "kl")
    return f"{number(kl[0])} → {number(kl[-1])}"


def _found(system: str, rows: Rows) -> str:
    ratio = column(rows, "kl") / column(rows, "uniform_kl")
    return (
        f"{LABELS[system]}: KL in the first and in the last window {_change(rows)}; divided by that of the uniform "
        f"guess {number(ratio[0])} → {number(ratio[-1])}, over all windows {number(ratio.min())} to "
        f"{number(ratio.max())}."
    )


EXPERIMENT = Experiment(
    name="endurance",
    title="200,000 slots",
    published="“The results are still stable even after 200,000 time slots”, k = 10,000, medians of KL and MSE; no "
    "numbers are printed.",
    setting=f"k = {BINS:,}, counts N({MEAN}, σ²) with σ of 1 … 10 drawn for every slot, so about a million users, of "
    f"whom {CHURN:.0%} are replaced in every slot; total ε = {EPSILON}.",
    deviations=(
        "Means over windows of 1,000 slots instead of moving medians.",
        f"The ledger plays all slots. The published brain plays every {STEP['strict']}th, the converging series every "
        f"{STEP['converging']}th, with the first 2,000 and 20,000 elements of their series, which are larger than "
        "those that they would have left by then.",
        "Users are played as cohorts (`dpi.reproduce.crowd`): the same law, without a million ids in every slot.",
    ),
    cases=cases,
    sheet=sheet,
)
