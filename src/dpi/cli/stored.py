"""Releases in a store, for those who read: no key is touched and nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from dpi.domain import Domain
from dpi.domain_file import from_description
from dpi.errors import OptionError
from dpi.release import Release
from dpi.slots import Slots
from dpi.store import open_store
from dpi.store.base import Store
from dpi.store.sql import SQLStore


@contextmanager
def reading(target: str) -> Iterator[SQLStore]:
    """A store, read-only."""
    store = open_store(target, read_only=True)
    try:
        yield store
    finally:
        store.close()


def stream_named(store: Store, name: str | None) -> str:
    """The stream that is meant: the only one, or the one that is named. Names are public."""
    names = list(store.streams())
    if not names:
        raise OptionError("the store holds no stream yet.")
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        said = "" if name is None else f" Got {name!r}."
        raise OptionError(f"`--stream` must be one of: {', '.join(map(repr, names))}.{said}")
    return name


class Stored:
    """The releases of one stream of a store."""

    def __init__(self, store: Store, name: str | None = None, keys: Mapping[str, bytes] | None = None) -> None:
        self.store = store
        self.name = stream_named(store, name)
        self._keys = keys
        self._domains: dict[str, Domain] = {}

    @property
    def last(self) -> int:
        """The last released slot."""
        reached = self.store.reached(self.name)
        if reached is None:
            raise OptionError("no slot of this stream has been released yet.")
        return reached[0]

    def releases(self, first: int | None = None, end: int | None = None) -> Iterator[Release]:
        """The releases of the slots from `first` to before `end`, each with the domain it was made for."""
        for content, link in self.store.releases(self.name, first, None if end is None else end - 1):
            digest = str(json.loads(content.partition(b"\n")[0])["domain"])
            if digest not in self._domains:
                self._domains[digest] = from_description(json.loads(self.store.domain(digest)), self._keys)
            yield Release.from_content(content, self._domains[digest], link.certificate)

    def slot(self, number: int) -> Release:
        """One release."""
        for release in self.releases(number, number + 1):
            return release
        raise OptionError(f"slot {number} is not in the store; the last one is {self.last}.")

    @property
    def slots(self) -> Slots:
        """The stream's clock, as its options state it."""
        stated = str(json.loads(self.store.streams()[self.name])["slots"])
        match = re.fullmatch(r"Slots\(width=(\d+), origin=(-?\d+), zone='([^']+)', lateness=(\d+)\)", stated)
        if match is None:
            raise OptionError("this stream has no clock: name slots by number, with `--slot`.")
        origin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(match[2]))
        return Slots(f"{match[1]}us", origin=origin, zone=match[3], lateness=f"{match[4]}us")

    def within(self, start: str | None, end: str | None) -> Iterator[Release]:
        """The releases of the slots that begin in [start, end); times without a zone are in the stream's own."""
        yield from self.releases(*(None if text is None else self.first(text) for text in (start, end)))

    def first(self, text: str) -> int:
        """The first slot that does not begin before a time, which is in the stream's zone unless it names one."""
        slots = self.slots
        number = slots.number(text)
        return number if slots.instant(slots.start(number)) == slots.instant(text) else number + 1
