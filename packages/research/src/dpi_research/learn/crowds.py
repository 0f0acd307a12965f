"""A world played in aggregate: how many people of each kind, histogram and habit are active, not who.

Bins are drawn as individuals would draw them: people are thinned out bin by bin, exactly where a few are left and by a
normal law where many are. How often somebody has paid is followed on average, and so is what they have left: users of
a histogram pay alike, so that sums differ by less than chance (`test_crowds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dpi.estimator import HISTOGRAMS
from dpi.estimator.prices import TOP, Floats, pay
from dpi_research.learn.budgets import Asked, Budget
from dpi_research.learn.returns import Again, Expected
from dpi_research.learn.scenes import Scene, scenes
from dpi_research.learn.worlds import Random, World

MANY = 25.0
"""From this variance on a count is drawn by the normal law."""
CLASSES = 160
"""Payments are counted up to it, less one: what people have left depends on them."""
WRONG, KEPT = 0.3, 0.95
"""The mean deviation of the logarithm by which numbers of users are heard wrong, and how much of it is kept."""


@dataclass(frozen=True)
class Slot:
    """What a slot had: payments in units of ε by histogram and bin, active users by bin and by histogram, newcomers."""

    paid: Floats
    users: Floats
    members: Floats
    newcomers: float
    again: Again


def thin(rng: Random, people: Floats, part: Floats | float) -> Floats:
    """Return how many of some people are left if each stays with a probability: binomial."""
    part = np.broadcast_to(np.asarray(part, float), people.shape)
    spread = people * part * (1 - part)
    result = np.where(part >= 1, people, 0.0)
    many = spread > MANY
    drawn = people[many] * part[many] + np.sqrt(spread[many]) * rng.standard_normal(int(many.sum()))
    result[many] = np.clip(np.round(drawn), 0, people[many])
    few = (spread > 0) & ~many
    result[few] = rng.binomial(people[few].astype(np.int64), part[few])
    return result


def spread_out(rng: Random, visits: Floats, laws: Floats) -> Floats:
    """Return the bins of so many visits of each kind (and histogram), by the law of the kind: nearly multinomial."""
    expected = visits[..., None] * laws[:, None, :]
    result = np.zeros_like(expected)
    many = expected > MANY
    result[many] = np.maximum(expected[many] + np.sqrt(expected[many]) * rng.standard_normal(int(many.sum())), 0)
    result[~many] = rng.poisson(expected[~many])
    total = result.sum(-1)
    result *= np.where(total > 0, visits / np.maximum(total, 1), 0)[..., None]
    for kind, group in np.argwhere((visits > 0) & (visits < 300)):
        cumulated = np.cumsum(laws[kind])
        bins = np.searchsorted(cumulated, rng.random(int(visits[kind, group])) * cumulated[-1])
        result[kind, group] = np.bincount(np.minimum(bins, laws.shape[1] - 1), minlength=laws.shape[1])
    return result


class Crowd:
    """The people of a world: by kind, histogram and habit; by kind and class; and what each class has left in all."""

    def __init__(self, world: World, budget: Budget, rng: Random) -> None:
        kinds = len(world.kinds)
        self._world, self._budget, self._rng = world, budget, rng
        self._people: Floats = np.zeros((kinds, HISTOGRAMS, world.bins))
        self._classes: Floats = np.zeros((kinds, CLASSES))
        self._left: Floats = np.zeros((kinds, CLASSES))
        self._member = np.eye(HISTOGRAMS)[budget.histogram()[np.minimum(np.arange(CLASSES), TOP)]]
        self._keep = 1 - np.array([kind.leave for kind in world.kinds])
        self._returns = Expected(world.kinds, rng)
        self._habit = np.array([kind.habit for kind in world.kinds])[:, None, None]

    def play(self, scene: Scene, asked: Asked) -> Slot:
        """Return what happens in a slot; who paid is a class further on."""
        rng = self._rng
        if scene.slot:
            self._people = thin(rng, self._people, self._keep[:, None, None])
        self._turn()
        for origin, goal, part in scene.moves:
            moved = thin(rng, self._people[:, :, origin], part)
            self._people[:, :, origin] -= moved
            self._people[:, :, goal] += moved
        self._arrive(scene)
        self._agree()
        active = thin(rng, self._people, scene.rates[:, None, None])
        visits = thin(rng, active, self._habit)
        visits = visits + spread_out(rng, (active - visits).sum(-1), scene.laws)
        return self._pay(active, visits, asked)

    def _turn(self) -> None:
        for number, kind in enumerate(self._world.kinds):
            if kind.turn:
                moved = thin(self._rng, self._people[number], kind.turn)
                self._people[number] -= moved
                self._people[kind.into] += moved
                for table in (self._classes, self._left):
                    part = kind.turn * table[number]
                    table[number] -= part
                    table[kind.into] += part

    def _arrive(self, scene: Scene) -> None:
        fresh = self._rng.poisson(scene.arrivals).astype(float)
        if not scene.slot:
            fresh += [kind.stock for kind in self._world.kinds]
        bins = np.round(spread_out(self._rng, fresh[:, None], scene.laws)[:, 0])
        self._people[:, 0] += bins
        self._classes[:, 0] += bins.sum(-1)
        self._left[:, 0] += bins.sum(-1)

    def _agree(self) -> None:
        """Let classes have as many people as their histogram has."""
        have = self._classes @ self._member
        here = self._people.sum(-1)
        ratio = (here / np.maximum(have, 1e-9)) @ self._member.T
        self._classes *= ratio
        self._left *= ratio

    def _pay(self, active: Floats, visits: Floats, asked: Asked) -> Slot:
        here, people = active.sum(-1), self._people.sum(-1)
        rate = (here / np.maximum(people, 1e-9)) @ self._member.T
        acting = self._classes * rate  # by kind and class
        left = self._left / np.maximum(self._classes, 1e-9)
        histogram = self._member.argmax(1)
        each = np.broadcast_to(asked.prices[histogram] * (asked.due[histogram] > 0), left.shape)
        if self._budget.accounts:
            each = pay(each, left, histogram)
        on_average = (acting * each) @ self._member / np.maximum(acting @ self._member, 1e-9)
        paid = np.einsum("ijb,ij->jb", visits, on_average)
        again = self._returns.see(people.sum(1), here.sum(1), acting[:, 0])
        result = Slot(paid, visits.sum((0, 1)), here.sum(0), float(acting[:, 0].sum()), again)
        payers = np.where(asked.due[histogram] > 0, acting, 0.0)
        self._cross(active, acting, payers)
        taken = payers * left
        self._classes -= payers
        self._left -= taken
        if self._budget.accounts:
            taken = payers * (left - each)
        self._classes[:, 1:] += payers[:, :-1]
        self._left[:, 1:] += taken[:, :-1]
        self._classes[:, -1] += payers[:, -1]
        self._left[:, -1] += taken[:, -1]
        return result

    def _cross(self, active: Floats, acting: Floats, payers: Floats) -> None:
        """Move who pays in the last class of a histogram to the next one."""
        last = self._member[:-1] * (1 - self._member[1:])
        part = (payers[:, :-1] @ last) / np.maximum(acting @ self._member, 1e-9)
        moved = thin(self._rng, active, np.clip(part, 0, 1)[..., None])
        self._people -= moved
        self._people[:, 1:] += moved[:, :-1]


def mishear(slots: Iterable[tuple[Asked, Slot]], budget: Budget, rng: Random) -> Iterator[tuple[Asked, Slot]]:
    """Yield slots; the budget hears numbers of users that are off by a factor.

    In a stream it hears the released ones. Here nobody estimates any: the factor wanders, by as much as chance decides.
    """
    wrong, off = np.zeros(2), rng.exponential(WRONG)
    for asked, slot in slots:
        yield asked, slot
        wrong = KEPT * wrong + off * np.sqrt(1 - KEPT**2) * rng.standard_normal(2)
        returning = max(slot.users.sum() - slot.newcomers, 0)
        budget.hear(*(np.array([slot.newcomers, returning]) * np.exp(wrong)).tolist())


def crowds(world: World, budget: Budget, seed: int) -> Iterator[tuple[Asked, Slot]]:
    """Yield what each slot asks and what it has, slot after slot."""
    rng = np.random.default_rng([seed, 54])
    crowd = Crowd(world, budget, rng)

    def played() -> Iterator[tuple[Asked, Slot]]:
        for scene in scenes(world):
            asked = budget.ask(scene.slot)
            yield asked, crowd.play(scene, asked)

    return mishear(played(), budget, rng)
