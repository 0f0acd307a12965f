"""Pairs of ten attributes of ten values, from one ε per user for ever: measured in rotation, all at once, or selected.

    python benchmarks/crossing.py [--seeds 1 2]

Records follow one tree of conditional tables, or two, each for half of the users. Logits drift, a tenth of the users
draw anew in every slot, some are replaced. Figures are total variations of the slot's own pairs, means of 60 slots.
A user pays in `payments` slots an equal part of ε = 1, for the next pairs or margins of a public rotation. Each has a
Kalman filter. One fit makes all pairs: margins by least squares, each pair drawn towards a tree of the others as noise
demands, raked so that margins agree. Selection follows AIM (McKenna et al. 2022). Floats: never part of the product.
"""

from __future__ import annotations

import argparse
import time
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from dpi.mechanism.base import Floats
from measure import Cell, record

ATTRIBUTES, VALUES, EPSILON, SLOTS, REDRAWN = 10, 10, 1.0, 60, 0.1
PAIRS = list(combinations(range(ATTRIBUTES), 2))
A, B = np.array(PAIRS).T
MARGINS = range(len(PAIRS), len(PAIRS) + ATTRIBUTES)  # views are numbered, pairs first
ROUNDS, ONE_WAYS, CHOICE = 9, 0.2, 0.1  # pairs selected; shares of ε for margins, of a round's ε for its choice
LAG = 0.5  # deviation of cells that filters expect, over that of logits, which users follow late; by trial, seed 0


class World:
    """A population whose records come from drifting trees."""

    def __init__(self, seed: int, users: int, trees: int, drift: float, replaced: float) -> None:
        self.rng, self.users, self.drift, self.replaced = np.random.default_rng(seed), users, drift, replaced
        self.parents = [[int(self.rng.integers(a)) if a else 0 for a in range(ATTRIBUTES)] for _ in range(trees)]
        self.order = [self.rng.permutation(ATTRIBUTES) for _ in range(trees)]
        self.logits = self.rng.normal(0, 1.5, (trees, ATTRIBUTES, VALUES, VALUES))
        self.age, self.records = np.zeros(users, np.int64), self.draw(users)

    def draw(self, users: int) -> np.ndarray:
        """Records of so many users, by the present law."""
        records, tree = np.zeros((users, ATTRIBUTES), np.int64), self.rng.integers(len(self.order), size=users)
        for t, order in enumerate(self.order):
            rows = np.flatnonzero(tree == t)
            for a, parent in enumerate(self.parents[t]):
                ends = np.cumsum(np.exp(self.logits[t, a]), 1)
                given = records[rows, order[parent]] if a else np.zeros(rows.size, np.int64)
                records[rows, order[a]] = (self.rng.random((rows.size, 1)) >= (ends / ends[:, -1:])[given]).sum(1)
        return records

    def advance(self) -> None:
        """The next slot: drift, newcomers in the place of others, users who change."""
        self.logits += self.rng.normal(0, self.drift, self.logits.shape)
        chance = self.rng.random(self.users)
        anew = chance < self.replaced + REDRAWN
        self.age = np.where(chance < self.replaced, 0, self.age + 1)
        self.records[anew] = self.draw(int(anew.sum()))


def count(records: np.ndarray, view: int) -> np.ndarray:
    """The table of a view."""
    if view in MARGINS:
        return np.bincount(records[:, view - MARGINS.start], minlength=VALUES)
    return np.bincount(VALUES * records[:, A[view]] + records[:, B[view]], minlength=VALUES**2).reshape(VALUES, VALUES)


@dataclass
class Known:
    """Means of all cells, and the variance of a view's cells: infinite, where not measured."""

    pair: Floats = field(default_factory=lambda: np.full((len(PAIRS), VALUES, VALUES), VALUES**-2.0))
    one: Floats = field(default_factory=lambda: np.full((ATTRIBUTES, VALUES), 1 / VALUES))
    variance: Floats = field(default_factory=lambda: np.full(MARGINS.stop, np.inf))

    def measure(self, rng: np.random.Generator, view: int, counts: np.ndarray, scale: float, users: int) -> None:
        """A view of those of the users who pay, with Laplace noise."""
        paid, mean = counts.sum(), self.one[view - MARGINS.start] if view in MARGINS else self.pair[view]
        noise = 2 * (scale / paid) ** 2 + (1 - paid / users) / paid / counts.size
        gain = 1 / (1 + noise / self.variance[view])
        mean += gain * ((counts + rng.laplace(0, scale, counts.shape)) / paid - mean)
        self.variance[view] = gain * noise


