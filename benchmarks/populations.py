"""Streams whose users differ in how they come and go: 29 of them.

Real ones (through `real.py`, from `DPI_DATA`), a population with churn (`churn.py`), newcomers of another kind, and
some that resemble none of these. A `Slot` lists who was active and how each user's one unit is spread over the bins.

Kind A: newcomers follow another law for life. B: another law for five slots, then one draw from the veterans' law. C:
as B, but redrawn in every slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

import churn
import dpi
import real
from dpi.exact.integers import Integers
from dpi.mechanism.base import Floats

Raw = list[tuple[pl.Series, pl.Series]]
Random = np.random.Generator


class Slot(NamedTuple):
    """The active users, and for each (user, bin) the user's place in that list, the bin, and the share of the unit."""

    users: Integers
    row: Integers
    bins: Integers
    share: Floats

    def histogram(self, bins: int) -> Floats:
        """Users in each bin."""
        return np.bincount(self.bins, self.share, minlength=bins).astype(np.float64)


@dataclass(frozen=True)
class Population:
    """A domain and its slots, as events and as numbers."""

    domain: dpi.Categories
    events: Raw
    slots: list[Slot]
    season: int | None = None
    """The period that is declared, in slots."""


def grouped(users: Integers, bins: Integers, size: int) -> Slot:
    """One unit for each user, spread over their bins by how often each was used."""
    pairs, counts = np.unique(users * size + bins, return_counts=True)
    names, row = np.unique(pairs // size, return_inverse=True)
    return Slot(names, row, pairs % size, counts / np.bincount(row, counts)[row] if counts.size else np.empty(0))


def numbered(domain: dpi.Categories, events: Raw) -> Population:
    """The population of a list of slots."""
    ids: dict[object, int] = {}
    slots = []
    for names, values in events:
        bins = np.asarray(domain.encode(values)).astype(np.int64)
        users = np.array([ids.setdefault(name, len(ids)) for name in names.to_list()], dtype=np.int64)
        known = (bins >= 0) & (bins < domain.size)
        slots.append(grouped(users[known], bins[known], domain.size))
    return Population(domain, events, slots)


def zipf(rng: Random, bins: int) -> Floats:
    """Log-weights of a zipf law in random order."""
    return np.asarray(-1.1 * np.log(rng.permutation(bins) + 1.0))


def law(log: Floats) -> Floats:
    """The PDF of log-weights."""
    weights = np.exp(log)
    return np.asarray(weights / weights.sum())


Draw = Iterator[tuple[Integers, Integers]]


def kinds(rng: Random, kind: str, share: float, count: int = 200, users: int = 5000, bins: int = 100) -> Draw:
    """Newcomers of another kind: see the module."""
    veterans, newcomers = zipf(rng, bins), zipf(rng, bins)
    names, newest = np.arange(users), users
    mine, age = rng.choice(bins, users, p=law(veterans)), np.full(users, 1000)
    for _ in range(count):
        veterans, newcomers = (log + rng.normal(0, 0.01, bins) for log in (veterans, newcomers))
        new = rng.random(users) < share
        names, newest = np.where(new, newest + np.arange(users), names), newest + users
        age = np.where(new, 0, age + 1)
        q, p = rng.choice(bins, users, p=law(newcomers)), rng.choice(bins, users, p=law(veterans))
        if kind == "A":
            mine = np.where(new, q, mine)
        elif kind == "B":
            mine = np.where(new, q, np.where(age == 5, p, mine))
        else:
            mine = np.where(age < 5, q, p)
        yield names, mine


def even(rng: Random, count: int = 200, users: int = 10_000, bins: int = 100) -> Draw:
    """The same users in every slot, each drawing a bin from the uniform law every time."""
    for _ in range(count):
        yield np.arange(users), rng.integers(0, bins, users)


def weekly(rng: Random, count: int = 120, bins: int = 60, users: int = 8000) -> Draw:
    """Every user comes back on one weekday, a tenth at random; the law has a weekly season, a visit is one draw."""
    laws, base = [law(zipf(rng, bins)) for _ in range(7)], law(zipf(rng, bins))
    day = rng.integers(0, 7, users)
    for slot in range(count):
        today = (day == slot % 7) & (rng.random(users) < 0.8)
        active = np.flatnonzero(today | (rng.random(users) < 0.03))
        yield active, rng.choice(bins, active.size, p=0.5 * base + 0.5 * laws[slot % 7])


DAY, WEEK = 24, 7
"""Periods of the seasonal streams, in slots: of hours, and of days."""


def seasonal(rng: Random, share: float, count: int = 14 * DAY, bins: int = 60, users: int = 5000) -> Draw:
    """A day: each bin's log-level is a sine with a phase of its own, and so is the activity; a visit is one draw.

    A share of the users is replaced in each slot; log-levels drift by 0.01.
    """
    log, phase, names, newest = zipf(rng, bins), rng.uniform(0, 2 * np.pi, bins), np.arange(users), users
    for slot in range(count):
        angle = 2 * np.pi * slot / DAY
        log = log + rng.normal(0, 0.01, bins)
        names, newest = np.where(rng.random(users) < share, newest + np.arange(users), names), newest + users
        active = names[rng.random(users) < 0.55 + 0.45 * np.sin(angle)]
        yield active, rng.choice(bins, active.size, p=law(log + np.sin(angle + phase)))


def weekdays(rng: Random, share: float = 0.05, count: int = 20 * WEEK, bins: int = 60, users: int = 3000) -> Draw:
    """Each weekday has a law of its own, as unlike the others, in 40 % of the visits, and an activity of its own."""
    laws, base = [law(zipf(rng, bins)) for _ in range(WEEK)], law(zipf(rng, bins))
    busy, names, newest = rng.uniform(0.2, 1, WEEK), np.arange(users), users
    for slot in range(count):
        names, newest = np.where(rng.random(users) < share, newest + np.arange(users), names), newest + users
        active = names[rng.random(users) < busy[slot % WEEK]]
        yield active, rng.choice(bins, active.size, p=0.6 * base + 0.4 * laws[slot % WEEK])


def swap(rng: Random, count: int = 150, bins: int = 80, users: int = 3000) -> Draw:
    """Two fixed populations with laws of their own; activity moves from one to the other and back, period 60."""
    mine = np.concatenate([rng.choice(bins, users, p=law(log)) for log in (zipf(rng, bins), zipf(rng, bins))])
    for slot in range(count):
        first = 0.5 + 0.4 * np.sin(2 * np.pi * slot / 60)
        active = np.flatnonzero(rng.random(2 * users) < np.repeat([first, 1 - first], users))
        yield active, mine[active]


def growth(rng: Random, count: int = 100, bins: int = 100) -> Draw:
    """From 100 to 50,000 users, nobody leaves, each active half of the time; the law of arrivals drifts by 0.03."""
    log, mine = zipf(rng, bins), np.empty(0, dtype=np.int64)
    for slot in range(count):
        users = int(100 * 500 ** (slot / (count - 1)))
        log = log + rng.normal(0, 0.03, bins)
        mine = np.concatenate([mine, rng.choice(bins, users - mine.size, p=law(log))])
        active = np.flatnonzero(rng.random(users) < 0.5)
        yield active, np.where(rng.random(active.size) < 0.8, mine[active], rng.choice(bins, active.size, p=law(log)))


def bursts(rng: Random, count: int = 150, bins: int = 40, users: int = 1500) -> Draw:
    """A fixed base; in every tenth slot 3,000 one-time users of another law."""
    base, other = law(zipf(rng, bins)), law(zipf(rng, bins))
    mine, newest = rng.choice(bins, users, p=base), users
    for slot in range(count):
        active = np.flatnonzero(rng.random(users) < 0.7)
        drawn = mine[active]
        if slot % 10 == 7:
            active = np.concatenate([active, newest + np.arange(3000)])
            drawn, newest = np.concatenate([drawn, rng.choice(bins, 3000, p=other)]), newest + 3000
        yield active, drawn


def survey(rng: Random, count: int = 48, users: int = 6000, active: float = 0.4) -> Draw:
    """The same people of three ages answer a question, in four of ten months; what the young say moves on and on."""
    age = rng.choice(3, users, p=[0.3, 0.3, 0.4])
    for slot in range(count):
        online = np.array([0.35 + 0.005 * slot, 0.25 + 0.0025 * slot, 0.1])
        paper = (1 - online) * np.array([0.29, 0.5, 0.7])
        rest = 1 - online - paper
        answers = np.stack([paper, online, 0.8 * rest, 0.2 * rest], 1).cumsum(1)
        today = np.flatnonzero(rng.random(users) < active)
        drawn = (rng.random(today.size)[:, None] > answers[age[today]]).sum(1)
        yield today, 4 * age[today] + np.minimum(drawn, 3)


def trend(rng: Random, count: int = 200, users: int = 5000, bins: int = 40, share: float = 0.01) -> Draw:
    """Log-levels that go on in one direction, each for fifty slots, by up to 0.03 a slot; a visit is one draw."""
    log, names, newest = zipf(rng, bins), np.arange(users), users
    for slot in range(count):
        if slot % 50 == 0:
            along = rng.uniform(-0.03, 0.03, bins)
        log = log + along
        names, newest = np.where(rng.random(users) < share, newest + np.arange(users), names), newest + users
        active = names[rng.random(users) < 0.6]
        yield active, rng.choice(bins, active.size, p=law(log))


def offers(rng: Random, count: int = 200, users: int = 4000, bins: int = 30, share: float = 0.02) -> Draw:
    """Everybody has habits; every fortieth slot begins an offer, which draws a third of all visits for four slots."""
    log, names, newest = zipf(rng, bins), np.arange(users), users
    for slot in range(count):
        if slot % 40 == 0:
            offered = int(rng.integers(bins))
        names, newest = np.where(rng.random(users) < share, newest + np.arange(users), names), newest + users
        active = names[rng.random(users) < 0.6]
        pdf = law(log)
        if slot >= 40 and slot % 40 < 4:
            pdf = 0.67 * pdf
            pdf[offered] += 0.33
        yield active, rng.choice(bins, active.size, p=pdf)


def made(draw: Draw, bins: int, season: int | None = None) -> Population:
    """The population of made-up slots with one bin for each user."""
    slots = [Slot(users, np.arange(users.size), mine, np.ones(users.size)) for users, mine in draw]
    events = [(pl.Series(slot.users), pl.Series(slot.bins)) for slot in slots]
    return Population(dpi.Categories(range(bins), other=None), events, slots, season)


def _churn(share: float, count: int) -> Callable[[int], Population]:
    def population(seed: int) -> Population:
        events = churn.slots(share, count, seed)
        return made(((users.to_numpy(), bins.to_numpy()) for users, bins in events), churn.BINS)

    return population


def _kind(kind: str, share: float) -> Callable[[int], Population]:
    return lambda seed: made(kinds(np.random.default_rng(1000 + seed), kind, share), 100)


def _seasonal(share: float) -> Callable[[int], Population]:
    return lambda seed: made(seasonal(np.random.default_rng(4242 + seed), share), 60, DAY)


def _other(draw: Callable[[Random], Draw], bins: int, first: int) -> Callable[[int], Population]:
    return lambda seed: made(draw(np.random.default_rng(first + seed)), bins)


def _real(name: str) -> Callable[[int], Population]:
    return lambda _: numbered(*real.load(real.STREAMS[name]))


STREAMS: dict[str, Callable[[int], Population]] = dict(
    chain(
        ((name, _real(name)) for name in real.STREAMS),
        ((f"churn {share:.0%} x200", _churn(share, 200)) for share in (0.0, 0.01, 0.05, 1.0)),
        ((f"churn {share:.0%} x2000", _churn(share, 2000)) for share in (0.0, 0.01, 0.05)),
        (
            (f"kind {kind} {share:.0%}", _kind(kind, share))
            for kind, share in (("A", 0.02), ("A", 0.05), ("B", 0.02), ("B", 0.05), ("C", 0.02))
        ),
        [("uniform", _other(even, 100, 0)), ("swap", _other(swap, 80, 4242)), ("growth", _other(growth, 100, 4242))],
        [("weekly", _other(weekly, 60, 4242)), ("bursts", _other(bursts, 40, 4242))],
        ((f"seasonal {share:.0%}", _seasonal(share)) for share in (0.0, 0.05, 1.0)),
        [("survey", _other(survey, 12, 7)), ("trend", _other(trend, 40, 7)), ("offers", _other(offers, 30, 7))],
        [("weekdays", lambda seed: made(weekdays(np.random.default_rng(1 + seed)), 60, WEEK))],
    )
)
"""The streams by name; each is made from a seed."""
