"""Worlds drawn at random: populations that come, return, change and leave, each a function of its seed.

A world has up to eight *kinds* of people. A kind has people from the first slot on, arrivals, a rate of being active, a
hazard of leaving, habits, a law over bins that drifts, and perhaps a kind that its people turn into: stages of a life,
or spells of activity. What happens to all: weekdays or hours, in activity and in laws; growth; holidays, campaigns,
launches, removals, migrations from one bin to another, outages, jumps. Most worlds are boring: few of these happen.

The prior may change only together with `VERSION`, which is part of the card of weights that were trained on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpi.estimator.prices import Floats

VERSION = "3"
Random = np.random.Generator


@dataclass
class Kind:
    """People who are alike."""

    stock: int
    """How many there are in the first slot."""
    arrivals: float
    """Newcomers a slot."""
    rate: float
    """How likely one of them is active in a slot."""
    leave: float
    """The hazard of leaving for good; 1 comes once."""
    habit: float
    """How likely a visit repeats the person's own bin."""
    law: int
    """Which of the world's laws visits follow."""
    turn: float = 0.0
    """The hazard of turning into the kind `into`."""
    into: int = 0
    rhythm: float = 0.0
    """How much of the world's rhythm the activity has."""
    every: int = 0
    """Every so many slots …"""
    wave: float = 0.0
    """… so many more newcomers come."""


@dataclass(frozen=True)
class Happening:
    """Something that happens to laws or to activity, from one slot to before another."""

    what: str
    """jump, launch, removal, migration, holiday, campaign, outage, reshuffle."""
    begin: int
    end: int
    bin: int = 0
    other: int = 0
    size: float = 0.0


@dataclass
class World:
    """All that a population does; what its people do is drawn by `crowds` or `individuals`."""

    seed: int
    bins: int
    slots: int
    epsilon: float
    kinds: list[Kind]
    laws: Floats
    """Log-levels of each law, a row each."""
    walk: Floats
    """How far the log-levels of each law move in a slot."""
    period: int | None = None
    declared: bool = False
    """Whether the period is public."""
    activity: Floats = field(default_factory=lambda: np.zeros(1))
    """The rhythm of activity, for each phase."""
    lifts: Floats = field(default_factory=lambda: np.zeros((1, 1)))
    """The rhythm of laws: what is added to log-levels in each phase."""
    growth: float = 0.0
    """By how much the logarithm of arrivals grows in a slot."""
    happenings: tuple[Happening, ...] = ()
    weather: tuple[float, float] = (0.0, 0.0)
    """What makes slots busier or calmer than people's rates say: its deviation, and how much of it lasts a slot."""


def draw_world(seed: int, *, longest: int = 2000, most_bins: int = 512) -> World:
    """Return the world of a seed."""
    rng = np.random.default_rng([seed, 51, int(VERSION)])
    bins = int(np.exp(rng.uniform(np.log(2), np.log(most_bins)))) if most_bins > 1 else 1
    slots = int(np.exp(rng.uniform(np.log(40), np.log(longest if rng.random() < 0.15 else min(400, longest)))))
    large = rng.random() < 0.5
    size = float(np.exp(rng.uniform(*np.log([1e4, 1e6] if large else [60, 1e4]))))
    epsilon = (
        float(rng.choice([0.1, 0.5, 1, 2])) if rng.random() < 0.6 else float(np.exp(rng.uniform(*np.log([0.1, 50]))))
    )
    boring = rng.random() < 0.4
    first = _law(rng, bins)
    laws = [first]
    kinds: list[Kind] = []
    for number in range(int(rng.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))):
        law = 0
        if number and rng.random() < 0.6:
            laws.append(_law(rng, bins) if rng.random() < 0.5 else first + rng.normal(0, 0.7, bins))
            law = len(laws) - 1
        part = size * rng.dirichlet([1, 1])[0] + 20
        kinds += _kinds(rng, part, law, len(kinds), laws)
        if rng.random() < 0.15:
            kinds[-1].every, kinds[-1].wave = int(rng.integers(5, 40)), float(part * rng.uniform(0.5, 4))
    count = len(laws)
    walk = rng.choice([0, 0.003, 0.01, 0.03, 0.1], size=count, p=[0.35, 0.25, 0.25, 0.1, 0.05])
    world = World(seed, bins, slots, epsilon, kinds, np.array(laws), walk)
    if rng.random() < 0.45:
        _add_rhythm(rng, world)
    if not boring:
        if rng.random() < 0.3:
            world.growth = float(rng.normal(0, 1.5) / slots)
        world.happenings = _happenings(rng, world)
    if rng.random() < 0.5:
        world.weather = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5)))), float(rng.uniform(0, 0.97))
    return world


