"""The published series against the optimum of its own trade-off problem, and what the choice means for a release."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from dpi.budget import Converging, Ledger, spend_first
from dpi.budget.series import Geometric, LogSquared, Series, Spence, Zeta
from dpi.domain import Categories
from dpi.mechanism.boosted import Boosted
from dpi.release.plots import COLOURS, LINES
from dpi.theory import largest_epsilon, log_loss, objective, rates, spence_series
from dpi_research.datasets.generators import drifting
from dpi_research.evaluation import divergence
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.play import Played, own_seed, seeded_stream
from dpi_research.reproduce.rows import course, distinct, mean, select, value

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


def spreads(total: float) -> dict[str, Floats]:
    """Ways to spend the same sum of log-ratios. A published series is that of ε, scaled to the sum."""
    t = np.arange(1, SLOTS + 1, dtype=np.float64)
    shapes = {FIRST: np.ones(1), INVERSE: t**-2.0, LOG: 1 / ((t + 1) * np.log(t + 1) ** 2), TEN: np.ones(10)}
    for mu, zeta in SPENCE:
        if largest_epsilon(mu, zeta) >= EPSILON:
            shapes[spence_name(mu, zeta)] = spence_series(SLOTS, EPSILON, mu, zeta)
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
        played = Played(seeded_stream(domain, EPSILON, Boosted(), LEDGERS[name], noise), churn=0.05, seed=noise)
    else:
        played = Played(seeded_stream(domain, EPSILON, Boosted(), budgets()[name], noise), seed=noise)
    kls, uniform = [], []
    for counts, _ in drifting(np.random.default_rng([seed, 1]), slots, BINS, USERS, DRIFTS[drift]):
        truth = counts / counts.sum()
        kls.append(divergence(truth, played.release(counts).pdf))
        uniform.append(divergence(truth, np.full(BINS, 1 / BINS)))
    some = np.unique(np.round(np.geomspace(1, slots, 22))).astype(int).tolist()  # dense at the beginning
    return [
        {"what": "error", "name": name, "drift": drift, "seed": seed, "slot": slot, "kl": kls[slot - 1],
         "uniform_kl": uniform[slot - 1], "mean_kl": float(np.mean(kls[:slot])),
         "mean_uniform_kl": float(np.mean(uniform[:slot]))}
        for slot in some
    ]  # fmt: skip


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
    loss, error = select(rows, what="loss"), select(rows, what="error")
    figures = {"loss": loss and _loss_figure(loss), "errors": error and _error_figure(error)}
    last = max((int(row["slot"] or 0) for row in error), default=0)
    return Sheet(
        found=(*_found_loss(loss), *_found_errors(error, last)),
        figures=captioned(__name__, figures),
        tables=(*([_loss_table(loss)] if loss else []), *([_error_table(error, last)] if error else [])),
        summary=tuple(_summary(error, drift, last) for drift in _drifts(error)),
    )


def _drifts(rows: Rows) -> list[str]:
    return [drift for drift in DRIFTS if select(rows, drift=drift)]


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
    best = dict(zip(*course(rows, "total", "log_loss", name=OPTIMUM), strict=True))
    for name in map(str, distinct(rows, "name")):
        totals, losses = course(rows, "total", "log_loss", name=name)
        shares = [loss / best[total] for total, loss in zip(totals, losses, strict=True)]
        line(share, totals, shares, name, style=_style(name))
        line(peak, *course(rows, "total", "largest_share", name=name), name, style=_style(name))
    finish(share, "log-loss, as a share of the optimum's", "Σ log-ratios", "share (1 is best)", log_x=True)
    finish(peak, "largest slot", "Σ log-ratios", "share of the sum", log_x=True)
    for axes in (share, peak):
        axes.set_ylim(-0.03, 1.06)
    legend(figure, share)
    return figure


def _error_figure(rows: Rows) -> Figure:
    figure, grid = panels(len(_drifts(rows)), width=4.2, height=3.3)
    for axes, drift in zip(grid, _drifts(rows), strict=True):
        for name in names():
            slots, kls = course(rows, "slot", "kl", name=name, drift=drift)
            if slots:
                line(axes, slots, kls, name, style=_style(name))
        line(axes, *course(rows, "slot", "uniform_kl", name=FIRST, drift=drift), "uniform")
        title = f"{drift}: log-levels move by {DRIFTS[drift]:g} a slot"
        finish(axes, title, "slot", "KL of the slot (nats)", log_x=True, log_y=True)
    legend(figure, grid[0])
    return figure


def _at(rows: Rows, name: str, drift: str, key: str) -> float:
    """At the last slot."""
    return (course(rows, "slot", key, name=name, drift=drift)[1] or [float("nan")])[-1]


def _found_loss(rows: Rows) -> list[str]:
    found = []
    for total in course(rows, "total", "log_loss")[0]:
        loss = {str(row["name"]): value(row, "log_loss") for row in select(rows, total=total)}
        text = ", ".join(f"{name} {its:.3g}" for name, its in loss.items() if name != OPTIMUM)
        peak = mean(rows, "largest_share", name=OPTIMUM, total=total)
        found.append(
            f"Σ log-ratios = {total:g}: the numerical optimum has a log-loss of {loss[OPTIMUM]:.3g}, with "
            f"{100 * peak:.2f} % of the sum in one slot. {text}."
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
    names = map(str, distinct(rows, "name"))
    lines = [(name, *(f"{loss:.4g}" for loss in course(rows, "total", "log_loss", name=name)[1])) for name in names]
    columns = ("spread", *(f"Σ = {total:g}" for total in course(rows, "total", "log_loss")[0]))
    return Table("Log-loss at the same Σ log-ratios (lowest is best)", columns, tuple(lines))


def _error_table(rows: Rows, last: int) -> Table:
    drifts = _drifts(rows)
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
