"""A world played person by person, for tests of `crowds` and for streams that are given as users and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dpi.estimator.prices import Wholes
from dpi_research.learn.budgets import Asked, Budget
from dpi_research.learn.crowds import Slot
from dpi_research.learn.ledger import Accounts, Visits
from dpi_research.learn.scenes import scenes
from dpi_research.learn.worlds import World


def people(world: World, seed: int) -> Iterator[tuple[Wholes, Wholes]]:
    """Yield the users and the bin of each, slot after slot."""
    rng = np.random.default_rng([seed, 55])
    name, kind, own = (np.zeros(0, dtype=np.int64) for _ in range(3))
    leave, habit = (np.array([getattr(each, name) for each in world.kinds]) for name in ("leave", "habit"))
    turn, into = (np.array([getattr(each, name) for each in world.kinds]) for name in ("turn", "into"))
    newest = 0
    for scene in scenes(world):
        cumulated = np.cumsum(scene.laws, axis=1)

        def draw(kinds: Wholes, cumulated: np.ndarray = cumulated) -> Wholes:
            where = rng.random(kinds.size) * cumulated[kinds, -1]
            return np.asarray(np.minimum((cumulated[kinds] < where[:, None]).sum(1), world.bins - 1))

        if scene.slot:
            stay = rng.random(name.size) >= leave[kind]
            name, kind, own = name[stay], kind[stay], own[stay]
        for each in np.flatnonzero(turn):  # in order, as crowds do
            turning = (kind == each) & (rng.random(kind.size) < turn[each])
            kind = np.where(turning, into[each], kind)
        for origin, goal, part in scene.moves:
            own = np.where((own == origin) & (rng.random(own.size) < part), goal, own)
        fresh = rng.poisson(scene.arrivals) + (0 if scene.slot else np.array([each.stock for each in world.kinds]))
        kinds = np.repeat(np.arange(len(world.kinds)), fresh)
        name = np.r_[name, newest + np.arange(kinds.size)]
        newest += kinds.size
        kind, own = np.r_[kind, kinds], np.r_[own, draw(kinds)]
        active = np.flatnonzero(rng.random(kind.size) < scene.rates[kind])
        own_bin = rng.random(active.size) < habit[kind[active]]
        yield name[active], np.where(own_bin, own[active], draw(kind[active]))


def individuals(stream: Iterable[tuple[Wholes, Visits]], bins: int, budget: Budget) -> Iterator[tuple[Asked, Slot]]:
    """Yield what each slot of a stream asks and what it has; whoever listens tells the budget what is released."""
    accounts = Accounts(budget)
    for number, (users, visits) in enumerate(stream):
        asked = budget.ask(number)
        yield asked, accounts.measure(users, visits, bins, asked)
