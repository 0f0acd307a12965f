"""What the published defaults spend, and what a release then tells: random budget allocation, Algorithm 1, the demo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dpi.budget import RBA, Converging, Epsilon, Ledger, LogSquared, Spence, spend_first
from dpi.domain import Categories
from dpi.exact.integers import Integers
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines.plain import Demo
from dpi_research.compare.contenders import as_pdf
from dpi_research.datasets.generators import Floats, stream_named
from dpi_research.evaluation import divergence
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, Hyper, Played, published_mechanism, seeded_stream
from dpi_research.reproduce.rows import column, course, distinct, mean, select, value

EPSILONS = (0.5, 1.0, 2.0, 10.0)
STREAMS = {"published": "published, k = 100", "drift.01": "zipf with drift, k = 1,000"}
SPENCE = Spence(Hyper().mu, Hyper().zeta)
DRAWS = {"Λ = 10⁸": RBA(10**8), "Λ = 10⁴": RBA(10**4), "in order": None}
"""How a slot's budget is taken from the published series; the first is the published default."""
TABLED = (5, 50, 500, 2_700)
CHURNS = (0.0, 0.05, 1.0)
LEDGERS = {"": Ledger(), "spend first": Ledger(policy=spend_first)}
"""Users measured by class, which is the default, and all who can pay in one histogram."""
OF_DRAWS = {name: Style.numbered(index) for name, index in zip(DRAWS, (3, 5, 4), strict=True)}


def sum_budgets(draw: str, epsilon: float, slots: int, seed: int) -> Made:
    """Σ ε_t, at some slots."""
    allocation = Converging(SPENCE, DRAWS[draw]).allocation(Epsilon.at_most(epsilon))
    source = UnsafeSeededSource(seed)
    total = np.cumsum([float(allocation.draw(source)) for _ in range(slots)])
    times = sorted({t for t in TABLED if t <= slots} | set(np.geomspace(1, slots, 40).astype(int).tolist()))
    return [{"kind": "spent", "draw": draw, "epsilon": epsilon, "slot": t, "spent": float(total[t - 1])} for t in times]


def measure_gain(stream: str, epsilon: float, slots: int, seed: int) -> Made:
    """How much nearer to the slot's own PDF than the uniform guess releases are, in nats, by mechanism and budget.

    A boosted mechanism gets budgets by the same rule as the published one (same spent), and others the same total ε.
    """
    rows = []
    for draw in DRAWS:
        budget = Converging(SPENCE, DRAWS[draw])
        rows += [_play(system, draw, stream, epsilon, budget, slots, seed) for system in ("published", "boosted")]
    rows.append(_play("converging", "", stream, epsilon, Converging(LogSquared()), slots, seed))
    for name, ledger in LEDGERS.items():
        rows += [_play("ledger", name, stream, epsilon, ledger, slots, seed, churn) for churn in CHURNS]
    return rows


def _play(
    system: str, draw: str, stream: str, epsilon: float, budget: Converging | Ledger, slots: int, seed: int,
    churn: float = 0.05,
) -> dict[str, Value]:  # fmt: skip
    made = stream_named(stream)
    mechanism = published_mechanism(Hyper()) if system == "published" else Boosted()
    domain = Categories(range(made.bins), other=None)
    played = Played(seeded_stream(domain, epsilon, mechanism, budget, seed), churn=churn, seed=seed)
    data = [counts for counts, _ in made.make(np.random.default_rng([seed, 0]), slots)]
    releases = [played.release(counts) for counts in data]
    gained = _measure_gain(data, [release.pdf for release in releases])
    about: dict[str, Value] = {"kind": "told", "system": system, "draw": draw, "stream": stream, "epsilon": epsilon}
    return {**about, "churn": churn, "spent": releases[-1].epsilon_spent, **gained}


