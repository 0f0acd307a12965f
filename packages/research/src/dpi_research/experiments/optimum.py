"""The published series against the optimum of its own trade-off problem, and what the choice means for a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpi.budget import Converging, Ledger, spend_first
from dpi.budget.series import Geometric, LogSquared, Series, Spence, Zeta
from dpi.domain import Categories
from dpi.mechanism.boosted import Boosted
from dpi.noise import UnsafeSeededSource
from dpi.release.plots import COLOURS, LINES
from dpi.stream import Stream
from dpi.theory import largest_epsilon, log_loss, objective, rates, spence_series
from dpi_research.datasets.generators import drifting
from dpi_research.evaluation import divergence
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.play import Played, open_stream, own_seed
from dpi_research.reproduce.rows import value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

TOTALS = (0.025, 0.5, 2.0, 8.0)
"""Sums of log-ratios; μ·ε/4 is 0.025 for μ = 0.05 and ε = 2."""
SLOTS = 10_000
SPENCE = ((0.05, 0.1), (0.1, 0.1), (0.3, 0.5), (1.0, 1.0))
FIRST, INVERSE, LOG, TEN, OPTIMUM = "all in slot 1", "1/t²", "1/(t·ln² t)", "ten equal slots", "optimum, numerical"
LEDGER, ONE_CLASS = "ledger, churn 5 %", "ledger, spend first, churn 5 %"
LEDGERS = {LEDGER: Ledger(), ONE_CLASS: Ledger(policy=spend_first)}
"""With churn: users measured by class, which is the default, and all who can pay in one histogram."""
BINS, USERS, EPSILON = 100, 10_000, 2
CHANCE = (BINS - 1) / USERS
"""About the KL of two slots of one PDF."""
DRIFTS = {"still": 0.0, "slow": 0.02, "fast": 0.2}


def spence_name(mu: float, zeta: float) -> str:
    """How a published series is called here."""
    return f"Spence, μ = {mu:g}, ζ = {zeta:g}"


def spreads(total: float, epsilon: float = EPSILON) -> dict[str, Floats]:
    """Ways to spend the same sum of log-ratios. A published series is that of ε, scaled to the sum."""
    t = np.arange(1, SLOTS + 1, dtype=np.float64)
    shapes = {FIRST: np.ones(1), INVERSE: t**-2.0, LOG: 1 / ((t + 1) * np.log(t + 1) ** 2), TEN: np.ones(10)}
    for mu, zeta in SPENCE:
        if epsilon <= largest_epsilon(mu, zeta):
            shapes[spence_name(mu, zeta)] = spence_series(SLOTS, epsilon, mu, zeta)
    return {name: total * shape / shape.sum() for name, shape in shapes.items()}


def optimum(total: float, slots: int, starts: int, seed: int) -> Floats:
    """The best spread over some slots by gradient, from several random starts: nobody tells it where the best is."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    best: Floats | None = None
    for _ in range(starts):
        found = minimize(
            lambda x: -float(np.log(np.cosh(x / 2)).sum()),
            total * rng.dirichlet(np.ones(slots)),
            jac=lambda x: -np.tanh(x / 2) / 2,
            bounds=[(0, total)] * slots,
            constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        spread = np.clip(np.asarray(found.x, dtype=np.float64), 0, None)
        spread *= total / spread.sum()
        if best is None or log_loss(rates(spread)) < log_loss(rates(best)):
            best = spread
    assert best is not None  # noqa: S101 - there is a start
    return best


def list_losses(total: float, slots: int, starts: int, seed: int) -> Made:
    """The log-loss of every spread, and the objective of the trade-off problem with both families alike."""
    rows: Made = []
    for name, spread in {**spreads(total), OPTIMUM: optimum(total, slots, starts, seed)}.items():
        eta = rates(spread)
        rows.append(
            {"what": "loss", "name": name, "total": total, "log_loss": log_loss(eta), "objective": objective(eta, eta),
             "largest_share": float(spread.max() / spread.sum()),
             "paid": float(spread.sum())}
        )  # fmt: skip
    return rows


def budgets() -> dict[str, Converging | Ledger]:
    """The same ways for a stream. Ten equal slots are a ledger whose users are all there from the first slot."""
    series: dict[str, Series] = {FIRST: Geometric("1e-9"), INVERSE: Zeta(2), LOG: LogSquared()}
    for mu, zeta in SPENCE:
        if largest_epsilon(mu, zeta) >= EPSILON:
            series[spence_name(mu, zeta)] = Spence(mu, zeta)
    return {**{name: Converging(rule) for name, rule in series.items()}, TEN: Ledger(slots=10)}


def play_budget(name: str, drift: str, slots: int, seed: int) -> Made:
    """KL of the boosted mechanism's releases with one of the series, on a zipf stream that stands still or moves."""
    domain = Categories(range(BINS), other=None)
    noise = own_seed(name, drift, seed)
    if name in LEDGERS:
        stream = open_stream("ledger", domain, EPSILON, seed=noise, ledger=LEDGERS[name])
        played = Played(stream, churn=0.05, seed=noise)
    else:
        stream = Stream(
            domain=domain,
            epsilon=EPSILON,
            mechanism=Boosted(),  # type: ignore[arg-type]
            budget=budgets()[name],
            unsafe_source=UnsafeSeededSource(noise),
        )
        played = Played(stream, seed=noise)
    kls, uniform = [], []
    for counts, _ in drifting(np.random.default_rng([seed, 1]), slots, BINS, USERS, DRIFTS[drift]):
        truth = counts / counts.sum()
        kls.append(divergence(truth, played.release(counts).pdf))
        uniform.append(divergence(truth, np.full(BINS, 1 / BINS)))
    return [
        {"what": "error", "name": name, "drift": drift, "seed": seed, "slot": slot + 1, "kl": kls[slot],
         "uniform_kl": uniform[slot], "mean_kl": float(np.mean(kls[: slot + 1])),
         "mean_uniform_kl": float(np.mean(uniform[: slot + 1]))}
        for slot in _places(slots)
    ]  # fmt: skip


def _places(slots: int) -> Sequence[int]:
    """At most 22 slots, dense at the beginning."""
    return sorted({int(x) - 1 for x in np.unique(np.round(np.geomspace(1, slots, 22)))})


def names() -> tuple[str, ...]:
    """All that is played, the ledgers last."""
    return (*budgets(), *LEDGERS)


def cases(quick: bool) -> list[Case]:
    """The log-losses for each total; then a stream for each series and drift."""
    slots, starts = (6, 3) if quick else (20, 20)
    length, drifts, seeds = (25, ("slow",), 1) if quick else (200, tuple(DRIFTS), 2)
    return [
        *every(list_losses, total=TOTALS, slots=slots, starts=starts, seed=0),
        *every(play_budget, seed=range(seeds), drift=drifts, name=names(), slots=length),
    ]


def sheet(rows: Rows) -> Sheet:
    """Log-losses relative to the optimum, and errors of releases over time."""
    loss = [row for row in rows if row["what"] == "loss"]
    error = [row for row in rows if row["what"] == "error"]
    figures = {}
    if loss:
        figures["loss"] = (
            _loss_figure(loss),
            "Left: the log-loss of each way to spend the same sum of log-ratios, as a share of the optimum's. Right: "
            "the share of the sum that its largest slot has.",
        )
    if error:
        figures["errors"] = (
            _error_figure(error),
            f"KL of the boosted mechanism's releases, ε = {EPSILON}, zipf stream with {BINS} bins and {USERS:,} "
            f"users that "
            "stands still, moves slowly or fast.",
        )
    last = max((int(row["slot"] or 0) for row in error), default=0)
    return Sheet(
        found=(*_found_loss(loss), *_found_errors(error, last)),
        figures=figures,
        tables=(*([_loss_table(loss)] if loss else []), *([_error_table(error, last)] if error else [])),
        summary=tuple(_summary(error, drift, last) for drift in DRIFTS if any(r["drift"] == drift for r in error)),
    )


def _loss_of(rows: Rows, name: str, key: str = "log_loss") -> dict[float, float]:
    return {value(row, "total"): value(row, key) for row in rows if row["name"] == name}


def _style(name: str) -> Style:
    """The published series share a colour; the others have one each."""
    if name in (*LEDGERS, OPTIMUM):
        colour = STYLES["ledger"].colour
        return {LEDGER: STYLES["ledger"], ONE_CLASS: Style(colour, ":", "d")}.get(name, Style("black", ":", "*"))
    published = [spence_name(mu, zeta) for mu, zeta in SPENCE]
    if name in published:
        return Style(COLOURS[1], LINES[published.index(name)], "s^vP"[published.index(name)])
    index = (FIRST, INVERSE, LOG, TEN).index(name)
    return Style(COLOURS[2 + index], LINES[4 + index], "DX<h"[index])


def _loss_figure(rows: Rows) -> Figure:
    figure, (share, peak) = panels(2, width=4.6, height=3.3)
    best = _loss_of(rows, OPTIMUM)
    for name in dict.fromkeys(str(row["name"]) for row in rows):
        own, largest = _loss_of(rows, name), _loss_of(rows, name, "largest_share")
        totals = sorted(own)
        line(share, totals, [own[total] / best[total] for total in totals], name, style=_style(name))
        line(peak, totals, [largest[total] for total in totals], name, style=_style(name))
    finish(share, "log-loss, as a share of the optimum's", "Σ log-ratios", "share (1 is best)", log_x=True)
    finish(peak, "largest slot", "Σ log-ratios", "share of the sum", log_x=True)
    for axes in (share, peak):
        axes.set_ylim(-0.03, 1.06)
    legend(figure, share)
    return figure


def _error_figure(rows: Rows) -> Figure:
    drifts = [drift for drift in DRIFTS if any(row["drift"] == drift for row in rows)]
    figure, grid = panels(len(drifts), width=4.2, height=3.3)
    for axes, drift in zip(grid, drifts, strict=True):
        for name in names():
            slots, kls = _course(rows, name, drift, "kl")
            if slots:
                line(axes, slots, kls, name, style=_style(name))
        slots, kls = _course(rows, FIRST, drift, "uniform_kl")
        line(axes, slots, kls, "uniform")
        title = f"{drift}: log-levels move by {DRIFTS[drift]:g} a slot"
        finish(axes, title, "slot", "KL of the slot (nats)", log_x=True, log_y=True)
    legend(figure, grid[0])
    return figure


def _course(rows: Rows, name: str, drift: str, key: str) -> tuple[list[int], list[float]]:
    """Means over the runs."""
    own = [row for row in rows if row["name"] == name and row["drift"] == drift]
    slots = sorted({int(row["slot"] or 0) for row in own})
    return slots, [float(np.mean([value(row, key) for row in own if row["slot"] == slot])) for slot in slots]


def _at(rows: Rows, name: str, drift: str, key: str) -> float:
    """At the last slot."""
    values = _course(rows, name, drift, key)[1]
    return values[-1] if values else float("nan")


def _found_loss(rows: Rows) -> list[str]:
    found = []
    for total, best in sorted(_loss_of(rows, OPTIMUM).items()):
        others = {name: _loss_of(rows, name)[total] for name in dict.fromkeys(str(r["name"]) for r in rows)}
        text = ", ".join(f"{name} {loss:.3g}" for name, loss in others.items() if name != OPTIMUM)
        peak = _loss_of(rows, OPTIMUM, "largest_share")[total]
        found.append(
            f"Σ log-ratios = {total:g}: the numerical optimum has a log-loss of {best:.3g}, with {100 * peak:.2f} % of "
            f"the sum in one slot. {text}."
        )
    return found


def _found_errors(rows: Rows, last: int) -> list[str]:
    found = []
    for drift in DRIFTS:
        means = {name: _at(rows, name, drift, "mean_kl") for name in names()}
        known = {name: kl for name, kl in means.items() if not np.isnan(kl)}
        if known:
            uniform = _at(rows, FIRST, drift, "mean_uniform_kl")
            order = sorted(known, key=lambda name: known[name])
            worse = [name for name in order if known[name] > uniform]
            found.append(
                f"A stream that is {drift}: mean KL over {last} slots, best first: "
                f"{', '.join(f'{name} {known[name]:.3f}' for name in order)}; the uniform guess {uniform:.3f}, worse "
                f"than which: {', '.join(worse) or 'none'}."
            )
    return found


def _loss_table(rows: Rows) -> Table:
    totals = sorted({value(row, "total") for row in rows})
    lines = [
        (name, *(f"{_loss_of(rows, name)[total]:.4g}" for total in totals))
        for name in dict.fromkeys(str(row["name"]) for row in rows)
    ]
    columns = ("spread", *(f"Σ = {total:g}" for total in totals))
    return Table("Log-loss at the same Σ log-ratios (lowest is best)", columns, tuple(lines))


def _error_table(rows: Rows, last: int) -> Table:
    drifts = [drift for drift in DRIFTS if any(row["drift"] == drift for row in rows)]
    lines = [
        (name, *(f"{_at(rows, name, drift, key):.4f}" for drift in drifts for key in ("mean_kl", "kl")))
        for name in names()
    ]
    guess = [f"{_at(rows, FIRST, drift, key):.4f}" for drift in drifts for key in ("mean_uniform_kl", "uniform_kl")]
    columns = ("series", *(f"{drift}, {what}" for drift in drifts for what in ("mean", f"slot {last}")))
    return Table("KL of the boosted mechanism's releases", columns, (*lines, ("uniform guess", *guess)))


def _summary(rows: Rows, drift: str, last: int) -> Summary:
    ways = (spence_name(*SPENCE[0]), FIRST, INVERSE, LOG, TEN)
    return Summary(
        f"boosted mechanism, {drift} zipf stream, mean KL of {last} slots, ε = {EPSILON}",
        published="“optimal utility”",
        uniform=f"{_at(rows, FIRST, drift, 'mean_uniform_kl'):.3f}",
        converging="; ".join(f"{name}: {_at(rows, name, drift, 'mean_kl'):.3f}" for name in ways),
        ledger=f"churn 5 %: {_at(rows, LEDGER, drift, 'mean_kl'):.3f}",
    )