def fit(known: Known) -> tuple[Floats, Floats]:
    """All pairs, which agree on their margins, and the variance of each cell."""
    margins, pairs = np.zeros((ATTRIBUTES, VALUES)), known.variance[: len(PAIRS)]
    for a, margin in enumerate(margins):
        seen = np.concatenate([known.pair[a == A].sum(2), known.pair[a == B].sum(1), known.one[a][None]])
        weight = 1 / np.concatenate([VALUES * pairs[a == A], VALUES * pairs[a == B], known.variance[MARGINS][[a]]])
        mean = weight @ seen / weight.sum() if weight.sum() else known.one[a]
        margin[:] = np.maximum(mean, 0.002) / np.maximum(mean, 0.002).sum()
    independent = margins[A][:, :, None] * margins[B][:, None, :]
    found, variance = shrink(known, independent, margins, np.zeros(len(PAIRS), bool))
    expected, edges = follow_tree(found, independent, margins)
    better, closer = shrink(known, expected, margins, edges)
    own = edges[:, None, None]  # an edge of the tree must not be its own prior
    return np.where(own, found, better), np.where(own, variance, closer)


def shrink(known: Known, prior: Floats, margins: Floats, unused: np.ndarray) -> tuple[Floats, Floats]:
    """Each pair drawn towards a prior as its noise demands (Paule and Mandel 1982), then raked to the margins."""
    pairs, square, away = known.variance[: len(PAIRS)], prior**2, known.pair - prior
    away -= away.mean(1, keepdims=True)
    away -= away.mean(2, keepdims=True)
    measured = np.isfinite(pairs)
    noise = np.where(measured, pairs * (1 - 1 / VALUES) ** 2, 1e3)[:, None, None]
    spread, total = np.zeros_like(noise), noise
    for _ in range(30):
        missing = (away**2 / total).sum((1, 2), keepdims=True) - VALUES**2
        slope = (square * away**2 / total**2).sum((1, 2), keepdims=True)
        spread += np.maximum(missing, 0) / np.maximum(slope, 1e-300)
        total = spread * square + noise
    found = np.maximum(prior + spread * square / total * away, 0.05 * prior)
    hoped = (spread + 2 * np.sqrt(2 / ((square / total) ** 2).sum((1, 2), keepdims=True))) * square
    variance = hoped * noise / (hoped + noise)
    seen = measured & ~unused  # a pair without a measurement is as far from its prior as others
    variance[~measured] = (float(spread[seen].mean()) if seen.any() else 1.0) * square[~measured]
    variance += np.where(measured, pairs / VALUES, 0)[:, None, None]
    for _ in range(12):
        found *= (margins[A] / found.sum(2))[:, :, None]
        found *= (margins[B] / found.sum(1))[:, None, :]
    return found, variance


def follow_tree(found: Floats, independent: Floats, margins: Floats) -> tuple[Floats, np.ndarray]:
    """The pairs that the tree of largest mutual information implies, and which pairs are its edges."""
    information = np.zeros((ATTRIBUTES, ATTRIBUTES))
    information[A, B] = information[B, A] = (found * np.log(found / independent)).sum((1, 2))
    joint = np.zeros((ATTRIBUTES, ATTRIBUTES, VALUES, VALUES))
    joint[range(ATTRIBUTES), range(ATTRIBUTES)] = [np.diag(margin) for margin in margins]
    inside, edges = [0], np.zeros(len(PAIRS), bool)
    while len(inside) < ATTRIBUTES:
        new, old = max(product({*range(ATTRIBUTES)} - {*inside}, inside), key=lambda edge: float(information[edge]))
        p = PAIRS.index((min(new, old), max(new, old)))
        edges[p] = True
        for other in inside:
            joint[new, other] = (found[p] if new < old else found[p].T) / margins[old] @ joint[old, other]
            joint[other, new] = joint[new, other].T
        inside.append(new)
    return np.maximum(joint[A, B], 1e-7), edges


def select(rng: np.random.Generator, world: World) -> tuple[Known, list[int]]:
    """One shot at the first slot: one-way margins, then pairs by the exponential mechanism, each measured at once."""
    known, chosen, users = Known(), list[int](), world.users
    for view in MARGINS:
        known.measure(rng, view, count(world.records, view), ATTRIBUTES / (ONE_WAYS * EPSILON), users)
    tables = np.array([count(world.records, view) for view in range(len(PAIRS))])
    each = (1 - ONE_WAYS) * EPSILON / ROUNDS
    for _ in range(ROUNDS):
        score = np.abs(tables - users * fit(known)[0]).sum((1, 2))  # noise is the same for all: no penalty
        score[chosen] = -np.inf
        chosen.append(int(np.argmax(CHOICE * each * score / 2 + rng.gumbel(size=score.size))))
        known.measure(rng, chosen[-1], tables[chosen[-1]], 1 / ((1 - CHOICE) * each), users)
    return known, chosen


