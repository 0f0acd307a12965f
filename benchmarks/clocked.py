"""Utility of the clocked ledger on the streams of `populations.py`: a total ε = 2 per user for ever, or another.

    DPI_DATA=folder python benchmarks/clocked.py [--seeds 1] [--epsilon 2] [--name populations] [stream …]
    python benchmarks/clocked.py --picture docs/images/populations.svg

Accounts and noise are floats here, so that thousands of slots take seconds: never part of the product. Each row is the
mean over slots of KL(user-weighted PDF of all active users ‖ release), the ratio to the better of `spend_first` and
`Converging` with the same seeds, the share of bins inside their 95 % intervals, that of slots whose number of users is
inside its own, and the processor time of a slot.

Constants were chosen with a look at most of these streams, seeds 0 and 1. Not looked at for that: churn of 100 % and,
over 2,000 slots, of 1 and 5 %; other seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import numpy as np

import dpi
from dpi.budget.classes import PaymentRequest
from dpi.mechanism import class_estimator as estimator
from dpi.mechanism.base import Estimate, Floats
from dpi.mechanism.class_estimator import GroupSums, UsersState
from dpi.noise import UnsafeSeededSource
from dpi.release.interval import interval
from measure import ESTIMATES, Cell, record
from populations import STREAMS, Population, Slot
from results import digest

EPSILON, TOP = 2.0, 14
COLUMNS = [
    "uniform",
    "spend first",
    "converging",
    "`Ledger()`",
    "`Ledger()`, late",
    "bins inside, %",
    "totals inside, %",
]
BASELINES = Path("out/populations.json")


@dataclass
class Accounts:
    """What every user has left, as a share of ε, and the number of their payments."""

    rng: np.random.Generator
    epsilon: float
    left: Floats = field(default_factory=lambda: np.ones(0))
    payments: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def measure(self, slot: Slot, bins: int, asked: PaymentRequest) -> list[GroupSums]:
        """What users of the due classes pay in each bin, with noise."""
        more = int(slot.users.max(initial=0)) + 1 - self.left.size
        if more > 0:
            more += self.left.size
            self.left = np.r_[self.left, np.ones(more)]
            self.payments = np.r_[self.payments, np.zeros(more, np.int64)]
        member, left = np.minimum(self.payments[slot.users], TOP), self.left[slot.users]
        result = []
        for group in asked:
            classes, shares = np.array([m for m, _ in group]), np.array([float(share) for _, share in group])
            share = np.bincount(classes, shares, minlength=TOP + 1)[member]
            paid = self.epsilon * share * left
            sums = np.bincount(slot.bins, slot.share * paid[slot.row], minlength=bins) + self.rng.laplace(0, 1, bins)
            result.append(GroupSums(sums, classes, shares, 1.0))
            self.left[slot.users] *= 1 - share
            self.payments[slot.users] += share > 0
        return result


def divergence(truth: Floats, guess: Floats) -> float:
    some = truth > 0
    return float(truth[some] @ np.log(truth[some] / guess[some]))


@dataclass
class Score:
    """What a play is judged by."""

    errors: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)
    sized: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, counts: Floats, estimate: Estimate) -> None:
        """One slot; an empty one has no PDF."""
        total = float(counts.sum())
        z = NormalDist().inv_cdf(0.975)
        self.sized.append(abs(estimate.total - total) <= z * estimate.total_variance**0.5 + 0.5)
        if total > 0:
            truth = counts / total
            self.errors.append(divergence(truth, estimate.pdf))
            lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
            self.covered.append(float(((truth >= lower) & (truth <= upper)).mean()))


def play(population: Population, seed: int, epsilon: float = EPSILON) -> Score:
    """The clocked ledger on a population."""
    bins = population.domain.size
    accounts, score = Accounts(np.random.default_rng(seed + 77), epsilon), Score()
    state = UsersState.begun(bins, TOP + 1, population.season or 0)
    for number, slot in enumerate(population.slots):
        begin = time.process_time()
        asked = estimator.request_payments(state, number)
        chosen = time.process_time() - begin
        groups = accounts.measure(slot, bins, asked)
        begin = time.process_time()
        state, estimate = estimator.close_slot(state, number, epsilon, groups)
        score.seconds.append(chosen + time.process_time() - begin)
        score.add(slot.histogram(bins), estimate)
    return score


BUDGETS: dict[str, Callable[[], dpi.Ledger | dpi.Converging]] = {
    "ledger": lambda: dpi.Ledger(policy=dpi.budget.spend_first),
    "converging": lambda: dpi.Converging(dpi.budget.LogSquared()),
}
"""What the clocked ledger is compared with."""


def exact(population: Population, budget: str, seed: int, epsilon: float = EPSILON) -> list[float]:
    """Divergences of the exact product with another budget; an empty slot has none."""
    bins, errors = population.domain.size, []
    stream = dpi.Stream(
        domain=population.domain,
        epsilon=epsilon,
        budget=BUDGETS[budget](),
        mechanism=dpi.Boosted(season=population.season),  # type: ignore[arg-type]
        unsafe_source=UnsafeSeededSource(seed),
    )
    for events, slot in zip(population.events, population.slots, strict=True):
        release, truth = stream.release(*events), slot.histogram(bins)
        if truth.sum():
            errors.append(divergence(truth / truth.sum(), release.pdf))
    return errors


def baseline(name: str, seed: int, epsilon: float) -> dict[str, float]:
    """The uniform guess, `spend_first` and `Converging` on the exact product, measured once with this code and kept."""
    kept = json.loads(BASELINES.read_text()) if BASELINES.exists() else {}
    code = " ".join(digest(part, "benchmarks/clocked.py") for part in ("benchmark", *ESTIMATES))
    key = f"{name}, ε = {epsilon:g}, seed {seed}, code {code}"
    if key not in kept:
        population = STREAMS[name](seed)
        bins = population.domain.size
        truths = [slot.histogram(bins) for slot in population.slots]
        row = {"uniform": float(np.mean([divergence(t / t.sum(), np.full(bins, 1 / bins)) for t in truths if t.sum()]))}
        row |= {budget: float(np.mean(exact(population, budget, seed, epsilon))) for budget in BUDGETS}
        BASELINES.parent.mkdir(exist_ok=True)
        BASELINES.write_text(json.dumps({**kept, key: row}))
        kept = {key: row}
    return dict(kept[key])


PANELS = {
    "everybody stays": "churn 0% x200",
    "5 % replaced in each slot": "churn 5% x200",
    "all replaced in each slot": "churn 100% x200",
}
LINES = {"ledger": ("spend first, auto", "#b0b0b0"), "converging": ("converging", "#6a8fb5")}
SMOOTHED = 5


def smooth(errors: list[float]) -> Floats:
    """Means of five slots."""
    return np.convolve(errors, np.full(SMOOTHED, 1 / SMOOTHED), "valid")


def draw(out: Path) -> None:
    """Draw the divergence over time where everybody stays, where a twentieth is replaced in each slot, where all are.

    The churn streams over 200 slots, seed 0; lines are means of five slots.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "populations", "font.size": 8})
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (title, name) in zip(axes, PANELS.items(), strict=True):
        population = STREAMS[name](0)
        for budget in BUDGETS:
            label, colour = LINES[budget]
            axis.plot(smooth(exact(population, budget, 0)), color=colour, linewidth=1, label=label)
        axis.plot(smooth(play(population, 0).errors), color="#b5482a", linewidth=1.5, label="Ledger()")
        axis.set(title=title, xlabel="slot", yscale="log")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("KL(truth ‖ released)")
    axes[0].legend(frameon=False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--name", default="populations", help="of the result")
    parser.add_argument("--picture", type=Path, help="draw the streams with churn there, and print nothing")
    options = parser.parse_args()
    if options.picture:
        draw(options.picture)
        return
    if "DPI_DATA" not in os.environ:
        sys.exit("Set DPI_DATA to the folder with the parquet files.")
    rows, ratios = list[list[Cell]](), list[float]()
    for name in options.streams:
        kept = [baseline(name, seed, options.epsilon) for seed in range(options.seeds)]
        row = {one: float(np.mean([each[one] for each in kept])) for one in kept[0]}
        scores = [play(STREAMS[name](seed), seed, options.epsilon) for seed in range(options.seeds)]
        error = float(np.mean([np.mean(s.errors) for s in scores]))
        late = float(np.mean([np.mean(s.errors[len(s.errors) // 2 :]) for s in scores]))
        ratios.append(error / min(row["ledger"], row["converging"]))
        cover, sized = (
            float(np.mean([np.mean(v) for v in vs])) for vs in ([s.covered for s in scores], [s.sized for s in scores])
        )
        ms = 1e3 * float(np.mean([np.mean(s.seconds) for s in scores]))
        rows.append([name, row["uniform"], row["ledger"], row["converging"], error, late, 100 * cover, 100 * sized, ms])
        print(*rows[-1], flush=True)
    record(
        options.name,
        parts=ESTIMATES,
        columns=["stream", *COLUMNS, "ms a slot"],
        rows=rows,
        values={"geometric mean": float(np.exp(np.mean(np.log(ratios)))), "largest": max(ratios)},
        seeds=range(options.seeds),
    )


if __name__ == "__main__":
    main()