def _law(rng: Random, bins: int) -> Floats:
    shape = rng.choice(["zipf", "normal", "spiky", "even"], p=[0.45, 0.3, 0.15, 0.1])
    if shape == "zipf":
        return np.asarray(-rng.uniform(0.5, 1.6) * np.log(rng.permutation(bins) + 1.0))
    if shape == "normal":
        return rng.normal(0, rng.uniform(0.3, 2), bins)
    if shape == "even":
        return rng.normal(0, 0.05, bins)
    law = np.full(bins, rng.uniform(0.1, 0.6) / bins)
    spikes = rng.choice(bins, max(1, min(bins // 4, int(rng.integers(1, 40)))), replace=False)
    law[spikes] += (1 - law.sum()) * rng.dirichlet(np.ones(len(spikes)))
    return np.asarray(np.log(law))


def _kinds(rng: Random, size: float, law: int, number: int, laws: list[Floats]) -> list[Kind]:
    """Return the kinds of one group of people, of whom so many are active in a slot."""
    leave = float(rng.choice([1.0, 0.3, 0.05, 0.01, 0.003, 0.0], p=[0.25, 0.1, 0.2, 0.2, 0.15, 0.1]))
    habit = float(rng.choice([0, 0.5, 0.9, 1]))
    rhythm = float(rng.uniform(0, 1)) if rng.random() < 0.8 else 0.0
    if leave == 1.0:
        return [Kind(0, size, 1.0, 1.0, 0.0, law, rhythm=rhythm)]
    rate = 1.0 if rng.random() < 0.15 else float(rng.uniform(0.03, 0.95))
    stock = 0.0 if rng.random() < 0.12 else size / rate
    arrivals = size * leave / rate * rng.uniform(0.3, 1.5) if leave and rng.random() < 0.9 else 0.0
    style = rng.choice(["plain", "unlike", "spells", "lives", "heirs"], p=[0.3, 0.36, 0.12, 0.12, 0.1])
    if style == "unlike":  # rates that differ by orders: Beta, in three parts
        rates = np.sort(rng.beta(0.4, 0.4 * (1 / min(rate, 0.9) - 1), 300)).reshape(3, 100).mean(1)
        return [
            Kind(int(stock / 3), arrivals / 3, max(float(r), 1e-3), leave, habit, law, rhythm=rhythm) for r in rates
        ]
    here = Kind(int(stock), arrivals, rate, leave, habit, law, rhythm=rhythm)
    if style == "spells":
        away = Kind(int(stock), 0.0, rate * 0.02, leave, habit, law, rng.uniform(0.02, 0.3), number, rhythm)
        here.turn, here.into = float(rng.uniform(0.02, 0.3)), number + 1
        return [here, away]
    if style == "lives":
        laws.append(laws[law] + rng.normal(0, rng.uniform(0.3, 1.5), laws[law].size))
        older = Kind(int(stock), 0.0, float(np.clip(rate * rng.uniform(0.3, 2), 0.01, 1)), leave, habit, len(laws) - 1)
        here.turn, here.into = float(rng.uniform(0.01, 0.4)), number + 1
        return [here, older]
    if style == "heirs":  # newcomers are unlike those who were there, for life
        laws.append(_law(rng, laws[law].size))
        heirs = Kind(0, arrivals, rate, leave, habit, len(laws) - 1, rhythm=rhythm)
        here.arrivals = 0.0
        return [here, heirs]
    return [here]


def _add_rhythm(rng: Random, world: World) -> None:
    period = int(rng.choice([7, 24], p=[0.6, 0.4]))
    world.period, world.declared = period, bool(rng.random() < 0.8)
    if period == 7:
        wave = rng.normal(0, 0.15, 7) - rng.uniform(0, 0.6) * (np.arange(7) >= 5)
    else:
        wave = rng.uniform(0.1, 1.2) * np.sin(2 * np.pi * (np.arange(24) / 24 + rng.random())) + rng.normal(0, 0.1, 24)
    world.activity = wave - wave.max() if rng.random() < 0.9 else np.zeros(period)
    lifts = np.zeros((period, world.bins))
    if rng.random() < 0.7:
        some = rng.random(world.bins) < rng.choice([0.1, 0.3, 1.0])
        if rng.random() < 0.5:  # a phase of its own for each bin
            lifts[rng.integers(0, period, world.bins), np.arange(world.bins)] = rng.normal(0.3, 0.4, world.bins)
        else:
            angle = 2 * np.pi * np.arange(period)[:, None] / period + rng.uniform(0, 2 * np.pi, world.bins)
            lifts = np.sin(angle) * np.abs(rng.normal(0, 0.4, world.bins))
        lifts = lifts * some
    world.lifts = lifts


def _happenings(rng: Random, world: World) -> tuple[Happening, ...]:
    happenings, bins, slots = [], world.bins, world.slots
    weights = np.exp(world.laws[0] - world.laws[0].max())
    seen = rng.choice(bins, 8, p=weights / weights.sum())
    odds = {
        "jump": 0.5,
        "launch": 0.15,
        "removal": 0.1,
        "migration": 0.15,
        "holiday": 0.2,
        "campaign": 0.25,
        "outage": 0.1,
        "reshuffle": 0.06,
    }
    for number, (what, likely) in enumerate(odds.items()):
        for _ in range(2):
            if rng.random() >= likely:
                continue
            begin = int(slots * rng.uniform(0.15, 0.9))
            lasts = int(rng.integers(1, 4)) if what in ("holiday", "outage") else int(rng.integers(3, 40))
            end = begin + lasts if what in ("holiday", "outage", "campaign", "migration") else slots
            size = {"jump": rng.normal(0.9, 0.6), "holiday": rng.normal(-0.6, 0.6), "campaign": rng.uniform(0.05, 1)}
            happenings.append(
                Happening(what, begin, end, int(seen[number]), int(rng.integers(bins)), float(size.get(what, 0.0)))
            )
    return tuple(happenings)
