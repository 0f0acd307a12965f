"""Highly dynamic streams: medians, errors and spread over 3,000 slots (published: Figures of "Highly dynamic")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpi_research.datasets.generators import Counts, drifting, published
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import Style, boxes, churn_cells, epsilons, error_of, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Moment, Reference, System, follow
from dpi_research.reproduce.rows import column, course, mean, number, select

BINS, USERS, SLOTS, WINDOW, RESHUFFLE = 100, 10_000, 3_000, 125, 1_000
EPSILONS: tuple[float, ...] = (0.5, 1, 2, 5, 10)
EPSILON, CHURN = 2, 0.05
"""Where one ε or one churn is shown."""

STREAMS: Mapping[str, Callable[[np.random.Generator, int, int], Counts]] = {
    "published": lambda rng, slots, _: published(rng, slots, BINS, USERS / BINS),
    "zipf": lambda rng, slots, every: drifting(rng, slots, BINS, USERS, drift=0.01, reshuffle=every),
}
NAMES = {"published": "published stream", "zipf": "zipf, drifting and reshuffled"}
SHOWN = (0.5, 2, 10)
"""Values of ε in the figure of medians."""
KINDS = {"kl": "instantaneous", "accumulated_kl": "accumulative"}
MEDIANS = {"median": "instantaneous", "accumulated_median": "accumulative"}
ERRORS = {"kl": "KL (nats)", "mse": "MSE, (p - q)²"}
ACCUMULATED = {"accumulated_kl": "accumulative KL", "accumulated_mse": "accumulative MSE"}
QUANTILES = {"p05": 0.05, "lq": 0.25, "m": 0.5, "uq": 0.75, "p95": 0.95}


def follow_stream(
    stream: str,
    system: System | Reference,
    epsilon: float,
    churn: float,
    slots: int,
    window: int,
    every: int,
    seed: int,
) -> Made:
    """For each window the mean errors, and how its last slot's output is spread."""
    data = STREAMS[stream](np.random.default_rng([seed, 0]), slots, every)
    rows: Made = []
    sums: defaultdict[str, float] = defaultdict(float)
    for count, moment in enumerate(follow(system, data, BINS, epsilon, churn=churn, seed=seed), 1):
        for name, error in moment.errors.items():
            sums[name] += error
        if count % window == 0:
            about: dict[str, Value] = {"stream": stream, "system": system, "epsilon": epsilon, "churn": churn}
            means = {name: total / window for name, total in sums.items()}
            rows.append({**about, "slot": count, **means, **_spread(moment), "spent": moment.spent})
            sums.clear()
    return rows


def _spread(moment: Moment) -> dict[str, float]:
    """Medians over bins of the counts, and quantiles of densities: a share times the number of bins."""
    own, accumulated = moment.own.released, moment.accumulated.released
    return {
        "median": moment.users * float(np.median(own)),
        "accumulated_median": USERS * float(np.median(accumulated)),
        **{name: BINS * float(np.quantile(own, level)) for name, level in QUANTILES.items()},
    }


def cases(quick: bool) -> list[Case]:
    """Every system at every ε, or some of them on the stream that is ours; the ledger at other churns too.

    With a series everybody pays, whoever it is.
    """
    slots, window, reshuffled = (90, 10, 30) if quick else (SLOTS, WINDOW, RESHUFFLE)
    common: dict[str, Value] = {"slots": slots, "window": window, "every": reshuffled, "seed": 0}
    all_cases = []
    for stream in STREAMS:
        all_cases += every(follow_stream, stream=stream, system=("truth", "uniform"), epsilon=0, churn=0, **common)
        for epsilon in SHOWN if quick or stream == "zipf" else EPSILONS:
            all_cases += every(follow_stream, stream=stream, system=SYSTEMS, epsilon=epsilon, churn=CHURN, **common)
        all_cases += every(follow_stream, stream=stream, system="ledger", epsilon=EPSILON, churn=(0, 1), **common)
    return all_cases


