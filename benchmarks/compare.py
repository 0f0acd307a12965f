"""DPI beside the systems of others: at equal guarantee, and as they were published.

    python benchmarks/compare.py [--streams small20,shop] [--slots 300] [--epsilon 1] [--cap 10] [--pictures out]
    DPI_DATA=folder python benchmarks/compare.py --caps 1,10,100 --seeds 3 --streams published@0.05,honeypot

A stream is made up (a churn may follow its name) or one of `benchmarks/real.py`, which is played in full. The first
form prints a table for every stream and mode, and draws three pictures of each if asked. With `--caps` it is equal
guarantee alone: L1 / KL of single slots, means over slots and seeds, with every cap for the systems that need one, and
those of the uniform guess and of the true distribution of users. The noise comes from the seeds, so that it prints the
same again. DPI is a stream with its default settings: `Ledger()`.
Results begin with `--name`: one for each stream with `--caps`, else one for each mode.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

import dpi
from dpi.events.rows import Rows
from dpi.noise import RandomSource, UnsafeSeededSource
from dpi_research.baselines import PublicFacts
from dpi_research.compare import Comparison, Terms, compare, compare_named, compare_slots
from dpi_research.compare.comparison import plot_error, plot_loss, plot_trade_off
from dpi_research.compare.contenders import Ours
from dpi_research.compare.run import OURS, USUAL, Mode, number_slots
from dpi_research.datasets.generators import Slot, stream_named
from dpi_research.evaluation import divergence
from measure import ESTIMATES, Cell, record
from real import STREAMS as REAL
from real import load

MODES: tuple[Mode, ...] = ("user", "published")
PARTS = (*ESTIMATES, "baselines", "compare", "datasets")
LABELS = {
    OURS: "DPI (no cap)",
    "pegasus": "PeGaSus",
    "noisy": "noisy histogram",
    "boosting": "boosting for queries",
    "binary": "Chan et al., binary",
    "hybrid": "Chan et al., hybrid",
    "tops": "Wang et al., ToPS",
    "perrier": "Perrier et al.",
    "demo": "the public demo (no data)",
}
"""How a page calls the systems."""
SHOWN: dict[Mode, tuple[str, str]] = {"user": ("l1", "kl"), "published": ("kl", "loss")}
ABOUT: dict[Mode, str] = {
    "user": "L1 / KL, with ε for all records of a user.",
    "published": "KL / what a user with a record in every slot has lost, with ε for one record.",
}


@cache
def real(name: str) -> tuple[int, tuple[Slot, ...]]:
    """Bins and slots of a real stream."""
    domain, slots = load(REAL[name])
    rows = ((t, Rows.of(users, domain.encode(values), bytes(32))) for t, (users, values) in enumerate(slots))
    return domain.size, tuple(number_slots(rows, domain.size))


def play(
    names: list[str], stream: str, terms: Terms, slots: int, seed: int, noise: RandomSource | None = None
) -> Comparison:
    """Compare on a stream by name."""
    name, _, churn = stream.partition("@")
    if name not in REAL:
        share = float(churn) if churn else None
        return compare_named(names, name, terms, slots=slots, seed=seed, churn=share, unsafe_source=noise)
    bins, played = real(name)
    rows = int(np.mean([slot.values.size for slot in played]))  # declared, as if it were known
    return compare_slots(
        names, played, PublicFacts(1, bins, len(played), rows=rows, unsafe_source=noise), terms, stream=name
    )


def slots_of(stream: str, slots: int, seed: int) -> tuple[int, Iterable[Slot]]:
    """Bins and slots of a stream by name."""
    name, _, churn = stream.partition("@")
    if name in REAL:
        return real(name)
    made = stream_named(name)
    return made.bins, made.slots(seed, slots, float(churn) if churn else None)


def without_noise(stream: str, slots: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Mean errors of the true distribution of users, one unit each, and of the uniform guess; empty slots have none."""
    bins, played = slots_of(stream, slots, seed)
    even, users, guess = np.full(bins, 1 / bins), list[tuple[float, float]](), list[tuple[float, float]]()
    for slot in (slot for slot in played if slot.values.size):
        truth = np.bincount(slot.values, minlength=bins) / slot.values.size
        _, owner, records = np.unique(slot.users, return_inverse=True, return_counts=True)
        by_user = np.bincount(slot.values, 1 / records[owner], bins) / records.size
        for losses, pdf in ((users, by_user), (guess, even)):
            losses.append((float(np.abs(truth - pdf).sum()), divergence(truth, pdf)))
    first, second = (dict(zip(("l1", "kl"), np.mean(losses, axis=0), strict=True)) for losses in (users, guess))
    return first, second


BUDGETS: dict[str, dpi.Ledger | dpi.Converging] = {
    "converging": dpi.Converging(dpi.budget.LogSquared()),
    "spend first": dpi.Ledger(policy=dpi.budget.spend_first),
}
"""Other budgets than the default, by name."""


def with_budget(budget: str, stream: str, epsilon: str, slots: int, seed: int) -> dict[str, float]:
    """DPI with another budget: means of its course."""
    bins, played = slots_of(stream, slots, seed)
    ours = dpi.Stream(
        domain=dpi.Categories(range(bins), other=None),
        epsilon=epsilon,
        budget=BUDGETS[budget],
        unsafe_source=UnsafeSeededSource(seed),
    )
    return compare({OURS: Ours(ours)}, played, bins, Terms(epsilon)).courses[OURS].means()


