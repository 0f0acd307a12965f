"""Checking a chain of certificates: whether it is whole, and whether its sums are what it says.

`verify` reads public bytes, so anyone may do it who has the store: the chain, the releases and measurements it vouches
for, and the state that streams go on from. It does not see accounts, levies, and events of open slots. That accounts
and levies are as they were sealed, and no account is beyond ε, only the curator can check: `check_accounts` needs the
ledger's key.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpi.budget.account_table import AccountTable
from dpi.budget.accounts import Accounts, Lost
from dpi.budget.billing import SHARE_STEPS
from dpi.budget.class_allocation import largest
from dpi.budget.classes import Bounds
from dpi.budget.clock import HIGHEST
from dpi.budget.epsilon import UNITS
from dpi.budget.policy import clocked
from dpi.certificates.chain import Entry, Head, Link, canonical, most_spent, text_digest
from dpi.certificates.declared import DeclaredOptions
from dpi.domain.file import describe, from_description
from dpi.errors import OptionError, StateError
from dpi.options.schedule import BEGINNING, Schedule
from dpi.release import content_digest

if TYPE_CHECKING:
    from dpi.certificates.signature import Verifier
    from dpi.store.base import Store
    from dpi.store.sql import SQLStore
    from dpi.store.witness import Seen


FORMATS = (1, 2)
"""Of entries. In the first, releases stated ε in units alone, and their mechanism as Python writes it."""
CLASS_FACTS = ("epsilon_units", "share_steps", "most_left_units")
"""What a release states of each class that was due, and what is checked of it."""
SHOWN = ("epsilon", "epsilon_spent", "epsilon_total")
"""Amounts that an entry of a release states for people, beside exact units."""


@dataclass(frozen=True)
class Span:
    """The first and the last slot of a stream that were seen, and when they began, if the stream has a clock."""

    first: int
    last: int
    first_start: str | None = None
    last_start: str | None = None


@dataclass(frozen=True)
class Verification:
    """What was found."""

    entries: int
    """How many certificates were seen."""
    head: str
    problems: tuple[str, ...]
    signed: bool | None = None
    """Whether every entry has a valid signature; None if no key was given to check with."""
    accounts_checked: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    """The most that each stream can have cost any one user so far."""
    first_entry: int = 0
    last_entry: int = -1
    """Numbers of the first and the last entry of the chain that were seen."""
    spans: dict[str, Span] = field(default_factory=dict)
    """The slots of each stream that were seen."""
    missing: tuple[str, ...] = ()
    """What is known to be there and was not seen, in words; it need not be wrong."""
    begin_known: bool = True
    """Whether it is told where each stream began; certificates of older programs do not say it."""
    end_known: bool = False
    """Whether something beside it told where the chain ends; a chain alone cannot tell what was cut off."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong with what was seen."""
        return not self.problems

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong, and nothing is known to be missing."""
        return not self.problems and not self.missing


@dataclass
class _Streams:
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

    def read(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; say what is wrong with it."""
        if entry.get("format") not in FORMATS:
            yield "is of a format that this program does not know"
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
        except StateError:
            yield "is of no known kind"
            return
        if not isinstance(first, int):
            yield "states no whole numbers"
            return
        if BEGINNING < first <= self.last.get(stream, BEGINNING):
            yield "changes options of slots that were released"
        known = self.options.get(stream, Schedule.of(now))
        if now.promise != known.newest.promise:
            yield "changes the promise"
        self.options[stream] = known.changed(first, now)

    def _restored(self, entry: Entry) -> Iterator[str]:
        """A copy that had forgotten slots went on, and all accounts were charged for them."""
        last, spent, charged, asked, again = (
            _numbers(entry.get(name, {}))
            for name in ("last", "spent_units", "charged_units", "largest_shares", "restored_before")
        )
        if last is None or spent is None or charged is None or asked is None or again is None:
            yield "states no whole numbers"
            return
        lost: dict[str, dict[str, Lost]] = defaultdict(dict)
        for stream, options in self.options.items():
            (end,), (before, units) = last.get(stream, (self.last.get(stream, 0),)), self._reached(stream)
            (sum_,) = spent.get(stream, (units,))
            if sum_ < units or end < before:
                yield "goes back behind what was released"
                continue
            gone, bounds, ledger = range(before + 1, end + 1), self.bounds.get(stream), options.newest.ledger
            if bounds is not None and stream in last:
                bounds = self.bounds[stream] = bounds.after_lost(gone, asked.get(stream, ()), again.get(stream, ()))
                if sum_ != bounds.most_spent:
                    yield "states another sum of budgets than lost slots can have had"
            if ledger is not None:
                shares = None if bounds is None else bounds.largest
                lost[ledger][stream] = Lost(gone, sum_ - units, shares, again.get(stream, ()))
            self.last[stream], self.units[stream] = end, sum_
        for name, streams in lost.items():
            slot, (units,) = max(self.last[stream] for stream in streams), charged.get(name, (0,))
            if units < self._charge(name, streams, slot):
                yield "charges less than was lost"
            self.levies[name].append((slot, units))

    def _reached(self, stream: str) -> tuple[int, int]:
        return self.last.get(stream, 0), self.units[stream]

    def _charge(self, ledger: str, lost: dict[str, Lost], slot: int) -> int:
        """What a future account must be charged for lost slots."""
        if all(each.largest is None for each in lost.values()):
            return sum(each.units for each in lost.values())
        options = next(each.newest for each in self.options.values() if each.newest.ledger == ledger)
        accounts = Accounts(
            options.epsilon, key=bytes(32), policy=clocked(options.top or HIGHEST), period=options.period
        )
        for at, units in self.levies[ledger]:
            accounts.levy(units, at)
        return accounts.charge_lost(lost, slot)[0]

    def _release(self, entry: Entry, stream: str, slot: int) -> Iterator[str]:
        declared = self.options.get(stream)
        if declared is None:
            yield "releases a stream that was never declared"
            return
        options = declared.at(slot)
        if entry.get("options") != options.digest:
            yield "has other options than the stream declared"
        if stream in self.last and slot != self.last[stream] + 1:
            yield "does not release the slot after the last"
        if stream not in self.last and options.start not in (None, slot):
            yield "does not release the slot that the stream begins with"
        self.last[stream] = slot
        if entry.get("first", slot) != self.first.setdefault(stream, slot) and "first" in entry:
            yield "states another first slot than the stream has"
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
        if entry.get("format") != 1 and any(not _agrees(entry, name) for name in SHOWN):
            yield "states ε in two ways that differ"
        if entry.get("epsilon_spent_units") != self.most_spent(stream):
            yield "states another sum of budgets than its slots have"
        if options.ledger is None and self.units[stream] > total:
            yield "spends more than the series has"

    def _classes(self, entry: Entry, stream: str, slot: int) -> Iterator[str]:
        """Compare the budgets of classes with what the clock, the shares and all slots before say."""
        options = self.options[stream].at(slot)
        if options.top is None or options.ledger is None:
            yield "measures by class, which the stream has not declared"
            return
        if stream not in self.bounds and self.units[stream]:
            yield "measures by class, as the stream did not before"
            return
        known = self.bounds.get(stream, Bounds.initial(options.epsilon, options.top, options.period))
        try:
            shares = [Fraction(due["share_steps"], SHARE_STEPS) for due in entry["classes"]]  # type: ignore[attr-defined]
            after = known.after(slot, shares)
        except (OptionError, TypeError, KeyError):
            yield "states other classes than are due in its slot"
            return
        budgets = after.budgets(shares)
        due = [(each.epsilon.units, each.steps, each.most_left) for each in budgets]
        told = [tuple(each.get(name) for name in CLASS_FACTS) for each in entry["classes"]]  # type: ignore[attr-defined]
        shown = all(_agrees(each, "epsilon") for each in entry["classes"])  # type: ignore[attr-defined]
        if told != due or not shown or entry.get("epsilon_units") != largest(budgets).units:
            yield "states other budgets of classes than follow from their shares"
        self.bounds[stream], self.units[stream] = after, after.most_spent

    def most_spent(self, stream: str) -> int:
        """The most that a stream can have cost one user, in units."""
        options, first, last = self.options[stream].newest, self.first.get(stream, 0), self.last.get(stream, 0)
        return most_spent(options.epsilon.units, options.period, first, last, self.units[stream])


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


