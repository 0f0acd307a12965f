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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpi.budget.account_table import AccountTable
from dpi.chain import Entry, Head, Link, canonical, link_of, options_digest, text_digest
from dpi.domain_file import describe, from_description
from dpi.errors import OptionError, StateError
from dpi.release import Release, content_digest

if TYPE_CHECKING:
    from dpi.signature import Verifier
    from dpi.store.base import Store
    from dpi.store.sql import SQLStore
    from dpi.store.witness import Seen


@dataclass(frozen=True)
class Verification:
    """What was found."""

    entries: int
    head: str
    problems: tuple[str, ...]
    signed: bool | None = None
    """Whether every entry has a valid signature; None if no key was given to check with."""
    accounts_checked: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    """The most that each stream can have cost any one user so far."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass
class _Streams:
    """What the entries so far say of each stream."""

    options: dict[str, Entry] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def read(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; say what is wrong with it."""
        match entry:
            case {"kind": "options", "stream": str(stream), "options": dict(options)} if _readable(options):
                if stream in self.options and options["epsilon_units"] != self.options[stream]["epsilon_units"]:
                    yield "changes ε"
                self.options[stream] = options
            case {"kind": "release", "stream": str(stream), "slot": int(slot)}:
                yield from self._release(entry, stream, slot)
            case {"kind": "restored", "last": dict(last), "spent_units": dict(spent), "charged_units": dict(charged)}:
                yield from self._restored(last, spent, charged)
            case _:
                yield "is of no known kind"

    def _restored(self, last: dict[str, int], spent: dict[str, int], charged: dict[str, int]) -> Iterator[str]:
        if not all(type(number) is int for part in (last, spent, charged) for number in part.values()):
            yield "states no whole numbers"
            return
        due: dict[str, int] = defaultdict(int)
        for stream, options in self.options.items():
            lost = spent.get(stream, self.units[stream]) - self.units[stream]
            if lost < 0 or last.get(stream, self.last.get(stream, 0)) < self.last.get(stream, 0):
                yield "goes back behind what was released"
            if options.get("ledger") is not None:
                due[str(options["ledger"])] += lost
        if any(charged.get(ledger, 0) < lost for ledger, lost in due.items()):
            yield "charges less than was lost"
        self.last.update(last)
        self.units.update(spent)

    def _release(self, entry: Entry, stream: str, slot: int) -> Iterator[str]:
        options = self.options.get(stream)
        if options is None:
            yield "releases a stream that was never declared"
            return
        if entry.get("options") != options_digest(canonical(options)):
            yield "has other options than the stream declared"
        if stream in self.last and slot != self.last[stream] + 1:
            yield "does not release the slot after the last"
        self.last[stream] = slot
        epsilon, total = entry.get("epsilon_units"), options.get("epsilon_units")
        if not isinstance(epsilon, int) or not isinstance(total, int) or epsilon < 0:
            yield "states no budget"
            return
        self.units[stream] += epsilon
        if entry.get("epsilon_total_units") != total:
            yield "states another total ε than the stream declared"
        if entry.get("epsilon_spent_units") != min(total, self.units[stream]):
            yield "states another sum of budgets than its slots have"
        if options.get("ledger") is None and self.units[stream] > total:
            yield "spends more than the series has"


def _readable(options: Entry) -> bool:
    """Whether options say what the checks need."""
    match options:
        case {"epsilon_units": int(), "domain": str(), "ledger": str() | None}:
            return True
    return False


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
    return found.verification(problems, verifier)


def verify_releases(releases: Iterable[Release], *, verifier: Verifier | None = None) -> Verification:
    """Check releases that were handed out, by what they carry: each certificate, its release, and the links between.

    Entries that belong to no release (options, other streams) are not among them, so a gap in the chain is no fault
    here, and sums are checked by the store's own chain.
    """
    problems: list[str] = []
    entries, head, signed = 0, Head(), True
    last: dict[str, int] = {}
    for release in releases:
        link, entries = link_of(release.certificate), entries + 1
        name = f"slot {release.slot}"
        if text_digest(link.text) != link.digest:
            problems.append(f"{name}: its certificate does not match its digest")
        if release.certificate.get("release") != release.digest or release.certificate.get("slot") != release.slot:
            problems.append(f"{name}: the release is not the one its certificate vouches for")
        stream = str(release.certificate.get("stream"))
        if stream in last and release.slot <= last[stream]:
            problems.append(f"{name}: it does not follow the one before it")
        last[stream] = release.slot
        here = link.head
        if here.sequence == head.sequence + 1 and release.certificate.get("previous") != head.digest and entries > 1:
            problems.append(f"{name}: its certificate does not follow the one before it")
        if verifier is not None and not (link.signature and verifier.verify(link.digest, link.signature)):
            problems.append(f"{name}: its signature is missing or not of this key")
            signed = False
        head = here
    return Verification(entries, head.digest, tuple(problems), None if verifier is None else signed)


def check_accounts(store: SQLStore) -> tuple[str, ...]:
    """For the curator: whether any account is beyond what it may hold. What is said of it is private.

    An account may hold at most ε, and at most what all slots of the ledger's streams have cost together.
    """
    problems = []
    units: dict[str, int] = defaultdict(int)
    for name, text in store.streams().items():
        reached, pending = store.reached(name), store.pending(name)
        ledger = json.loads(text)["ledger"]
        units[ledger] += (0 if reached is None else reached[1]) + (0 if pending is None else pending.epsilon)
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
        spent = {
            name: min(int(str(options["epsilon_units"])), self.streams.units[name]) / (1 << 40)
            for name, options in self.streams.options.items()
        }
        signed = None if verifier is None else self.signed
        return Verification(self.head.sequence + 1, self.head.digest, tuple(problems), signed, spent=spent)


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
    for stream, options in declared.items():
        if store.streams().get(stream) != canonical(options):
            yield f"the options of stream {stream!r} are not those of the chain"
            continue
        if (store.reached(stream) or (None, 0)) != (found.streams.last.get(stream), found.streams.units[stream]):
            yield f"the state of stream {stream!r} is not the one after its last release"
        try:
            store.progress(stream)
            yield from _measurements(store, stream, found)
        except StateError as error:
            yield f"stream {stream!r}: {error}"
        try:
            described = from_description(json.loads(store.domain(str(options["domain"]))))
            whole = described.digest == options["domain"]
            whole &= canonical(describe(described)) == store.domain(described.digest)
        except (StateError, OptionError, ValueError, KeyError):
            whole = False
        if not whole:
            yield f"the domain of stream {stream!r} is damaged"


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
