"""200,000 slots at k = 10,000: whether errors and time stay as they are (published: Figure "200,000 slots")."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes

from dpi_research.datasets.generators import Counts, drifting, published
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Row, Rows, Sheet, Summary, Value
from dpi_research.reproduce.figures import finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Pair, System, follow
from dpi_research.reproduce.rows import column, course, number, select

BINS, MEAN, EPSILON, CHURN = 10_000, 100, 2, 0.05
STREAMS: Mapping[str, Callable[[np.random.Generator, int, int], Counts]] = {
    "published": lambda rng, slots, bins: published(rng, slots, bins, MEAN),
    "zipf": lambda rng, slots, bins: drifting(rng, slots, bins, MEAN * bins, drift=0.01),
}
LENGTH = {"published": 200_000, "zipf": 20_000}
WINDOWS = 10
"""Of each course; the quick form has two."""
STEP = {
    "published": {"ledger": 100, "converging": 200, "strict": 500},
    "zipf": {"ledger": 20, "converging": 20, "strict": 100},
}
"""Of how many slots one is played. The data of slots are independent, or move by as much from one played slot to the
next, so that some of them are a sample; but a series that is drawn from less often has larger elements left."""
STEPS = {system: " and ".join(f"{steps[system]:,}" for steps in STEP.values()) for system in SYSTEMS}


def follow_stream(stream: str, system: System, bins: int, slots: int, step: int, window: int, seed: int) -> Made:
    """Mean errors over windows of so many slots, and the median time of a slot."""
    data = STREAMS[stream](np.random.default_rng([seed, 0]), slots // step, bins)
    even = np.full(bins, 1 / bins)
    rows: Made = []
    errors, seconds = list[tuple[float, ...]](), list[float]()
    start = time.perf_counter()
    for count, moment in enumerate(follow(system, data, bins, EPSILON, churn=CHURN, seed=seed), 1):
        seconds.append(time.perf_counter() - start)
        own, guess = moment.own, Pair(moment.own.truth, even)
        errors.append((own.mse, own.kl, guess.mse, guess.kl))
        if count * step % window == 0:
            means = np.mean(errors, axis=0).tolist()
            named: dict[str, Value] = dict(zip(("mse", "kl", "uniform_mse", "uniform_kl"), means, strict=True))
            head: dict[str, Value] = {"stream": stream, "system": system, "slot": count * step}
            rows.append({**head, **named, "milliseconds": 1e3 * float(np.median(seconds))})
            errors, seconds = [], []
        start = time.perf_counter()
    return rows


def cases(quick: bool) -> list[Case]:
    """One for each system, the longest first; the stream that can be followed for a part of the slots."""
    bins, part, windows = (1_000, 20, 2) if quick else (BINS, 1, WINDOWS)
    lengths = {stream: length // part for stream, length in LENGTH.items()}
    return [
        Case(
            follow_stream,
            {"stream": stream, "system": system, "bins": bins, "slots": length, "step": STEP[stream][system],
             "window": length // windows, "seed": 0},
        )
        for stream, length in lengths.items()
        for system in reversed(SYSTEMS)
    ]  # fmt: skip


def sheet(rows: Rows) -> Sheet:
    """Errors over time beside those of the uniform guess; the time of a slot."""
    figure, (kl, followed, mse, cost) = panels(2, 2, width=5.2)
    played: dict[str, dict[System, list[Row]]] = {  # the last system plays the most slots
        stream: {system: own for system in SYSTEMS if (own := select(rows, stream=stream, system=system))}
        for stream in STREAMS
    }
    for stream, axes in (("published", kl), ("zipf", followed)):
        _lines(axes, played[stream], "kl")
        finish(axes, f"KL from the slot's PDF, {stream} stream", "slot", "KL (nats)", log_y=True)
    _lines(mse, played["published"], "mse")
    for system, own in played["published"].items():
        line(cost, *course(own, "slot", "milliseconds"), system)
    finish(mse, "MSE of the slot's PDF, published stream", "slot", "MSE, (p - q)²", log_y=True)
    finish(cost, "time of a slot, data and crowd included", "slot", "milliseconds", log_y=True)
    for axes in (kl, followed, mse, cost):
        axes.locator_params(axis="x", nbins=5)
    legend(figure, kl)
    return Sheet(
        found=tuple(_found(stream, name, own) for stream in played for name, own in played[stream].items()),
        figures=captioned(__name__, {"course": figure}),
        summary=tuple(_summary(stream, own) for stream, own in played.items() if own),
    )


def _lines(axes: Axes, played: Mapping[System, Rows], name: str) -> None:
    for system, own in played.items():
        line(axes, *course(own, "slot", name), system)
    for most in list(played.values())[-1:]:
        line(axes, *course(most, "slot", f"uniform_{name}"), "uniform")


def _summary(stream: str, played: Mapping[System, Rows]) -> Summary:
    *_, most = played.values()
    return Summary(
        f"{stream} stream, k = {BINS:,}: KL, first → last window of {int(column(most, 'slot').max()):,} slots",
        published="“stable”" if stream == "published" else "–",
        uniform=number(float(column(most, "uniform_kl").mean())),
        **{system: _change(own) for system, own in played.items()},
    )


def _change(rows: Rows) -> str:
    kl = column(rows, "kl")
    return f"{number(kl[0])} → {number(kl[-1])}"


def _found(stream: str, system: str, rows: Rows) -> str:
    ratio = column(rows, "kl") / column(rows, "uniform_kl")
    return (
        f"{stream.capitalize()} stream, {LABELS[system]}: KL in the first and in the last window "
        f"{_change(rows)}; divided by that of the uniform guess {number(ratio[0])} → {number(ratio[-1])}, "
        f"over all windows {number(ratio.min())} to {number(ratio.max())}."
    )
