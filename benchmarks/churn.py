"""Utility when users come and go: the same stream with no, little and full change of users from slot to slot.

    python benchmarks/churn.py [--slots 300] [--seeds 2]

A population of 5,000 users, each with a bin of their own drawn from a zipf law over 100 bins whose log-weights drift
by 0.01 a slot. In every slot a share of them, the churn, is replaced by newcomers who draw from the current law;
everybody is active in every slot. Total ε = 2 per user for ever. Shown is the mean over slots of KL(PDF of all active
users ‖ released). Ledgers with a budget per slot, and `auto`, are spent first; `Ledger()` measures users by class.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl

import dpi
from dpi.noise import UnsafeSeededSource
from dpi_research.evaluation import divergence

BINS, USERS, DRIFT = 100, 5_000, 0.01
BUDGETS: dict[str, dpi.Ledger | dpi.Converging] = {
    "converging": dpi.Converging(dpi.budget.LogSquared()),
    **{e: dpi.Ledger(per_slot=e) for e in ("0.05", "0.2", "0.5", "2")},
    "auto": dpi.Ledger(policy=dpi.budget.spend_first),
    "Ledger()": dpi.Ledger(),
}


def slots(churn: float, count: int, seed: int) -> list[tuple[pl.Series, pl.Series]]:
    """Users and their bins in every slot."""
    rng = np.random.default_rng(seed)  # benchmark data, no privacy noise
    log = -1.1 * np.log(rng.permutation(BINS) + 1)
    users, newest = np.arange(USERS), USERS
    bins = rng.choice(BINS, USERS, p=np.exp(log) / np.exp(log).sum())
    result = []
    for _ in range(count):
        log = log + rng.normal(0, DRIFT, BINS)
        leaving = rng.random(USERS) < churn
        users = np.where(leaving, newest + np.arange(USERS), users)
        newest += USERS
        bins = np.where(leaving, rng.choice(BINS, USERS, p=np.exp(log) / np.exp(log).sum()), bins)
        result.append((pl.Series(users), pl.Series(bins)))
    return result


def play(data: list[tuple[pl.Series, pl.Series]], budget: dpi.Ledger | dpi.Converging, seed: int) -> float:
    domain = dpi.Categories(range(BINS), other=None)
    stream = dpi.Stream(domain=domain, epsilon=2, budget=budget, unsafe_source=UnsafeSeededSource(seed))
    errors = []
    for users, values in data:
        released = stream.release(users, values).pdf
        errors.append(divergence(np.bincount(values.to_numpy(), minlength=BINS) / USERS, released))
    return float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    begin = time.process_time()
    print("churn   uniform " + " ".join(f"{name:>10s}" for name in BUDGETS))
    for churn in (0.0, 0.01, 0.05, 1.0):
        cells: dict[str, list[float]] = {name: [] for name in BUDGETS}
        uniform = []
        for seed in range(options.seeds):
            data = slots(churn, options.slots, seed)
            for _, values in data:
                truth = np.bincount(values.to_numpy(), minlength=BINS) / USERS
                uniform.append(divergence(truth, np.full(BINS, 1 / BINS)))
            for name, budget in BUDGETS.items():
                cells[name].append(play(data, budget, seed))
        row = " ".join(f"{np.mean(values):10.4f}" for values in cells.values())
        print(f"{churn:5.0%} {np.mean(uniform):9.4f} {row}", flush=True)
    print(f"{time.process_time() - begin:.0f} s of the processor")


if __name__ == "__main__":
    main()