def verify(store: Store, *, verifier: Verifier | None = None, seen: Seen | None = None) -> Verification:
    """Recompute the chain of a store, the digests of its releases, and its sums.

    `seen` is what a witness remembers: the chain must contain it.

    >>> import dpi
    >>> store = dpi.MemoryStore()
    >>> _ = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store).release(["u"], ["a"])
    >>> verify(store).intact
    True
    """
    problems: list[str] = []
    with store.snapshot():
        found = _chain(store.links(), verifier, problems)
        if seen is not None and seen.sequence >= 0 and (seen.sequence, seen.digest) not in found.heads:
            problems.append(
                f"entry {seen.sequence}, which the witness saw, is not in the chain: the store is an old copy"
            )
        problems += _releases(store, found)
        problems += _states(store, found)
    return replace(found.verification(problems, verifier), end_known=seen is not None)


def check_accounts(store: SQLStore) -> tuple[str, ...]:
    """For the curator: whether any account is beyond what it may hold. What is said of it is private.

    An account may hold at most ε, and at most what all slots of the ledger's streams have cost together.
    """
    problems = []
    units: dict[str, int] = defaultdict(int)
    for name, text in store.streams().items():
        try:
            store.progress(name)  # with the tree of sums, whose open nodes are private
            reached, pending = store.reached(name), store.pending(name)
            ledger = DeclaredOptions.from_text(text).ledger
            paid = AccountTable.from_bytes(store.payments(name))
        except StateError as error:
            problems.append(f"stream {name!r}: {error}")
            continue
        if ledger is not None:
            before = 0 if reached is None else reached[1]
            most = before if pending is None else pending.spent_after(before)
            units[ledger] += most
            if paid.largest() > most:
                problems.append(f"stream {name!r}: an account has paid more than its slots have cost")
    for ledger, options in store.ledgers().items():
        try:
            records, _ = store.load_ledger(ledger, options)
            largest = AccountTable.from_bytes(records).largest()
        except StateError as error:
            problems.append(f"ledger {ledger!r}: {error}")
            continue
        epsilon = json.loads(options)["epsilon"]
        if largest > min(epsilon, units[ledger]):
            problems.append(f"ledger {ledger!r}: an account has spent more than its slots have cost, or more than ε")
    return tuple(problems)


