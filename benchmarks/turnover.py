"""Values that come and go: what a stream with `domain="discover"` knows of a vocabulary that is replaced bit by bit.

    python benchmarks/turnover.py [--users 200000] [--epsilon 1] [--slots 32] [--seeds 2]

Made up: 200 words of a Zipf law (exponent 1.1), each replaced by a new one with a probability of 5 % in every slot;
half of the users are active in a slot, with two words each. A row is a share of users who are replaced by new ones in
every slot; 0 is a population without newcomers. `recall` is the share of the 50 truly most frequent words that are
listed, in slots 1, 3, 8 and 16 and on average after slot 8; `slots` the median number of slots from a word's first
appearance to its listing, over those that were listed; `found` how many new words that were; `distance` the total
variation distance between the release and the truth on the listed words, on average after slot 8. Truths are private:
this is no release.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import dpi
from dpi.noise import UnsafeSeededSource
from measure import ESTIMATES, Cell, record

Floats = npt.NDArray[np.float64]
WORDS, TURNOVER = 200, 0.05
LAW: Floats = np.arange(1, WORDS + 1) ** -1.1 / (np.arange(1, WORDS + 1) ** -1.1).sum()
Slot = tuple[npt.NDArray[np.int64], list[str], list[str]]
"""Users, their words, and the words by rank."""


def world(users: int, slots: int, newcomers: float, seed: int) -> Iterator[Slot]:
    chance = np.random.default_rng(seed)
    words, people = [f"/p{number:05d}" for number in range(WORDS)], np.arange(users)
    following, number = WORDS, users
    for _ in range(slots):
        for place in np.flatnonzero(chance.random(WORDS) < TURNOVER):
            words[place], following = f"/p{following:05d}", following + 1
        gone = chance.random(users) < newcomers
        people[gone] = np.arange(number, number + gone.sum())
        number += int(gone.sum())
        active = people[chance.random(users) < 0.5]
        chosen = chance.choice(WORDS, size=2 * active.size, p=LAW)
        yield np.repeat(active, 2), [words[place] for place in chosen], list(words)


def play(slots: Iterator[Slot], epsilon: float, seed: int) -> tuple[list[float], list[int], list[float]]:
    """Recall of every slot, slots until new words were listed, and distances."""
    stream = dpi.Stream(domain="discover", epsilon=epsilon, unsafe_source=UnsafeSeededSource(seed))
    recall, waits, distances = [], [], []
    born, listed = dict[str, int](), set[str]()
    for slot, (users, values, words) in enumerate(slots):
        born |= {word: slot for word in words if word not in born}
        domain = stream.domain
        assert isinstance(domain, dpi.Categories)
        known = set(domain.values)
        recall.append(len(known.intersection(words[:50])) / 50)
        waits += [slot - born[word] for word in known - listed if born.get(word, 0) > 0]
        listed |= known
        release, truth = stream.release(users, values), np.zeros(domain.size)
        np.add.at(truth, domain.encode(words), LAW)
        distances.append(float(np.abs(truth - release.pdf).sum() / 2))
    return recall, waits, distances


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--epsilon", type=float, default=1)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    rows = list[list[Cell]]()
    for newcomers in (0.3, 0.05, 0.0):
        runs = [play(world(args.users, args.slots, newcomers, seed), args.epsilon, seed) for seed in range(args.seeds)]
        recall = np.mean([run[0] for run in runs], axis=0)
        waits, distance = [wait for run in runs for wait in run[1]], np.mean([run[2][8:] for run in runs])
        early: Cell = {str(slot): float(recall[slot]) for slot in (1, 3, 8, 16) if slot < args.slots}
        wait = float(np.median(waits)) if waits else None
        later, found = float(recall[8:].mean()), len(waits) / len(runs)
        rows.append([100 * newcomers, early, later, wait, found, float(distance)])
        print(*rows[-1], flush=True)
    record(
        "discovery-turnover",
        parts=(*ESTIMATES, "domain"),
        about=f"{args.users:,} users, ε = {args.epsilon:g}; {WORDS} words, {TURNOVER:.0%} of them new in every slot.",
        columns=["newcomers, %", "recall by slot", "recall later", "slots until listed", "new words found", "distance"],
        rows=rows,
        seeds=range(args.seeds),
    )


if __name__ == "__main__":
    main()
