"""What is left of ε over 500 slots, and what a slot buys (published: Figure "remaining budget")."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from dpi.budget import Converging
from dpi.budget.allocation import RBA
from dpi.budget.epsilon import Epsilon
from dpi.budget.series import LogSquared, Series, Spence, Zeta
from dpi.domain import Categories
from dpi.noise import UnsafeSeededSource
from dpi.release.plots import COLOURS, LINES
from dpi_research.datasets.generators import published
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Row, Rows, Sheet, Summary, Table, Value, every
from dpi_research.reproduce.figures import MARKERS, STYLES, Style, epsilons, finish, legend, line, panels
from dpi_research.reproduce.play import Hyper, Played, open_stream, own_seed
from dpi_research.reproduce.rows import column, number, select, value

EPSILONS, SLOTS, POINTS = (2, 10), 500, 100
BINS, MEAN = 100, 100
WINDOW = 64
"""Slots over which the ledger's classes take turns: what they buy is the mean of so many."""
CHURNS = (0.0, 0.05, 1.0)
RANGES = (100, 10_000)
"""RBA by ranges: large is a budget of at least ε/100, small one below ε/10,000."""
RBA_8, RBA_4, BY_RANGES = "RBA, Λ = 10⁸", "RBA, Λ = 10⁴", "RBA by ranges"
IN_ORDER: dict[str, Series] = {
    "Spence in order": Spence(Hyper().mu, Hyper().zeta),
    "1/t² in order": Zeta(2),
    "1/(t·ln² t) in order": LogSquared(),
}
DRAWN = (RBA_8, RBA_4, BY_RANGES, *IN_ORDER)
LEDGERS = tuple(f"ledger, churn {100 * churn:g} %" for churn in CHURNS)


def budget(name: str, epsilon: int) -> Converging:
    """An allocation by its name; the random ones draw from the published series."""
    if name in IN_ORDER:
        return Converging(IN_ORDER[name])
    large, small = (epsilon / part for part in RANGES)
    draw = RBA.ranges(large, small) if name == BY_RANGES else RBA(10**8 if name == RBA_8 else 10**4)
    return Converging(IN_ORDER["Spence in order"], draw)


def draw_allocation(name: str, epsilon: int, slots: int, seed: int) -> Made:
    """What an allocation hands out, and the noise of a count that it buys."""
    allocation = budget(name, epsilon).allocation(Epsilon.at_most(epsilon), BINS)
    source = UnsafeSeededSource(own_seed(name, epsilon, seed))
    spent = [float(allocation.draw(source)) for _ in range(slots)]
    left = epsilon - np.cumsum(spent)
    table = [_row(slot, left[slot], left[slot], left[slot], spent[slot], _noise(spent[slot])) for slot in range(slots)]
    return [{"name": name, "epsilon": epsilon, "churn": None, **row} for row in _thin(table)]


def play_ledger(epsilon: int, churn: float, slots: int, seed: int) -> Made:
    """What is left on the accounts of the users of a slot: mean, and the 5 % and 95 % quantiles over users.

    A class whose users have paid p on average over all users of the slot tells a count to √2/p; classes are measured
    each by itself, and in turn, so that precisions are added over classes and averaged over some slots.
    """
    stream = open_stream("ledger", Categories(range(BINS), other=None), epsilon, seed=seed)
    played = Played(stream, churn=churn, seed=own_seed("ledger", epsilon, churn, seed))
    table: Made = []
    precision: list[float] = []
    for slot, (counts, _) in enumerate(published(np.random.default_rng([seed, 0]), slots, BINS, MEAN)):
        release = played.release(counts)
        left, users = played.remaining()
        order = np.argsort(left)
        place = np.cumsum(users[order]) / users.sum()
        low, high = (float(left[order][np.searchsorted(place, q)]) for q in (0.05, 0.95))
        mean = float(left @ users / users.sum())
        precision.append(sum(paid**2 for paid in played.paid))
        bought = math.sqrt(fmean(precision[-WINDOW:]))
        table.append(_row(slot, mean, low, high, release.epsilon, _noise(bought)))
    return [{"name": "ledger", "epsilon": epsilon, "churn": churn, **row} for row in _thin(table)]


def _noise(epsilon: float) -> float:
    """Standard deviation, in users, of a count with Laplace noise."""
    return math.sqrt(2) / epsilon if epsilon else math.inf


def _row(slot: int, left: float, low: float, high: float, spent: float, noise: float) -> dict[str, Value]:
    return {"slot": slot + 1, "left": float(left), "low": float(low), "high": float(high), "slot_epsilon": spent,
            "noise": noise if math.isfinite(noise) else None}  # fmt: skip