@dataclass
class Method:
    """The views that are measured in turn, how many a slot, in how many slots a user pays, and what is known."""

    turn: list[int]
    each: int
    payments: int
    known: Known = field(default_factory=Known)
    since: int = 0  # users who came before this slot have paid already
    seconds: float = 0.0  # of the slowest slot: counts, filters and fit
    errors: list[Floats] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pairs, self.variance = fit(self.known)

    def close_slot(self, rng: np.random.Generator, slot: int, world: World, truth: Floats) -> None:
        """Measure, fit, compare; a slot without payers is held. Their number and the drift are taken as known."""
        begin = time.perf_counter()
        paying = world.records[(world.age < self.payments) & (slot - world.age >= self.since)]
        due = [self.turn[(slot * self.each + i) % len(self.turn)] for i in range(self.each if len(paying) else 0)]
        moved = (LAG * world.drift * self.pairs) ** 2
        self.variance = self.variance + moved
        self.known.variance[: len(PAIRS)] += moved.mean((1, 2))
        self.known.variance[MARGINS] += (LAG * world.drift / VALUES) ** 2
        for view in due:
            self.known.measure(rng, view, count(paying, view), self.payments * self.each / EPSILON, world.users)
        if due:
            self.pairs, self.variance = fit(self.known)
            self.seconds = max(self.seconds, time.perf_counter() - begin)
        off = np.abs(self.pairs - truth)
        self.errors.append(off.sum((1, 2)) / 2)
        self.inside.append(float((off <= 1.96 * self.variance**0.5).mean()))

    def score(self, pairs: list[int], selected: list[int]) -> list[float]:
        """Errors of some pairs, in the last third, and of pairs that were not selected; cells inside; seconds."""
        errors, held = np.array(self.errors)[:, pairs], np.delete(self.errors, selected, 1)
        return [float(np.mean(of)) for of in (errors, errors[-SLOTS // 3 :], held, self.inside)] + [self.seconds]


FEW = "rotation of 5 pairs alone, errors of these; 5 payments"
ALL, TURNS, BOTH = "all pairs, 1 payment", "rotation, 5 a slot, 9 payments", "one shot, then rotation"
SHOWN = ("one-way margins", "one shot", ALL, TURNS, BOTH)
WORLDS = {"a tree": (1, 0.03), "two trees": (2, 0.03), "a tree, fast drift": (1, 0.1)}


def play(world: World, rng: np.random.Generator) -> dict[str, list[float]]:
    """The scores of all methods."""
    turn = [int(p) for p in rng.permutation(len(PAIRS))]
    known, chosen = select(rng, world)
    methods = {
        "uniform guess": Method([], 0, 0), SHOWN[0]: Method([*MARGINS], 1, 10), SHOWN[1]: Method([], 0, 0, known),
        "all pairs, 21 payments": Method(turn, 45, 21), ALL: Method(turn, 45, 1), TURNS: Method(turn, 5, 9),
        "rotation, 1 a slot, 21 payments": Method(turn, 1, 21), "rotation, 3 a slot, 21 payments": Method(turn, 3, 21),
        BOTH: Method(chosen, 1, ROUNDS, deepcopy(known), 1), FEW: Method(turn[:5], 1, 5),
    }  # fmt: skip
    for slot in range(SLOTS):
        truth = np.array([count(world.records, view) for view in range(len(PAIRS))]) / world.users
        for method in methods.values():
            method.close_slot(rng, slot, world, truth)
        world.advance()
    return {name: method.score(turn[:5] if name == FEW else turn, chosen) for name, method in methods.items()}


def main() -> None:
    """Print total variations by law, and those of all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    seeds = parser.parse_args().seeds
    rows, found, nearer = list[list[Cell]](), list[dict[str, Floats]](), 0
    sizes = list(product((5_000, 50_000), (0.0, 0.05)))
    for (law, (trees, drift)), (users, replaced) in product(WORLDS.items(), sizes):
        plays = [play(World(seed, users, trees, drift, replaced), np.random.default_rng(seed + 100)) for seed in seeds]
        mean = {name: np.mean([each[name] for each in plays], 0) for name in plays[0]}
        rows.append([f"{law}; {users:,}; {100 * replaced:.0f} %", *(mean[name][[0, 2]].tolist() for name in SHOWN)])
        nearer += mean[TURNS][0] <= 0.8 * min(mean[name][0] for name in SHOWN[:3])
        found.append(mean)
    columns, values = ["law; users; replaced a slot", *SHOWN], {"nearer by a fifth": f"{nearer} of {len(rows)}"}
    record("crossing", parts=(), columns=columns, rows=rows, seeds=seeds, values=values)
    rows = []
    for name in found[0]:
        means = [mean[name] for mean in found]
        by_size = [np.mean(means[at :: len(sizes)], 0)[:2].tolist() for at in range(len(sizes))]
        rows.append([name, *by_size, f"{100 * np.mean(means, 0)[3]:.0f}", float(np.max(means, 0)[4])])
    columns = ["method", *(f"{users:,}; {100 * replaced:.0f} %" for users, replaced in sizes), "inside, %", "s a slot"]
    record("crossing-methods", parts=(), columns=columns, rows=rows, seeds=seeds)


if __name__ == "__main__":
    main()