def play_demo(stream: str, slots: int, seed: int) -> Made:
    """The same of the authors' public demo, which looks at no data; its counts become a PDF as in comparisons."""
    made = stream_named(stream)
    mechanism = Demo(bins=made.bins, unsafe_source=UnsafeSeededSource(seed))
    data = [counts for counts, _ in made.make(np.random.default_rng([seed, 0]), slots)]
    gained = _measure_gain(data, [as_pdf(mechanism.update(counts)) for counts in data])
    about: dict[str, Value] = {"kind": "told", "system": "demo", "draw": "", "stream": stream, "epsilon": None}
    return [{**about, "churn": None, "spent": 0.0, **gained}]


def _measure_gain(data: Sequence[Integers], released: Sequence[Floats]) -> dict[str, Value]:
    """Means over slots: the gain with its standard error, what could be gained, and in how many slots there was one."""
    truths = [counts / counts.sum() for counts in data]
    uniform = np.array([divergence(truth, np.full(truth.size, 1 / truth.size)) for truth in truths])
    gain = uniform - [divergence(truth, pdf) for truth, pdf in zip(truths, released, strict=True)]
    return {
        "gain": float(gain.mean()), "error": float(gain.std() / np.sqrt(gain.size)),
        "uniform_kl": float(uniform.mean()), "better": float((gain > 0).mean()), "slots": gain.size,
    }  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """Every way to spend, and every stream and ε."""
    slots = 500 if quick else max(TABLED)
    lengths = {"published": 12, "drift.01": 8} if quick else {"published": 300, "drift.01": 200}
    epsilons = (2.0,) if quick else EPSILONS
    found = every(sum_budgets, draw=tuple(DRAWS), epsilon=EPSILONS, slots=slots, seed=0)
    for stream, length in lengths.items():
        found += every(measure_gain, stream=stream, epsilon=epsilons, slots=length, seed=0)
    for stream, length in lengths.items():
        found += every(play_demo, stream=stream, slots=length, seed=0)
    return found


def sheet(rows: Rows) -> Sheet:
    """What is spent over time, and what is gained by it."""
    paid, gained = select(rows, kind="spent"), select(rows, kind="told")
    figures = {
        "spent": paid and _spent_figure(paid),
        "gain": select(gained, system="published") and _gain_figure(gained),
    }
    return Sheet(
        found=tuple(_found(gained)),
        figures=captioned(__name__, figures),
        tables=(*_spent_table(paid), *_gain_tables(gained)),
        summary=tuple(_summary(gained)),
    )


def _spent_figure(rows: Rows) -> Figure:
    shown = [epsilon for epsilon in (EPSILONS[0], EPSILONS[-1]) if select(rows, epsilon=epsilon)]
    figure, axes = panels(len(shown), width=4.2)
    for at, epsilon in zip(axes, shown, strict=True):
        for draw, style in OF_DRAWS.items():
            line(at, *course(rows, "slot", "spent", epsilon=epsilon, draw=draw), draw, style=style)
        at.axhline(epsilon, color=STYLES["uniform"].colour, lw=1)
        finish(at, f"ε = {epsilon:g}", "slot", "Σ ε_t so far", log_x=True, log_y=True)
    legend(figure, axes[0])
    return figure


def _gain_figure(rows: Rows) -> Figure:
    streams = [stream for stream in STREAMS if select(rows, stream=stream, system="published")]
    figure, axes = panels(len(streams), width=9.2 / len(streams), height=3.8)
    for at, stream in zip(axes, streams, strict=True):
        own = select(rows, stream=stream)
        for system, line_style in {"published": "--", "boosted": "-"}.items():
            for draw, style in OF_DRAWS.items():
                drawn = Style(style.colour, line_style, style.marker)
                gains = course(own, "epsilon", "gain", system=system, draw=draw)
                line(at, *gains, f"{system}, {draw}", style=drawn)
        for system in ("converging", "ledger"):
            line(at, *course(own, "epsilon", "gain", system=system, draw="", churn=0.05), system)
        for row in select(own, system="demo"):
            at.axhline(value(row, "gain"), color="black", lw=1.2, ls=(0, (1, 1)), label="the authors' demo")
        most = max(column(own, "uniform_kl"))
        at.axhline(most, color=STYLES["uniform"].colour, lw=0.8)
        at.axhline(0, color="black", lw=0.6)
        finish(at, STREAMS[stream], "total ε", "gain over the uniform guess (nats)", log_x=True)
        at.set_yscale("symlog", linthresh=most / 10)
        at.margins(y=0.08)
        at.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        at.minorticks_off()
    legend(figure, axes[0])
    return figure


