"""Releases that a store holds, for those who read: no key is touched and nothing is written.

Reads what is public: names, options and domains of streams, releases and their certificates. So a store, an export
of one (`dpi export`) and a PostgreSQL role that may see the public tables alone serve alike, also while another process
writes. What a release says was let out already: to read it, however often, costs no privacy.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from copy import copy
from datetime import datetime
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Self, SupportsIndex, cast, overload

from dpi._version import how_to_install
from dpi.certificates.declared import DeclaredOptions
from dpi.domain import Domain
from dpi.domain.file import from_description
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.release import Release, to_frame
from dpi.release.quality import Quality, slots_of_week, with_weeks
from dpi.release.table import Groups, tidy
from dpi.store import Store
from dpi.store.opening import find_store

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Where = SupportsIndex | str | datetime
"""A slot: by its number, or by a time."""


def open(
    store: str | os.PathLike[str] | Store, stream: str | None = None, *, keys: Mapping[str, bytes] | None = None
) -> Releases:
    """Return the releases of a stream in a store, to read.

    `store` is a path (of a store or of an export), the address of a PostgreSQL database, or a store object. `stream` is
    the stream's name, and may be left out where there is one alone. `keys` are those of hashed domains, by their names.

    >>> import dpi
    >>> store = dpi.MemoryStore()
    >>> stream = dpi.Stream(domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1h", start="2026-01-01", store=store)
    >>> for _ in range(3): _ = stream.release(["ada"], ["a"])
    >>> releases = dpi.open(store)
    >>> len(releases), releases["2026-01-01T01:30"].start_text, len(releases["2026-01-01T01:00":])
    (3, '2026-01-01T01:00:00+00:00', 2)
    """
    opened = find_store(store, read_only=True)
    if opened is store:
        return Releases(opened, stream, keys)
    try:
        return Releases(opened, stream, keys, address=os.fspath(cast("str", store)))
    except BaseException:
        opened.close()
        raise


class Releases:
    """The releases of one stream of a store, or those of a period of it: what is there at each look, in order.

    `releases[12]` is a slot's release, `releases["2026-01-01T12:30"]` that of the slot which a time lies in. A slice
    has the slots from the first to before the end: `releases[10:20]` by numbers, `releases["2026-01-01":"2026-02-01"]`
    those that begin in a period. Times that name no zone are in the stream's own. Numbers are those of slots: there is
    no counting from the end (`newest` is the last one).
    """

    def __init__(
        self, store: Store, stream: str | None = None, keys: Mapping[str, bytes] | None = None, *, address: str = ""
    ) -> None:
        self.store, self.name = store, stream_named(store, stream)
        self._keys, self._address, self._owns_store = keys, address, bool(address)
        self._first: int | None = None
        self._end: int | None = None
        self._domains: dict[str, Domain] = {}
        self.quality: Quality | None = None

    def close(self) -> None:
        """Let go of a store that was opened for this."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of all streams of the store."""
        return tuple(self.store.streams())

    def of(self, stream: str) -> Releases:
        """Return the releases of another stream of the store."""
        return Releases(self.store, stream, self._keys)

    @property
    def options(self) -> DeclaredOptions:
        """What is declared of the stream."""
        return DeclaredOptions.from_text(self.store.streams()[self.name])

    @property
    def slots(self) -> Slots:
        """The stream's clock, as its options state it."""
        slots = self.options.slots
        if slots is None:
            raise OptionError("this stream has no clock: name slots by number.")
        return slots

    def first_at(self, where: Where) -> int:
        """Return the first slot that does not begin before a time; of a number, that slot."""
        if not isinstance(where, str | datetime):
            return _number(where)
        slots = self.slots
        number = slots.number(where)
        return number if slots.instant(slots.start(number)) == slots.instant(where) else number + 1

    def __iter__(self) -> Iterator[Release]:
        """Each release with the domain it was made for; some are read at a time, so a long stream need not fit."""
        for content, link in self.store.releases(self.name, self._first, self._last):
            digest = str(json.loads(content.partition(b"\n")[0])["domain"])
            if digest not in self._domains:
                self._domains[digest] = from_description(json.loads(self.store.domain(digest)), self._keys)
            yield Release.from_content(content, self._domains[digest], link.certificate)

    def __len__(self) -> int:
        extent = self.extent
        return 0 if extent is None else extent[0]

    @overload
    def __getitem__(self, where: slice) -> Releases: ...
    @overload
    def __getitem__(self, where: Where) -> Release: ...
    def __getitem__(self, where: Where | slice) -> Release | Releases:
        if isinstance(where, slice):
            if where.step is not None:
                raise OptionError("a slice of releases has a first slot and an end, and no step.")
            return self.between(where.start, where.stop)
        return self.at(where)

    def __contains__(self, slot: object) -> bool:
        """Whether the release of a slot is there."""
        return isinstance(slot, int) and next(iter(self.between(slot, slot + 1)), None) is not None

    def at(self, where: Where) -> Release:
        """Return the release of a slot, by its number or by a time that lies in it."""
        number = self.slots.number(where) if isinstance(where, str | datetime) else _number(where)
        for release in self.between(number, number + 1):
            return release
        extent = self.extent
        known = NONE if extent is None else f"the last one here is {self.options.name_slots(extent[2], extent[2])}."
        raise OptionError(f"{self.options.name_slots(number, number)} is not in the store; {known}")

    def between(self, first: Where | None, end: Where | None) -> Releases:
        """Return the releases of the slots from `first` to before `end`, as far as they lie in these."""
        part = copy(self)  # the same store, and the domains that were read
        part._owns_store = False
        given = [None if where is None else self.first_at(where) for where in (first, end)]
        part._first = max((n for n in (self._first, given[0]) if n is not None), default=None)
        part._end = min((n for n in (self._end, given[1]) if n is not None), default=None)
        return part

    def under(self, quality: Quality | None) -> Releases:
        """Return the same releases under rules: tables show what is good enough. Releases themselves stay whole."""
        if quality is not None and quality.week:
            slots_of_week(self.options.slots)
        part = self.between(None, None)
        part.quality = quality
        return part

    def shown(self) -> Iterator[tuple[Release, Release | None]]:
        """Each release, and the mean of the week that ends with it if rules ask for one and all of it is there."""
        extent = self.extent
        if self.quality is None or not self.quality.week or extent is None:
            yield from ((release, None) for release in self)
            return
        count, part = slots_of_week(self.options.slots), copy(self)
        part._owns_store, part._first = False, extent[1] - count + 1
        yield from (pair for pair in with_weeks(part, count) if pair[0].slot >= extent[1])

    def every(self, step: int) -> Iterator[Release]:
        """Yield the releases of slots whose number is a multiple of a step, and the last one: see `find_step`."""
        extent = self.extent
        if step == 1 or extent is None:
            yield from self
            return
        for slot in [*range(-(-extent[1] // step) * step, extent[2], step), extent[2]]:
            yield from self.between(slot, slot + 1)

    @property
    def newest(self) -> Release:
        """The release of the last slot."""
        extent = self.extent
        if extent is None:
            raise OptionError(NONE)
        return self.at(extent[2])

    def follow(self, *, every: float = 1.0, stop: Event | None = None) -> Iterator[Release]:
        """Yield the releases that are there, and then each new one as another process writes it.

        Looks every so many seconds, until `stop` is set, the end of a slice is reached, or for ever. A store that was
        opened by its address is opened anew for each look, so that one that was put in its place is seen.
        """
        if not every > 0:
            raise OptionError(f"`every` must be above 0. Got {every!r}.")
        waiting, following = Event() if stop is None else stop, self._first
        while not waiting.is_set():
            with open(self._address, self.name, keys=self._keys) if self._address else nullcontext(self) as now:
                for release in now.between(following, self._end):
                    yield release
                    following = release.slot + 1
            if following is not None and self._end is not None and following >= self._end:
                return
            waiting.wait(every)

    @property
    def _last(self) -> int | None:
        return None if self._end is None else self._end - 1

    @property
    def extent(self) -> tuple[int, int, int] | None:
        """How many releases there are, and the first and last slot; None without any."""
        return self.store.extent(self.name, self._first, self._last)

    # Tables: a row for each slot and value, or a row for each release with all its bits (`dpi.release.from_frame`
    # reads them back).

    def table(self, groups: Groups | None = None) -> pl.DataFrame:
        """Return a polars frame with a row for each slot and value: shares and users, with 95 % intervals.

        `groups` are values to count together, by the name of each group, or the name of a part of a product. Then a
        row is about a group, with the interval of the sum. Ends of intervals of several rows must not be added.
        The certificate of a slot is in its release. Under rules (`under`), a column `note` says what is not shown.

        >>> import dpi
        >>> stream = dpi.Stream(domain=dpi.Categories(["a", "b", "c"]), epsilon=1, slot="1h", start="2026-01-01",
        ...                     store=(store := dpi.MemoryStore()))
        >>> for _ in range(2): _ = stream.release(["ada"], ["a"])
        >>> dpi.open(store).table().shape, dpi.open(store).table({"a or b": ["a", "b"]})["value"].to_list()
        ((8, 29), ['a or b', 'a or b'])
        """
        table = tidy(self.shown(), self.options.slots, groups, self.quality).drop("certificate")
        if self.quality is not None and table.height and not table["share"].count():
            raise OptionError("`points` leaves no share to show: every interval is wider. Give a larger number.")
        return table

    def to_polars(self) -> pl.DataFrame:
        """Return a polars frame with a row for each release."""
        return to_frame(self)

    def to_arrow(self) -> pa.Table:
        """Return the same as a table of pyarrow, which must be installed."""
        if find_spec("pyarrow") is None:
            raise OptionError(f"this table needs pyarrow: {how_to_install('parquet')}; or use `to_polars`.")
        return self.to_polars().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """Return the same as a pandas frame; pandas and pyarrow must be installed."""
        if find_spec("pandas") is None or find_spec("pyarrow") is None:
            raise OptionError("this table needs pandas and pyarrow: install them, or use `to_polars`.")
        return self.to_polars().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return what Arrow libraries ask for: `pyarrow.table(releases)`, `polars.DataFrame(releases)` …"""
        return self.to_polars().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        extent = self.extent
        span = "none yet" if extent is None else f"{extent[0]} of the slots {extent[1]} … {extent[2]}"
        return f"Releases({self.name!r}: {span})"


NONE = "no slot of this stream, or of this part of it, has been released yet."


def find_step(first: int, last: int, most: int) -> int:
    """Return the smallest power of two of which a span of slots has at most so many multiples.

    >>> find_step(0, 239, 240), find_step(0, 240, 240), find_step(0, 99_999, 240)
    (1, 2, 512)
    """
    step = 1
    while last // step - (first - 1) // step > most:
        step *= 2
    return step


def streams_asked(store: Store) -> list[str]:
    """Return the streams that have shares to ask for: no discovery of values, and no count of another's users."""
    return [name for name, text in store.streams().items() if DeclaredOptions.from_text(text).asked]


def stream_named(store: Store, name: str | None) -> str:
    """Return the stream that is meant: the only one, or the one that is named. Names are public.

    Of those that have shares to ask for, if there is one alone.
    """
    names = list(store.streams())
    if not names:
        raise OptionError("the store holds no stream yet.")
    meant = streams_asked(store) or names
    if name is None and len(meant) == 1:
        return meant[0]
    if name not in names:
        said = "" if name is None else f" Got {name!r}."
        raise OptionError(f"`stream` must be one of: {', '.join(map(repr, names))}.{said}")
    return name


def _number(slot: SupportsIndex) -> int:
    try:
        return operator.index(slot)
    except TypeError:
        raise OptionError("a slot is named by a whole number or by a time in ISO 8601.") from None
