"""What a world is like in each slot: arrivals, rates and laws, before anybody decides anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpi.estimator.prices import Floats
from dpi_research.learn.worlds import World

ABSENT = -14.0
"""The log-level, against the highest, of a bin that is not there."""


@dataclass(frozen=True)
class Scene:
    """One slot."""

    slot: int
    arrivals: Floats
    """Newcomers of each kind that are expected."""
    rates: Floats
    """How likely one of each kind is active."""
    laws: Floats
    """The law of a visit, for each kind."""
    moves: tuple[tuple[int, int, float], ...]
    """From which bin to which other one people take their habits, and how likely each of them does."""


def scenes(world: World) -> Iterator[Scene]:
    """Yield the slots of a world."""
    rng = np.random.default_rng([world.seed, 52])
    logs = world.laws.copy()
    kinds, weather = world.kinds, 0.0
    deviation, lasts = world.weather
    for slot in range(world.slots):
        fresh = np.sqrt(1 - lasts * lasts) if slot else 1.0
        weather = lasts * weather + fresh * deviation * rng.normal()
        logs = logs + world.walk[:, None] * rng.normal(size=logs.shape)
        phase = slot % world.period if world.period else 0
        boost, busy, moves = np.zeros(logs.shape[1]), weather, []
        for each in world.happenings:
            if each.what in ("jump", "migration") and each.begin == slot:
                logs[:, each.bin] += each.size if each.what == "jump" else 0.0
            if each.what == "reshuffle" and each.begin == slot:
                logs = logs[:, rng.permutation(logs.shape[1])]
            if each.what == "launch" and slot < each.begin:
                boost[each.bin] = ABSENT
            if not each.begin <= slot < each.end:
                continue
            if each.what == "removal":
                boost[each.bin] = ABSENT
                moves.append((each.bin, each.other, 1.0))
            if each.what == "migration" and each.bin != each.other:
                part = 1.5 / (each.end - each.begin)
                levels = np.exp(logs[:, [each.bin, each.other]])
                logs[:, each.other] = np.log(levels[:, 1] + part * levels[:, 0])
                logs[:, each.bin] += np.log1p(-min(part, 0.9))
                moves.append((each.bin, each.other, min(part, 1.0)))
            if each.what == "holiday":
                busy += each.size
            if each.what == "outage":
                busy -= 30.0
        total = logs + world.lifts[phase % len(world.lifts)] + boost
        weights = np.exp(total - total.max(1, keepdims=True))
        laws = weights / weights.sum(1, keepdims=True)
        rhythm = np.array([kind.rhythm for kind in kinds]) * world.activity[phase % len(world.activity)]
        rates = np.minimum(np.array([kind.rate for kind in kinds]) * np.exp(rhythm + busy), 1.0)
        arrivals = np.array([kind.arrivals for kind in kinds]) * np.exp(world.growth * slot)
        waves = [kind.wave if kind.every and slot % kind.every == kind.every - 1 else 0.0 for kind in kinds]
        arrivals = arrivals + waves
        once = np.array([kind.leave == 1.0 for kind in kinds])
        arrivals, rates = np.where(once, arrivals * np.exp(rhythm + busy), arrivals), np.where(once, 1.0, rates)
        for each in world.happenings:
            if each.what == "campaign" and each.begin <= slot < each.end:
                arrivals[0] += each.size * _size(world) * 0.9 ** (slot - each.begin)
        yield Scene(slot, arrivals, rates, laws[[kind.law for kind in kinds]], tuple(moves))


def _size(world: World) -> float:
    """Return about how many users are active in a slot."""
    return sum(kind.stock * kind.rate + kind.arrivals for kind in world.kinds)
