"""A stream: the one object that ties domain, slots, compression, budget, mechanism and store together.

It sees events, one slot at a time, and lets out releases. What it keeps of a slot is the noisy measurement and the
accounts; events and histograms are gone when `release` returns. How a slot is closed is `dpi.stream.closing`, and
its life over interruptions `dpi.stream.slot_closer`.

**Guarantee.** All releases of one budget together are ε-DP at user level, for ever. *Why:* each slot's measurement
loses at most ε_t·w_{u,t} about user u (the mechanism's guarantee on a histogram that u moves by at most w_{u,t} units),
the rest of the release is a function of public state, and Σ_t ε_t·w_{u,t} ≤ ε by the ledger's or the series' guarantee.
All streams of one store share one ledger, so that ε covers them together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import cast

from dpi.budget.accounts import Accounts
from dpi.budget.epsilon import Amount, Epsilon, promised
from dpi.budget.ledger import Converging, Ledger
from dpi.certificates.declared import declared
from dpi.certificates.signature import Signer
from dpi.domain import Discovered, Domain
from dpi.domain.file import keys_of
from dpi.errors import OptionError, StoreError
from dpi.events.columns import Table
from dpi.events.slots import Clock, Slots, Window
from dpi.histogram.compression import Compression, Histogram, normalise
from dpi.mechanism.base import Mechanism
from dpi.noise import RandomSource, SystemSource
from dpi.options.schedule import Schedule
from dpi.reader import Releases
from dpi.release import Release
from dpi.sources import Admission, Events, FileEvents, Progress, TableEvents, stamp_window
from dpi.store import MemoryStore, Store
from dpi.store.ledger_session import LedgerSession
from dpi.store.opening import find_store
from dpi.stream._option_history import read_options
from dpi.stream._statements import make_card
from dpi.stream.counted import count_users, counts, name_counted
from dpi.stream.discovery_closing import DiscoveringSlotCloser
from dpi.stream.options import StreamOptions, make_options, need_clock
from dpi.stream.prefix_tree import PrefixTree
from dpi.stream.registration import Change, declare, keep_domain, stop
from dpi.stream.slot_closer import Engine, Played, PlayedRows, SlotCloser

Drive = Callable[[StreamOptions, LedgerSession, Signer | None, RandomSource], SlotCloser]
"""Makes what closes the slots of a stream."""


class Stream:
    """Publish what share of users did what, one release a slot.

    `slot` is a duration such as "1h", a "day", "week" or "month" of the calendar, or a `dpi.Slots`. Without it slots
    are counted, and have no clock. `domain="discover"` finds values by itself (`dpi.mechanism.value_discovery`).
    `budget` is `Ledger()` (accounts for every user; the default) or `Converging(series)`. `mechanism` is "boosted"
    (default) or an object. `people="0.2"` spends a fifth of ε on counting active users in every slot
    (`dpi.mechanism.active_users`). With `accumulate=PrefixTree(per_slot=…)` a part of each slot's budget goes to the
    accumulative PDF, which is otherwise made of the slots' own measurements.

    `store` is a path, the address of a PostgreSQL database, or a store object. Without it the stream lives in memory.
    Streams of one store share one ledger and one ε, and each needs a `name` of its own. `separate=True` gives the
    stream its own ε; guarantees then state the sum over streams. `ids` sets how texts of ids are compared: "nfc-strip"
    (the default of new accounts: Unicode's form NFC, without white space at either end) or "exact", byte for byte.
    With `engine` (`dpi.engine`) many processes work on a ledger in buckets.

    A stream that is in the store already goes on where it stopped. With other options it is refused, unless `change`
    sets when they begin: True, with the first slot that has not begun by the system's clock; "next", with the slot
    that is released next, for streams that are played; or the time at which that slot begins. Slots before it keep
    their options.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=0.05))
    >>> release = stream.release(users=["ada", "bob"], values=["DE", "FR"])
    >>> release.slot, round(float(release.pdf.sum()), 9), release.epsilon_spent
    (0, 1.0, 0.0499...)
    """

    def __init__(
        self,
        *,
        domain: Domain | str,
        epsilon: Amount,
        slot: str | Slots | None = None,
        origin: str | datetime = "1970-01-01",
        zone: str = "UTC",
        lateness: str = "0s",
        start: str | datetime | None = None,
        budget: Ledger | Converging | None = None,
        mechanism: str | Mechanism[object] = "boosted",
        compression: Compression = normalise,
        accumulate: PrefixTree | None = None,
        people: Amount | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        name: str = "",
        separate: bool = False,
        ids: str | None = None,
        change: Change = False,
        signer: Signer | None = None,
        engine: Engine | None = None,
        unsafe_source: RandomSource | None = None,
    ) -> None:
        if slot is not None and not isinstance(slot, Slots):
            slot = Slots(slot, origin=origin, zone=zone, lateness=lateness)
        elif slot is not None and (origin, zone, lateness) != ("1970-01-01", "UTC", "0s"):
            raise OptionError("`slot` has `origin`, `zone` and `lateness` of its own: say them in dpi.Slots(…).")
        self._given = make_options(
            domain=domain,
            epsilon=promised(epsilon),
            slots=slot,
            start=start,
            budget=budget,
            mechanism=mechanism,
            compression=compression,
            accumulate=accumulate,
            name=name,
            separate=separate,
            ids=ids,
        )
        kept = MemoryStore(history=1) if store is None else find_store(store)
        self._owns_store = store is not None and kept is not store
        self._open(kept, signer, engine, unsafe_source, separate, change, people)

    @classmethod
    def of(
        cls, store: Store, name: str, *, keys: Mapping[str, bytes] | None = None, signer: Signer | None = None
    ) -> Stream:
        """Open a stream of a store with the options it was declared with; `keys` are those of hashed domains.

        >>> import dpi
        >>> store = dpi.MemoryStore()
        >>> dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store).digest == dpi.Stream.of(store, "").digest
        True
        """
        return cls.with_options(read_options(store, name, keys or {}), store, separate=True, signer=signer)

    @classmethod
    def with_options(
        cls,
        options: StreamOptions,
        store: Store,
        *,
        separate: bool = False,
        change: Change = False,
        signer: Signer | None = None,
        engine: Engine | None = None,
        people: Amount | None = None,
    ) -> Stream:
        """Return the stream of a store that has these options; the rest is as in `Stream`."""
        stream = cls.__new__(cls)
        stream._given = options
        stream._owns_store = False
        stream._open(store, signer, engine, None, separate, change, people)
        return stream

    def _open(
        self,
        store: Store,
        signer: Signer | None,
        engine: Engine | None,
        source: RandomSource | None,
        separate: bool,
        change: Change,
        people: Amount | None = None,
    ) -> None:
        self.store, self._signer = store, signer
        if isinstance(self._given.domain, Discovered):
            if engine is not None:
                raise OptionError("values are discovered by one process: leave out `engine`.")
            self._drive: Drive = DiscoveringSlotCloser
        else:
            self._drive = SlotCloser if engine is None else engine.driver
        self._source: RandomSource = SystemSource() if source is None else source
        self._session = LedgerSession.of(self.store)
        try:
            if engine is not None and (people is not None or counts(self._given.name, store.streams())):
                raise OptionError(
                    "`people` are counted by one process: leave out `engine`.", options=("people", "engine")
                )
            if people is not None:  # it is declared first, so that the stream itself has the rest
                self._declare_count(people)
            newest = declare(self._given, self._session, signer, separate=separate, change=change)
            self.driver = self._drive(newest, self._session, signer, self._source)
            """What closes the slots: for engines, which read events in their own way."""
        except BaseException:
            if self._owns_store:
                store.close()
            raise

    def _declare_count(self, people: Amount) -> None:
        """Declare the stream that counts active users; refuse one for a stream that has begun without."""
        streams = self.store.streams()
        if self._given.name in streams and not counts(self._given.name, streams):
            raise OptionError("`people` is set when a stream begins: this one has none.", options=("people",))
        declare(count_users(self._given, people), self._session, self._signer, separate=False, change=False)

    # Life.

    def close(self) -> None:
        """Let go of a store that this stream has opened; others of its ledger wait for it no more."""
        self.leave()
        if self._owns_store:
            self.store.close()

    def leave(self) -> None:
        """Feed the stream no more for now: others of its ledger do not wait for its next slot."""
        self._session.leave(self)

    def stop(self) -> None:
        """Release nothing more of the stream, ever: the chain says so, and events of open slots are erased.

        Releases and accounts stay: what users have spent stays spent, and a quota is given to no other stream.
        """
        self.leave()
        if counts(self.name, self.store.streams()):
            stop(read_options(self.store, name_counted(self.name), {}), self._session, self._signer)
        ended = stop(self._newest, self._session, self._signer)
        self.driver = self._drive(ended, self._session, self._signer, self._source)

    @property
    def _newest(self) -> StreamOptions:
        return self.driver.newest

    @property
    def stopped(self) -> bool:
        """Whether nothing more is released of it, ever."""
        return self._newest.end is not None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What it is.

    @property
    def setting(self) -> StreamOptions:
        """The options of the next slot, in the format in which they were declared."""
        return self.driver.state.setting

    @property
    def domain(self) -> Domain:
        """What values there are in the next slot."""
        return self.setting.domain

    @property
    def domains(self) -> Schedule[Domain]:
        """What values there are in the next slot and those after it, by the first slot that each domain holds for."""
        return self.driver.domains

    @property
    def epsilon(self) -> Epsilon:
        """The most that any one user can lose, for ever."""
        return self._newest.epsilon

    @property
    def slots(self) -> Slots | None:
        """The public clock, if the stream has one."""
        return self._newest.slots

    @property
    def budget(self) -> Ledger | Converging:
        """How the promise is kept in the next slot."""
        return self.setting.budget

    @property
    def name(self) -> str:
        """The stream's name in its store."""
        return self._newest.name

    @property
    def ledger(self) -> str | None:
        """The ledger that pays: "" is the one that streams of a store share; None without accounts."""
        return self._newest.ledger

    @property
    def accounts(self) -> str | None:
        """The accounts that pay: the ledger's or, with a quota, the stream's own; None without any."""
        return self._newest.accounts

    @property
    def digest(self) -> str:
        """A fingerprint of all public options of the next slot."""
        return self.setting.digest

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return self.driver.guarantee

    @property
    def _accounts(self) -> Accounts | None:
        """What the users have left: private, for checks."""
        return self.driver.accounts

    def __repr__(self) -> str:
        setting = self.setting
        return (
            f"Stream(domain={setting.domain!r}, epsilon={float(setting.epsilon):g}, budget={setting.budget!r}, "
            f"mechanism={setting.mechanism!r}, compression={setting.compression!r})"
        )

    def _repr_html_(self) -> str:
        # Looking at a stream must not settle an interrupted slot, so that what is in doubt is left out.
        try:
            return make_card(self.driver.state, None if self.driver.in_doubt else self.guarantee)
        except StoreError:  # it is closed
            return make_card(self.driver.state, None)

    # One slot.

    def release(self, users: object, values: object, *, slot: int | None = None) -> Release:
        """Close a slot: measure its events once, pay, and release.

        Every slot is released, an empty one too. Without `slot` it is the one after the last. A column that cannot be
        read raises before anything is drawn from data or paid, and the slot can be closed again. After an interruption
        the slot is closed if it was paid for, and open otherwise: `next_slot` tells, and until it was asked, or `slot`
        is given, a slot that was closed in this way makes `release` raise, so that no event counts twice.
        """
        number = self.driver.resolve_slot(slot)  # a slot that was interrupted may have been the last of its domain
        return self.driver.close(number, self.driver.rows(users, values, number))

    def release_rows(self, rows: PlayedRows, *, slot: int | None = None) -> Release:
        """Close a slot as `release` does, with rows that `play` gave for it; those of another stream are refused."""
        number = self.driver.resolve_slot(slot)
        return self.driver.close(number, rows.of(number, self.driver))

    def release_counts(self, histogram: Histogram, *, slot: int | None = None) -> Release:
        """Close a slot whose histogram is of declared counts (`dpi.histogram.counts`); needs a converging budget."""
        if self.ledger is not None:
            raise OptionError("counts have no user ids, so no ledger can be kept: use a converging budget.")
        if histogram.grains.size != self.domain.size:
            raise OptionError(f"`histogram` must have {self.domain.size} bins.")
        return self.driver.close_histogram(self.driver.resolve_slot(slot), histogram)

    def released(self, slot: int) -> Release:
        """Return a release that the store holds."""
        self._session.settle()
        return Releases(self.store, self.name, keys_of(self._newest.domain)).at(slot)

    @property
    def next_slot(self) -> int:
        """The slot that will be closed next."""
        return self.driver.confirm_next()

    # Many slots.

    def replay(
        self,
        events: object,
        *,
        start: str | datetime,
        end: str | datetime,
        user: str = "user",
        time: str = "time",
        value: str | Mapping[str, str] = "value",
        unit: str | None = None,
        progress: bool = False,
    ) -> Iterator[Release]:
        """Release every slot of the public period [start, end), empty ones too.

        `events` is a table: a data frame of any library, a mapping of columns, or an iterable of mappings. `value`
        names the column of values or, for a Product domain, a column for each part. Events outside the period, or
        with a time that cannot be read, are dropped, each by its own time. Files opened by `dpi.read` are read in
        bounded memory; which of their columns is what was said there. With `progress` a notebook or a terminal shows
        how many bytes are read and how many slots are released: public numbers, never one of rows.
        """
        first, last = self.period(start, end)
        self.driver.next_slot(first)
        played = events if isinstance(events, FileEvents) else TableEvents(user, time, value, unit, table=Table(events))
        if not progress:
            return self._released(self.play(played, first, last))
        from dpi.display.progress import Meter

        meter = Meter(played.size, last - first)
        return meter.watch(self._released(self.play(played, first, last, progress=meter.read)))

    def period(self, start: str | datetime, end: str | datetime) -> tuple[int, int]:
        """Return the first slot of the public period [start, end), and the first after it; refuse an empty one."""
        slots = need_clock(self.slots, "replay")
        first, last = slots.boundary(start, "start"), slots.boundary(end, "end")
        if last <= first:
            raise OptionError("`end` must be after `start`.")
        return first, last

    def play(
        self, events: Played, first: int, last: int, *, memory: int = 1 << 30, progress: Progress | None = None
    ) -> Generator[tuple[int, PlayedRows], None, None]:
        """Yield number and rows of the slots `first`, which must be next, to before `last`: `release_rows` closes them.

        All events are read before the first slot is given. About `memory` bytes of them are held at a time.
        """
        driver, slots = self.driver, need_clock(self.slots, "play")
        domains = driver.domains
        only = domains.newest if len(domains.entries) == 1 else None

        def played() -> Generator[tuple[int, PlayedRows], None, None]:
            with closing(driver.play(events, slots, first, last, memory, progress)) as slot_rows:
                for number, rows in slot_rows:
                    yield number, PlayedRows(rows, number, domains.at(number) if only is None else only, driver)

        return played()

    def _released(self, slots: Generator[tuple[int, PlayedRows], None, None]) -> Generator[Release, None, None]:
        with closing(slots):
            for number, rows in slots:
                yield self.release_rows(rows, slot=number)

    # A live stream. Inputs that grow are read by `dpi.stream.live.follow`, which uses `admit` and `close_before`.

    def append(
        self,
        users: object,
        times: object,
        values: object,
        *,
        now: str | datetime | None = None,
        arrived: object = None,
        unit: str | None = None,
        producer: str = "",
        sequence: int | None = None,
    ) -> bool:
        """Keep events of open slots durably; False if the (producer, sequence) was there already.

        What is kept is an account's name, a bin and a number: no id and no value. `now` is when the events arrived (the
        system's clock, unless given), or `arrived` is a column that says it of each: then an event counts if it arrived
        before its slot closed, however late it is read. One that is late, from the future of its arrival, unreadable,
        or without user or bin is dropped by itself.
        """
        clock = self._clock("append", now)
        window = clock.window if arrived is None else stamp_window(arrived, unit, clock.slots, clock.moment)
        following = self.store.sequence(self.name, producer) + 1 if sequence is None else sequence
        return self.admit(Events(users, times, values, unit), window, producer, following)

    def admit(self, events: Events, window: Window, producer: str, sequence: int) -> bool:
        """Keep the events that a window admits durably; False if the (producer, sequence) was there already."""
        return self.driver.keep(events, window, self._live("admit"), producer, sequence)

    def admission(self) -> Admission:
        """Return how events are admitted from the next slot on, for a process that keeps them without the stream."""
        return self.driver.admission(self._live("admit"))

    def advance(self, now: str | datetime | None = None) -> Iterator[Release]:
        """Release every slot that the public clock has closed, from the events that were appended.

        A stream waits for others that share its accounts and have a slot that closes earlier: `dpi.advance` takes all
        of them at once.
        """
        return self.close_before(self.open_at(now))

    def open_at(self, now: str | datetime | None = None) -> int:
        """Return the first slot that is open at a public time (the system's clock, unless given)."""
        return self._clock("advance", now).first_open

    def close_before(self, end: int) -> Iterator[Release]:
        """Release the slots before `end`, as far as it is this stream's turn."""
        self._live("close_before")
        while not self.stopped and (number := self.driver.next_slot()) < end and self._session.is_turn_of(self):
            yield self.driver.close(number, self.driver.kept(number))

    @property
    def upcoming(self) -> tuple[int, str]:
        """What slots of streams that share a ledger are ordered by: when the next one closes, and the stream's name."""
        return self._live("upcoming").closing(self.driver.next_slot()), self.name

    def _live(self, what: str) -> Slots:
        slots = need_clock(self.slots, what)
        if self.setting.start is None and self.driver.state.last is None:
            raise OptionError(f"`{what}` needs a public beginning: give `start`; it is never read off the data.")
        if not self.stopped:
            self._session.join(self)
        return slots

    def _clock(self, what: str, now: str | datetime | None) -> Clock:
        return Clock(self._live(what), datetime.now(UTC) if now is None else now)

    # Saving a stream that lives in memory.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store of a stream in memory to a file: private (it holds accounts and key), its owner's only."""
        self.driver.next_slot()  # settles a slot that was interrupted
        self._memory("save").save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on where `save` was called; refuses a file that is damaged or of a stream with other options.

        Refuses as well a save that lacks a slot which this stream has released: what it cost would be spent again.
        Streams that share a store are loaded with it (`MemoryStore.load`), since each would get accounts of its own.
        """
        self.driver.next_slot()  # settles a slot that was interrupted
        before, store = self._memory("load"), MemoryStore.load(path)
        newest = keep_domain(self._given.resolved(declared(store.streams())), store)
        before.check_successor(store, self.name, newest.text)
        session = LedgerSession.of(store)
        session.settle()
        self.driver = self._drive(newest, session, self._signer, self._source)
        self.store, self._session = store, session

    def _memory(self, what: str) -> MemoryStore:
        if self.store.durable:
            raise OptionError(f"`{what}` is for streams in memory; a store on disk is saved already.")
        return cast("MemoryStore", self.store)
