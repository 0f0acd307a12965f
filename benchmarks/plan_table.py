"""Make the table of `dpi plan`: play worlds through the real product, and fit what was known to their numbers.

    python benchmarks/plan_table.py [--runs build/plan-runs.json]

Worlds differ in users × ε, bins and how often users come; in how users differ, how many leave, how shares drift, how
strong weekends are, by chance. `SHORT` of them are played for a month, others for a year, and `LONG` of them for five
years. What `play` found goes to a file, which is read instead if it is there. The logarithm of each error is then a
polynomial of the logarithms of these numbers, by least squares; the table holds its values at a grid, in which an error
never rises with users × ε. It is `src/dpi/plan.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dpi
from dpi.estimator import trained_digest
from dpi.planning import AGES, LABELS
from plan_worlds import JUMPS, Found, World, play

SHORT, YEAR, LONG, SEED = 40, 28, 8, 1000
FIRST, ROUND = 996, 1_000
"""Where in the sequence of worlds the first one is, and after how many it begins again."""
SIGNAL, BINS, RATE = (100, 1_000_000), (5, 1_000), (0.05, 0.9)
MOST, MOST_LONG = 20_000, 2_000
"""Users of a slot at most: above, ε is larger than one, for noise depends on users × ε alone."""
GRID = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
GRID_BINS, STICKY = [5, 15, 50, 150, 400, 1_000], [0.15, 0.3, 0.5, 0.8]
CLEAR, BENDS = 1_000, (-1.5, 0, 1.5)
"""Where, in users × ε per bin and in logarithms beside it, the error of a jump bends."""
PENALTY, ROUNDS, FAR = 0.5, 30, 1.0
"""Of the fit; a square counts as at most `FAR` times more than expected, so that unusual worlds do not decide."""
TABLE = Path(dpi.__file__).with_name("plan.json")


def draw(number: int) -> World:
    """Return a world: its three numbers are spread evenly, the others by chance."""
    place = (number + FIRST) % ROUND
    rng = np.random.default_rng([SEED, place])
    spread = (0.5 + (place + 1) * np.array([0.8191725134, 0.6710436067, 0.5497004779])) % 1
    long = number < LONG
    signal = between(300 if long else SIGNAL[0], 10_000 if long else SIGNAL[1], spread[0])
    users = min(signal, MOST_LONG if long else MOST)
    odds = between(RATE[0] / (1 - RATE[0]), RATE[1] / (1 - RATE[1]), spread[2])
    return World(
        users=users,
        epsilon=round(signal / users, 3),
        bins=round(between(*BINS, spread[1])),
        rate=odds / (1 + odds),
        alike=between(1, 4, rng.random()),
        leave=between(0.002, 0.01, rng.random()),
        drift=between(0.004, 0.02, rng.random()),
        own=rng.uniform(0.4, 0.8),
        weekend=rng.uniform(0.6, 1),
        seed=SEED + place,
    )


def between(low: float, high: float, part: float) -> float:
    """Return a number between two, in proportion of logarithms."""
    return float(low * (high / low) ** part)


def length(number: int) -> int:
    """Return for how many slots a world is played."""
    age = AGES[2] if number < LONG else AGES[1] if number < LONG + YEAR else AGES[0]
    return max(JUMPS[age]) + 1


def run(file: Path, numbers: range, world: Callable[[int], World], slots: Callable[[int], int]) -> list[Found]:
    """Play worlds, the shortest first, and keep what was found in a file."""
    known = {int(name): value for name, value in json.loads(file.read_text()).items()} if file.exists() else {}
    for number in sorted(numbers, key=slots):
        if number not in known:
            begun = time.perf_counter()
            outcome = play(world(number), slots(number))
            known[number] = [outcome.users, outcome.stickiness, outcome.squares]
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(known))
            print(number, world(number), f"{time.perf_counter() - begun:.0f} s", flush=True)
    return [Found(*known[number]) for number in numbers]


class Seen(NamedTuple):
    """An error of a world: where it belongs in the table, and what it was."""

    signal: float
    bins: float
    stickiness: float
    age: int
    error: float


def collect(worlds: Sequence[World], outcomes: Sequence[Found]) -> dict[str, list[Seen]]:
    """Return all errors by their names."""
    seen = defaultdict[str, list[Seen]](list)
    for world, each in zip(worlds, outcomes, strict=True):
        for age in AGES:
            for name, error in each.errors(age).items():
                seen[name].append(Seen(each.users * world.epsilon, world.bins, each.stickiness, age, error))
    return seen


def describe(name: str, seen: Seen) -> list[float]:
    """Return what the logarithm of an error depends on.

    A jump is missed or seen: that depends on users × ε per bin, by which users wait to be measured, and bends there.
    """
    old, older = float(seen.age >= AGES[1]), float(seen.age >= AGES[2])
    if name == "jump":
        clear = np.log(seen.signal / seen.bins / CLEAR)
        bends = [max(clear - bend, 0) / 2 for bend in BENDS]
        return [1, *bends, old, old * bends[1], older]
    signal, sticky = np.log(seen.signal / 3000) / 3, np.log(seen.stickiness / (1 - seen.stickiness))
    by_bins = [np.log(seen.bins / 50) / 2] if name.startswith("share") else []
    by_age = [old, old * signal, old * sticky, older, older * sticky]
    return [1, signal, signal**2, sticky, signal * sticky, *by_age, *by_bins]


def fit(name: str, seen: Sequence[Seen]) -> np.ndarray:
    """Return coefficients of the logarithm of the mean square error: squares have errors in proportion to themselves.

    Each round is of least squares; a small penalty holds what nothing is known of at zero.
    """
    terms = np.array([describe(name, each) for each in seen])
    squares = np.array([each.error for each in seen]) ** 2
    penalty = np.diag([0.0, 0.0, *np.full(terms.shape[1] - 2, PENALTY)])
    coefficients = np.linalg.solve(terms.T @ terms + penalty, terms.T @ np.log(squares))
    for _ in range(ROUNDS):
        said = terms @ coefficients
        aim = said + np.clip(squares / np.exp(said) - 1, -1, FAR)
        coefficients = np.linalg.solve(terms.T @ terms + penalty, terms.T @ aim)
    return np.asarray(coefficients / 2)


def tabulate(name: str, law: np.ndarray) -> list[list[list[list[float]]]]:
    """Return the errors at the grid, by age, users × ε, bins and stickiness: with more users none is larger."""
    table = np.array([
        [[[np.exp(describe(name, Seen(signal, bins, sticky, age, 0)) @ law) for sticky in STICKY] for bins in GRID_BINS]
         for signal in GRID]
        for age in AGES
    ])  # fmt: skip
    table = np.minimum.accumulate(table, axis=1)
    return [[[[float(f"{e:.3g}") for e in row] for row in rows] for rows in each] for each in table.tolist()]


def main() -> None:
    """Play all worlds, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("build/plan-runs.json"))
    options = parser.parse_args()
    numbers = range(LONG + YEAR + SHORT)
    seen = collect([draw(number) for number in numbers], run(options.runs, numbers, draw, length))
    head = {
        "command": "python benchmarks/plan_table.py",
        "worlds": [[SHORT, length(LONG + YEAR)], [YEAR, length(LONG)], [LONG, length(0)]],
        "seeds": sorted(draw(number).seed for number in numbers),
        "estimator": trained_digest(),
        "within": json.loads(TABLE.read_text("utf-8"))["within"] if TABLE.exists() else [0.0, 0.0],
        "ages": list(AGES),
        "signal": GRID,
        "bins": GRID_BINS,
        "stickiness": STICKY,
    }
    rows = [f"  {json.dumps(name)}: {json.dumps(tabulate(name, fit(name, seen[name])))}" for name in LABELS]
    lines = [*(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()), ' "errors": {']
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n" + ",\n".join(rows) + "\n }\n}\n", "utf-8")


if __name__ == "__main__":
    main()
