"""Populations for plans: simulated users who come, stay, leave and choose values, and what a stream then knows of them.

A world has so many active users a slot on average. Each user comes with a rate of their own, of a Beta law. A part of
them leaves in each slot and as many are new. Users prefer a value of their own, else they draw from shares that drift.
Weekends differ from working days. Values have shares of 30, 10, 5 and 1 %, and others have the rest. In a *jump* the
value of 5 % has 15 % for three slots, at the cost of the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

import dpi
from dpi.exact.integers import Integers
from dpi.mechanism import Mechanism
from dpi.planning import AGES, DEVIATIONS

SHARES, JUMPER, JUMP, LASTS = (0.3, 0.1, 0.01), 0.05, 3.0, 3
"""Which shares are measured; the share of the value that jumps, how many times as frequent it is, for how long."""
SMALL = 10
"""How many values have the smallest share, where there are enough values."""
PART = 12
"""Errors are kept as means over so many slots."""
WINDOWS = {30: range(2, 3), 365: range(14, 28), 1825: range(100, 150)}
"""In which of these parts errors are measured …"""
JUMPS = {30: (36,), 365: (336, 350, 364), 1825: (1800, 1812, 1824)}
"""… and in which slots the value jumps."""
MONTH, REGULAR = 28, 0.95


class World(NamedTuple):
    """What a population does, and what a stream of it is given."""

    users: float
    """Active users of a slot, on average."""
    epsilon: float
    bins: int
    rate: float
    """The part of slots in which a user comes while they stay, on average …"""
    alike: float = 1.7
    """… and how alike users are in it: a + b of the Beta law."""
    leave: float = 0.004
    """The part of users who leave in a slot."""
    drift: float = 0.01
    """By how much the logarithm of a share moves in a slot."""
    own: float = 0.6
    """The part of a user's slots with the user's own value."""
    weekend: float = 0.75
    """Activity on two of seven days, as a part of that of the others."""
    regulars: float = 0.0
    """A part of users who come in 95 % of slots; the others come the less."""
    seed: int = 0


class Slot(NamedTuple):
    """Who was active, with which value; how many were new, and distinct in the last slots."""

    users: Integers
    values: Integers
    new: int
    week: int
    month: int


class Found(NamedTuple):
    """What happened in a world: mean users a slot, stickiness, and mean squares of errors."""

    users: float
    stickiness: float
    squares: Mapping[str, Sequence[float | None]]
    """By question: of each part, of as many as there are; of jumps, each one's."""

    def errors(self, age: int) -> dict[str, float]:
        """Return root mean squares after so many slots, times 1.96 but for jumps."""
        first = sum(len(JUMPS[before]) for before in AGES if before < age)
        jumps = self.squares["jump"][first : first + len(JUMPS[age])]
        errors_of = {"jump": jumps} if len(jumps) == len(JUMPS[age]) else {}
        for name, squares in self.squares.items():
            if name != "jump" and len(squares) >= WINDOWS[age].stop:
                errors_of[name] = squares[WINDOWS[age].start : WINDOWS[age].stop]
        known = {name: [each for each in squares if each is not None] for name, squares in errors_of.items()}
        return {
            name: float(np.sqrt(np.mean(squares))) * (1.0 if name == "jump" else DEVIATIONS)
            for name, squares in known.items()
            if squares
        }


