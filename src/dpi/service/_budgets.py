"""Budgets that people can read: what is promised, what can have been spent, who pays next, what it buys.

All of it is a function of options, of the public clock and of certificates of releases that are seen: no account is
looked at. "Spent" is the most that any one user can have lost, not what somebody has. Error bars are of one slot's
measurement alone, in users; a release is better, for it learns from slot to slot.

*A new user* was never there. *An old user* was there in every slot from the first on: nobody can have paid more often.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple, cast

from dpi.budget.allocation import Concentrated, Constant, InOrder
from dpi.budget.classes import level, next_due
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.ledger import BUDGETS, Converging, Ledger
from dpi.budget.policy import SpendFirst
from dpi.certificates.chain import Entry
from dpi.certificates.declared import DeclaredOptions, declared, rest_of
from dpi.mechanism.class_estimator import FIRST, LONGEST
from dpi.noise import SystemSource
from dpi.reader import Releases
from dpi.release import Release
from dpi.store import spent

AHEAD = 8  # how many of the next slots are told
DECLARED, ASKED, LAST = "declared", "by the shares that were asked for last", "as the last slot's: the next are drawn"


@dataclass(frozen=True)
class Turn:
    """When a user pays next, and how."""

    slot: int
    begins: str | None
    cost: float | None  # of ε; None where nobody can say yet
    weight_at_most: float  # how much of a user is counted: 1 is all of them
    payments: int  # how often this user has paid before, where users pay by a public clock; otherwise the slots paid in


@dataclass(frozen=True)
class NextSlot:
    slot: int
    begins: str | None
    cost: float | None  # what it takes at most of one user; None where nobody can say yet
    classes_due: int | None  # where users pay by a public clock: those who have paid less often than this may be due
    error_users: float | None
    """Half of the 95 % interval of one value's count, from the users who pay most; None if nobody pays."""


@dataclass(frozen=True)
class Costs:
    costs: str  # how the costs are known: they are declared, or as they were last
    new_user: Turn
    old_user: Turn
    next_slots: tuple[NextSlot, ...]


@dataclass(frozen=True)
class Budget(Costs):
    """What is said of a stream's budget."""

    stream: str
    epsilon: float
    per: str
    holds: float
    """What accounts of this stream hold of ε at first: all of it, its quota, or what quotas of others leave."""
    quotas: dict[str, float]
    """The parts of ε that streams of the same ledger have to themselves, by stream. They may grow, never shrink."""
    spent_at_most: float  # by this stream …
    spent_by_store: float  # … and by all streams of its store together
    streams: int  # how many streams the store has
    newest: int | None

    @property
    def sentences(self) -> list[str]:
        new, old = self.new_user, self.old_user
        first, then = (turn.begins or turn.slot for turn in (new, old))
        weight = "in full" if old.weight_at_most >= 1 else f"as {old.weight_at_most:.3g} of a user"
        others = ", ".join(f"{part:g} to {name}" for name, part in sorted(self.quotas.items()))
        shared = (
            f"Of every user's ε these parts belong to streams: {others}; this stream's accounts hold {self.holds:g}."
        )
        return [
            f"ε = {self.epsilon:g} per user, {self.per}.",
            *([shared] if self.quotas else []),
            spent.sentences(self.spent_at_most, self.spent_by_store, self.streams),
            f"A new user pays {self._say(new.cost)} in slot {first}, and counts in full.",
            f"A user of all slots so far pays {self._say(old.cost)} in slot {then}, and counts {weight}.",
            f"The next slots cost {', '.join(self._say(each.cost) for each in self.next_slots)}.",
        ]

    def _say(self, cost: float | None) -> str:
        if cost is None:
            return "what is asked then" if self.costs == ASKED else "what is drawn then"
        return f"{cost:.4g}" if self.costs == DECLARED else f"about {cost:.4g}"

    def document(self) -> dict[str, object]:
        return {**asdict(self), "sentences": self.sentences}


def find_budget(releases: Releases, by_store: float) -> Budget:
    """Return what can be said of a stream of which these releases are seen; `by_store` is what all can have cost."""
    store, name = releases.store, releases.name
    streams = declared(store.streams())
    options, newest = streams[name], releases.newest if len(releases) else None
    same = [each for each in streams.values() if each.ledger == options.ledger is not None]
    held = options.held if options.quota is not None or options.ledger is None else rest_of(options, streams)
    last = (options.start or 0) - 1 if newest is None else newest.slot
    said = cast("Entry", {} if newest is None else newest.certificate)
    seen = _Seen(releases, options, last, Epsilon(held))
    return Budget(
        stream=name,
        epsilon=float(options.epsilon),
        per="for ever" if options.period is None else f"in every epoch of {options.period} slots",
        holds=held / UNITS,
        quotas={each.name: float(each.quota) for each in same if each.quota is not None},
        spent_at_most=float(cast("float", said.get("epsilon_spent", 0.0))),
        spent_by_store=by_store,
        streams=len(streams),
        newest=None if newest is None else newest.slot,
        **vars(_find_plain(seen, said) if options.top is None else _find_clocked(seen, options.top)),
    )


