"""Twenty synthetic data sets, eleven values of ε: average errors as box plots (published: Figure of the appendix)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from dpi_research.datasets.generators import Counts
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import STYLES, boxes, churn_cells, epsilons, error_of, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Reference, System, follow
from dpi_research.reproduce.rows import column, mean, number, select

BINS, MEAN, DATASETS, SLOTS = (1_000, 10_000), 1_000, 10, 270
FIRST, MIDDLE = 20, 90
"""Slots that all data sets are played for; and a length between that and all slots."""
LONG = 1
"""Data sets that are played for all slots."""
SHOWN = (0.5, 2, 10)
"""Values of ε of the quick form."""
EPSILONS: tuple[float, ...] = (0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
EPSILON, CHURN = 2, 0.05
BOXED: tuple[System, ...] = ("converging", "ledger")
"""Drawn as boxes; those of the published mechanism are flatter than a line."""
KINDS = {"accumulative": "accumulated_", "instantaneous": ""}
ERRORS = {
    "accumulated_mse": "accumulative MSE, (p - q)²",
    "accumulated_kl": "accumulative KL (nats)",
    "mse": "instantaneous MSE, (p - q)²",
    "kl": "instantaneous KL (nats)",
}


def normal(rng: np.random.Generator, slots: int, bins: int, deviation: int) -> Counts:
    """Each count of each slot is normal around the mean, with the data set's deviation."""
    for _ in range(slots):
        counts = np.maximum(0, np.rint(rng.normal(MEAN, deviation, bins))).astype(np.int64)
        yield counts, counts / counts.sum()


def deviations(datasets: int) -> list[int]:
    """Of so many data sets, from 1 to 10; of a single one, in between.

    >>> deviations(3), deviations(1)
    ([1, 6, 10], [5])
    """
    return [5] if datasets == 1 else [round(deviation) for deviation in np.linspace(1, 10, datasets)]


def measure_errors(
    system: System | Reference,
    bins: int,
    epsilon: float,
    churn: float,
    repeat: int,
    datasets: int,
    middle: int,
    slots: int,
) -> Made:
    """Means over the first `middle` slots and over all of them, for each data set; the same data for every system."""
    rows: Made = []
    for deviation in deviations(datasets):
        data = normal(np.random.default_rng([repeat, deviation, bins]), slots, bins, deviation)
        sums: dict[str, float] = dict.fromkeys(ERRORS, 0.0)
        for count, moment in enumerate(follow(system, data, bins, epsilon, churn=churn, seed=repeat), 1):
            sums = {name: sums[name] + error for name, error in moment.errors.items()}
            if count in (middle, slots):
                setting = {"system": system, "bins": bins, "variance": deviation**2, "epsilon": epsilon}
                means = {name: total / count for name, total in sums.items()}
                rows.append({**setting, "churn": churn, "repeat": repeat, "slots": count, **means})
    return rows


def cases(quick: bool) -> list[Case]:
    """The first slots of all data sets, by ε; the ledger at other churns; all slots of some data sets."""
    datasets, first, middle, slots, long = (3, 15, 20, 40, 1) if quick else (DATASETS, FIRST, MIDDLE, SLOTS, LONG)
    short: dict[str, Value] = {"repeat": 0, "datasets": datasets, "middle": first, "slots": first}
    whole: dict[str, Value] = {"repeat": 0, "datasets": long, "middle": middle, "slots": slots}
    epsilons = SHOWN if quick else EPSILONS
    return [
        *every(measure_errors, system="uniform", epsilon=0, churn=0, **short, bins=BINS),
        *every(measure_errors, epsilon=epsilons, system=SYSTEMS, churn=CHURN, **short, bins=BINS),
        *every(measure_errors, system="ledger", epsilon=EPSILON, churn=(0, 1), **short, bins=BINS),
        *every(measure_errors, system="uniform", epsilon=0, churn=0, **whole, bins=BINS),
        *every(measure_errors, system=SYSTEMS, epsilon=EPSILON, churn=CHURN, **whole, bins=BINS),
    ]


def sheet(rows: Rows) -> Sheet:
    """Boxes of the data sets by ε, accumulative as published, and instantaneous."""
    first = min(int(row["slots"] or 0) for row in rows)
    short = select(rows, slots=first)
    sizes = [bins for bins in BINS if select(short, bins=bins, system="uniform")]
    return Sheet(
        found=tuple(_found(short, bins) for bins in sizes),
        figures=captioned(
            __name__,
            {kind: _boxes(short, sizes, f"{prefix}mse", f"{prefix}kl") for kind, prefix in KINDS.items()},
            sets=len(_variances(short)),
            first=first,
        ),
        tables=(_against(short, sizes), _by_churn(short, sizes), _by_length(rows, sizes)),
        summary=tuple(_summary(short, bins) for bins in sizes),
    )


def _variances(rows: Rows) -> list[float]:
    return sorted(set(column(rows, "variance").tolist()))


def _samples(rows: Rows, name: str) -> list[float]:
    """One number for each data set, the mean of its repeats."""
    return [float(column(select(rows, variance=variance), name).mean()) for variance in _variances(rows)]