def sheet(rows: Rows) -> Sheet:
    """Medians, errors and boxes; means over all slots in tables."""
    last = max(int(row["slot"] or 0) for row in rows)
    streams = [stream for stream in STREAMS if select(rows, stream=stream, system="uniform")]
    return Sheet(
        found=(*(text for stream in streams for text in _found(rows, stream)), *_spread_found(rows)),
        figures=captioned(
            __name__, {"medians": _medians(rows), "errors": _errors(rows), "spread": _spreads(rows)}, last=last
        ),
        tables=tuple(table for stream in streams for table in (_by_epsilon(rows, stream), _by_churn(rows, stream))),
        summary=tuple(_summary(rows, stream) for stream in streams),
    )


def _lines(axes: Axes, rows: Rows, name: str, epsilons: Sequence[float]) -> None:
    """One line for each ε, over slots."""
    for epsilon in epsilons:
        index = EPSILONS.index(epsilon)
        own = course(rows, "slot", name, epsilon=epsilon, churn=CHURN)
        line(axes, *own, f"ε = {epsilon:g}", style=Style.numbered(index))
        axes.lines[-1].set_markevery((index, len(EPSILONS)))  # in turns: lines that lie upon each other are told apart


def _medians(rows: Rows) -> Figure:
    """A row of panels for each kind of PDF, a column for each system."""
    own = select(rows, stream="published")
    shown = [epsilon for epsilon in epsilons(own) if epsilon in SHOWN]
    figure, grid = panels(len(SYSTEMS), 2)
    for (name, kind), row in zip(MEDIANS.items(), _rows_of(grid), strict=True):
        for axes, system in zip(row, SYSTEMS, strict=True):
            _lines(axes, select(own, system=system), name, shown)
            for reference in ("uniform", "truth"):
                line(axes, *course(own, "slot", name, system=reference), reference)
            finish(axes, f"{LABELS[system]}: {kind}", "slot", "users in the median bin")
            axes.ticklabel_format(axis="y", useOffset=False)
        _compared(row)
    legend(figure, grid[0])
    return figure


def _errors(rows: Rows) -> Figure:
    """For each stream a row of panels with KL and one with MSE, a column for each system."""
    figure, grid = panels(len(SYSTEMS), 2 * len(STREAMS), height=2.5)
    wanted = [(stream, name, unit) for stream in STREAMS for name, unit in ERRORS.items()]
    for (stream, name, unit), row in zip(wanted, _rows_of(grid), strict=True):
        own = select(rows, stream=stream)
        for axes, system in zip(row, SYSTEMS, strict=True):
            _lines(axes, select(own, system=system), name, epsilons(own))
            line(axes, *course(own, "slot", name, system="uniform"), "uniform")
            title = LABELS[system] if axes in grid[: len(SYSTEMS)] else ""
            finish(axes, title, "slot", f"{stream} stream\n{unit}", log_y=stream == "zipf")
            axes.spines[["top", "right"]].set_visible(False)
            axes.minorticks_off()
            axes.grid(False)  # twelve panels: a light file
            axes.locator_params(axis="x", nbins=4)
            if stream == "published":
                axes.set_ylim(bottom=0)
        _compared(row)
    legend(figure, grid[0])
    return figure


