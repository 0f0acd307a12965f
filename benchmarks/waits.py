"""How long users who return should wait to be measured, at real size: jumps, shares and numbers under several rules.

    python benchmarks/waits.py [--slots 120] [--rules 30 100 …]

Worlds are those of plans (`plan_worlds.py`): 5,000 to 200,000 users × ε a slot, 10, 60 and 300 values, users who come
on a fifth and on half of the slots. A value of 5 % has 15 % for three slots, every 24 slots from slot 36 on. A *rule*
is the λε up to which a class waits for eight slots (`CLEAR` of `_payments`); "never" is eight slots at all sizes. The
divergence is told over that of "never", of all slots after the twentieth, as the geometric mean and the worst of a
size. *Missed* is by how many points the first slot of a jump is off, *inside* how many of the shares in jumps were in
their 95 % intervals. Accounts and noise are floats.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from itertools import product
from multiprocessing import Pool
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import plan_worlds
from clocked import TOP, Accounts, divergence
from dpi.mechanism import class_estimator
from dpi.mechanism.class_estimator import UsersState, _payments
from dpi.release.interval import interval
from measure import ESTIMATES, Cell, record
from populations import Slot

NEVER = 1e12
SIZES, BINS, RATES = (5_000, 20_000, 60_000, 200_000), (10, 60, 300), (0.2, 0.5)
USERS, BEGUN, LASTS, SEED = 10_000, 20, 3, 7000
JUMPER = 3
"""The value that jumps (`plan_worlds.first_law`)."""
COLUMNS = [
    "users × ε", "eight slots up to λε", "divergence", "worst", "missed, points", "inside, %",
    "error of numbers, %", "half-width, %",
]  # fmt: skip


class Played(NamedTuple):
    """What was known of a world."""

    divergence: float
    missed: float
    inside: float
    error: float
    half_width: float


def play(slots: int, case: tuple[int, int, float, float]) -> Played:
    """Play one world under a rule."""
    size, bins, rate, rule = case
    _payments.CLEAR = rule
    jumps = tuple(range(36, slots - LASTS, 24))
    plan_worlds.JUMPS = {30: jumps}
    seed = SEED + SIZES.index(size) * 10 + BINS.index(bins) * 2 + RATES.index(rate)
    world = plan_worlds.World(USERS, size / USERS, bins, rate, seed=seed)
    accounts, state = Accounts(np.random.default_rng(seed), world.epsilon), UsersState.begun(bins, TOP + 1, 7)
    rows, first, inside = list[list[float]](), list[float](), list[bool]()
    for number, live in enumerate(plan_worlds.live(world, slots)):
        slot = Slot(live.users, np.arange(live.users.size), live.values, np.ones(live.users.size))
        groups = accounts.measure(slot, bins, class_estimator.request_payments(state, number))
        state, estimate = class_estimator.close_slot(state, number, world.epsilon, groups)
        total, truth = live.users.size, slot.histogram(bins) / live.users.size
        if number in jumps:
            first.append(100 * abs(float(estimate.pdf[JUMPER] - truth[JUMPER])))
        if any(0 <= number - jump < LASTS for jump in jumps):
            lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 0.95)
            inside.append(bool(lower[JUMPER] <= truth[JUMPER] <= upper[JUMPER]))
        if number >= BEGUN:
            half = 1.96 * estimate.total_variance**0.5 / total
            rows.append([divergence(truth, estimate.pdf), abs(estimate.total / total - 1), half])
    table = np.array(rows)
    error, half_width = np.median(table[:, 1:], axis=0)
    return Played(table[:, 0].mean(), float(np.mean(first)), float(np.mean(inside)), error, half_width)


def main() -> None:
    """Play all worlds under all rules, and record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=120)
    parser.add_argument("--rules", type=float, nargs="*", default=[30, 100, 1000])
    options = parser.parse_args()
    rules, rows = [NEVER, *options.rules], list[list[Cell]]()
    cases = list(product(SIZES, BINS, RATES, rules))
    with Pool(os.cpu_count()) as pool:
        played = dict(zip(cases, pool.map(partial(play, options.slots), cases, chunksize=1), strict=True))
    for size, rule in product(SIZES, rules):
        here = [played[size, bins, rate, rule] for bins, rate in product(BINS, RATES)]
        never = [played[size, bins, rate, NEVER] for bins, rate in product(BINS, RATES)]
        ratio = np.array([each.divergence for each in here]) / [each.divergence for each in never]
        means = np.mean(here, axis=0)
        errors = 100 * np.median(here, axis=0)
        rows.append([
            size, "never" if rule == NEVER else rule, float(np.exp(np.log(ratio).mean())), float(ratio.max()),
            float(means[1]), 100 * float(means[2]), float(errors[3]), float(errors[4]),
        ])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    record("waits", parts=ESTIMATES, columns=COLUMNS, rows=rows, seeds=range(SEED, SEED + 10 * len(SIZES)))


if __name__ == "__main__":
    main()
