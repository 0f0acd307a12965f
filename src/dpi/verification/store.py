"""Checking a chain of certificates: whether it is whole, and whether its sums are what it says.

`verify` reads public bytes, so anyone may do it who has the store: the chain, the releases and measurements it vouches
for, and the state that streams go on from. It does not see accounts, levies, and events of open slots. That accounts
and levies are as they were sealed, and no account is beyond ε, only the curator can check: `check_accounts`
(`dpi.verification.accounts`) needs the ledger's key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dpi.certificates.chain import canonical
from dpi.certificates.declared import DeclaredOptions
from dpi.domain.file import describe, from_description
from dpi.errors import OptionError, StateError
from dpi.release import content_digest
from dpi.verification.chain import Chain, read_chain
from dpi.verification.found import Verification

if TYPE_CHECKING:
    from dpi.certificates.signature import Verifier
    from dpi.store.base import Store
    from dpi.store.witness import Seen


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
        found = read_chain(store.links(), verifier, problems)
        if seen is not None and seen.sequence >= 0 and (seen.sequence, seen.digest) not in found.heads:
            problems.append(
                f"entry {seen.sequence}, which the witness saw, is not in the chain: the store is an old copy"
            )
        problems += _releases(store, found)
        problems += _states(store, found)
        thinned = store.thinned()
    return replace(found.verification(problems, verifier), end_known=seen is not None, thinned=thinned)


def _releases(store: Store, found: Chain) -> Iterator[str]:
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


def _states(store: Store, found: Chain) -> Iterator[str]:
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


def _measurements(store: Store, stream: str, found: Chain) -> Iterator[str]:
    """Compare the measurements that are kept with those the certificates state."""
    kept = {paid.slot: (paid.digest, paid.epsilon) for paid in store.measurements(stream)}
    since = store.thinned().get(stream)
    for entry in found.releases.values():
        slot = entry.get("slot")
        if entry.get("stream") != stream or not isinstance(slot, int):
            continue
        stated = (entry.get("measurement"), entry.get("epsilon_units"))
        needed = store.keeps_measurements and (since is None or slot >= since)
        if kept.get(slot, None if needed else stated) != stated:
            yield f"the measurement of slot {slot} of stream {stream!r} is not the one its certificate states"
