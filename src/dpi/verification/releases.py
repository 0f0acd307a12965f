"""Checking releases that were handed out: what they vouch for, what is missing, and what they cannot tell.

Who has a file of releases sees some entries of a chain. Each certificate and its release are checked, the links between
those that follow each other, and that no slot is left out between two. What came before the first is told as far as
its certificate tells it. What was cut off at the end, releases alone cannot tell: a store or a witness can. All of
it is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpi.certificates.chain import Entry, Head, Link, link_of, text_digest
from dpi.certificates.declared import declared, name_stream, write_slots
from dpi.release import Release
from dpi.verification.result import Span, Verification

if TYPE_CHECKING:
    from dpi.certificates.signature import Verifier
    from dpi.store.base import Store
    from dpi.store.witness import Seen


def verify_releases(
    releases: Iterable[Release],
    *,
    verifier: Verifier | None = None,
    store: Store | None = None,
    seen: Seen | None = None,
) -> Verification:
    """Check releases that were handed out, by what they carry: each certificate, its release, and the links between.

    Entries that belong to no release (options, other streams) are not among them, so a gap in the chain is no fault
    here, and sums are checked by the store's own chain. A slot that is left out between two is one: every slot is
    released. `store` is the one they are said to come from, and `seen` what a witness remembers: both know what is
    missing at the end.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Ledger(per_slot=0.1))
    >>> releases = [stream.release(["u"], ["a"]) for _ in range(3)]
    >>> verify_releases(releases).whole, verify_releases(releases[1:]).missing
    (True, ('releases of the stream without a name before slot 1',))
    """
    read = _Reading(verifier, store)
    for release in releases:
        read.add(release)
    if not read.entries:
        read.problems.append("there is no release to check")
    missing = read.missing_before() if store is None else _beside(store, read)
    if seen is not None:
        read.problems += _witnessed(seen, read)
    return Verification(
        read.entries,
        read.head.digest,
        tuple(read.problems),
        None if verifier is None else read.signed,
        first_entry=read.first_entry,
        last_entry=read.head.sequence,
        spans=read.spans,
        missing=tuple(missing),
        end_known=store is not None or seen is not None,
    )


@dataclass
class _Reading:
    """What the releases so far have shown."""

    verifier: Verifier | None
    store: Store | None
    entries: int = 0
    first_entry: int = -1
    head: Head = field(default_factory=Head)
    problems: list[str] = field(default_factory=list)
    signed: bool = True
    key: int = 0
    """Which of the verifier's keys has signed last."""
    spans: dict[str, Span] = field(default_factory=dict)
    firsts: dict[str, Entry] = field(default_factory=dict)
    heads: dict[int, str] = field(default_factory=dict)

    def add(self, release: Release) -> None:
        """Take in one release."""
        link = link_of(release.certificate)
        where = _name_slot(release.slot, release.start_text)
        self.problems += [f"{where}: {fault}" for fault in self._faults(release, link)]
        here, stream = link.head, str(release.certificate.get("stream"))
        if not self.entries:
            self.first_entry = here.sequence
        self.entries, self.head = self.entries + 1, here
        self.heads[here.sequence] = here.digest
        self.firsts.setdefault(stream, release.certificate)
        before = self.spans.get(stream)
        start = Span(release.slot, release.slot, release.start_text, release.start_text) if before is None else before
        self.spans[stream] = Span(start.first, release.slot, start.first_start, release.start_text)

    def _faults(self, release: Release, link: Link) -> Iterator[str]:
        certificate = release.certificate
        if text_digest(link.text) != link.digest:
            yield "its certificate does not match its digest"
        if certificate.get("release") != release.digest or certificate.get("slot") != release.slot:
            yield "the release is not the one its certificate vouches for"
        stream = str(certificate.get("stream"))
        if stream in self.spans:
            yield from self._order(stream, release)
        here = link.head
        if self.entries and here.sequence <= self.head.sequence and len({stream, *self.spans}) == 1:
            yield "its certificate is older than the one before it"
        if self.entries and here.sequence == self.head.sequence + 1 and certificate.get("previous") != self.head.digest:
            yield "its certificate does not follow the one before it"
        if self.store is not None and not _holds(self.store, here):
            yield "its certificate is not in the chain of the store"
        if self.verifier is not None:
            place = self.verifier.place(link.digest, link.signature, self.key)
            if place is None:
                yield "its signature is missing or not of this key"
                self.signed = False
            self.key = self.key if place is None else place

    def _order(self, stream: str, release: Release) -> Iterator[str]:
        before, slot = self.spans[stream], release.slot
        if slot <= before.last:
            yield "it does not follow the one before it"
        elif slot > before.last + 1 and (self.store is None or _any(self.store, stream, before.last + 1, slot - 1)):
            since = _name_slot(before.last, before.last_start)
            yield f"what was released between {since} and it is missing"

    def missing_before(self) -> Iterator[str]:
        """Give the streams whose first certificate says that they began before it."""
        for stream, entry in self.firsts.items():
            span, first = self.spans[stream], entry.get("first")
            if not isinstance(first, int) or first < span.first:
                yield f"releases of {name_stream(stream)} before {_name_slot(span.first, span.first_start)}"


def _name_slot(slot: int, start: str | None) -> str:
    """Return how a sentence names a slot: by when it begins, or by its number."""
    where = start or slot
    return write_slots(where, where)


def _holds(store: Store, head: Head) -> bool:
    """Whether an entry is in a store's chain."""
    return 0 <= head.sequence <= store.head().sequence and store.link(head.sequence).digest == head.digest


def _any(store: Store, stream: str, first: int, last: int) -> bool:
    """Whether a store holds a release of these slots; of those that a restored copy has forgotten it does not."""
    return next(store.releases(stream, first, last), None) is not None


def _beside(store: Store, read: _Reading) -> Iterator[str]:
    """Yield what a store holds of the same streams before the first slot and after the last."""
    known = declared(store.streams())
    for stream, span in read.spans.items():
        reached = store.reached(stream)
        if _any(store, stream, -(1 << 62), span.first - 1):
            here = _name_slot(span.first, span.first_start)
            yield f"in the store and not here: slots of {name_stream(stream)} before {here}"
        if reached is not None and _any(store, stream, span.last + 1, reached[0]):
            rest = span.last + 1, reached[0]
            named = known[stream].name_slots(*rest) if stream in known else write_slots(*rest)
            yield f"in the store and not here: {named} of {name_stream(stream)}"


def _witnessed(seen: Seen, read: _Reading) -> Iterator[str]:
    """Yield what a witness saw and the releases do not show."""
    if read.heads.get(seen.sequence, seen.digest) != seen.digest:
        yield f"entry {seen.sequence} is another one than the witness saw"
    for stream, span in read.spans.items():
        if stream not in seen.last:
            yield f"the witness does not know {name_stream(stream)}"
        elif seen.last[stream] > span.last:
            since, rest = _name_slot(span.last, span.last_start), seen.last[stream] - span.last
            yield f"{rest} slot{'' if rest == 1 else 's'} after {since}, which the witness saw released: missing"
