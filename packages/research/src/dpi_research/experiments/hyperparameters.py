"""λ, μ and ζ against ε on COVID-19: errors of a slot and of all slots so far (published: Figure "hyperparameters")."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpi.budget import Converging
from dpi.budget.series import Spence
from dpi.domain import Domain
from dpi.mechanism.boosted import Boosted
from dpi.release.plots import LINES
from dpi.stream import Stream
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, Value
from dpi_research.reproduce.figures import STYLES, Style, epsilons, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS, SYSTEMS, Hyper, Pair, System, open_stream, own_seed, seeded_stream
from dpi_research.reproduce.rows import column, course, mean, number, select, value
from dpi_research.reproduce.streams import DAYS, ONCE, PEOPLE, RealStream, stream_of

DEFAULT = {"lam": 0.1, "mu": 0.05, "zeta": 0.1}
VALUES = {"lam": (0.05, 0.1, 0.2, 0.5), "mu": (0.05, 0.1, 0.2, 0.3), "zeta": (0.1, 0.2, 0.3, 0.4, 0.5)}
SIGNS = {"lam": "λ", "mu": "μ", "zeta": "ζ"}
EPSILONS, SOME = "0.1 0.2 0.5 1 2 5 10", "0.1 0.5 2 10"
ALL_EPSILONS, SOME_EPSILONS = len(EPSILONS.split()), len(SOME.split())
LATE_START = 100
LATE = PEOPLE * (DAYS - LATE_START) // DAYS
"""People of the stream that begins when the pandemic has: as many a day as in the whole one."""
STRICT = ("#7f1d0e", "#c8553d", "#e08a6d", "#8d6a9f", "#e0a458")
"""Shades for the values of a parameter."""
MEASURES = {"acc_mse": "MSE, accumulative", "mse": "MSE, slot", "acc_kl": "KL, accumulative", "kl": "KL, slot"}

NAMES = {"kl": "KL of a slot", "mse": "MSE of a slot", "last_kl": "KL of the last slot",
         "last_mse": "MSE of the last slot", "acc_kl": "accumulative KL", "acc_mse": "accumulative MSE"}  # fmt: skip
DRAWS = 20
"""Queries, and as many synopses, that the published mechanism chooses in a slot."""


def play_setting(
    system: str, lam: float, mu: float, zeta: float, epsilons: str, people: int, first: int, days: int, per_day: int,
    seed: int,
) -> Made:  # fmt: skip
    """Errors of one system for several ε; `spence` is the boosted mechanism on the published series."""
    data = stream_of(people, first=first, days=days, per_day=per_day)
    rows: Made = []
    for epsilon in epsilons.split():
        noise = own_seed(system, lam, mu, zeta, epsilon, per_day, seed)
        stream = open_system(system, data.domain, epsilon, Hyper(lam, mu, zeta), noise)
        options: dict[str, Value] = {
            "system": system, "lam": lam, "mu": mu, "zeta": zeta, "epsilon": float(epsilon), "people": people,
            "slots": len(data.slots), "per_day": per_day, "seed": seed,
        }  # fmt: skip
        rows.append({**options, **measure_errors(stream, data)})
    return rows


def measure_errors(stream: Stream, data: RealStream) -> dict[str, Value]:
    """What was spent, and all errors of one run with those of the uniform guess."""
    even = np.full(data.domain.size, 1 / data.domain.size)
    errors, so_far, largest = [], np.zeros(data.domain.size), 0.0
    for (users, values), counts in zip(data.slots, data.counts, strict=True):
        release = stream.release(users, values)
        so_far += counts
        largest = max(largest, release.epsilon)
        if users.len():
            pdf = counts / counts.sum()
            errors.append((*Pair(pdf, release.pdf).errors, *Pair(pdf, even).errors))
    table, truth = np.array(errors), so_far / so_far.sum()
    gain = table[:, 1] - table[:, 3]
    spread = float(gain.std() / np.sqrt(gain.size))
    row: dict[str, Value] = {"spent": release.epsilon_spent, "largest": largest, "kl_error": spread}
    whole = (Pair(truth, release.accumulated).errors, Pair(truth, even).errors)
    slot_by_slot = {"": table.mean(axis=0).reshape(2, 2), "last_": table[-1].reshape(2, 2)}
    for prefix, (one, other) in {**slot_by_slot, "acc_": whole}.items():
        for start, (mse, kl) in (("", one), ("uniform_", other)):
            row[f"{start}{prefix}mse"], row[f"{start}{prefix}kl"] = float(mse), float(kl)
    return row


def open_system(system: str, domain: Domain, epsilon: str, hyper: Hyper, seed: int) -> Stream:
    """A stream of a system, or of the boosted mechanism on the published series."""
    if system == "spence":
        return seeded_stream(domain, epsilon, Boosted(), Converging(Spence(hyper.mu, hyper.zeta)), seed)
    known: dict[str, System] = {name: name for name in SYSTEMS}
    return open_stream(known[system], domain, epsilon, seed=seed, hyper=hyper, ledger=ONCE)


def settings() -> list[dict[str, float]]:
    """The default, then one parameter after the other at its other values.

    >>> len(settings()), settings()[1]
    (11, {'lam': 0.05, 'mu': 0.05, 'zeta': 0.1})
    """
    others = [{**DEFAULT, name: value} for name, values in VALUES.items() for value in values if value != DEFAULT[name]]
    return [DEFAULT, *others]


def cases(quick: bool) -> list[Case]:
    """One for each system and setting, all ε together: the pool's answers are computed once."""
    where = {"people": 3_600, "first": 500, "days": 40} if quick else {"people": PEOPLE, "first": 0, "days": DAYS}
    shared: dict[str, Value] = {**where, "per_day": 1, "seed": 0}
    every, some = ("1 10", "1 10") if quick else (EPSILONS, SOME)
    chosen = settings()
    if quick:
        chosen = [DEFAULT, {**DEFAULT, "lam": 0.5}, {**DEFAULT, "mu": 0.3}, {**DEFAULT, "zeta": 0.5}]
    work: Made = [
        {"system": "strict", **hyper, "epsilons": every if hyper == DEFAULT else some, **shared} for hyper in chosen
    ]
    work += [{"system": system, **DEFAULT, "epsilons": every, **shared} for system in ("converging", "ledger")]
    late = shared if quick else {**shared, "people": LATE, "first": LATE_START, "days": DAYS - LATE_START}
    for seed in range(1 if quick else 2):
        again = {**late, "seed": seed, "epsilons": "10"}
        series = [hyper for hyper in chosen if hyper["lam"] == DEFAULT["lam"]]
        work += [{"system": "spence", **hyper, **again} for hyper in series]
        if not quick:
            work += [{"system": system, **DEFAULT, **again} for system in SYSTEMS]
    if not quick:
        half_days = {**shared, "days": 500, "per_day": 2}
        work += [{"system": system, **DEFAULT, "epsilons": "2", **half_days} for system in SYSTEMS]
    return [Case(play_setting, options, data="covid19") for options in work]