def first_law(bins: int) -> tuple[np.ndarray, Mapping[str, Integers], np.ndarray]:
    """Return all shares, which values have a share that is measured, and which have the rest."""
    fixed = [0.3, 0.1, 0.01, JUMPER]
    if bins >= 8:
        small = min(SMALL, (bins - 4) // 3)
        fixed += [0.1] + [0.01] * (small - 1)
    rest = 1 / np.arange(1.0, bins - len(fixed) + 1)
    law = np.r_[fixed, (1 - sum(fixed)) * rest / rest.sum()]
    places = {f"share_{round(100 * share)}": np.flatnonzero(law[: len(fixed)] == share) for share in SHARES}
    return law, places, np.arange(len(fixed), bins)


def live(world: World, slots: int) -> Iterator[Slot]:
    """Yield the slots of a world."""
    rng = np.random.default_rng([world.seed, 93])
    base = np.log(first_law(world.bins)[0])
    rest = np.zeros(world.bins, dtype=bool)
    rest[first_law(world.bins)[2]] = True
    moved = np.zeros(world.bins)
    jumper = 3
    mean = (5 + 2 * world.weekend) / 7
    people = max(round(world.users / world.rate), 1)
    rate, names, newest = _rates(rng, world, people), np.arange(people), people
    own = rng.choice(world.bins, people, p=_law(base))
    last = np.full(people, -MONTH)
    jumps = {first + after for each in JUMPS.values() for first in each for after in range(LASTS)}
    came = np.zeros(people, dtype=bool)
    for slot in range(slots):
        moved = 0.99 * moved + world.drift * rng.normal(size=world.bins)
        law = _law(base + moved)
        gone = np.flatnonzero(rng.random(people) < world.leave)
        names[gone], newest = np.arange(newest, newest + gone.size), newest + gone.size
        last = np.r_[last, np.full(gone.size, -MONTH)]
        rate[gone], came[gone] = _rates(rng, world, gone.size), False
        anew = np.r_[gone, np.flatnonzero(rng.random(people) < 0.02)]
        own[anew] = rng.choice(world.bins, anew.size, p=law)
        busy = (world.weekend if slot % 7 >= 5 else 1.0) / mean
        here = np.flatnonzero(rng.random(people) < rate * busy)
        values = np.where(rng.random(here.size) < world.own, own[here], rng.choice(world.bins, here.size, p=law))
        if slot in jumps:
            part = (JUMP - 1) * law[jumper] / max(law[rest].sum(), 1e-9)
            values[rest[values] & (rng.random(here.size) < part)] = jumper
        last[names[here]] = slot
        new = int((~came[here]).sum())
        came[here] = True
        week, month = (int((last > slot - window).sum()) for window in (7, MONTH))
        yield Slot(names[here], values, new, week, month)


def play(world: World, slots: int) -> Found:
    """Return what a stream knows of a world, as errors."""
    named = np.array([str(value) for value in range(world.bins)])
    mechanism = cast("Mechanism[object]", dpi.Boosted(season=7))
    domain = dpi.Categories(list(named), other=None)
    stream = dpi.Stream(domain=domain, epsilon=world.epsilon, mechanism=mechanism, people="0.2")
    squares, jumps = defaultdict[str, list[list[float]]](list), list[float]()
    places = first_law(world.bins)[1]
    users, sticky = list[int](), list[float]()
    for number, slot in enumerate(live(world, slots)):
        release, total = stream.release(slot.users, named[slot.values]), slot.users.size
        users.append(total)
        if number >= MONTH:
            sticky.append(total / slot.month)
        off = release.pdf - np.bincount(slot.values, minlength=world.bins) / total
        if any(number in each for each in JUMPS.values()):
            jumps.append(float(off[3]) ** 2)
        wrong: dict[str, float | None] = {name: float((off[which] ** 2).mean()) for name, which in places.items()}
        wrong["active"] = (release.count().value / total - 1) ** 2
        wrong["newcomers"] = ((release.newcomers().value - slot.new) / total) ** 2
        for name, window, truth in (("active_7", 7, slot.week), ("active_28", MONTH, slot.month)):
            told = release.active(window)
            wrong[name] = None if told is None else (told.value / truth - 1) ** 2
        for name, square in wrong.items():
            if number % PART == 0:
                squares[name].append([])
            squares[name][-1] += [] if square is None else [square]
    means = {
        name: [float(np.mean(part)) if part else None for part in parts[: slots // PART]]
        for name, parts in squares.items()
    }
    return Found(float(np.mean(users)), float(np.mean(sticky)), {**means, "jump": jumps})


def _rates(rng: np.random.Generator, world: World, people: int) -> np.ndarray:
    """Draw the part of slots in which each user comes."""
    others = (world.rate - REGULAR * world.regulars) / (1 - world.regulars)
    drawn = rng.beta(others * world.alike, (1 - others) * world.alike, people)
    return np.where(rng.random(people) < world.regulars, REGULAR, drawn)


def _law(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