class _Seen(NamedTuple):
    """Releases, and where the stream stands."""

    releases: Releases
    options: DeclaredOptions
    last: int
    held: Epsilon

    def begins(self, slot: int) -> str | None:
        slots = self.options.slots
        return None if slots is None else slots.start(slot).isoformat()

    def coming(self, slot: int, cost: float | None, classes: int | None = None) -> NextSlot:
        return NextSlot(slot, self.begins(slot), cost, classes, math.log(20) / cost if cost else None)

    def longest_wait(self) -> int:
        """Return the highest level that classes waited for lately: the lowest of a slot in which all were due."""
        lately = self.releases.between(self.last + 1 - (2 << LONGEST), self.last + 1)
        waits = [level(each.slot, LONGEST) for each in lately if any(due["class"] == LONGEST for due in _due(each))]
        return min(waits, default=LONGEST)

    def due_before(self, m: int, longest: int) -> Mapping[str, object] | None:
        """Return what the newest release in which class m was due says of it."""
        waited = min(m, longest)
        block = 1 << waited
        for start in (self.last - block, self.last - 2 * block):  # one of each aligned block is due
            slot = next_due(start, waited)
            for release in self.releases.between(slot, slot + 1) if start < slot <= self.last else ():
                for due in _due(release):
                    if due["class"] == m:
                        return due
        return None


def _due(release: Release) -> list[Mapping[str, object]]:
    """Return what a release asked of each class."""
    return cast("list[Mapping[str, object]]", release.certificate.get("classes", []))


def _find_clocked(seen: _Seen, top: int) -> Costs:
    """Return the costs of users who pay by a public clock: the first slot's, and then those that were asked last."""
    first, longest = seen.options.start, seen.longest_wait()

    def cost(m: int) -> float | None:
        budget = seen.due_before(m, longest)
        if budget is not None:
            return float(cast("float", budget["epsilon"]))
        return float(seen.held) * float(FIRST) if m == 0 else None

    payments, at = 0, (first if first is not None else seen.last + 1) - 1
    while payments <= top:
        due = next_due(at, min(payments, longest))
        if due > seen.last:
            break
        payments, at = payments + 1, due
    own = min(payments, top)

    def turn(paid: int) -> Turn:
        slot = next_due(seen.last, min(paid, longest))
        return Turn(slot, seen.begins(slot), cost(paid), 1.0, paid)

    coming = []
    for slot in range(seen.last + 1, seen.last + 1 + AHEAD):
        due = top if (highest := level(slot, longest)) == longest else min(highest, top)
        costs = [cost(m) for m in range(min(due, own) + 1)]
        most = None if None in costs else max(each for each in costs if each is not None)
        coming.append(seen.coming(slot, most, due + 1))
    return Costs(ASKED, turn(0), turn(own), tuple(coming))


def _find_plain(seen: _Seen, said: Entry) -> Costs:
    """Return the costs of users who pay in every slot, while their account lasts; or of a series."""
    options, epsilon, first = seen.options, seen.held, seen.options.start
    budget = BUDGETS.read(options.stated["budget"])
    assert isinstance(budget, Ledger | Converging)  # noqa: S101 - there are no others
    drawn = 0 if first is None else seen.last + 1 - first
    allocation = budget.allocation(epsilon, 1)
    changed = len(seen.releases.store.options(options.name).entries) > 1
    known = isinstance(allocation, Constant) or (
        isinstance(allocation, InOrder | Concentrated) and first is not None and not changed
    )
    if known and not isinstance(allocation, Constant):
        allocation.restore(json.dumps({"rule": allocation.description, "state": drawn}))
    before = cast("float | None", said.get("epsilon"))
    costs = [float(allocation.draw(SystemSource())) if known else before for _ in range(AHEAD)]
    cost, following = costs[0], seen.last + 1
    new = old = Turn(following, seen.begins(following), cost, 1.0, 0)
    if isinstance(budget, Ledger) and drawn > 0:
        paid = min(int(cast("int", said.get("epsilon_spent_units", 0))), epsilon.units)
        slots = drawn if options.period is None else drawn % options.period
        weight = 1.0
        if isinstance(options.policy, SpendFirst) and options.period is None and cost:
            weight = min(1.0, (epsilon.units - paid) / UNITS / cost)
        old = Turn(following, seen.begins(following), None if cost is None else cost * weight, weight, slots)
    coming = tuple(seen.coming(following + i, each) for i, each in enumerate(costs))
    return Costs(DECLARED if known else LAST, new, old, coming)