def sheet(rows: Rows) -> Sheet:
    """The published panels with our systems beside, the boosted mechanism on the published series, and tables."""
    halves = [row for row in rows if row["per_day"] != 1]
    late = [row for row in rows if row["people"] == LATE]
    grid = [row for row in rows if row["per_day"] == 1 and row["people"] != LATE]
    series = late or grid
    since = f", from day {LATE_START} on"
    figures = {"mse": _published(grid, "mse"), "kl": _published(grid, "kl"), "series": _series(series)}
    return Sheet(
        found=(*_found(grid), *_found_series(series), *_worse(grid), *_worse(late, since)),
        figures=captioned(__name__, figures, since=since if late else ""),
        tables=(_by_value(grid, series), *([_half_days(grid, halves)] if halves else [])),
        summary=tuple(_summary(grid, key, text) for key, text in (("kl", "a slot"), ("acc_kl", "all slots together"))),
    )


def _varied(system: str, **changed: float) -> dict[str, Value]:
    """What the rows of a system have with some parameters changed and the others at their defaults."""
    return {"system": system, **DEFAULT, **changed}


def _spread(rows: Rows, system: str, name: str, epsilon: float) -> list[tuple[float, float]]:
    """The values of a parameter that were played, each with the KL of a slot."""
    played = {x: _varied(system, **{name: x}) for x in VALUES[name]}
    return [(x, mean(rows, "kl", **where, epsilon=epsilon)) for x, where in played.items() if select(rows, **where)]


def _beside(axes: Axes, rows: Rows, key: str) -> None:
    """The lines that do not depend on the parameters."""
    line(axes, *course(rows, "epsilon", f"uniform_{key}", **_varied("strict")), "uniform")
    for system in ("converging", "ledger"):
        line(axes, *course(rows, "epsilon", key, **_varied(system)), system)


