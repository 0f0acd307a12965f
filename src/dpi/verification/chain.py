"""Reading a chain of certificates: whether each entry is whole and follows the one before it.

Sees entries, which are public; no release, no state and no account. What entries say is checked by
`dpi.verification.entries`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpi.budget.epsilon import UNITS
from dpi.certificates.chain import Entry, Head, Link, canonical, text_digest
from dpi.errors import StateError
from dpi.store.spent import spent_by_all
from dpi.verification.entries import Streams
from dpi.verification.found import Span, Verification

if TYPE_CHECKING:
    from dpi.certificates.signature import Verifier


@dataclass
class Chain:
    """What reading the entries has shown."""

    streams: Streams
    head: Head
    heads: set[tuple[int, str]]
    releases: dict[int, Entry]
    signed: bool

    def verification(self, problems: list[str], verifier: Verifier | None) -> Verification:
        """What is said of it."""
        seen = self.streams
        spent = {name: seen.most_spent(name) / UNITS for name in seen.options}
        signed = None if verifier is None else self.signed
        return Verification(
            self.head.sequence + 1,
            self.head.digest,
            tuple(problems),
            signed,
            spent=spent,
            spent_by_all=spent_by_all(
                {name: options.newest for name, options in seen.options.items()},
                {name: seen.most_spent(name) for name in seen.options},
            ),
            last_entry=self.head.sequence,
            restored=tuple(seen.restored),
            missing=tuple(
                f"releases of {_slots(*slots)} of stream {name!r}, which a restored copy lacked (entry {each.entry})"
                for each in seen.restored
                for name, slots in each.slots.items()
            ),
            spans={name: Span(seen.first[name], seen.last[name]) for name in seen.first},
        )


def _slots(first: int, last: int) -> str:
    return f"slot {first}" if first == last else f"slots {first} … {last}"


def read_chain(links: Iterable[Link], verifier: Verifier | None, problems: list[str]) -> Chain:
    """Read all entries, adding to `problems`."""
    found = Chain(Streams(), Head(), set(), {}, True)
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