@dataclass
class _Chain:
    """What reading the entries has shown."""

    streams: _Streams
    head: Head
    heads: set[tuple[int, str]]
    releases: dict[int, Entry]
    signed: bool

    def verification(self, problems: list[str], verifier: Verifier | None) -> Verification:
        seen = self.streams
        spent = {name: seen.most_spent(name) / UNITS for name in seen.options}
        signed = None if verifier is None else self.signed
        return Verification(
            self.head.sequence + 1,
            self.head.digest,
            tuple(problems),
            signed,
            spent=spent,
            last_entry=self.head.sequence,
            spans={name: Span(seen.first[name], seen.last[name]) for name in seen.first},
        )


def _chain(links: Iterable[Link], verifier: Verifier | None, problems: list[str]) -> _Chain:
    """Read all entries, adding to `problems`."""
    found = _Chain(_Streams(), Head(), set(), {}, True)
    for number, link in enumerate(links):
        faults: list[str] = []
        if text_digest(link.text) != link.digest:
            faults.append("does not match its digest")
        try:
            entry = link.entry
            text = canonical(entry)
        except (StateError, ValueError):
            entry, text = {}, ""
        if text != link.text:
            faults.append("is not in canonical form")
        if entry.get("sequence") != number or entry.get("previous") != found.head.digest:
            faults.append("does not follow the one before it")
        faults += found.streams.read(entry)
        if verifier is not None and not (link.signature and verifier.verify(link.digest, link.signature)):
            faults.append("has no valid signature of this key")
            found.signed = False
        if entry.get("kind") == "release":
            found.releases[number] = entry
        found.head = Head(number, link.digest)
        found.heads.add((number, link.digest))
        problems += [f"entry {number} {fault}" for fault in faults]
    return found


def _releases(store: Store, found: _Chain) -> Iterator[str]:
    """Compare every release, and its domain, with what the chain vouches for."""
    vouched = {(entry.get("stream"), entry.get("slot")): entry for entry in found.releases.values()}
    for stream in store.streams():
        for content, link in store.releases(stream):
            try:
                entry = link.entry
                slot = json.loads(content.partition(b"\n")[0])["slot"]
            except (StateError, ValueError, KeyError, TypeError):
                yield f"a release of stream {stream!r} is damaged"
                continue
            if vouched.pop((stream, slot), None) != entry or entry.get("release") != content_digest(content):
                yield f"the release of slot {slot} is not the one its certificate vouches for"
    for name, slot in vouched:
        yield f"the release of slot {slot} of stream {name!r} is missing"


def _states(store: Store, found: _Chain) -> Iterator[str]:
    """Compare what a stream goes on from with what the chain says of it."""
    declared = found.streams.options
    yield from (f"the stream {name!r} is not in the chain" for name in store.streams() if name not in declared)
    for stream, schedule in declared.items():
        if stream not in store.streams() or store.options(stream) != schedule.of_each(_text):
            yield f"the options of stream {stream!r} are not those of the chain"
            continue
        if (store.reached(stream) or (None, 0)) != (found.streams.last.get(stream), found.streams.units[stream]):
            yield f"the state of stream {stream!r} is not the one after its last release"
        try:
            store.check_state(stream)
            yield from _measurements(store, stream, found)
        except StateError as error:
            yield f"stream {stream!r}: {error}"
        if not all(_described(store, options.domain) for _, options in schedule.entries):
            yield f"the domain of stream {stream!r} is damaged"


def _text(options: DeclaredOptions) -> str:
    return options.text


def _described(store: Store, digest: str) -> bool:
    """Whether a store has the description of a domain."""
    try:
        described = from_description(json.loads(store.domain(digest)))
        return described.digest == digest and canonical(describe(described)) == store.domain(digest)
    except (StateError, OptionError, ValueError, KeyError):
        return False


def _measurements(store: Store, stream: str, found: _Chain) -> Iterator[str]:
    """Compare the measurements that are kept with those the certificates state."""
    kept = {paid.slot: (paid.digest, paid.epsilon) for paid in store.measurements(stream)}
    for entry in found.releases.values():
        slot = entry.get("slot")
        if entry.get("stream") != stream or not isinstance(slot, int):
            continue
        stated = (entry.get("measurement"), entry.get("epsilon_units"))
        if kept.get(slot, None if store.keeps_measurements else stated) != stated:
            yield f"the measurement of slot {slot} of stream {stream!r} is not the one its certificate states"