def _published(rows: Rows, measure: str) -> Figure:
    """The published panels of one measure: accumulative above, a slot's below."""
    figure, grid = panels(len(VALUES), 2, width=3.7, height=2.7)
    for place, axes in enumerate(grid):
        above, (name, values) = place < len(VALUES), list(VALUES.items())[place % len(VALUES)]
        key = f"acc_{measure}" if above else measure
        _beside(axes, rows, key)
        for index, chosen in enumerate(values):
            x, y = course(rows, "epsilon", key, **_varied("strict", **{name: chosen}))
            if x:
                style = Style(STRICT[index], LINES[index], "s^vPX"[index])
                line(axes, x, y, f"strict, {SIGNS[name]} = {chosen:g}", style=style)
        unit = "KL (nats)" if measure == "kl" else "mean over regions of (p - q)²"
        finish(axes, f"{SIGNS[name]}: {MEASURES[key]}", "total ε", unit, log_x=True, log_y=True)
        axes.tick_params(axis="x", which="minor", bottom=False)  # they are a sixth of the file
        if not above:
            axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.45, -0.28), ncols=2, frameon=False)
    return figure


def _series(rows: Rows) -> Figure:
    figure, grid = panels(4, width=3.0, height=2.9)
    known = epsilons(select(rows, system="spence"))
    for part, name in enumerate(("mu", "zeta")):
        for place, key in enumerate(("kl", "acc_kl")):
            axes = grid[2 * part + place]
            for index, epsilon in enumerate(known):
                runs = {x: select(rows, **_varied("spence", **{name: x}), epsilon=epsilon) for x in VALUES[name]}
                drawn = {x: column(own, key) for x, own in runs.items() if own}
                middle = np.array([y.mean() for y in drawn.values()])
                ends = np.array([(y.min(), y.max()) for y in drawn.values()]).T
                style = Style(STRICT[3 * index], LINES[index], "sP"[index])
                line(axes, list(drawn), middle, f"boosted on Spence, ε = {epsilon:g}", style=style)
                if drawn:
                    axes.vlines(list(drawn), *ends, color=style.colour, lw=3, alpha=0.4)
            high = known[-1] if known else 0
            for label, system, at in (("uniform", "strict", f"uniform_{key}"), ("converging", "converging", key),
                                      ("ledger", "ledger", key)):  # fmt: skip
                level, style = mean(rows, at, **_varied(system), epsilon=high), STYLES[label]
                axes.axhline(level, color=style.colour, ls=style.line, lw=1.5, label=f"{LABELS[label]}, ε = {high:g}")
            finish(axes, f"{MEASURES[key]}", SIGNS[name], "nats")
            axes.set_ylim(bottom=0)
    legend(figure, grid[0])
    return figure


def _found(rows: Rows) -> list[str]:
    """What the rows say to each sentence of the published text."""
    strict = select(rows, system="strict")
    if not strict:
        return []
    sentences = []
    low, high = epsilons(strict)[0], epsilons(strict)[-1]
    apart = [abs(value(row, "kl") - value(row, "uniform_kl")) / value(row, "kl_error") for row in strict]
    above = sum(value(row, "kl") > value(row, "uniform_kl") for row in strict)
    kls, mses = ([value(row, key) for row in strict] for key in ("kl", "mse"))
    tilt = max(value(row, "largest") for row in strict) / (4 * DRAWS)
    sentences.append(
        f"The published mechanism, strict: over its {len(kls)} pairs of setting and ε the KL of a slot lies between "
        f"{min(kls):.4f} and {max(kls):.4f}, the MSE between {min(mses):.3g} and {max(mses):.3g}; the uniform "
        f"guess has {value(strict[0], 'uniform_kl'):.4f} and {value(strict[0], 'uniform_mse'):.3g}. The KL is "
        f"within {max(apart):.1f} standard errors of the uniform guess's in every one of them, and above in {above}. "
        f"The reason: a slot's budget pays for {2 * DRAWS} choices among scores that one person can move over their "
        f"whole range, so that no synopsis is more than e^{tilt:.2g} = {np.exp(tilt):.3f} times as likely as another, "
        "in any slot of any run."
    )
    default = _varied("strict")
    first, last = (mean(rows, "kl", **default, epsilon=epsilon) for epsilon in (low, high))
    error = mean(rows, "kl_error", **default, epsilon=high)
    sentences.append(
        f"“With an increasing ε, the MSE and KL divergence both decrease”: strict, from ε = {low:g} to {high:g}, KL of "
        f"a slot {first:.4f} → {last:.4f}, with a standard error of {error:.4f}."
    )
    for name, words in (("lam", "decreases faster when λ is very small"), ("mu", "small μ"), ("zeta", "small ζ")):
        text = ", ".join(f"{kl:.4f} ({SIGNS[name]} = {x:g})" for x, kl in _spread(rows, "strict", name, high))
        sentences.append(f"“{words}”: KL of a slot at ε = {high:g} is {text}.")
    return sentences


