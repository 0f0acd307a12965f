"""Numbers of a count in populations unlike those that its weights were trained on, and what makes their intervals hold.

    python benchmarks/unlike.py [--worlds 6] [--slots 90]

Five kinds: *steady* users of one rate, of whom some leave and as many come; *lives*, in which a newcomer comes for so
many slots and then never; *once*, where most newcomers never return; *weekdays*, where everybody has one or two of
them; *growth*, with more newcomers in each slot. Sizes are 1,000 to 20,000 users a slot, ε is .2. Each number is
compared with the truth in the slots from the 30th on. `inside` is the part of slots in which the truth is in the
interval as the heads say it, a mean over worlds; `worst kind` the same of the worst kind. `factor` is the 95 % quantile
of errors over half-widths, where every world counts as much: by it intervals are to be widened, so that they hold in
95 % of the slots of worlds like these (split conformal prediction). `inside then` is what intervals hold that were
widened by the quantile of the *other* kinds: kinds that the factor has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np

import dpi
from dpi.exact.integers import Integers
from dpi.mechanism import Mechanism
from dpi.mechanism.active_users import ActiveUsers
from dpi.release.queries import Answer
from measure import ESTIMATES, Cell, record

NUMBERS = ("total", "newcomers", "active_7", "active_28", "stickiness_7", "stickiness_28")
FIRST, QUANTILE = 30, 0.95
Days = Iterator[Integers]


def steady(rng: np.random.Generator, users: int, slots: int) -> Days:
    """Yield who is active: users of one rate; some leave, and as many come."""
    rate, leave = rng.uniform(0.05, 0.9), rng.choice([0, 0.003, 0.01, 0.03])
    names = np.arange(int(users / rate))
    newest = names.size
    for _ in range(slots):
        gone = np.flatnonzero(rng.random(names.size) < leave)
        names[gone] = np.arange(newest, newest + gone.size)
        newest += gone.size
        yield names[rng.random(names.size) < rate]


def lives(rng: np.random.Generator, users: int, slots: int) -> Days:
    """Yield who is active: a newcomer comes for so many slots, and then never."""
    rate, length = rng.uniform(0.05, 0.9), int(rng.integers(2, 60))
    each = int(users / (1 + rate * length))
    for slot in range(slots):
        known = np.arange(max(slot - length, 0) * each, slot * each)
        yield np.r_[known[rng.random(known.size) < rate], np.arange(slot * each, (slot + 1) * each)]


def once(rng: np.random.Generator, users: int, slots: int) -> Days:
    """Yield who is active: regulars, and newcomers of whom most never return."""
    part, stay, rate = rng.uniform(0.2, 0.9), rng.uniform(0.0, 0.1), rng.uniform(0.1, 0.9)
    each, regulars = int(part * users), np.arange(int((1 - part) * users / rate))
    newest = regulars.size
    for _ in range(slots):
        came = np.arange(newest, newest + each)
        newest += each
        yield np.r_[regulars[rng.random(regulars.size) < rate], came]
        kept = regulars[rng.random(regulars.size) < 1 - stay * each / max(regulars.size, 1)]
        regulars = np.r_[kept, came[rng.random(each) < stay]]


def weekdays(rng: np.random.Generator, users: int, slots: int) -> Days:
    """Yield who is active: everybody has one or two weekdays; some leave, and as many come."""
    rate, leave, number = rng.uniform(0.4, 1.0), rng.choice([0.001, 0.01, 0.03]), int(7 * users / 1.5)
    names, newest = np.arange(number), number
    first, second = rng.integers(0, 7, number), rng.integers(0, 7, number)
    for slot in range(slots):
        gone = np.flatnonzero(rng.random(number) < leave)
        names[gone] = np.arange(newest, newest + gone.size)
        newest += gone.size
        due = (first == slot % 7) | (second == slot % 7)
        yield names[due & (rng.random(number) < rate)]


def growth(rng: np.random.Generator, users: int, slots: int) -> Days:
    """Yield who is active: more newcomers in each slot, who stay for a while."""
    rate, leave, more = rng.uniform(0.1, 0.8), rng.uniform(0.005, 0.05), rng.uniform(1.0, 1.02)
    names, newest, each = np.arange(int(0.3 * users / rate)), int(0.3 * users / rate), 0.05 * users
    for _ in range(slots):
        came = np.arange(newest, newest + int(each))
        newest, each = newest + came.size, each * more
        yield np.r_[names[rng.random(names.size) < rate], came]
        names = np.r_[names[rng.random(names.size) >= leave], came]


KINDS: dict[str, Callable[[np.random.Generator, int, int], Days]] = {
    "steady": steady, "lives": lives, "once": once, "weekdays": weekdays, "growth": growth,
}  # fmt: skip


def play(kind: str, seed: int, slots: int) -> dict[str, list[float]]:
    """Return for each number its errors over half-widths, of the slots in which it is told."""
    rng = np.random.default_rng([seed, len(kind), 73])
    users = int(10 ** rng.uniform(3, np.log10(20_000)))
    one = dpi.Categories(["active"], other=None)
    stream = dpi.Stream(domain=one, epsilon=0.2, mechanism=cast("Mechanism[object]", ActiveUsers(7)))
    seen, days = np.zeros(10_000_000, dtype=np.bool_), list[Integers]()
    off: dict[str, list[float]] = {name: [] for name in NUMBERS}
    for slot, here in enumerate(KINDS[kind](rng, users, slots)):
        release = stream.release(here, ["active"] * here.size)
        new = here[~seen[here]]
        seen[new] = True
        days = [*days[-27:], here]
        if slot < FIRST:
            continue
        said: dict[str, tuple[Answer | None, float]] = {
            "total": (release.count(), here.size), "newcomers": (release.newcomers(), new.size),
        }  # fmt: skip
        for span in (7, 28):
            distinct = np.unique(np.concatenate(days[-span:])).size
            said[f"active_{span}"] = release.active(span), distinct
            said[f"stickiness_{span}"] = release.stickiness(span), here.size / max(distinct, 1)
        for name, (answer, truth) in said.items():
            if answer is not None:
                half = 1.96 * answer.error
                off[name].append(abs(answer.value - truth) / half if half > 0 else np.inf)
    return off


def main() -> None:
    """Play all worlds, and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--slots", type=int, default=90)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.worlds)
    plays = {kind: [play(kind, seed, options.slots) for seed in seeds] for kind in KINDS}
    rows = list[list[Cell]]()
    for name in NUMBERS:
        worlds = {kind: [np.array(each[name]) for each in plays[kind] if each[name]] for kind in KINDS}
        there = {kind: told for kind, told in worlds.items() if told}
        inside = {kind: float(np.mean([(each <= 1).mean() for each in told])) for kind, told in there.items()}
        then = [
            (each <= _factor([one for other in there if other != kind for one in there[other]])).mean()
            for kind, told in there.items() for each in told
        ]  # fmt: skip
        told = [each for kind in there.values() for each in kind]
        offered = sum(each.size for each in told) / (options.worlds * len(KINDS) * (options.slots - FIRST))
        rows.append([
            name, 100 * offered, 100 * float(np.mean([(each <= 1).mean() for each in told])),
            min(inside, key=inside.__getitem__), 100 * min(inside.values()), _factor(told), 100 * float(np.mean(then)),
        ])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    columns = ["number", "offered, %", "inside, %", "worst kind", "there, %", "factor", "inside then, %"]
    record("unlike", parts=(*ESTIMATES, "estimator"), columns=columns, rows=rows)


def _factor(worlds: list[np.ndarray]) -> float:
    """Return the quantile of errors over half-widths, where every world counts as much."""
    if not worlds:
        return 1.0
    every = np.concatenate(worlds)
    weight = np.concatenate([np.full(each.size, 1 / each.size) for each in worlds])
    order = np.argsort(every)
    reached = np.searchsorted(np.cumsum(weight[order]), QUANTILE * weight.sum())
    return float(every[order][min(int(reached), every.size - 1)])


if __name__ == "__main__":
    main()
