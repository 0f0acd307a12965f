"""Budgets that people can read: what is promised, what can have been spent, who pays next, what it buys.

All of it is a function of options, of the public clock and of certificates of releases that are seen: no account is
looked at. "Spent" is the most that any one user can have lost, not what somebody has. Error bars are of one slot's
measurement alone, in users, as `dpi plan` says them; a release is better, for it learns from slot to slot.

*A new user* was never there. *An old user* was there in every slot from the first on: nobody can have paid more often.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from dpi.budget.allocation import Concentrated, Constant, InOrder
from dpi.budget.classes import level, next_due
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.ledger import BUDGETS, Converging, Ledger
from dpi.budget.policy import SpendFirst
from dpi.certificates.chain import Entry
from dpi.certificates.declared import DeclaredOptions, declared, rest_of
from dpi.noise import SystemSource
from dpi.options.schedule import Schedule
from dpi.planning import NEWCOMERS, OTHERS
from dpi.reader import Releases
from dpi.store import spent

AHEAD = 8
"""How many of the next slots are told."""
DECLARED, ASKED, LAST = "declared", "by the shares that were asked for last", "as the last slot's: the next are drawn"


@dataclass(frozen=True)
class Turn:
    """When a user pays next, and how."""

    slot: int
    begins: str | None
    cost: float | None
    """Of ε; None where nobody can say yet."""
    weight_at_most: float
    """How much of a user is counted: 1 is all of them."""
    payments: int
    """How often this user has paid before, where users pay by a public clock; otherwise the slots paid in."""


@dataclass(frozen=True)
class Coming:
    """One of the next slots."""

    slot: int
    begins: str | None
    cost: float | None
    """What it takes at most of one user; None where nobody can say yet."""
    classes_due: int | None
    """Where users pay by a public clock: those who have paid less often than this may be due."""
    error_users: float | None
    """Half of the 95 % interval of one value's count, from the users who pay most; None if nobody pays."""


@dataclass(frozen=True)
class Budget:
    """What is said of a stream's budget."""

    stream: str
    epsilon: float
    per: str
    holds: float
    """What accounts of this stream hold of ε at first: all of it, its quota, or what quotas of others leave."""
    quotas: dict[str, float]
    """The parts of ε that streams of the same ledger have to themselves, by stream. They may grow, never shrink."""
    spent_at_most: float
    """By this stream …"""
    spent_by_store: float
    """… and by all streams of its store together."""
    streams: int
    """How many streams the store has."""
    newest: int | None
    costs: str
    """How the costs below are known: they are declared, or as they were last."""
    new_user: Turn
    old_user: Turn
    next_slots: tuple[Coming, ...]
    guarantee: str

    @property
    def sentences(self) -> list[str]:
        """The same in words."""
        new, old = self.new_user, self.old_user
        weight = "in full" if old.weight_at_most >= 1 else f"as {old.weight_at_most:.3g} of a user"
        return [
            f"ε = {self.epsilon:g} per user, {self.per}.",
            *self._shared,
            spent.sentences(self.spent_at_most, self.spent_by_store, self.streams),
            f"A new user pays {self._said(new.cost)} in slot {new.slot}, and counts in full.",
            f"A user who was there from the beginning pays {self._said(old.cost)} in slot {old.slot}, "
            f"and counts {weight}.",
            f"The next slots cost {', '.join(self._said(each.cost) for each in self.next_slots)}.",
        ]

    @property
    def _shared(self) -> list[str]:
        if not self.quotas:
            return []
        others = ", ".join(f"{part:g} to {name}" for name, part in sorted(self.quotas.items()))
        return [
            f"Of every user's ε these parts belong to streams: {others}; this stream's accounts hold {self.holds:g}."
        ]

    def _said(self, cost: float | None) -> str:
        if cost is None:
            return "what is drawn then"
        return f"{cost:.4g}" if self.costs == DECLARED else f"about {cost:.4g}"

    def document(self) -> dict[str, object]:
        """All of it, as an answer."""
        return {**asdict(self), "sentences": self.sentences}


