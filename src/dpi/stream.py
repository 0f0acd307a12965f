"""A stream: the one object that ties domain, slots, compression, budget, brain and store together.

It sees events, one slot at a time, and lets out releases. What it keeps of a slot is the noisy measurement and the
accounts; events and histograms are gone when `release` returns. A slot is closed in the order of `dpi.store.base`.

**Guarantee.** All releases together are ε-DP at user level, for ever. *Why:* each slot's measurement loses at most
ε_t·w_{u,t} about user u (the brain's guarantee on a histogram that u moves by at most w_{u,t} units), the rest of the
release is a function of public state, and Σ_t ε_t·w_{u,t} ≤ ε by the ledger's or the series' guarantee. All streams of
one store share one ledger, so that ε covers them together.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from dpi.arrivals import arrivals
from dpi.brain import brain_named
from dpi.brain.base import Brain
from dpi.budget.epsilon import Amount, Epsilon
from dpi.budget.ledger import Bill
from dpi.budget.options import Converging, Ledger
from dpi.chain import extend
from dpi.compression import Compression, Histogram, Users, histogram, normalise
from dpi.course import Course
from dpi.declaration import declare, streams_of
from dpi.domain import Domain
from dpi.errors import ClockError, OptionError, StateError
from dpi.grouping import Rows, StoredRows
from dpi.integers import Integers
from dpi.noise import Source, SystemSource
from dpi.prefix_tree import PrefixTree
from dpi.release import Release
from dpi.setting import Setting
from dpi.signature import Signer
from dpi.slots import Clock, Slots
from dpi.sources import FileEvents, PlayedSlots, TableEvents
from dpi.store import MemoryStore, Store, open_store
from dpi.store.base import Paid
from dpi.tables import Table


class Stream:
    """Releases of one stream, slot after slot.

    `budget` is `Ledger()` (accounts for every user; the default) or `Converging(series)`. `brain` is "boosted"
    (default) or a brain object. `store` is a path, the address of a PostgreSQL database, or a store object; without it
    the stream lives in memory. Streams of one store share one ledger and one ε, and each needs a `name` of its own; a
    stream that shall have an ε for itself says `separate=True`, and the statements then name the sum. A stream that
    is in the store already goes on where it stopped; with other options it is refused, unless `change=True`. With
    `accumulate=PrefixTree(per_slot=…)` a part of each slot's budget goes to the accumulative PDF, which is otherwise
    made of the slots' own measurements.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=0.05))
    >>> release = stream.release(users=["ada", "bob"], values=["DE", "FR"])
    >>> release.slot, round(float(release.pdf.sum()), 9), release.epsilon_spent
    (0, 1.0, 0.0499...)
    """

    def __init__(
        self,
        *,
        domain: Domain,
        epsilon: Amount,
        slot: str | None = None,
        origin: str | datetime = "1970-01-01",
        zone: str = "UTC",
        lateness: str = "0s",
        start: str | datetime | None = None,
        budget: Ledger | Converging | None = None,
        brain: str | Brain[object] = "boosted",
        compression: Compression = normalise,
        accumulate: PrefixTree | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        name: str = "",
        separate: bool = False,
        change: bool = False,
        signer: Signer | None = None,
        unsafe_source: Source | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise OptionError("`domain` must be a domain, for example dpi.Categories([...]).")
        slots = None if slot is None else Slots(slot, origin=origin, zone=zone, lateness=lateness)
        budget = Ledger() if budget is None else budget
        self.setting = Setting(
            domain=domain,
            epsilon=Epsilon.at_most(epsilon),
            slots=slots,
            start=None if start is None else _clocked(slots, "start").border(start, "start"),
            budget=budget,
            brain=brain_named(brain) if isinstance(brain, str) else brain,
            compression=compression,
            accumulate=accumulate,
            name=name,
            ledger=None if isinstance(budget, Converging) else f"stream {name}" if separate else "",
        )
        self._signer = signer
        self._source: Source = SystemSource() if unsafe_source is None else unsafe_source
        self._unseen: int | None = None
        self._owns_store = isinstance(store, str | os.PathLike)
        self.store: Store = (
            MemoryStore(history=1) if store is None else store if isinstance(store, Store) else open_store(store)
        )
        try:
            declare(self.setting, self.store, signer, self._source, separate=separate, change=change)
            self._resume()
        except BaseException:
            self.close()
            raise

    # Life.

    def close(self) -> None:
        """Let go of a store that this stream has opened."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _resume(self) -> None:
        """Read everything from the store, and release a slot that was paid for and is not yet released."""
        setting = self.setting
        if self.store.streams().get(setting.name) != setting.text:
            raise StateError("the stream's options were changed in the store: open it anew.")
        self._accounts = None
        if isinstance(setting.budget, Ledger):
            assert setting.ledger is not None  # noqa: S101 - a ledger budget has a ledger
            self._accounts = self.store.accounts(setting.ledger, setting.budget, setting.epsilon)
        self._allocation = setting.budget.allocation(setting.epsilon, setting.domain.size)
        self._offer: Epsilon | None = None
        progress, pending = self.store.progress(setting.name), self.store.pending(setting.name)
        if progress is None:
            self._course = Course.initial(setting, self._source)
        else:
            self._course = Course.resumed(setting, progress, self._source)
            self._allocation.restore(progress.allocation)
        if pending is not None:
            self._allocation.restore(pending.allocation)
            self._publish(pending)
        self._stale = False

    # What it is.

    @property
    def domain(self) -> Domain:
        """What values there are."""
        return self.setting.domain

    @property
    def epsilon(self) -> Epsilon:
        """The most that any one user can lose, for ever."""
        return self.setting.epsilon

    @property
    def slots(self) -> Slots | None:
        """The public clock, if the stream has one."""
        return self.setting.slots

    @property
    def budget(self) -> Ledger | Converging:
        """How the promise is kept."""
        return self.setting.budget

    @property
    def name(self) -> str:
        """The stream's name in its store."""
        return self.setting.name

    @property
    def digest(self) -> str:
        """A fingerprint of all public options."""
        return self.setting.digest

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return self.setting.guarantee(streams_of(self.store))

    def __repr__(self) -> str:
        setting = self.setting
        return (
            f"Stream(domain={setting.domain!r}, epsilon={float(setting.epsilon):g}, budget={setting.budget!r}, "
            f"brain={setting.brain!r}, compression={setting.compression!r})"
        )

    # One slot.

    def release(self, users: object, values: object, *, slot: int | None = None) -> Release:
        """Close a slot: measure its events once, pay, and release.

        Every slot is released, an empty one too. Without `slot` it is the one after the last. A column that cannot be
        read raises before anything is drawn from data or paid, and the slot can be closed again. After an interruption
        the slot is closed if it was paid for, and open otherwise: `next_slot` tells, and until it was asked, or `slot`
        is given, a slot that was closed in this way makes `release` raise, so that no event counts twice.
        """
        return self._measure(self._meant(slot), Rows(users, self.domain.encode(values), self.domain.size))

    def release_counts(self, histogram: Histogram, *, slot: int | None = None) -> Release:
        """Close a slot whose histogram was made from declared counts (`dpi.counts`); needs a converging budget."""
        if self._accounts is not None:
            raise OptionError("counts have no user ids, so no ledger can be kept: use a converging budget.")
        if histogram.grains.size != self.domain.size:
            raise OptionError(f"`histogram` must have {self.domain.size} bins.")
        return self._close(self._meant(slot), histogram, [])

    def released(self, slot: int) -> Release:
        """A release that the store holds."""
        self.store.settle()
        for content, link in self.store.releases(self.name, slot, slot):
            return Release.from_content(content, self.domain, link.certificate)
        raise OptionError(f"slot {slot} is not in the store.")

    @property
    def next_slot(self) -> int:
        """The slot that will be closed next."""
        number, self._unseen = self._next(None), None
        return number

    def _meant(self, slot: int | None) -> int:
        """The slot to close; not guessed where the caller cannot know that an interrupted one was closed."""
        number = self._next(slot)
        if slot is None and self._unseen is not None:
            raise ClockError(
                f"slot {self._unseen} was paid for when it was interrupted, and is released: see `released`. Say "
                f"`slot={number}` to go on."
            )
        self._unseen = None
        return number

    def _next(self, slot: int | None) -> int:
        self.store.settle()
        if self._stale:
            before = self._course.last
            self._resume()
            self._unseen = self._course.last if self._course.last != before else self._unseen
        start, last = self.setting.start, self._course.last
        following = last + 1 if last is not None else start or 0
        if slot is None:
            return following
        if (last is not None or start is not None) and operator.index(slot) != following:
            raise ClockError(f"slots are released one after the other: {following} is next.")
        return operator.index(slot)

    def _offered(self) -> Epsilon:
        """The slot's budget: drawn once, and kept until the slot is closed, so that a retry changes nothing."""
        if self._offer is None:
            self._offer = self._allocation.draw(self._source)
        return self._offer

    def _measure(self, number: int, rows: Rows | StoredRows) -> Release:
        """Close a slot of users: with accounts, each has the weight that theirs can pay."""
        bills: list[Bill] = []
        weights = None if self._accounts is None else self._weigher(number, bills)
        method = self.setting.compression
        return self._close(number, histogram(rows, self.domain.size, method=method, weights=weights), bills)

    def _weigher(self, number: int, bills: list[Bill]) -> Callable[[Users], Integers]:
        """Weights by the users' accounts; what they will pay is added to `bills`."""
        accounts, epsilon = self._accounts, self._offered()
        assert accounts is not None  # noqa: S101 - a converging budget weighs nobody

        def weigh(users: Users) -> Integers:
            share, whole = self._allocation.share, self.setting.whole_weights
            bills.append(accounts.bill(users, epsilon, number, share=share, whole=whole, stream=self.name))
            return bills[-1].weights

        return weigh

    def _close(self, number: int, histogram: Histogram, bills: list[Bill]) -> Release:
        setting, course, epsilon = self.setting, self._course, self._offered()
        to_tree, to_brain = setting.split(epsilon)
        measurement = setting.brain.measure(course.state, histogram, to_brain, number, self._source)
        tree = course.tree
        if tree is not None and to_tree.units:
            tree = tree.added(histogram, self._source)
        charge = None if self._accounts is None else self._accounts.charge(bills[0])
        paid = Paid(
            stream=self.name,
            slot=number,
            epsilon=epsilon.units,
            partial=course.partial(epsilon, self._allocation.share),
            values=measurement.values.astype("<i8").tobytes(),
            allocation=self._allocation.snapshot(),
            assumption=histogram.assumption or "",
            tree=b"" if tree is None else tree.to_bytes(),
        )
        with self._settling():
            self.store.pay(paid, setting.ledger or "", b"" if charge is None else charge.records())
            if self._accounts is not None and charge is not None:
                self._accounts.apply(charge)
            return self._publish(paid)

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """After an interruption only the store knows what happened: the next call asks it."""
        try:
            yield
        except BaseException:
            self._stale = self.store.doubtful = True
            raise

    def _publish(self, paid: Paid) -> Release:
        """Make the release of a paid slot, and let nobody have it before it is stored."""
        course, release = self._course.after(paid, self._allocation, self.guarantee)
        content = release.content()
        link = extend(self.store.head(), course.facts(paid, content), self._signer)
        self.store.publish(self.name, content, link, course.progress(self._allocation))
        self.store.testify()
        self._course, self._offer = course, None
        return replace(release, certificate=link.certificate)

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
    ) -> Iterator[Release]:
        """Release every slot of the public period [start, end), empty ones too.

        `events` is a table: a data frame of any library, a mapping of columns, or an iterable of mappings. `value`
        names the column of values or, for a Product domain, a column for each part. Events outside the period, or
        with a time that cannot be read, are dropped, each by its own time. Files opened by `dpi.read` are read in
        bounded memory; which of their columns is what was said there.
        """
        slots = _clocked(self.slots, "replay")
        first, last = slots.border(start, "start"), slots.border(end, "end")
        if last <= first:
            raise OptionError("`end` must be after `start`.")
        self._next(first)
        played = events if isinstance(events, FileEvents) else TableEvents(Table(events), user, time, value, unit)
        return self._play(played.slots(slots, first, last))

    def _play(self, slots: PlayedSlots) -> Iterator[Release]:
        with closing(slots):
            for number, users, values in slots:
                yield self.release(users, values, slot=number)

    # A live stream.

    def append(
        self,
        users: object,
        times: object,
        values: object,
        *,
        now: str | datetime | None = None,
        unit: str | None = None,
        producer: str = "",
        sequence: int | None = None,
    ) -> bool:
        """Keep events of open slots durably; False if the (producer, sequence) was there already.

        What is kept is an account's name, a bin and a number: no id and no value. An event that is late, from the
        future of the clock `now` (the system's, unless given), unreadable, or without user or bin is dropped by itself.
        """
        clock, first, key = self._clock("append", now), self._next(None), self.store.key
        kept = arrivals(users, times, values, unit, clock=clock, first=first, domain=self.domain, key=key)
        following = self.store.sequence(self.name, producer) + 1 if sequence is None else sequence
        with self._settling():
            return self.store.append(self.name, kept, producer, following)

    def advance(self, now: str | datetime | None = None) -> Iterator[Release]:
        """Release every slot that the public clock has closed, from the events that were appended."""
        return self._advance(self._clock("advance", now).first_open)

    def _advance(self, end: int) -> Iterator[Release]:
        while (number := self._next(None)) < end:
            events = self.store.events(self.name, number)
            yield self._measure(number, StoredRows(events.names, events.bins, events.counts))

    def _clock(self, what: str, now: str | datetime | None) -> Clock:
        slots = _clocked(self.slots, what)
        if self.setting.start is None and self._course.last is None:
            raise OptionError(f"`{what}` needs a public beginning: give `start`; it is never read off the data.")
        return Clock(slots, datetime.now(UTC) if now is None else now)

    # Saving a stream that lives in memory.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store of a stream in memory to a file: private (it holds accounts and key), its owner's only."""
        self._next(None)  # settles a slot that was interrupted
        self._memory("save").save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on where `save` was called; refuses a file that is damaged or of a stream with other options."""
        self._memory("load")
        store = MemoryStore.load(path)
        if store.streams().get(self.name) != self.setting.text:
            raise StateError("the saved stream has other options; resume it with the options it was started with.")
        self.store = store
        self._resume()

    def _memory(self, what: str) -> MemoryStore:
        if not isinstance(self.store, MemoryStore):
            raise OptionError(f"`{what}` is for streams in memory; a store on disk is saved already.")
        return self.store


def _clocked(slots: Slots | None, what: str) -> Slots:
    """The clock of a stream, for what cannot do without."""
    if slots is None:
        raise OptionError(f"`{what}` needs a stream with a clock: give `slot`, for example slot='1h'.")
    return slots