def _spreads(rows: Rows) -> Figure:
    """Box plots of the output's densities beside those of the truth."""
    own = select(rows, stream="published")
    ends = sorted({int(row["slot"] or 0) for row in own}) or [0]
    last, times = ends[-1], ends[:: -max(1, len(ends) // 6)][::-1]
    figure, (by_epsilon, by_time) = panels(2, width=5.5, height=3.4)
    known, names = epsilons(own), ("truth", *SYSTEMS)
    boxes(by_epsilon, {name: [_box(own, name, last, e) for e in known] for name in names}, [f"{e:g}" for e in known])
    boxes(by_time, {name: [_box(own, name, t, EPSILON) for t in times] for name in names}, [f"{t:,}" for t in times])
    finish(by_epsilon, f"Slot {last:,}", "total ε", "density (1 = uniform)")
    finish(by_time, f"ε = {EPSILON}", "slot", "density (1 = uniform)")
    _compared([by_epsilon, by_time])
    legend(figure, by_epsilon)
    return figure


def _box(rows: Rows, system: str, slot: int, epsilon: float) -> list[float]:
    """Five quantiles: their own box plot has them as whiskers, box and line."""
    at = {} if system == "truth" else {"epsilon": epsilon, "churn": CHURN}
    rows_of_slot = select(rows, system=system, slot=slot, **at)
    return [float(rows_of_slot[0][name] or 0) for name in QUANTILES] if rows_of_slot else []


def _rows_of(grid: Sequence[Axes]) -> list[Sequence[Axes]]:
    return [grid[start : start + len(SYSTEMS)] for start in range(0, len(grid), len(SYSTEMS))]


def _compared(row: Sequence[Axes]) -> None:
    """The panels of a row with the same height, and labels at the outside alone."""
    lows, highs = zip(*(axes.get_ylim() for axes in row), strict=True)
    for axes in row:
        axes.set_ylim(min(lows), max(highs))
        axes.label_outer(remove_inner_ticks=True)


def _found(rows: Rows, stream: str) -> list[str]:
    """How each system does against the uniform guess, over all ε."""
    own, texts = select(rows, stream=stream), []
    for system in SYSTEMS:
        told = []
        for name, kind in KINDS.items():
            guess = mean(own, name, system="uniform")
            errors = {e: mean(own, name, system=system, epsilon=e, churn=CHURN) for e in epsilons(own)}
            ratios = {e: error / guess for e, error in errors.items() if guess > 0 and not np.isnan(error)}
            if ratios:
                better = ", ".join(f"{epsilon:g}" for epsilon, ratio in ratios.items() if ratio < 1)
                told.append(
                    f"{kind} KL {min(ratios.values()):.3g} to {max(ratios.values()):.3g} times the uniform guess "
                    f"({number(guess)}), " + (f"below it at ε = {better}" if better else "never below it")
                )
        if told:
            texts.append(f"{NAMES[stream].capitalize()}, {LABELS[system]}: {'; '.join(told)}.")
    return texts


def _spread_found(rows: Rows) -> list[str]:
    """Whether the spread of the output is that of the data, on the published stream."""
    own = select(rows, stream="published")

    def width(some: Rows) -> str:
        return number(float((column(some, "uq") - column(some, "lq")).mean()))

    truth = select(own, system="truth")
    played = {system: select(own, system=system, epsilon=EPSILON, churn=CHURN) for system in SYSTEMS}
    told = [f"{LABELS[system]} {width(some)}" for system, some in played.items() if some]
    if not truth or not told:
        return []
    return [
        f"Mean distance of the quartiles of densities: true data {width(truth)}; at ε = {EPSILON} {', '.join(told)}. "
        "A spread that is stable is not yet the spread of the data."
    ]


def _by_epsilon(rows: Rows, stream: str) -> Table:
    own = select(rows, stream=stream)
    lines = []
    for name, unit in (*ERRORS.items(), *ACCUMULATED.items()):
        for system in ("uniform", *SYSTEMS):
            cells = [error_of(own, name, system, epsilon, CHURN) for epsilon in epsilons(own)]
            lines.append((unit, LABELS[system], *map(number, cells)))
    heads = (f"ε = {epsilon:g}" for epsilon in epsilons(own))
    return Table(f"{NAMES[stream]}: mean over all slots, churn {CHURN:.0%}", ("error", "system", *heads), tuple(lines))


def _by_churn(rows: Rows, stream: str) -> Table:
    own = select(rows, stream=stream)
    lines = tuple((f"{churn:.0%}", *churn_cells(own, EPSILON, churn, CHURN)) for churn in (0, CHURN, 1))
    title = f"{NAMES[stream]}: KL by churn, ε = {EPSILON}, mean over all slots (a series does not depend on churn)"
    return Table(title, ("churn", *(LABELS[name] for name in ("uniform", *SYSTEMS))), lines)


def _summary(rows: Rows, stream: str) -> Summary:
    own = select(rows, stream=stream)
    return Summary.of(
        f"{NAMES[stream]}: KL, ε = {EPSILON}",
        "“very small”" if stream == "published" else "–",
        lambda system: number(error_of(own, "kl", system, EPSILON, CHURN)),
    )
