"""What constants of the estimator by class are worth: each is moved up and down, and releases are scored again.

    python benchmarks/constants.py [--worlds 32] [--by 1.5] [NAME …]

Worlds are drawn from seeds that nothing else uses: half as `worlds.py` does, half of real size (`plan_worlds.py`, users
× ε up to 60,000). Accounts and noise are floats. Three scores are told as changes of the mean of their logarithms: the
divergence of shares, and the interval scores (Gneiting and Raftery 2007) of shares and of numbers of users. All are
proper: no constant can gain by saying more, or less, than is known. A change is *clear* if it is more than two of its
standard errors over worlds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool
from types import ModuleType
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import plan_worlds
import worlds
from clocked import TOP, Accounts, divergence
from dpi.mechanism import class_estimator
from dpi.mechanism.class_estimator import (
    UsersState,
    _activity,
    _distributions,
    _hypotheses,
    _payments,
    _season,
)
from dpi.mechanism.filtering import _population
from dpi.release.interval import interval
from measure import ESTIMATES, Cell, record
from populations import Slot

FIRST, SLOTS = 70_000, 100
ALPHA, BETWEEN = 0.05, 1e-5
"""Of the intervals; a divergence below this is as good as none."""
COLUMNS = [
    "constant", "in the code", "moved to",
    "divergence, %", "intervals of shares, %", "intervals of numbers, %", "clear",
]  # fmt: skip
SCORES = ("divergence", "shares", "numbers")


class Constant(NamedTuple):
    """A number of a module, by its name there; with a place, of a tuple."""

    module: ModuleType
    name: str
    place: int | None = None

    @property
    def label(self) -> str:
        """How the table calls it."""
        return self.name if self.place is None else f"{self.name}[{self.place}]"

    @property
    def value(self) -> float:
        """What it is now."""
        held = getattr(self.module, self.name)
        return float(held if self.place is None else held[self.place])

    def change(self, value: float) -> None:
        """Let it be another number, everywhere in the estimator."""
        held = getattr(self.module, self.name)
        new = value if self.place is None else (*held[: self.place], value, *held[self.place + 1 :])
        for module in MODULES:
            if hasattr(module, self.name) and getattr(module, self.name) is held:
                setattr(module, self.name, new)
        by_class = _hypotheses.BY_CLASS
        by_class.__init__(_hypotheses.DRIFTS, _hypotheses.KINDS)  # type: ignore[misc]


MODULES = (_hypotheses, _distributions, _activity, _payments, _season, _population)
CONSTANTS = tuple(
    Constant(*each)
    for each in (
        (_payments, "STRETCH"), (_payments, "LEAST"), (_payments, "ALIKE"), (_payments, "SINCE"),
        (_hypotheses, "DRIFTS", 0), (_hypotheses, "DRIFTS", 1), (_hypotheses, "PATIENCE"), (_hypotheses, "OTHERWISE"),
        (_hypotheses, "LEFT_TO_CHANCE"), (_hypotheses, "UNIFORM"),
        (_distributions, "RESTART"), (_distributions, "RESTARTED"), (_distributions, "NEWCOMERS"),
        (_distributions, "APART"), (_distributions, "SELECTED"), (_distributions, "RETURN"), (_distributions, "JUMP"),
        (_distributions, "TOGETHER"), (_distributions, "MISFIT"), (_distributions, "FOLLOWED"),
        (_distributions, "TRUSTED"), (_distributions, "FAR_OFF"),
        (_activity, "ARRIVING"), (_activity, "TOLD"), (_activity, "CHANCE"), (_activity, "UNSEEN_CHANCE"),
        (_activity, "IN_COMMON"), (_activity, "UNSEEN"),
        (_season, "SPREAD"), (_season, "MISFIT"),
        (_population, "WIDTH"), (_population, "INERTIA"), (_population, "TILT"),
    )
)  # fmt: skip


def draw(seed: int) -> tuple[int, float, int, Iterator[Slot]]:
    """Return bins, ε, season and slots of a world: even seeds are small ones, odd seeds are of real size."""
    if seed % 2 == 0:
        small = worlds.draw_world(seed, SLOTS)
        return small.bins, small.epsilon, 0, (_slot(*each) for each in worlds.play(small, SLOTS, seed))
    rng = np.random.default_rng([seed, 71])
    odds = np.exp(rng.uniform(np.log(0.05), np.log(9)))
    large = plan_worlds.World(
        users=float(np.exp(rng.uniform(np.log(1000), np.log(6000)))),
        epsilon=float(np.exp(rng.uniform(np.log(0.5), np.log(10)))),
        bins=int(np.exp(rng.uniform(np.log(5), np.log(120)))),
        rate=float(odds / (1 + odds)),
        alike=float(rng.uniform(1, 4)),
        leave=float(rng.uniform(0.001, 0.03)),
        drift=float(rng.choice([0.003, 0.01, 0.03])),
        own=float(rng.uniform(0, 0.9)),
        weekend=float(rng.uniform(0.5, 1)),
        seed=seed,
    )
    return large.bins, large.epsilon, 7, (_slot(each.users, each.values) for each in plan_worlds.live(large, SLOTS))


def _slot(users: np.ndarray, values: np.ndarray) -> Slot:
    return Slot(users, np.arange(users.size), values, np.ones(users.size))


def score(seed: int, *changes: tuple[int, float]) -> list[float] | None:
    """Return the logarithms of the scores of a world where constants, by number, have other values."""
    for number, value in changes:
        CONSTANTS[number].change(value)
    bins, epsilon, season, slots = draw(seed)
    accounts, rows = Accounts(np.random.default_rng(seed + 77), epsilon), list[list[float]]()
    state = UsersState.begun(bins, TOP + 1, season)
    for number, slot in enumerate(slots):
        groups = accounts.measure(slot, bins, class_estimator.request_payments(state, number))
        state, estimate = class_estimator.close_slot(state, number, epsilon, groups)
        counts = slot.histogram(bins)
        total = float(counts.sum())
        if total < 10:
            continue
        lower, upper = interval(estimate.pdf, estimate.variance, estimate.skew, estimate.total, 1 - ALPHA)
        half = 1.96 * estimate.total_variance**0.5
        number_score = _interval_score(np.array([total]), estimate.total - half, estimate.total + half) / total
        shares = _interval_score(counts / total, lower, upper)
        rows.append([divergence(counts / total, estimate.pdf) + BETWEEN, shares, number_score])
    return [float(each) for each in np.log(np.mean(rows, axis=0))] if len(rows) >= 10 else None


def _interval_score(truth: np.ndarray, lower: Any, upper: Any) -> float:
    outside = np.maximum(lower - truth, 0) + np.maximum(truth - upper, 0)
    return float(np.mean(upper - lower + 2 / ALPHA * outside))


def main() -> None:
    """Score all moves, and record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="constants; all unless some are named")
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--by", type=float, default=1.5)
    options = parser.parse_args()
    seeds, rows = range(FIRST, FIRST + options.worlds), list[list[Cell]]()

    def play(pool: Any, *changes: tuple[int, float]) -> np.ndarray:
        kept = pool.map(partial(_scored, changes), seeds, chunksize=1)
        return np.array([each or [np.nan] * len(SCORES) for each in kept])

    with Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        before = play(pool)
        for number, constant in enumerate(CONSTANTS):
            if options.names and constant.label not in options.names:
                continue
            for value in (constant.value / options.by, constant.value * options.by):
                apart = play(pool, (number, value)) - before
                apart = apart[~np.isnan(apart).any(1)]
                mean, error = apart.mean(0), apart.std(0) / len(apart) ** 0.5 + 1e-9
                clear = [name for name, m, e in zip(SCORES, mean, error, strict=True) if abs(m) > 2 * e]
                rows.append([constant.label, constant.value, value, *(100 * mean).tolist(), ", ".join(clear)])
                print(*rows[-1], sep=" | ", flush=True)
    record("constants", parts=ESTIMATES, columns=COLUMNS, rows=rows, seeds=seeds)


def _scored(changes: tuple[tuple[int, float], ...], seed: int) -> list[float] | None:
    return score(seed, *changes)


if __name__ == "__main__":
    main()
