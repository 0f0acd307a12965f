"""Populations drawn at random, a function of a seed: how close the default ledger's releases are, and how true.

    python benchmarks/worlds.py FIRST COUNT [--slots 60]

A world has one to three groups of users. Each has people who are there from the first slot on and people who arrive, a
rate of activity, a hazard of leaving, habits, and a law over the bins that walks; in some worlds one value jumps for
good. Prints a line for each world, beside the uniform guess, and a summary, which is the result `worlds`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import dpi
from measure import ESTIMATES, record

Floats = np.ndarray
Slot = tuple[Floats, Floats]


@dataclass
class Group:
    """People of one kind."""

    stock: int
    arrivals: float
    rate: float
    leave: float
    habit: float
    log_law: Floats
    walk: float


@dataclass
class World:
    """A population and what is asked of it."""

    bins: int
    epsilon: float
    groups: list[Group]
    jump: tuple[int, int, float] | None
    """Slot, bin, and by what its logarithm grows."""


def draw_world(seed: int, slots: int) -> World:
    """The world of a seed."""
    rng = np.random.default_rng([34, seed])
    bins = int(np.exp(rng.uniform(np.log(4), np.log(800))))
    size = float(np.exp(rng.uniform(np.log(100), np.log(10_000))))
    base = rng.normal(0, rng.uniform(0.3, 2), bins)
    groups = []
    for share in rng.dirichlet(np.ones(rng.integers(1, 4))):
        rate, leave = float(rng.uniform(0.05, 1)), float(rng.choice([1.0, 0.2, 0.03, 0.005, 0.0]))
        there = share * size
        passing = leave == 1.0
        groups.append(
            Group(
                stock=0 if passing else int(there / rate),
                arrivals=there if passing else there * leave / rate,
                rate=1.0 if passing else rate,
                leave=leave,
                habit=float(rng.choice([0.0, 0.6, 1.0])),
                log_law=base + rng.normal(0, rng.choice([0.0, 1.0]), bins),
                walk=float(rng.choice([0.0, 0.005, 0.02, 0.08])),
            )
        )
    jump = (int(slots * rng.uniform(0.3, 0.7)), int(rng.integers(bins)), float(rng.uniform(1, 2)))
    return World(bins, float(rng.choice([0.1, 0.5, 1, 2])), groups, jump if rng.random() < 0.4 else None)


def play(world: World, slots: int, seed: int) -> Iterator[Slot]:
    """Slot after slot: users and their bins."""
    rng, newest = np.random.default_rng([35, seed]), 0
    people = [np.empty((2, 0), dtype=np.int64) for _ in world.groups]
    for slot in range(slots):
        users, values = [], []
        for at, group in enumerate(world.groups):
            group.log_law = group.log_law + rng.normal(0, group.walk, world.bins)
            if world.jump and world.jump[0] == slot:
                group.log_law[world.jump[1]] += world.jump[2]
            law = np.exp(group.log_law - group.log_law.max())
            law /= law.sum()
            stay = rng.random(people[at].shape[1]) >= group.leave
            new = int(rng.poisson(group.arrivals)) + (group.stock if slot == 0 else 0)
            fresh = np.array([np.arange(newest, newest + new), rng.choice(world.bins, new, p=law)])
            newest += new
            people[at] = np.concatenate([people[at][:, stay], fresh], axis=1)
            active = people[at][:, rng.random(people[at].shape[1]) < group.rate]
            own = rng.random(active.shape[1]) < group.habit
            users.append(active[0])
            values.append(np.where(own, active[1], rng.choice(world.bins, active.shape[1], p=law)))
        yield np.concatenate(users), np.concatenate(values)


def divergence(truth: Floats, release: Floats) -> float:
    """KL divergence of a release from the slot's own PDF, in nats."""
    some = truth > 0
    return float(np.sum(truth[some] * np.log(truth[some] / release[some])))


def score(seed: int, slots: int) -> Floats:
    """Means over slots: divergence, the uniform guess's, bins and totals in 95 %; error and half-width of totals."""
    world, rows = draw_world(seed, slots), []
    stream = dpi.Stream(domain=dpi.Categories([str(i) for i in range(world.bins)], other=None), epsilon=world.epsilon)
    even = np.full(world.bins, 1 / world.bins)
    for users, values in play(world, slots, seed):
        release = stream.release(users, values.astype(str))
        if users.size < 10:
            continue
        truth = np.bincount(values, minlength=world.bins) / users.size
        lower, upper = release.interval()
        half, off = 1.96 * release.total_variance**0.5, abs(release.total - users.size)
        inside = float(np.mean((lower <= truth) & (truth <= upper)))
        errors = (divergence(truth, np.asarray(release.pdf)), divergence(truth, even), inside, off <= half)
        rows.append((*errors, off / users.size, half / users.size))
    return np.mean(rows, axis=0) if rows else np.full(6, np.nan)


def main() -> None:
    """Print a row for each world, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--slots", type=int, default=60)
    given = parser.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.count):
        row = score(seed, given.slots)
        print(f"{seed:5d}  " + "  ".join(f"{value:.4f}" for value in row), flush=True)
        rows.append(row)
    all_rows = np.array(rows)
    all_rows = all_rows[~np.isnan(all_rows[:, 0])]
    divergence, even, bins, totals, errors, halves = all_rows.T
    record(
        "worlds",
        parts=ESTIMATES,
        about=f"{len(all_rows)} random worlds from seed {given.first} on, {given.slots} slots each.",
        columns=["", "all worlds", "worst world"],
        rows=[
            [
                "divergence, of the uniform guess's",
                _float(np.exp(np.mean(np.log(divergence / even)))),
                _float((divergence / even).max()),
            ],
            ["bins inside their 95 % intervals, %", _float(100 * np.median(bins)), _float(100 * bins.min())],
            ["totals inside their 95 % intervals, %", _float(100 * np.median(totals)), _float(100 * totals.min())],
            ["error of the number of users, %", _float(100 * np.median(errors)), _float(100 * errors.max())],
            ["half-width of its interval, %", _float(100 * np.median(halves)), _float(100 * halves.max())],
        ],
        values={
            "above the uniform guess": int(np.sum(divergence > even + 0.01)),
            "totals inside below 90 %": int(np.sum(totals < 0.9)),
            "number": len(all_rows),
        },
        seeds=range(given.first, given.first + given.count),
        notes=["Of all worlds: the geometric mean of the divergence, the median of the others."],
    )


def _float(number: Floats) -> float:
    return round(float(number), 4)


if __name__ == "__main__":
    main()
