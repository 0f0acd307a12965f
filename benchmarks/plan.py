"""What plans said, beside what then happened: streams of worlds that the table of `dpi plan` was not made of.

    python benchmarks/plan.py [--runs build/plan-judged.json]

Each of `WORLDS` has other numbers than those of the table, another law of who comes and stays, and seeds of its own. It
is played `SHORT` times for a month and `YEAR` times for a year. What happened is the root mean square over these
streams. An error is within a quarter if plan and happening differ by no more than 25 % of what happened.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import dpi
from dpi.planning import ACROSS, AGES, LABELS
from measure import ESTIMATES, Cell, record
from plan_table import TABLE, run
from plan_worlds import JUMPS, Found, World

SHORT, YEAR, SEED = 8, 3, 9000
WORLDS = {
    "shop": World(3_000, 1, 20, 0.15, alike=1.2, leave=0.012, drift=0.02, own=0.3, weekend=0.6),
    "office": World(800, 2, 12, 0.6, alike=2, leave=0.001, drift=0.005, own=0.9, weekend=0.5, regulars=0.4),
    "news": World(16_000, 0.5, 60, 0.3, alike=0.8, leave=0.006, drift=0.03, own=0.4, weekend=0.9),
    "game": World(5_000, 1, 8, 0.4, alike=6, leave=0.02, drift=0.01, own=0.7, weekend=1.2),
    "forum": World(1_500, 1, 150, 0.12, alike=1, leave=0.005, drift=0.015, own=0.8, weekend=1, regulars=0.05),
    "app": World(12_000, 4, 300, 0.5, alike=1.5, leave=0.003, drift=0.01, own=0.5, weekend=0.9, regulars=0.2),
    "library": World(400, 1, 30, 0.08, alike=2.5, leave=0.002, drift=0.008, own=0.6, weekend=0.7),
    "bank": World(6_000, 1.5, 40, 0.2, alike=0.6, leave=0.001, drift=0.006, own=0.5, weekend=0.4),
}
SHOWN = ("shop", "news", "bank")
"""Three plans that are told in full."""
COLUMNS = [
    "95 % error of", "compared", "within a quarter, %", "within a factor of two, %", "planned / happened (median)",
    "largest factor",
]  # fmt: skip


def draw(number: int) -> World:
    """Return a world of a stream: one after the other."""
    return list(WORLDS.values())[number % len(WORLDS)]._replace(seed=SEED + number)


def length(number: int) -> int:
    """Return for how many slots a stream is played."""
    return max(JUMPS[AGES[1] if number < YEAR * len(WORLDS) else AGES[0]]) + 1


def compare(outcomes: Mapping[int, Found]) -> dict[tuple[str, int, str], tuple[float, float]]:
    """Return what was planned and what happened, by world, age and question."""
    pairs = {}
    for place, (name, world) in enumerate(WORLDS.items()):
        streams = [each for number, each in outcomes.items() if number % len(WORLDS) == place]
        users = round(float(np.mean([each.users for each in streams])))
        sticky = float(np.mean([each.stickiness for each in streams]))
        plan = dpi.plan(epsilon=world.epsilon, users=users, bins=world.bins, stickiness=sticky)
        for age in AGES[:2]:
            errors = [known for each in streams if (known := each.errors(age))]
            for question in LABELS:
                happened = [known[question] for known in errors if question in known]
                if happened:
                    told = plan.error(question, age) / 100
                    pairs[name, age, question] = told, float(np.sqrt(np.mean(np.square(happened))))
    return pairs


def judge(pairs: list[tuple[float, float]]) -> list[Cell]:
    """Return how many there are, the parts within a quarter and a factor of two, and by how much they differ."""
    ratio = np.array([told / happened for told, happened in pairs])
    far = np.maximum(ratio, 1 / ratio)
    near = [100 * float((abs(ratio - 1) <= 0.25).mean()), 100 * float((far <= 2).mean())]
    return [len(pairs), *near, float(np.median(ratio)), float(far.max())]


def main() -> None:
    """Play all streams, and record what was planned and what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("build/plan-judged.json"))
    options = parser.parse_args()
    numbers = range((YEAR + SHORT) * len(WORLDS))
    pairs = compare(dict(zip(numbers, run(options.runs, numbers, draw, length), strict=True)))
    rows: list[list[Cell]] = [
        [label, *judge([pair for (_, _, of), pair in pairs.items() if of == question])]
        for question, label in LABELS.items()
    ]
    parts = {"all but those of 7 and 28 slots": False, "those of 7 and 28 slots": True}
    rows += [
        [label, *judge([pair for (_, _, of), pair in pairs.items() if (of in ACROSS) == across])]
        for label, across in parts.items()
    ]
    within = [round(float(str(row[2])), 1) for row in rows[-2:]]
    record("plan", parts=ESTIMATES, columns=COLUMNS, rows=rows, seeds=[SEED + each for each in numbers])
    shown: list[list[Cell]] = [
        [label, *([100 * each for each in pairs[name, AGES[1], question]] for name in SHOWN)]
        for question, label in LABELS.items()
    ]
    heads = [f"{name}: planned / happened" for name in SHOWN]
    record("plan-three", parts=ESTIMATES, columns=["95 % error after 365 slots", *heads], rows=shown)
    TABLE.write_text(re.sub(r'"within": \[.*?\]', f'"within": {within}', TABLE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