def draw(results: list[Comparison], name: str, folder: Path) -> None:
    """Loss and error over time of the first result, and error against loss of all."""
    folder.mkdir(parents=True, exist_ok=True)
    plot_loss(results[0]).savefig(folder / f"{name}-loss.svg")
    plot_error(results[0]).savefig(folder / f"{name}-error.svg")
    plot_trade_off(results).savefig(folder / f"{name}-trade-off.svg")


def both_modes(options: argparse.Namespace) -> None:
    """A table for every mode, with a column for every ε; pictures of every stream."""
    epsilons = options.epsilon.split(",")
    for mode in (mode for mode in MODES if mode in options.modes.split(",")):
        rows = list[list[Cell]]()
        for stream in options.streams.split(","):
            records = 1 if stream in REAL else stream_named(stream.partition("@")[0]).records
            results = [
                play(
                    options.mechanisms.split(","),
                    stream,
                    Terms(epsilon, mode=mode, cap=options.cap, records=records),
                    options.slots,
                    options.seed,
                    UnsafeSeededSource(options.seed),
                )
                for epsilon in epsilons
            ]
            for name in results[0].courses:
                means = [result.courses[name].means() for result in results]
                rows.append(
                    [f"{stream}: {LABELS.get(name, name)}", *([each[one] for one in SHOWN[mode]] for each in means)]
                )
            if options.pictures:
                draw(results, f"{stream}-{mode}", options.pictures)
        record(
            f"{options.name}-{mode}",
            parts=PARTS,
            about=ABOUT[mode],
            columns=["", *(f"ε = {epsilon}" for epsilon in epsilons)],
            rows=rows,
            seeds=[options.seed],
        )


def every_cap(options: argparse.Namespace) -> None:
    """For every stream a table with a column for every cap."""
    caps = [int(cap) for cap in options.caps.split(",")]
    names = options.mechanisms.split(",")
    for stream in options.streams.split(","):
        means: dict[tuple[str, int], list[dict[str, float]]] = {}
        for cap, seed in ((cap, seed) for cap in caps for seed in range(options.seeds)):
            # What has no cap is run once.
            taking = [name for name in names if cap == caps[0] or name not in (OURS, "demo")]
            terms = Terms(options.epsilon, cap=cap)
            result = play(taking, stream, terms, options.slots, seed, UnsafeSeededSource(seed))
            for name, course in result.courses.items():
                means.setdefault((name, cap), []).append(course.means())
        of, _, churn = stream.partition("@")
        about = f"{stream}: {result.slots} slots, ε = {options.epsilon}, mean of {options.seeds} seeds"
        columns = ["", *(f"cap {cap}" for cap in caps)]
        rows: list[list[Cell]] = [
            [LABELS.get(name, name), *(_cell(means.get((name, cap), [])) for cap in caps)] for name in names
        ]
        bare = [without_noise(stream, options.slots, seed) for seed in range(options.seeds)]
        for label, runs in zip(("users, without noise", "the uniform guess"), zip(*bare, strict=True), strict=True):
            rows.append([label, _cell(list(runs)), *(None for _ in caps[1:])])
        if options.budgets:  # DPI alone, seed by seed
            by_budget = {"`Ledger()`": means[OURS, caps[0]]} | {
                budget: [
                    with_budget(budget, stream, options.epsilon, options.slots, seed) for seed in range(options.seeds)
                ]
                for budget in BUDGETS
            }
            about = f"{stream}: {result.slots} slots, ε = {options.epsilon}; KL"
            columns = ["", *(f"seed {seed}" for seed in range(options.seeds))]
            rows = [[budget, *(run["kl"] for run in each)] for budget, each in by_budget.items()]
        record(
            f"{options.name}-{of}" + (f"-churn-{100 * float(churn):g}" if churn else ""),
            parts=PARTS,
            about=f"{about}{'' if options.budgets else '; L1 / KL'}.",
            columns=columns,
            rows=rows,
            seeds=range(options.seeds),
        )


def _cell(runs: list[dict[str, float]]) -> Cell:
    """L1 and KL, means over the runs."""
    return [float(np.mean([run[error] for run in runs])) for error in ("l1", "kl")] if runs else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default="small20,shop,published", help="names, separated by commas")
    parser.add_argument("--mechanisms", default=",".join(USUAL), help="names, separated by commas")
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--epsilon", default="1", help="without --caps, several may be given, separated by commas")
    parser.add_argument("--cap", type=int, default=10, help="records of a user that count, over all time")
    parser.add_argument("--caps", help="several, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="with --caps")
    parser.add_argument("--budgets", action="store_true", help="with --caps: also DPI with other budgets, by seed")
    parser.add_argument("--modes", default=",".join(MODES), help="without --caps: user, published or both")
    parser.add_argument("--name", default="compare", help="what the names of results begin with")
    parser.add_argument("--pictures", type=Path, help="a directory to write pictures to")
    options = parser.parse_args()
    if options.caps:
        every_cap(options)
    else:
        both_modes(options)


if __name__ == "__main__":
    main()
