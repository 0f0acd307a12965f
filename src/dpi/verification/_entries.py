"""What the entries of a chain say of each stream, one after the other, and what is wrong with one beside those before.

Options, quotas, budgets and their sums are computed again from what was declared. Sees public entries only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from dpi.budget.accounts import Accounts
from dpi.budget.billing import SHARE_STEPS, assignable
from dpi.budget.charge import LostSlots
from dpi.budget.classes import HIGHEST, Bounds, Priced
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.policy import clocked
from dpi.certificates.chain import FORMAT, Entry, most_spent
from dpi.certificates.declared import DeclaredOptions, assigned, rest_of, write_slots
from dpi.errors import NewerVersion, OptionError, StateError
from dpi.options.schedule import BEGINNING, Schedule
from dpi.verification.result import Restored, Span

KINDS = ("options", "release", "restored")
NEWER = "was written by a newer version of dpi: this one cannot check it"
CLASS_FACTS = ("class", "group", "epsilon_units", "share_steps", "most_left_units")
"""What a release states of each class that was due, and what is checked of it."""
SHOWN = ("epsilon", "epsilon_spent", "epsilon_total")
"""Amounts that an entry of a release states for people, beside exact units."""


@dataclass
class Streams:
    """What the entries so far say of each stream."""

    options: dict[str, Schedule[DeclaredOptions]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """What `spent` of a stream's state is: the sum of its budgets or, by class, the most that a user can have spent."""
    bounds: dict[str, Bounds] = field(default_factory=dict)
    """By class: what follows from the shares that were stated."""
    levies: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """What each ledger's future accounts were charged, and in which slot's epoch."""

    restored: list[Restored] = field(default_factory=list)

    def name_slots(self, stream: object, first: object, last: object) -> str:
        """Return how a sentence names slots of a stream, also of one that was never declared."""
        known = self.options.get(str(stream))
        if known is None or not isinstance(first, int) or not isinstance(last, int):
            return write_slots(first, last)
        return known.newest.name_slots(first, last)

    def span(self, stream: str) -> Span:
        """Return the slots of a stream that were released, and when they began."""
        first, last = self.first[stream], self.last[stream]
        known = self.options.get(stream)
        starts = (None, None) if known is None else (known.newest.start_of(first), known.newest.start_of(last))
        return Span(first, last, *starts)

    def read(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; say what is wrong with it."""
        format, kind = entry.get("format"), entry.get("kind")
        if (isinstance(format, int) and format > FORMAT) or (isinstance(kind, str) and kind not in KINDS):
            yield NEWER
            return
        if format != FORMAT:
            yield "is of a format that no program has"
        match entry:
            case {"kind": "options", "stream": str(stream), "options": dict(options)}:
                yield from self._declared(stream, options, entry.get("from"))
            case {"kind": "release", "stream": str(stream), "slot": int(slot)}:
                yield from self._release(entry, stream, slot)
            case {"kind": "restored", "last": dict(), "spent_units": dict(), "charged_units": dict()}:
                yield from self._restored(entry)
            case _:
                yield "is of no known kind"

    def _declared(self, stream: str, options: Entry, first: object) -> Iterator[str]:
        """Take in options; without a first slot they hold for all that comes, and for what is kept of what was."""
        first = BEGINNING if first is None else first
        try:
            now = DeclaredOptions.from_options(options)
        except StateError as error:
            yield NEWER if isinstance(error, NewerVersion) else "is of no known kind"
            return
        if not isinstance(first, int):
            yield "states no whole numbers"
            return
        if BEGINNING < first <= self.last.get(stream, BEGINNING):
            yield "changes options of slots that were released"
        known = self.options.get(stream, Schedule.of(now))
        if known.newest.end is not None:
            yield "changes a stream that was stopped"
        yield from self._quota(stream, now)
        if now.promise != known.newest.promise:
            yield "changes the promise"
        self.options[stream] = known.changed(first, now)

    @property
    def _newest(self) -> dict[str, DeclaredOptions]:
        return {name: options.newest for name, options in self.options.items()}

    def _quota(self, stream: str, now: DeclaredOptions) -> Iterator[str]:
        """Compare a quota, or what a stream without one found in none, with those that were given before it."""
        streams = self._newest
        pool = {name: each for name, each in streams.items() if each.ledger == now.ledger is not None}
        if any(each.epsilon != now.epsilon for name, each in pool.items() if name != stream):
            yield "shares a ledger of another ε"
            return
        if any(each.ids != now.ids for name, each in pool.items() if name != stream):
            yield "shares accounts that are named by another rule of ids"
            return
        known = streams.get(stream)
        if now.quota is None:
            others = any(each.quota is not None for each in pool.values())
            if known is None and now.rest != (rest_of(now, pool) if others else None):
                yield "states another rest than quotas had left"
            return
        before, free = 0 if known is None else known.held, rest_of(now, pool)
        if now.held < before:
            yield "shrinks a quota"
        spent = sum(self.units[name] for name, each in pool.items() if each.quota is None)
        if now.ledger is None or now.period is not None or now.held - before > assignable(free, spent):
            yield "gives a quota of what is not there"

    def _restored(self, entry: Entry) -> Iterator[str]:
        """Check a copy that had forgotten slots and went on, after all accounts were charged for them."""
        last, spent, charged, asked, again = (
            _numbers(entry.get(name, {}))
            for name in ("last", "spent_units", "charged_units", "largest_shares", "restored_before")
        )
        if last is None or spent is None or charged is None or asked is None or again is None:
            yield "states no whole numbers"
            return
        lost: dict[str, dict[str, LostSlots]] = defaultdict(dict)
        self.restored.append(_gone(entry, {name: end for name, (end, *_) in last.items()}, self.last))
        for stream, options in self.options.items():
            before, units = self.last.get(stream, 0), self.units[stream]
            (end,) = last.get(stream, (before,))
            (sum_,) = spent.get(stream, (units,))
            if sum_ < units or end < before:
                yield "goes back behind what was released"
                continue
            gone, bounds, ledger = range(before + 1, end + 1), self.bounds.get(stream), options.newest.accounts
            if bounds is not None and stream in last:
                bounds = bounds.grown(max(bounds.epsilon, options.at(end).held))
                bounds = self.bounds[stream] = bounds.after_lost(gone, asked.get(stream, ()), again.get(stream, ()))
                if sum_ != bounds.most_spent:
                    yield "states another sum of budgets than lost slots can have had"
            if ledger is not None:
                shares = None if bounds is None else bounds.largest
                lost[ledger][stream] = LostSlots(gone, sum_ - units, shares, again.get(stream, ()))
            self.last[stream], self.units[stream] = end, sum_
        for name, streams in lost.items():
            slot, (units,) = max(self.last[stream] for stream in streams), charged.get(name, (0,))
            if units < self._charge(name, streams, slot):
                yield "charges less than was lost"
            self.levies[name].append((slot, units))

    def _charge(self, ledger: str, lost: dict[str, LostSlots], slot: int) -> int:
        """Return what a future account must be charged for lost slots."""
        if all(each.largest is None for each in lost.values()):
            return sum(each.units for each in lost.values())
        options = next(each.newest for each in self.options.values() if each.newest.accounts == ledger)
        accounts = Accounts(
            options.epsilon, key=bytes(32), policy=clocked(options.top or HIGHEST), period=options.period
        )
        for at, units in self.levies[ledger]:
            accounts.levy(units, at)
        accounts.assign(assigned(ledger, self._newest))
        return accounts.charge_lost(lost, slot)[0]

    def _release(self, entry: Entry, stream: str, slot: int) -> Iterator[str]:
        declared = self.options.get(stream)
        if declared is None:
            yield "releases a stream that was never declared"
            return
        options = declared.at(slot)
        if entry.get("options") != options.digest:
            yield "has other options than the stream declared"
        if options.end is not None and slot >= options.end:
            yield "releases a slot after the stream was stopped"
        if stream in self.last and slot != self.last[stream] + 1:
            yield "does not release the slot after the last"
        if stream not in self.last and options.start not in (None, slot):
            yield "does not release the slot that the stream begins with"
        self.last[stream] = slot
        if entry.get("first") != self.first.setdefault(stream, slot):
            yield "states another first slot than the stream has"
        yield from self._budget(entry, stream, slot, options)

    def _budget(self, entry: Entry, stream: str, slot: int, options: DeclaredOptions) -> Iterator[str]:
        """Compare the budget of a slot, and what is spent after it, with what was declared and released before."""
        epsilon, total = entry.get("epsilon_units"), options.epsilon.units
        if not isinstance(epsilon, int) or epsilon < 0:
            yield "states no budget"
            return
        if "classes" in entry:
            yield from self._classes(entry, stream, slot)
        else:
            if stream in self.bounds:
                yield "does not measure by class, as the stream did before"
            self.units[stream] += epsilon
        if entry.get("epsilon_total_units") != total:
            yield "states another total ε than the stream declared"
        if any(not _agrees(entry, name) for name in SHOWN):
            yield "states ε in two ways that differ"
        held = None if options.quota is None else options.held
        if entry.get("epsilon_quota_units") != held or (held is not None and not _agrees(entry, "epsilon_quota")):
            yield "states another quota than the stream declared"
        if entry.get("epsilon_spent_units") != self.most_spent(stream):
            yield "states another sum of budgets than its slots have"
        if options.ledger is None and self.units[stream] > total:
            yield "spends more than the series has"

    def _classes(self, entry: Entry, stream: str, slot: int) -> Iterator[str]:
        """Compare the budgets of classes with what their shares, their groups and all slots before say."""
        options = self.options[stream].at(slot)
        if options.top is None or options.ledger is None:
            yield "measures by class, which the stream has not declared"
            return
        if stream not in self.bounds and self.units[stream]:
            yield "measures by class, as the stream did not before"
            return
        known = self.bounds.get(stream, Bounds.initial(Epsilon(options.held), options.top, options.period))
        try:
            known = known.grown(options.held)
            asked: dict[int, list[tuple[int, Fraction]]] = defaultdict(list)
            prices = defaultdict[int, int](int)  # a slot may ask for less than shares say, but for the same of all
            for due in entry["classes"]:  # type: ignore[attr-defined]
                asked[due["group"]].append((due["class"], Fraction(due["share_steps"], SHARE_STEPS)))
                prices[due["group"]] = max(prices[due["group"]], due.get("epsilon_units", 0))
            priced = tuple(Priced(group, Epsilon(prices[number])) for number, group in asked.items())
            after, groups = known.draw(slot, priced)
        except (OptionError, TypeError, KeyError):
            yield "states classes that no slot asks"
            return
        due = [
            (each.number, number, each.epsilon.units, each.steps, each.most_left)
            for number, group in enumerate(groups)
            for each in group.classes
        ]
        told = [tuple(each.get(name) for name in CLASS_FACTS) for each in entry["classes"]]  # type: ignore[attr-defined]
        shown = all(_agrees(each, "epsilon") for each in entry["classes"])  # type: ignore[attr-defined]
        if told != due or not shown or entry.get("epsilon_units") != max(group.epsilon.units for group in groups):
            yield "states other budgets of classes than follow from their shares"
        self.bounds[stream], self.units[stream] = after, after.most_spent

    def most_spent(self, stream: str) -> int:
        """Return the most that a stream can have cost one user, in units."""
        first, last = self.first.get(stream, 0), self.last.get(stream, 0)
        options = self.options[stream].at(last)
        return most_spent(options.held, options.period, first, last, self.units[stream])


def _gone(entry: Entry, ends: dict[str, int], last: dict[str, int]) -> Restored:
    """Return what a restored copy lacked, and what was charged for it, as its entry says."""
    number, before, charged = (entry.get(name) for name in ("sequence", "lost_sequence", "charged_units"))
    units = _numbers(charged) or {}
    return Restored(
        number if isinstance(number, int) else -1,
        before if isinstance(before, int) else None,
        str(entry.get("lost_head", "")),
        {name: (last[name] + 1, end) for name, end in ends.items() if name in last and end > last[name]},
        {ledger: amount / UNITS for ledger, (amount, *_) in units.items()},
    )


def _numbers(facts: object) -> dict[str, tuple[int, ...]] | None:
    """Whole numbers by name, one or a list of each; None if they are none."""
    if not isinstance(facts, dict):
        return None
    lists = {name: tuple(part) if isinstance(part, list) else (part,) for name, part in facts.items()}
    return lists if all(type(number) is int for part in lists.values() for number in part) else None


def _agrees(entry: Entry, name: str) -> bool:
    """Whether an amount of ε for people is the exact one beside it: below 2^53 units that is the same number."""
    units, shown = entry.get(f"{name}_units"), entry.get(name)
    return isinstance(units, int) and isinstance(shown, float) and shown == units / UNITS