def _found(rows: Rows) -> list[str]:
    found = []
    for stream in distinct(rows, "stream"):
        here = select(rows, stream=stream)
        default = select(here, system="published", draw=next(iter(DRAWS)))
        if default:
            best = max(default, key=lambda row: value(row, "gain"))
            ledger = select(here, system="ledger", draw="", churn=0.05, epsilon=best["epsilon"])
            most = max(column(default, "spent"))
            found.append(
                f"{STREAMS[str(stream)]}: with the published defaults (Λ = 10⁸) at most {most:.2g} is spent after "
                f"{value(best, 'slots'):.0f} slots, and at best {value(best, 'gain'):.2g} nats of "
                f"{value(best, 'uniform_kl'):.2g} are gained (ε = {value(best, 'epsilon'):g})"
                + "".join(f"; the ledger gains {value(row, 'gain'):.2g} there" for row in ledger)
                + "."
            )
    found += [
        f"{STREAMS[str(row['stream'])]}: the authors' demo gains {value(row, 'gain'):.3g} nats, and is better than "
        f"the uniform guess in {value(row, 'better'):.0%} of the slots."
        for row in select(rows, system="demo")
    ]
    return found


def _spent_table(rows: Rows) -> list[Table]:
    times = [t for t in TABLED if select(rows, slot=t)]
    lines = tuple(
        (f"{epsilon:g}", draw, *(f"{mean(rows, 'spent', epsilon=epsilon, draw=draw, slot=t):.3g}" for t in times))
        for epsilon in sorted(set(column(rows, "epsilon")))
        for draw in map(str, distinct(select(rows, epsilon=epsilon), "draw"))
    )
    heads = (f"after {t:,} slots" for t in times)
    return [Table("What is spent: Σ ε_t", ("ε", "budgets", *heads), lines)] if rows else []


NAMES = {"published": "published mechanism", "boosted": "boosted mechanism", "demo": "the authors' demo", **LABELS}
GAIN_COLUMNS = {
    "ε": "{at}",
    "system": "{who}",
    "spent": "{spent:.3g}",
    "gain (nats)": "{gain:.3g} ± {error:.1g}",
    "slots better than uniform": "{better:.0%}",
}


def _gain_tables(rows: Rows) -> list[Table]:
    found = []
    for stream in distinct(rows, "stream"):
        own: Made = []
        for row in select(rows, stream=stream):
            churn = f"churn {value(row, 'churn'):.0%}" if row["system"] == "ledger" else ""
            who = ", ".join(part for part in (NAMES[str(row["system"])], str(row["draw"] or ""), churn) if part)
            own.append({**row, "at": "any" if row["epsilon"] is None else f"{row['epsilon']:g}", "who": who})
        title = f"{STREAMS[str(stream)]}, {{slots:.0f}} slots: gain over the uniform guess, of {{uniform_kl:.3g}} nats"
        found += Table.of(title.format_map(own[0]), own, GAIN_COLUMNS)
    return found


def _summary(rows: Rows) -> list[Summary]:
    lines = []
    for stream in distinct(rows, "stream"):
        here = select(rows, stream=stream, epsilon=2.0)
        names = {"strict": ("published", "in order"), "converging": ("converging", ""), "ledger": ("ledger", "")}
        found = {
            column: f"{value(row, 'gain'):.2g}"
            for column, (system, draw) in names.items()
            for row in select(here, system=system, draw=draw, churn=0.05)
        }
        default = select(here, system="published", draw=next(iter(DRAWS)))
        if default:
            text = f"“low MSE and KL”; with its defaults {value(default[0], 'gain'):.2g}"
            measure = f"gain over the uniform guess at ε = 2, {STREAMS[str(stream)]} (nats)"
            lines.append(Summary(measure, published=text, uniform="0", **found))
    return lines
