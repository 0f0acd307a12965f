"""Checking a store: whether its chain is whole, its sums are what it says, and what lies beside it is vouched for.

`verify` reads public bytes, so anyone may do it who has the store: the chain, the releases and measurements it vouches
for, and the state that streams go on from. It does not see accounts, levies, and events of open slots. That accounts
and levies are as they were sealed, and no account is beyond ε, only the curator can check: `check_accounts` sees
accounts, a bucket of them at a time, and needs the ledger's key. What entries say is checked by
`dpi.verification._entries`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpi.budget.account_table import AccountTable, largest
from dpi.budget.epsilon import UNITS
from dpi.certificates.chain import Entry, Head, Link, canonical, text_digest
from dpi.certificates.declared import DeclaredOptions, assigned, declared, name_stream
from dpi.certificates.tree import leaf_hash, root_hash
from dpi.domain.file import describe, from_description
from dpi.errors import OptionError, StateError
from dpi.release import content_digest
from dpi.store.spent import spent_by_all
from dpi.verification._entries import Streams
from dpi.verification.result import Verification

if TYPE_CHECKING:
    from dpi.certificates.notes import Checkpoint
    from dpi.certificates.policy import Policy
    from dpi.certificates.signature import Verifier
    from dpi.store.base import Store
    from dpi.store.witness import Seen


def verify(
    store: Store,
    *,
    verifier: Verifier | None = None,
    seen: Seen | None = None,
    checkpoint: Checkpoint | None = None,
    policy: Policy | None = None,
) -> Verification:
    """Recompute the chain of a store, the digests of its releases, and its sums.

    `seen` is what a witness remembers: the chain must contain it. So must it begin with the entries of a `checkpoint`,
    which must be signed by the keys that `policy` asks for.

    >>> import dpi
    >>> store = dpi.MemoryStore()
    >>> _ = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store).release(["u"], ["a"])
    >>> verify(store).intact
    True
    """
    problems: list[str] = []
    with store.snapshot():
        chain = read_chain(store.links(), verifier, problems)
        if seen is not None and seen.sequence >= 0 and (seen.sequence, seen.digest) not in chain.heads:
            problems.append(
                f"entry {seen.sequence}, which the witness saw, is not in the chain: the store is an old copy"
            )
        if checkpoint is not None and policy is not None:
            problems += _witnessed(chain.leaves, checkpoint, policy)
        problems += _releases(store, chain)
        problems += _states(store, chain)
        thinned = store.thinned()
    streams, head = chain.streams, chain.head
    units = {name: streams.most_spent(name) for name in streams.options}
    return Verification(
        head.sequence + 1,
        head.digest,
        tuple(problems),
        None if verifier is None else chain.signed,
        spent={name: cost / UNITS for name, cost in units.items()},
        spent_by_all=spent_by_all({name: options.newest for name, options in streams.options.items()}, units),
        last_entry=head.sequence,
        restored=tuple(streams.restored),
        missing=tuple(
            f"releases of {streams.name_slots(name, first, last)} of {name_stream(name)}, which a restored copy lacked "
            f"(entry {each.entry})"
            for each in streams.restored
            for name, (first, last) in each.slots.items()
        ),
        spans={name: streams.span(name) for name in streams.first},
        end_known=seen is not None or checkpoint is not None,
        thinned=thinned,
    )


def _witnessed(leaves: list[bytes], checkpoint: Checkpoint, policy: Policy) -> Iterator[str]:
    """Compare the chain with a head that witnesses have cosigned."""
    if not policy.origin_signed(checkpoint):
        yield f"the checkpoint is not signed by a log of the policy for {checkpoint.origin!r}"
    if not policy.reached(policy.cosigned(checkpoint)):
        yield "the checkpoint is not cosigned by as many witnesses as the policy asks for"
    if checkpoint.size > len(leaves):
        yield f"the chain has {len(leaves)} entries, and witnesses saw {checkpoint.size}: its end was cut off"
    elif root_hash(leaves[: checkpoint.size]) != checkpoint.root:
        yield f"the first {checkpoint.size} entries are others than the witnesses saw: this is another chain"


def _releases(store: Store, chain: Chain) -> Iterator[str]:
    """Compare every release, and its domain, with what the chain vouches for."""
    vouched = {(str(entry.get("stream")), entry.get("slot")): entry for entry in chain.releases.values()}
    for stream in store.streams():
        for content, link in store.releases(stream):
            try:
                entry = link.entry
                slot = json.loads(content.partition(b"\n")[0])["slot"]
            except (StateError, ValueError, KeyError, TypeError):
                yield f"a release of {name_stream(stream)} is damaged"
                continue
            if vouched.pop((stream, slot), None) != entry or entry.get("release") != content_digest(content):
                where = f"{chain.streams.name_slots(stream, slot, slot)} of {name_stream(stream)}"
                yield f"the release of {where} is not the one its certificate vouches for"
    for name, slot in vouched:
        yield f"the release of {chain.streams.name_slots(name, slot, slot)} of {name_stream(name)} is missing"


def _states(store: Store, chain: Chain) -> Iterator[str]:
    """Compare what a stream goes on from with what the chain says of it."""
    declared = chain.streams.options
    yield from (f"{name_stream(name)} is not in the chain" for name in store.streams() if name not in declared)
    for stream, schedule in declared.items():
        if stream not in store.streams() or store.options(stream) != schedule.of_each(lambda options: options.text):
            yield f"the options of {name_stream(stream)} are not those of the chain"
            continue
        if (store.reached(stream) or (None, 0)) != (chain.streams.last.get(stream), chain.streams.units[stream]):
            yield f"the state of {name_stream(stream)} is not the one after its last release"
        try:
            store.check_state(stream)
            yield from _measurements(store, stream, chain)
        except StateError as error:
            yield f"{name_stream(stream)}: {error}"
        if not all(_described(store, options.domain) for _, options in schedule.entries):
            yield f"the domain of {name_stream(stream)} is damaged"


def _described(store: Store, digest: str) -> bool:
    """Whether a store has the description of a domain."""
    try:
        described = from_description(json.loads(store.domain(digest)))
        return described.digest == digest and canonical(describe(described)) == store.domain(digest)
    except (StateError, OptionError, ValueError, KeyError):
        return False


def _measurements(store: Store, stream: str, chain: Chain) -> Iterator[str]:
    """Compare the measurements that are kept with those the certificates state."""
    kept = {paid.slot: (paid.digest, paid.epsilon) for paid in store.measurements(stream)}
    since = store.thinned().get(stream)
    for entry in chain.releases.values():
        slot = entry.get("slot")
        if entry.get("stream") != stream or not isinstance(slot, int):
            continue
        stated = (entry.get("measurement"), entry.get("epsilon_units"))
        needed = store.keeps_measurements and (since is None or slot >= since)
        if kept.get(slot, None if needed else stated) != stated:
            where = f"{chain.streams.name_slots(stream, slot, slot)} of {name_stream(stream)}"
            yield f"the measurement of {where} is not the one its certificate states"


@dataclass
class Chain:
    """What reading the entries has shown."""

    streams: Streams
    head: Head
    heads: set[tuple[int, str]]
    releases: dict[int, Entry]
    signed: bool
    key: int = 0
    """Which of the verifier's keys has signed last."""
    leaves: list[bytes] = field(default_factory=list)
    """Hashes of the entries' texts: leaves of the tree that witnesses compare."""