def _boxes(rows: Rows, sizes: list[int], *names: str) -> Figure:
    """A row of panels for each domain size."""
    figure, grid = panels(2, max(1, len(sizes)), width=6.2)
    places = [(bins, name) for bins in sizes for name in names]
    for axes, (bins, name) in zip(grid, places, strict=False):
        own = select(rows, bins=bins)
        ticks = epsilons(own)
        samples = {
            system: [_samples(select(own, system=system, epsilon=epsilon, churn=CHURN), name) for epsilon in ticks]
            for system in SYSTEMS
        }
        boxes(axes, {system: samples[system] for system in BOXED}, [f"{epsilon:g}" for epsilon in ticks])
        guess = _samples(select(own, system="uniform"), name)
        for system, values in (("strict", samples["strict"]), ("uniform", [guess] * len(ticks))):
            line(axes, np.arange(len(ticks)), [np.median(some) if some else np.nan for some in values], system)
        if guess:
            axes.axhspan(min(guess), max(guess), color=STYLES["uniform"].colour, alpha=0.15, lw=0)
        finish(axes, f"{bins:,} items", "total ε", ERRORS[name], log_y=True)
        axes.minorticks_off()
        axes.grid(False, axis="x")
        if bins != sizes[-1]:
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
    legend(figure, grid[0])
    return figure


def _ratios(rows: Rows, bins: int, system: str, name: str) -> list[float]:
    """Of every run, its error divided by that of the uniform guess on the same data."""
    own = select(rows, bins=bins)
    ratios = []
    for row in select(own, system=system, churn=CHURN):
        guess = mean(own, name, system="uniform", variance=row["variance"], repeat=row["repeat"])
        if guess > 0:
            ratios.append(float(row[name] or 0) / guess)
    return ratios


def _found(rows: Rows, bins: int) -> str:
    """What makes the boxes: the data sets' variances, or ε."""
    guess = _samples(select(rows, bins=bins, system="uniform"), "kl")
    parts = []
    for system in SYSTEMS:
        ratios = _ratios(rows, bins, system, "kl")
        if ratios:
            better = sum(ratio < 1 for ratio in ratios)
            parts.append(f"{LABELS[system]} in {better} of {len(ratios)} (median ratio {np.median(ratios):.3g})")
    return (
        f"{bins:,} items: the KL of the uniform guess goes from {min(guess):.2g} to {max(guess):.2g} with the variance "
        f"of the data set, and that is what a box shows. Runs whose slots are nearer to the truth than this guess: "
        f"{'; '.join(parts)}."
    )


def _against(rows: Rows, sizes: list[int]) -> Table:
    lines = []
    for bins in sizes:
        for name in ERRORS:
            for system in SYSTEMS:
                ratios = _ratios(rows, bins, system, name)
                if ratios:
                    share = sum(ratio < 1 for ratio in ratios) / len(ratios)
                    middle = (min(ratios), float(np.median(ratios)), max(ratios))
                    lines.append((f"{bins:,}", ERRORS[name], LABELS[system], f"{share:.0%}", *map(number, middle)))
    heads = ("items", "error", "system", "runs below 1", "smallest", "median", "largest")
    return Table("Error divided by that of the uniform guess, over all data sets and ε", heads, tuple(lines))


def _by_churn(rows: Rows, sizes: list[int]) -> Table:
    lines = [
        (f"{bins:,}", f"{churn:.0%}", *churn_cells(select(rows, bins=bins), EPSILON, churn, CHURN))
        for bins in sizes
        for churn in (0, CHURN, 1)
    ]
    heads = ("items", "churn", *(LABELS[name] for name in ("uniform", *SYSTEMS)))
    title = f"Instantaneous KL by churn, ε = {EPSILON}, mean of the data sets (a series does not depend on churn)"
    return Table(title, heads, tuple(lines))


def _by_length(rows: Rows, sizes: list[int]) -> Table:
    """What the mean of the first slots tells of that of all of them: the same data sets, one repeat."""
    lengths = sorted({int(row["slots"] or 0) for row in rows})
    lines = []
    for bins in sizes:
        variances = _variances(select(rows, bins=bins, slots=lengths[-1]))
        own = [row for row in select(rows, bins=bins, repeat=0) if row["variance"] in variances]
        for name in ("accumulated_kl", "kl"):
            for system in ("uniform", *SYSTEMS):
                some = (select(own, slots=length) for length in lengths)
                cells = [error_of(each, name, system, EPSILON, CHURN) for each in some]
                lines.append((f"{bins:,}", ERRORS[name], LABELS[system], *map(number, cells)))
    heads = ("items", "error", "system", *(f"{length:,} slots" for length in lengths))
    title = f"Means over more slots, ε = {EPSILON}, churn {CHURN:.0%}, one data set, one repeat"
    return Table(title, heads, tuple(lines))


def _summary(rows: Rows, bins: int) -> Summary:
    own = select(rows, bins=bins)
    return Summary.of(
        f"{bins:,} items, N({MEAN:,}, σ²): KL, ε = {EPSILON}, mean of the data sets",
        "“low and stable”",
        lambda system: number(error_of(own, "kl", system, EPSILON, CHURN)),
    )
