"""Private discovery of values on real streams, beside the list that was taken as known.

    DPI_DATA=folder python benchmarks/discovery.py [--seeds 3] [--later] [stream …]

One slot of discovery over the whole stream; `epsilon` is what that slot costs a user. A cell is the share of all users'
weight that lies on the values found, and how many they are; "list" is the same for as many of the truly most frequent
values as discovery found: what a public list of that length would cover.

    discovery       noise on every text, a threshold for each length (what `dpi.Discovery` does; pure ε)
    one threshold   the same with one threshold for all texts (pure ε)
    prefixes        four bytes more in each of the steps, an equal part of ε each (pure ε)
    ε and δ         noise on the values that occur alone, threshold for δ = 10^-6: weaker, not pure

With `--later`, what the quota takes from the releases that follow: KL(truth ‖ release), mean over slots, of a stream
with the values found and ε = 2, and with what a quota of 10, 20 or 50 % leaves of it. Truths are private: this is no
release.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict

import numpy as np
import polars as pl

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import TextHistogram
from dpi.mechanism.sparse import SparseHistogram
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi_research.evaluation import divergence
from real import STREAMS, Source, load

EPSILONS = ("0.1", "0.2", "0.5", "1")
UNIVERSES = {"retail": dpi.Texts(40), "honeypot": dpi.Texts(8, "digits")}
"""Others: texts of up to 32 bytes."""
FAILURE, DELTA, STEP = 0.001, 1e-6, 4
CHOSEN = ("honeypot", "retail", "flights", "wiki", "retail-country", "flights-carrier", "wiki-country")
QUOTAS = ("0.1", "0.2", "0.5")


def weights(source: Source) -> tuple[list[str], Integers]:
    """The different values of a stream, and the grains of each: one unit of each user over the whole stream."""
    slots = load(source)[1]
    users, values = (pl.concat([pair[part] for pair in slots]) for part in (0, 1))
    known = values.drop_nulls().unique().sort()
    clean = dpi.histogram.compress(users, values, dpi.Categories(known, other=None))
    return known.to_list(), clean.grains


def discovered(texts: list[str], grains: Integers, universe: dpi.Texts, epsilon: Epsilon, seed: int) -> list[str]:
    mechanism, inside = SparseHistogram(FAILURE, most=1 << 14), [text in universe for text in texts]
    clean = TextHistogram(grains[inside], GRAINS, texts=[t for t, here in zip(texts, inside, strict=True) if here])
    state = mechanism.initial(universe)
    seen = mechanism.measure(state, clean, epsilon, 0, UnsafeSeededSource(seed))
    return list(mechanism.update(state, seen)[0].last)


def above(texts: list[str], grains: Integers, users: float, epsilon: Epsilon, seed: int) -> list[str]:
    """The texts whose noisy grains are those of so many users or more."""
    noisy = add_laplace(grains, epsilon.scale, UnsafeSeededSource(seed))
    return [text for text, y in zip(texts, noisy.tolist(), strict=True) if y >= users * GRAINS]


def one_threshold(texts: list[str], grains: Integers, universe: dpi.Texts, epsilon: Epsilon, seed: int) -> list[str]:
    return above(texts, grains, (math.log(universe.count) + math.log(1 / FAILURE)) / float(epsilon), epsilon, seed)


def prefixes(texts: list[str], grains: Integers, universe: dpi.Texts, epsilon: Epsilon, seed: int) -> list[str]:
    """Prefixes of 4, 8, … bytes that pass, and of these alone the longer ones."""
    steps = -(-universe.length // STEP)
    part = Epsilon.at_most(epsilon.fraction / steps)
    more = math.log(dpi.Texts(STEP, universe.alphabet, characters=universe.characters).count + 1)
    kept, whole = {""}, set(texts)
    for step in range(1, steps + 1):
        sums: dict[str, int] = defaultdict(int)
        for text, weight in zip(texts, grains.tolist(), strict=True):
            if text[: STEP * (step - 1)] in kept:  # characters: the streams here have next to none of several bytes
                sums[text[: STEP * step]] += weight
        users = (math.log(max(len(kept), 1)) + more + math.log(steps / FAILURE)) / float(part)
        kept = {*above(list(sums), np.array([*sums.values()], dtype=np.int64), users, part, seed + 97 * step)}
    return [text for text in kept if text in whole]


def weaker(texts: list[str], grains: Integers, universe: dpi.Texts, epsilon: Epsilon, seed: int) -> list[str]:
    """(ε, δ): of values that only one user has, any passes with probability δ at most, however many these are.

    The user adds a_v grains to new values v, Σ a_v ≤ G: Σ P(a_v + Z ≥ θ) < max(G·e^(ε/G), e^ε)·e^(-θ·ε/G).
    """
    amount = float(epsilon)
    return above(texts, grains, (max(math.log(GRAINS), amount) + math.log(1 / DELTA)) / amount, epsilon, seed)


WAYS = {"discovery": discovered, "one threshold": one_threshold, "prefixes": prefixes, "ε and δ": weaker}


def coverage(name: str, seeds: int) -> None:
    """The rows of one stream."""
    texts, grains = weights(STREAMS[name])
    universe, total = UNIVERSES.get(name, dpi.Texts(32)), float(grains.sum())
    held = dict(zip(texts, grains.tolist(), strict=True))
    ranked = np.sort(grains)[::-1].cumsum() / total
    print(f"{name}: {len(texts):,} values, {total / GRAINS:,.0f} users, {universe!r}")
    for epsilon in map(Epsilon.at_most, EPSILONS):
        cells, number = [], 0.0
        for way, find in WAYS.items():
            found = [find(texts, grains, universe, epsilon, seed) for seed in range(seeds)]
            share = np.mean([sum(held.get(text, 0) for text in each) / total for each in found])
            count = float(np.mean([len(each) for each in found]))
            number = count if way == "discovery" else number
            cells.append(f"{way} {share:6.1%} ({count:,.0f})")
        listed = ranked[round(number) - 1] if round(number) else 0.0
        print(f"  ε = {float(epsilon):<4g} {'   '.join(cells)}   list {listed:6.1%}", flush=True)


def later(name: str, seeds: int) -> None:
    """What a quota takes from the releases that follow: mean KL over slots, on the values found with ε = 0.4."""
    texts, grains = weights(STREAMS[name])
    found = discovered(texts, grains, UNIVERSES.get(name, dpi.Texts(32)), Epsilon.at_most("0.4"), 0)
    if not found:
        print(f"{name}: no value found with ε = 0.4")
        return
    domain = dpi.Categories([text for text in found if text != "other"])
    slots = load(STREAMS[name])[1]
    cells = []
    for quota in (None, *QUOTAS):
        mean = np.mean([_divergence(domain, slots, quota, seed) for seed in range(seeds)])
        cells.append(f"{'all of ε' if quota is None else f'{1 - float(quota):.0%}'} {mean:.4f}")
    print(f"{name}: {domain.size} bins, {len(slots)} slots: {'   '.join(cells)}", flush=True)


def _divergence(
    domain: dpi.Categories, slots: list[tuple[pl.Series, pl.Series]], quota: str | None, seed: int
) -> float:
    store = dpi.MemoryStore()
    if quota is not None:
        dpi.Discovery(texts=dpi.Texts(32), epsilon=2, quota=quota, store=store)  # declared: its part is taken
    stream = dpi.Stream(domain=domain, epsilon=2, store=store, unsafe_source=UnsafeSeededSource(seed))
    errors = []
    for users, values in slots:
        release, truth = (
            stream.release(users, values),
            dpi.histogram.compress(users, values, domain).grains.astype(float),
        )
        if truth.sum() > 0:
            errors.append(divergence(truth / truth.sum(), release.pdf))
    return float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="*", default=CHOSEN)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--later", action="store_true")
    options = parser.parse_args()
    for name in options.streams or CHOSEN:
        (later if options.later else coverage)(name, options.seeds)


if __name__ == "__main__":
    main()