def _thin(table: list[dict[str, Value]]) -> Made:
    """The first ten slots, some of the others, and the last."""
    step = max(1, len(table) // (POINTS - 10))
    return [row for at, row in enumerate(table) if at < 10 or at % step == 0 or at == len(table) - 1]


def cases(quick: bool) -> list[Case]:
    """Every allocation, and the ledger at every churn, at both ε."""
    slots = 40 if quick else SLOTS
    all_cases = []
    for epsilon in EPSILONS:
        all_cases += every(draw_allocation, name=DRAWN, epsilon=epsilon, slots=slots, seed=0)
        all_cases += every(play_ledger, epsilon=epsilon, churn=CHURNS, slots=slots, seed=0)
    return all_cases


def sheet(rows: Rows) -> Sheet:
    """What is left, and what a slot buys."""
    last = max(int(row["slot"] or 0) for row in rows)
    return Sheet(
        found=tuple(_found(rows, last)),
        figures=captioned(__name__, {"left": _figure(rows, "left"), "buys": _figure(rows, "noise")}),
        tables=(_table(rows, last),),
        summary=tuple(_summary(rows, epsilon, last) for epsilon in epsilons(rows)),
    )


def _label(row: Row) -> str:
    """The name of a line.

    >>> _label({"name": "ledger", "churn": 0.05})
    'ledger, churn 5 %'
    """
    return str(row["name"]) if row["churn"] is None else f"ledger, churn {100 * float(row['churn']):g} %"


def _figure(rows: Rows, what: str) -> Figure:
    figure, grid = panels(len(epsilons(rows)), width=5.0, height=3.4)
    for axes, epsilon in zip(grid, epsilons(rows), strict=True):
        for label in (*DRAWN, *LEDGERS):
            own = [row for row in select(rows, epsilon=epsilon) if _label(row) == label]
            if not own:
                continue
            style = _style(label)
            slots, values, low, high = (column(own, key) for key in ("slot", what, "low", "high"))
            if what == "noise":
                line(axes, slots, values, label, style=style)
                continue
            line(axes, slots, 100 * values / epsilon, label, style=style)
            if label in LEDGERS:
                ends = (100 * low / epsilon, 100 * high / epsilon)
                axes.fill_between(slots, *ends, color=style.colour, alpha=0.12, lw=0)
        if what == "noise":
            axes.axhline(MEAN, color="black", lw=0.8, ls=(0, (1, 2)), label=f"users of a bin ({MEAN})")
            finish(axes, f"what a slot buys, ε = {epsilon:g}", "slot", "noise of a count (users)", log_y=True)
        else:
            finish(axes, f"left of ε = {epsilon:g}", "slot", "% of ε")
            axes.set_ylim(-3, 103)
    legend(figure, grid[-1])
    return figure


def _style(label: str) -> Style:
    if label in LEDGERS:
        place = LEDGERS.index(label)
        return Style(STYLES["ledger"].colour, ("-", "--", ":")[place], "oDX"[place])
    index = DRAWN.index(label)
    return Style(COLOURS[1 + index], LINES[index], MARKERS[1 + index])


def _found(rows: Rows, last: int) -> list[str]:
    sentences = []
    for epsilon in epsilons(rows):
        parts = []
        for row in select(rows, epsilon=epsilon, slot=last):
            noise = value(row, "noise")
            buys = "nothing" if math.isnan(noise) else f"a noise of {noise:,.3g} users"
            parts.append(f"{_label(row)} {100 * value(row, 'left') / epsilon:.4g} % left, the slot buys {buys}")
        sentences.append(f"ε = {epsilon:g}, slot {last}: {'; '.join(parts)}. A bin has {MEAN} users.")
    return sentences


def _table(rows: Rows, last: int) -> Table:
    lines = []
    for epsilon in epsilons(rows):
        for row in select(rows, epsilon=epsilon, slot=last):
            (first,) = select(rows, epsilon=epsilon, name=row["name"], churn=row["churn"], slot=1)
            numbers = (epsilon - value(row, "left"), value(row, "low"), value(row, "high"),
                       value(first, "noise"), value(row, "noise"))  # fmt: skip
            lines.append((f"{epsilon:g}", _label(row), *(number(x, 4) for x in numbers)))
    columns = ("ε", "allocation", "spent (ledger: mean of users)", "left, 5 % quantile", "left, 95 % quantile",
               "noise of slot 1 (users)", f"noise of slot {last} (users)")  # fmt: skip
    return Table(f"After {last} slots", columns, tuple(lines))


def _summary(rows: Rows, epsilon: float, last: int) -> Summary:
    at = {
        _label(row): f"{100 * value(row, 'left') / epsilon:.3g} %; {value(row, 'noise'):.2g}"
        for row in select(rows, epsilon=epsilon, slot=last)
    }
    return Summary(
        f"left of ε = {epsilon:g} after {last} slots; noise of a count then, in users",
        published="“budgets are adequate after 500 time slots”",
        strict=f"Λ = 10⁸: {at.get(RBA_8, '–')}; in order: {at.get('Spence in order', '–')}",
        converging=at.get("1/(t·ln² t) in order", "–"),
        ledger="; ".join(f"{label.removeprefix('ledger, ')}: {at.get(label, '–')}" for label in LEDGERS),
    )