def read_chain(links: Iterable[Link], verifier: Verifier | None, problems: list[str]) -> Chain:
    """Read all entries, adding to `problems`."""
    chain = Chain(Streams(), Head(), set(), {}, True)
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
        if entry.get("sequence") != number or entry.get("previous") != chain.head.digest:
            faults.append("does not follow the one before it")
        faults += chain.streams.read(entry)
        if verifier is not None:
            place = verifier.place(link.digest, link.signature, chain.key)
            if place is None:
                faults.append("has no valid signature of this key")
                chain.signed = False
            chain.key = chain.key if place is None else place
        if entry.get("kind") == "release":
            chain.releases[number] = entry
        chain.head = Head(number, link.digest)
        chain.heads.add((number, link.digest))
        chain.leaves.append(leaf_hash(link.text))
        problems += [f"entry {number} {fault}" for fault in faults]
    if verifier is not None and chain.signed and chain.head.sequence >= 0 and chain.key < len(verifier.older):
        problems.append(f"entry {chain.head.sequence} is the last, and not signed with the newest key")
        chain.signed = False
    return chain


def check_accounts(store: Store) -> tuple[str, ...]:
    """For the curator: whether any account is beyond what it may hold. What is said of it is private.

    An account may have spent at most what it held (ε, or its part of it by quotas), and at most what all slots of its
    streams have cost together. What accounts of one user held is at most ε in all, as the chain says (`verify`).
    """
    problems = []
    units: dict[str, int] = defaultdict(int)
    for name, text in store.streams().items():
        try:
            store.progress(name)  # with the tree of sums, whose open nodes are private
            reached, pending = store.reached(name), store.pending(name)
            ledger = DeclaredOptions.from_text(text).accounts
            paid = _largest(store.payment_parts(name))
        except StateError as error:
            problems.append(f"{name_stream(name)}: {error}")
            continue
        if ledger is not None:
            before = 0 if reached is None else reached[1]
            most = before if pending is None else pending.spent_after(before)
            units[ledger] += most
            if paid > most:
                problems.append(f"{name_stream(name)}: an account has paid more than its slots have cost")
    for ledger, options in store.ledgers().items():
        try:
            largest = _largest(store.account_parts(ledger, options))
            streams = declared(store.streams())
            held = json.loads(options)["epsilon"] - assigned(ledger, streams)
        except StateError as error:
            problems.append(f"ledger {ledger!r}: {error}")
            continue
        if largest > min(held, units[ledger]):
            problems.append(f"ledger {ledger!r}: an account has spent more than its slots have cost, or more than ε")
    return tuple(problems)


def _largest(parts: Iterable[bytes]) -> int:
    return max((largest(AccountTable.from_bytes(part)) for part in parts), default=0)
