"""Which options hold in which slot of an open stream: those that were given, and earlier ones as the store states them.

A stream is opened with its newest options. Slots from before a change have earlier ones, of which the store has the
text and the domain's description, and this makes objects of them; keys that are stated nowhere are those of the newest
options or, of a `truncate`, made of the store's. Sees public options and a store's key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import BUDGETS, Converging, Ledger
from dpi.certificates.declared import DeclaredOptions
from dpi.domain import Domain
from dpi.domain.file import from_description, keys_of
from dpi.errors import OptionError, StateError
from dpi.histogram.compression import COMPRESSIONS, Histogram, truncation_key
from dpi.mechanism.base import MECHANISMS, Estimate, Measurement, Mechanism
from dpi.noise import RandomSource
from dpi.options import Family, Option
from dpi.options.schedule import Schedule
from dpi.store.base import Store
from dpi.stream.options import StreamOptions

Part = TypeVar("Part", bound=Option)


class OptionHistory:
    """The options of one stream by slot; what earlier ones need is looked for when one of their slots is asked for."""

    def __init__(self, newest: StreamOptions, store: Store) -> None:
        self._store = store
        self._texts = store.options(newest.name)
        if newest.text != self._texts.newest:
            raise StateError("the stream's options were changed in the store: open it anew.")
        self.newest = newest
        self._made = {newest.text: newest}

    def at(self, slot: int) -> StreamOptions:
        """Return the options of a slot: one object for slots that have the same."""
        if len(self._texts.entries) == 1:
            return self.newest
        text = self._texts.at(slot)
        if text not in self._made:
            self._made[text] = make_earlier(self.newest, text, self._store)
        return self._made[text]

    def domains(self, slot: int) -> Schedule[Domain]:
        """Return the domain of a slot and of those after it, by the first slot that each holds for."""
        since = self._texts.since(slot)
        return Schedule(tuple((first, self.at(first).domain) for first, _ in since.entries))


def make_earlier(newest: StreamOptions, text: str, store: Store) -> StreamOptions:
    """Return options that a store states of a stream whose newest ones are at hand; the promise of both is the same.

    A part that is stated alike is the one at hand, with its keys. What cannot be made again, because its class or its
    key is not known here, is forgotten: of such options no slot is released, and what comes after them starts anew.
    """
    known = DeclaredOptions.from_text(text)
    domain = read_domain(text, store, keys_of(newest.domain))
    stated, forgotten = known.stated, replace(newest, domain=domain, mechanism=Forgotten(), end=known.end)
    try:
        budget = _alike(newest.budget, stated["budget"], BUDGETS)
        mechanism = _alike(newest.mechanism, stated["mechanism"], MECHANISMS)
        compression = _alike(newest.compression, stated["compression"], COMPRESSIONS, key=truncation_key(store.key))
    except OptionError:
        return forgotten
    assert isinstance(budget, Ledger | Converging)  # noqa: S101 - the family has no other
    made = replace(forgotten, budget=budget, mechanism=mechanism, compression=compression)
    if made.text != known.text:
        raise StateError("the stream's options were changed in the store: open it anew.")
    return made


def _alike(known: Part, stated: object, family: Family[Part], **secrets: bytes) -> Part:
    return known if known.to_options() == stated else family.read(stated, **secrets)


def read_options(store: Store, name: str, keys: Mapping[str, bytes]) -> StreamOptions:
    """Return the newest options of a stream as its store states them; `keys` are those of hashed domains."""
    if name not in store.streams():
        raise OptionError("there is no such stream in the store.")
    text = store.streams()[name]
    stated, domain = DeclaredOptions.from_text(text).stated, read_domain(text, store, dict(keys))
    return StreamOptions.from_options(stated, domain, key=truncation_key(store.key))


def read_domain(text: str, store: Store, keys: dict[str, bytes] | None = None) -> Domain:
    """Return the domain of options that a store states."""
    return from_description(json.loads(store.domain(DeclaredOptions.from_text(text).domain)), keys)


class Forgotten(Mechanism[object]):
    """A mechanism that this program cannot make: its state is not read, and what comes after it starts anew."""

    def initial(self, domain: Domain, classes: int = 1) -> object:
        """Return nothing, which is all that is known of it."""

    def measure(
        self, state: object, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Refuse."""
        raise StateError("the slot has a mechanism that this program cannot make.")

    def update(self, state: object, measurement: Measurement) -> tuple[object, Estimate]:
        """Refuse."""
        raise StateError("the slot has a mechanism that this program cannot make.")

    def to_bytes(self, state: object) -> bytes:
        """Return no bytes."""
        return b""

    def from_bytes(self, domain: Domain, data: bytes) -> object:
        """Leave the bytes unread."""
