"""The chain of certificates: every entry states the digest of the one before it.

An entry is canonical JSON of public facts: numbers and texts, no wall-clock time, no digest of an account or a
histogram. Whole numbers are what is checked; other numbers are there for people. Changing, dropping or inserting an
entry changes every digest after it, so whoever kept a later digest notices. A signature says who wrote the chain; the
digests alone say that it is whole.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpi.errors import StateError

if TYPE_CHECKING:
    from dpi.certificates.signature import Signer

Entry = dict[str, object]
"""Public facts as JSON values."""

FORMAT = 1
"""Of entries."""
SEALS = ("digest", "signature")
"""What a certificate has besides its entry."""


@dataclass(frozen=True)
class Head:
    """The end of a chain: the number of its last entry and that entry's digest."""

    sequence: int = -1
    digest: str = "0" * 64


@dataclass(frozen=True)
class Link:
    """One entry as it is stored: its canonical text, its digest and, if the chain is signed, a signature."""

    text: str
    digest: str
    signature: str | None = None

    @property
    def entry(self) -> Entry:
        """The facts; raises `StateError` if the text is no JSON object."""
        try:
            entry = json.loads(self.text)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise StateError("an entry of the chain is damaged.")
        return entry

    @cached_property
    def head(self) -> Head:
        """The end of the chain if this is its last entry."""
        sequence = self.entry.get("sequence")
        return Head(sequence if isinstance(sequence, int) else -1, self.digest)

    @property
    def certificate(self) -> Entry:
        """The entry with its seals, as a release carries it."""
        seals = {"digest": self.digest, "signature": self.signature}
        return self.entry | {name: seal for name, seal in seals.items() if seal is not None}


def canonical(entry: Entry) -> str:
    """One text for the same facts.

    >>> canonical({"slot": 3, "kind": "release"})
    '{"kind":"release","slot":3}'
    """
    return json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def text_digest(text: str) -> str:
    """Return the digest of an entry's text."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=32, person=b"dpi chain").hexdigest()


def extend(head: Head, facts: Entry, signer: Signer | None = None) -> Link:
    """Return the entry that follows `head`.

    >>> first = extend(Head(), {"kind": "options"})
    >>> second = extend(Head(0, first.digest), {"kind": "release"})
    >>> second.entry["sequence"], second.entry["previous"] == first.digest
    (1, True)
    """
    text = canonical({"format": FORMAT, **facts, "sequence": head.sequence + 1, "previous": head.digest})
    digest = text_digest(text)
    link = Link(text, digest, None if signer is None else signer.sign(digest))
    link.__dict__["head"] = Head(head.sequence + 1, digest)  # as reading the text would find it
    return link


def link_of(certificate: Entry) -> Link:
    """Return the link that a release's certificate was made from."""
    entry = {name: fact for name, fact in certificate.items() if name not in SEALS}
    signature = certificate.get("signature")
    return Link(canonical(entry), str(certificate.get("digest")), None if signature is None else str(signature))


def most_spent(epsilon: int, period: int | None, first: int, last: int, units: int) -> int:
    """Return the most that one user can have lost in slots `first` to `last` of a stream of budgets with sum `units`.

    ε, or with accounts that are refilled ε for each epoch that was entered; and never more than the budgets.

    >>> most_spent(10, 2, first=0, last=2, units=100)
    20
    """
    epochs = last // period - first // period + 1 if period is not None and period > 0 else 1
    return min(epochs * epsilon, units)


def options_digest(text: str) -> str:
    """Return the fingerprint of a stream's options, which every certificate of it states."""
    return hashlib.blake2b(text.encode(), digest_size=32, person=b"dpi options").hexdigest()