def _found_series(rows: Rows) -> list[str]:
    """The boosted mechanism on the published series, and the range of its runs."""
    sentences = []
    high = max((value(row, "epsilon") for row in rows), default=0.0)
    for name in ("mu", "zeta"):
        spread = _spread(rows, "spence", name, high)
        if len(spread) > 1:
            text = ", ".join(f"{kl:.3f} ({SIGNS[name]} = {chosen:g})" for chosen, kl in spread)
            runs = column(select(rows, **_varied("spence", **{name: spread[0][0]}), epsilon=high), "kl")
            sentences.append(
                f"The boosted mechanism on the published series, ε = {high:g}: KL of a slot {text}; runs at "
                f"{SIGNS[name]} = {spread[0][0]:g} lie between {min(runs):.3f} and {max(runs):.3f}."
            )
    return sentences


def _worse(rows: Rows, when: str = "") -> list[str]:
    """Where the boosted mechanism is worse than the uniform guess."""
    sentences = []
    for system, label in (("spence", "boosted on the published series"), *LABELS.items()):
        runs = select(rows, system=system)
        if system == "strict" or not runs:
            continue
        parts = []
        for key in ("kl", "mse", "last_kl", "last_mse", "acc_kl", "acc_mse"):
            at = epsilons([row for row in runs if value(row, key) > value(row, f"uniform_{key}")])
            if at:
                parts.append(f"{NAMES[key]} at ε = {', '.join(f'{epsilon:g}' for epsilon in at)}")
        what = "; ".join(parts) if parts else "nowhere"
        sentences.append(f"Worse than the uniform guess, {label}{when}: {what}.")
    return sentences


def _by_value(rows: Rows, series: Rows) -> Table:
    high = epsilons(rows)[-1]
    keys = ("kl", "last_kl", "acc_kl", "mse", "last_mse", "acc_mse")
    lines = []
    for name, values in VALUES.items():
        for chosen in values:
            keep, own = (_varied(system, **{name: chosen}) for system in ("strict", "spence"))
            if not select(rows, **keep):
                continue
            hyper = {**DEFAULT, name: chosen}
            below = "yes" if hyper["mu"] < hyper["lam"] / 2 else "no"
            numbers = [mean(rows, key, **keep, epsilon=high) for key in keys]
            numbers += [mean(series, key, **own, epsilon=high) for key in ("kl", "acc_kl")]
            lines.append((f"{SIGNS[name]} = {chosen:g}", below, *(number(x, 4) for x in numbers)))
    guess = [mean(rows, f"uniform_{key}", **_varied("strict"), epsilon=high) for key in keys]
    lines.append(("uniform guess", "", *(f"{x:.4g}" for x in guess), "", ""))
    columns = ("strict, others at default", "μ < λ/2", "KL, slot", "KL, last slot", "KL, accumulative", "MSE, slot",
               "MSE, last slot", "MSE, accumulative", "boosted on Spence: KL, slot", "KL, accumulative")  # fmt: skip
    return Table(f"ε = {high:g}", columns, tuple(lines))


def _half_days(grid: Rows, halves: Rows) -> Table:
    """Both slottings at ε = 2."""
    lines = [
        (str(row["system"]), f"{row['slots']:,}", *(f"{value(row, key):.4g}" for key in (*MEASURES, "last_kl")))
        for system in ("strict", "converging", "ledger")
        for row in select((*grid, *halves), **_varied(system), epsilon=halves[0]["epsilon"], seed=0)
    ]
    return Table("540 days and 1,000 half-days, ε = 2", ("system", "slots", *MEASURES.values(), "KL, last slot"),
                 tuple(lines))  # fmt: skip


def _summary(rows: Rows, key: str, what: str) -> Summary:
    ends = epsilons(rows)[0], epsilons(rows)[-1]

    def both(system: str) -> str:
        name, of = (f"uniform_{key}", "strict") if system == "uniform" else (key, system)
        values = [mean(rows, name, **_varied(of), epsilon=epsilon) for epsilon in ends]
        return "–" if np.isnan(values).any() else " / ".join(number(kl) for kl in values)

    title = f"COVID-19, KL of {what}, ε = {ends[0]:g} / {ends[1]:g}"
    return Summary.of(title, "“decreases” with ε; no numbers", both)
