"""The published accounting of Algorithm 1 against what it loses: bounds over time, and losses that are enumerated."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from dpi.budget import Converging, Ledger, LogSquared, Spence
from dpi.theory import claimed_loss, exponents, true_loss
from dpi_audit import excesses, loss_on, neighbours
from dpi_audit.small import VALUES, stream_session, tight_published
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.play import LABELS
from dpi_research.reproduce.rows import column, course, select, value

Floats = npt.NDArray[np.float64]

LAM = MU = ZETA = 0.1
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
DRAWS = (1, 20)
POOLS = (2, 10, 100, 10**6)
ENUMERATED = 3
"""Slots whose outcomes are all listed: 21 numbers of draws to the power of three."""


def list_bounds(epsilon: float, slots: int, points: int) -> Made:
    """What Theorem 1 claims and what can be lost, at times up to so many slots."""
    times = np.unique(np.geomspace(1, slots, points).astype(int)).tolist()
    return [
        {"kind": "bound", "epsilon": epsilon, "draws": draws, "slot": slot,
         "claimed": claimed_loss(slot, epsilon, MU, ZETA), "loss": true_loss(slot, draws, epsilon, MU, ZETA)}
        for slot in times
        for draws in DRAWS
    ]  # fmt: skip


def ramp(distance: float) -> float:
    """The published score of an answer this far from the data's: 1 within λ, -1 beyond λ + μ.

    >>> ramp(0.05), round(ramp(0.15), 9), ramp(0.5)
    (1.0, 0.0, -1.0)
    """
    return min(1.0, max(-1.0, (MU - 2 * (distance - LAM)) / MU))


def transcripts(epsilon: float, slots: int, draws: int, pool: int) -> tuple[Floats, Floats]:
    """Log-probabilities of all outcomes of the published mechanism, with the user and without.

    A slot has one other user, who is in bin b, and perhaps the user in question, in bin a. The query is the share of
    a: ½ with the user, 0 without. One synopsis of the pool answers ½, all others 0. In slot t each of the draws takes
    a synopsis with weight exp(α_t·Σ_{j≤t} score_j), α_t = X_t/2. An outcome says for every slot how often the lone
    synopsis was drawn; draws that differ in their order alone have the same two probabilities, and are one outcome.
    """
    coefficients = exponents(slots, epsilon, MU, ZETA) / 2
    sides = []
    for share in (0.5, 0.0):
        score = ramp(abs(0.5 - share)), ramp(abs(0.0 - share))
        laws = [_draws_of_lone(a * t * score[0], a * t * score[1], draws, pool) for t, a in enumerate(coefficients, 1)]
        sides.append(reduce(lambda past, law: np.add.outer(past, law).ravel(), laws))
    return sides[0], sides[1]


def _draws_of_lone(lone: float, other: float, draws: int, pool: int) -> Floats:
    """Log-probabilities of 0, 1, … draws of the lone synopsis, whose exponent is `lone`."""
    total = float(np.logaddexp(lone, other + math.log(pool - 1)))
    p, q = lone - total, other + math.log(pool - 1) - total
    ways = [math.log(math.comb(draws, k)) for k in range(draws + 1)]
    return np.array([ways[k] + k * p + (draws - k) * q for k in range(draws + 1)])


def enumerate_outcomes(epsilon: float, slots: int, draws: int) -> Made:
    """The exact loss of the mechanism as published, from a list of all outcomes, beside the claim."""
    claimed = claimed_loss(slots, epsilon, MU, ZETA)
    rows: Made = []
    for pool in POOLS:
        one, other = transcripts(epsilon, slots, draws, pool)
        worst = float(np.abs(one - other).max())
        delta = float(np.maximum(0, np.exp(one) - np.exp(claimed + other)).sum())
        rows.append(
            {"kind": "enumerated", "epsilon": epsilon, "draws": draws, "slot": slots, "pool": pool,
             "outcomes": one.size, "claimed": claimed, "loss": worst, "delta": delta}
        )  # fmt: skip
    return rows


def play_runs(epsilon: float, slots: int, draws: int, pool: int, runs: int, seed: int) -> Made:
    """How often the mechanism as published loses more than claimed: runs on the stream with the user, log-ratios exact.

    `delta` estimates the δ that the claim would need, E[max(0, 1 - e^(claim - loss))], with its standard error.
    """
    rng = np.random.default_rng(seed)
    claimed = claimed_loss(slots, epsilon, MU, ZETA)
    losses = np.zeros(runs)
    for t, a in enumerate(exponents(slots, epsilon, MU, ZETA) / 2, 1):
        one, other = (_draws_of_lone(sign * a * t, -sign * a * t, draws, pool) for sign in (1, -1))
        losses += (one - other)[rng.choice(draws + 1, size=runs, p=np.exp(one) / np.exp(one).sum())]
    beyond = np.maximum(0, -np.expm1(claimed - losses))
    return [
        {"kind": "played", "epsilon": epsilon, "draws": draws, "slot": slots, "pool": pool, "runs": runs,
         "claimed": claimed, "above": float((losses > claimed).mean()), "loss": float(losses.max()),
         "delta": float(beyond.mean()), "error": float(beyond.std() / math.sqrt(runs))}
    ]  # fmt: skip


def follow_longer() -> Made:
    """The worst outcome of longer streams, followed slot by slot: as published, and with coefficients from the budget.

    A user is alone in every slot; ε = 1.
    """
    rows: Made = [
        {"kind": "followed", "system": "as published", "epsilon": 1.0, "draws": row.draws, "slot": row.slots,
         "claimed": row.claimed, "loss": row.found}
        for row in excesses()
    ]  # fmt: skip
    budgets = {
        "strict": Converging(Spence(MU, ZETA)),
        "converging": Converging(LogSquared()),
        "ledger": Ledger(per_slot="0.05"),
    }
    for system, budget in budgets.items():
        options: dict[str, object] = {"mechanism": tight_published(len(VALUES))} if system == "strict" else {}
        for slots in (10, 100):
            finding = loss_on(stream_session(budget=budget, **options), neighbours.alone(slots, VALUES))
            rows.append(
                {"kind": "followed", "system": system, "epsilon": 1.0, "draws": 1, "slot": slots,
                 "claimed": float(finding.claimed), "loss": float(finding.loss)}
            )  # fmt: skip
    return rows


def cases(quick: bool) -> list[Case]:
    """Bounds for every ε, the enumeration, and the streams that are followed."""
    slots, points = (10**4, 20) if quick else (10**6, 60)
    lengths, runs = ((100, 1000), 2_000) if quick else ((100, 1000, 10_000), 20_000)
    return [
        *every(list_bounds, epsilon=EPSILONS, slots=slots, points=points),
        *every(enumerate_outcomes, epsilon=(1.0, 10.0, 100.0), slots=ENUMERATED, draws=DRAWS[-1]),
        *every(play_runs, epsilon=(1.0, 10.0), slots=lengths, draws=20, pool=POOLS[:2], runs=runs, seed=0),
        Case(follow_longer, {}),
    ]


def sheet(rows: Rows) -> Sheet:
    """Claims and bounds over time, and the exact losses."""
    bound = select(rows, kind="bound")
    return Sheet(
        found=tuple(_crossings(bound)),
        figures=captioned(__name__, {"bounds": _figure(bound) if bound else None}),
        tables=tuple(table for kind in TABLES for table in _table(rows, kind)),
        summary=tuple(_summary(select(rows, kind="followed"))),
    )


def _figure(rows: Rows) -> Figure:
    shown = [epsilon for epsilon in (0.1, 1.0, 10.0) if select(rows, epsilon=epsilon)]
    figure, axes = panels(len(shown), width=3.4, height=3.3)
    for at, epsilon in zip(axes, shown, strict=True):
        own = select(rows, epsilon=epsilon)
        at.axhline(epsilon, color=STYLES["uniform"].colour, lw=1)
        line(at, *course(own, "slot", "claimed"), "claimed", style=Style.numbered(0))
        for index, draws in enumerate(DRAWS, 1):
            label = f"lost, {_draws(draws)} a slot"
            line(at, *course(own, "slot", "loss", draws=draws), label, style=Style.numbered(index))
        finish(at, f"ε = {epsilon:g}", "slot", "loss of a user (nats)", log_x=True, log_y=True)
    legend(figure, axes[0])
    return figure


def _draws(count: int) -> str:
    return "1 draw" if count == 1 else f"{count} draws"


def _crossings(rows: Rows) -> list[str]:
    """From which of the computed slots on more is lost than claimed, and what is lost at the end."""
    sentences = []
    for epsilon in sorted(set(column(rows, "epsilon"))):
        parts = []
        for draws in DRAWS:
            own = select(rows, epsilon=epsilon, draws=draws)
            above = [row for row in own if value(row, "loss") > value(row, "claimed") * (1 + 1e-9)]
            last = own[-1]
            end = f"{value(last, 'loss'):.3g} after {value(last, 'slot'):,.0f} slots"
            since = f"above the claim from slot {value(above[0], 'slot'):,.0f} on" if above else "below the claim"
            parts.append(f"with {_draws(draws)} {since}, {end}")
        sentences.append(f"ε = {epsilon:g}: {'; '.join(parts)}.")
    return sentences


NAMES = {"as published": "Algorithm 1 as published", **LABELS}
TABLES = {
    "enumerated": (
        "All outcomes of {slot:g} slots with {draws:g} draws, two neighbouring streams, as published",
        {"ε": "{epsilon:g}", "synopses": "{pool:,.0f}", "outcomes": "{outcomes:,.0f}", "claimed": "{claimed:.4f}",
         "largest log-ratio": "{loss:.4f}", "over the claim": "{over:.2f} ×", "δ at the claim": "{delta:.2g}"},
    ),
    "played": (
        "{runs:,.0f} runs of longer streams as published, 20 draws a slot, the same two streams",
        {"ε": "{epsilon:g}", "slots": "{slot:,.0f}", "synopses": "{pool:,.0f}", "claimed": "{claimed:.3f}",
         "runs that lost more": "{above:.2%}", "δ at the claim": "{delta:.2g} ± {error:.1g}",
         "most lost by a run": "{loss:.3g}"},
    ),
    "followed": (
        "The worst outcome of longer streams, ε = 1: a user who is alone in every slot",
        {"system": "{name}", "slots": "{slot:,.0f}", "draws": "{draws:.0f}", "claimed": "{claimed:.4f}",
         "lost, exactly": "{loss:.4f}", "over the claim": "{over:.3g} ×"},
    ),
}  # fmt: skip
"""Of each kind of rows the title, and the columns with their cells."""


def _table(rows: Rows, kind: str) -> list[Table]:
    title, columns = TABLES[kind]
    own = [
        {**row, "over": value(row, "loss") / value(row, "claimed"), "name": NAMES.get(str(row.get("system")))}
        for row in select(rows, kind=kind)
    ]
    return Table.of(title.format_map(own[0]), own, columns) if own else []


def _summary(rows: Rows) -> list[Summary]:
    """The most that was found lost, over the claim."""
    if not rows:
        return []

    def most(system: str) -> str:
        over = [value(row, "loss") / value(row, "claimed") for row in select(rows, system=system)]
        return f"{max(over):.3g} ×" if over else "–"

    published = f"“at most 1 ×”; as published it is {most('as published')}"
    return [Summary.of("largest loss found, over what is claimed", published, most)]