def budget_of(releases: Releases, name: str, guarantee: str, by_store: float) -> Budget:
    """What can be said of a stream of which these releases are seen; `by_store` is what all streams can have cost."""
    store = releases.store
    options = DeclaredOptions.from_text(store.streams()[name])
    newest = releases.newest if len(releases) else None
    stated = options.stated["budget"]
    last = (options.start or 0) - 1 if newest is None else newest.slot
    streams = declared(store.streams())
    same = {
        name: each for name, each in streams.items() if each.ledger == options.ledger and options.ledger is not None
    }
    held = options.held if options.quota is not None or options.ledger is None else rest_of(options, streams)
    seen = _Seen(releases, options, last, options.start, Epsilon(held))
    said = cast("Entry", {} if newest is None else newest.certificate)
    told = _clocked(seen, options.top) if options.top is not None else _plain(seen, stated, said, store.options(name))
    return Budget(
        stream=name,
        epsilon=float(options.epsilon),
        holds=held / UNITS,
        quotas={name: float(each.quota) for name, each in same.items() if each.quota is not None},
        per="for ever" if options.period is None else f"in every epoch of {options.period} slots",
        spent_at_most=float(cast("float", said.get("epsilon_spent", 0.0))),
        spent_by_store=by_store,
        streams=len(streams),
        newest=None if newest is None else newest.slot,
        guarantee=guarantee,
        **told,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Seen:
    """Releases, and where the stream stands."""

    releases: Releases
    options: DeclaredOptions
    last: int
    first: int | None
    held: Epsilon

    def begins(self, slot: int) -> str | None:
        slots = self.options.slots
        return None if slots is None else slots.start(slot).isoformat()

    def due_before(self, m: int) -> Mapping[str, object] | None:
        """What the newest release in which class m was due says of it."""
        block = 1 << m
        for start in (self.last - block, self.last - 2 * block):  # one of each aligned block is due
            slot = next_due(start, m)
            for found in self.releases.between(slot, slot + 1) if start < slot <= self.last else ():
                classes = found.certificate.get("classes")
                if isinstance(classes, list) and len(classes) > m:
                    return cast("Mapping[str, object]", classes[m])
        return None


def _clocked(seen: _Seen, top: int) -> dict[str, object]:
    """Users who pay by a public clock."""
    epsilon = float(seen.held)

    def cost(m: int) -> float:
        found = seen.due_before(min(m, top))
        if found is not None:
            return float(cast("float", found["epsilon"]))
        return epsilon * (NEWCOMERS if m == 0 else (1 - NEWCOMERS) * OTHERS * (1 - OTHERS) ** (m - 1))

    payments, at = 0, (seen.first if seen.first is not None else seen.last + 1) - 1
    while payments <= top:
        due = next_due(at, min(payments, top))
        if due > seen.last:
            break
        payments, at = payments + 1, due
    own = min(payments, top)

    def turn(paid: int) -> Turn:
        slot = next_due(seen.last, min(paid, top))
        return Turn(slot, seen.begins(slot), cost(min(paid, top)), 1.0, paid)

    coming = []
    for slot in range(seen.last + 1, seen.last + 1 + AHEAD):
        due = level(slot, top)
        costs = [cost(m) for m in range(min(due, own) + 1)]
        coming.append(Coming(slot, seen.begins(slot), max(costs), due + 1, _error(max(costs))))
    return {
        "costs": ASKED,
        "new_user": turn(0),
        "old_user": turn(own),
        "next_slots": tuple(coming),
    }


def _plain(seen: _Seen, stated: object, said: Entry, changes: Schedule[str]) -> dict[str, object]:
    """Users who pay in every slot, while their account lasts; or a series."""
    epsilon, budget = seen.held, BUDGETS.read(stated)
    assert isinstance(budget, Ledger | Converging)  # noqa: S101 - there are no others
    drawn = 0 if seen.first is None else seen.last + 1 - seen.first
    allocation = budget.allocation(epsilon, 1)
    changed = len(changes.entries) > 1
    known = isinstance(allocation, Constant) or (
        isinstance(allocation, InOrder | Concentrated) and seen.first is not None and not changed
    )
    if known and not isinstance(allocation, Constant):
        allocation.restore(json.dumps({"rule": allocation.description, "state": drawn}))
    before = cast("float | None", said.get("epsilon"))
    costs = [float(allocation.draw(SystemSource())) if known else before for _ in range(AHEAD)]
    first = costs[0]
    following = seen.last + 1
    new = Turn(following, seen.begins(following), costs[0], 1.0, 0)
    old = new
    if isinstance(budget, Ledger) and drawn > 0:
        paid = min(int(cast("int", said.get("epsilon_spent_units", 0))), epsilon.units)
        left = (epsilon.units - paid) / UNITS
        slots = drawn if seen.options.period is None else drawn % seen.options.period
        weight = 1.0
        if isinstance(seen.options.policy, SpendFirst) and seen.options.period is None and first:
            weight = min(1.0, left / first)
        old = Turn(following, seen.begins(following), None if first is None else first * weight, weight, slots)
    coming = [
        Coming(following + i, seen.begins(following + i), cost, None, _error(cost)) for i, cost in enumerate(costs)
    ]
    return {
        "costs": DECLARED if known else LAST,
        "new_user": new,
        "old_user": old,
        "next_slots": tuple(coming),
    }


def _error(cost: float | None) -> float | None:
    return math.log(20) / cost if cost else None
