"""A stream: the one object that ties domain, slots, compression, budget, brain and store together.

It sees events, one slot at a time, and lets out releases. What it keeps of a slot is the noisy measurement and the
accounts; events and histograms are gone when `release` returns. A slot is closed in the order of `dpi.store.base`.

**Guarantee.** All releases together are ε-DP at user level, for ever. *Why:* each slot's measurement loses at most
ε_t·w_{u,t} about user u (the brain's guarantee on a histogram that u moves by at most w_{u,t} units), the rest of the
release is a function of public state, and Σ_t ε_t·w_{u,t} ≤ ε by the ledger's or the series' guarantee. All streams of
one store share one ledger, so that ε covers them together.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from dpi._version import __version__
from dpi.accumulation import Accumulation, users_of
from dpi.brain import brain_named
from dpi.brain.base import Brain, Floats, Measurement
from dpi.budget.epsilon import Amount, Epsilon
from dpi.budget.ledger import Bill
from dpi.budget.options import Converging, Ledger
from dpi.chain import canonical, extend, most_spent, options_digest
from dpi.compression import Compression, Histogram, Users, WholePDF, compress, histogram, normalise
from dpi.domain import Domain
from dpi.domain_file import describe
from dpi.errors import ClockError, OptionError, SchemaError, StateError
from dpi.grouping import StoredRows
from dpi.identity import digests
from dpi.identity import users as canonical_users
from dpi.integers import Integers
from dpi.noise import Source, SystemSource
from dpi.prefix_tree import PrefixSums, PrefixTree
from dpi.release import Release, content_digest
from dpi.signature import Signer
from dpi.slots import Clock, Slots
from dpi.sources import FileEvents
from dpi.store import MemoryStore, Store, open_store
from dpi.store.base import OpenEvents, Paid, Progress
from dpi.tables import Table, take

if TYPE_CHECKING:
    import polars as pl

CHANGEABLE = {"domain", "brain", "compression", "budget"}
"""Options that may change in mid-stream, by an entry of the chain; the others are part of the promise."""


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
        if accumulate is not None and not isinstance(accumulate, PrefixTree):
            raise OptionError("`accumulate` must be None or a PrefixTree(per_slot=...).")
        if accumulate is not None and isinstance(compression, WholePDF):
            raise OptionError("`accumulate` needs a compression that one user moves by one unit: use `normalise`.")
        self.domain = domain
        self.epsilon = Epsilon.at_most(epsilon)
        self.slots = None if slot is None else Slots(slot, origin=origin, zone=zone, lateness=lateness)
        self._first = None if start is None else self._border(start, "start")
        self.budget = Ledger() if budget is None else budget
        self.brain: Brain[object] = brain_named(brain) if isinstance(brain, str) else brain
        self.compression = compression
        self.accumulate = accumulate
        self.name = name
        self._signer = signer
        self._source: Source = SystemSource() if unsafe_source is None else unsafe_source
        self._ledger = None if isinstance(self.budget, Converging) else f"stream {name}" if separate else ""
        self.budget.allocation(self.epsilon, domain.size)  # refuses a budget that does not fit before anything is made
        self._owns_store = isinstance(store, str | os.PathLike)
        self.store: Store = (
            MemoryStore(history=1) if store is None else store if isinstance(store, Store) else open_store(store)
        )
        try:
            self._declare(separate, change)
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

    def _declare(self, separate: bool, change: bool) -> None:
        """Enter the stream, or a change of its options, into the chain."""
        streams, options = self.store.streams(), self._options()
        known = json.loads(streams[self.name]) if self.name in streams else None
        if known is None:
            pools = {_pool(name, json.loads(text)) for name, text in streams.items()}
            if pools and _pool(self.name, options) not in pools and not separate:
                raise OptionError(
                    "this stream would have an ε of its own, which adds to that of the store's other streams: give it "
                    "their budget (`Ledger` with the same ε), or say `separate=True`."
                )
        elif known == options:
            return
        elif not change:
            raise StateError(
                f"the stored stream has other options ({', '.join(_different(known, options))}): use those it was "
                "started with, or another `name`, or `change=True` where a public change is meant."
            )
        elif not _different(known, options) <= CHANGEABLE or None in (self._ledger, known["ledger"]):
            raise OptionError(
                "only domain, brain, compression and a ledger's per-slot budget may change in mid-stream; anything "
                "else would be another promise."
            )
        elif self.store.pending(self.name) is not None:
            raise StateError("a slot is paid and not yet released: open the stream once with its old options.")
        self._check_ledger(streams)
        facts = {"kind": "options", "format": 1, "stream": self.name, "options": options, "program": _PROGRAM}
        link = extend(self.store.head(), facts, self._signer)
        domain = (self.domain.digest, canonical(describe(self.domain)))
        after = None if known is None else self._changed(known)
        self.store.declare(self.name, canonical(options), domain, link, after)

    def _check_ledger(self, streams: Mapping[str, str]) -> None:
        """Refuse a ledger of another promise, before anything is said in the chain."""
        if not isinstance(self.budget, Ledger):
            return
        described = self.budget.accounts(self.epsilon, self.store.key).description
        if self.store.ledgers().get(str(self._ledger), described) != described:
            raise OptionError("`epsilon`, `policy` and `period` must be those of the ledger that streams share.")
        others = [text for name, text in streams.items() if name != self.name]
        if self.budget.period is not None and any(json.loads(text)["ledger"] == self._ledger for text in others):
            raise OptionError("accounts with a `period` serve one stream: others would count their epochs differently.")

    def _changed(self, known: Mapping[str, object]) -> Progress | None:
        """Where the stream goes on after a change: a brain for another domain or of another kind starts anew."""
        before = self.store.progress(self.name)
        if before is None:
            return None
        other = {"domain", "brain"} & _different(known, self._options())
        fresh = self.brain.to_bytes(self.brain.initial(self.domain))
        return replace(
            before,
            allocation=self.budget.allocation(self.epsilon, self.domain.size).snapshot(),
            brain=(lambda: fresh) if other else before.brain,
            accumulated=Accumulation.of(self.domain.size).to_bytes() if "domain" in other else before.accumulated,
            tree=self._planted() if "domain" in other else before.tree,
        )

    def _resume(self) -> None:
        """Read everything from the store, and release a slot that was paid for and is not yet released."""
        if self.store.streams().get(self.name) != canonical(self._options()):
            raise StateError("the stream's options were changed in the store: open it anew.")
        self._accounts = None
        if isinstance(self.budget, Ledger):
            assert self._ledger is not None  # noqa: S101 - a ledger budget has a ledger
            self._accounts = self.store.accounts(self._ledger, self.budget, self.epsilon)
        self._allocation = self.budget.allocation(self.epsilon, self.domain.size)
        self._offer: Epsilon | None = None
        self._began: int | None = None
        self._last: int | None = None
        self._spent = 0
        self._stale = False
        progress, pending = self.store.progress(self.name), self.store.pending(self.name)
        if progress is None:
            self._state = self.brain.initial(self.domain)
            self._accumulation = Accumulation.of(self.domain.size)
        else:
            self._allocation.restore(progress.allocation)
            self._state = self.brain.from_bytes(self.domain, progress.brain())
            self._accumulation = Accumulation.from_bytes(self.domain.size, progress.accumulated)
            self._began, self._last, self._spent = progress.first, progress.last, progress.spent
        self._tree = self._grown((b"" if progress is None else progress.tree) or self._planted())
        if pending is not None:
            self._allocation.restore(pending.allocation)
            self._publish(pending)

    def __repr__(self) -> str:
        return (
            f"Stream(domain={self.domain!r}, epsilon={float(self.epsilon):g}, budget={self.budget!r}, "
            f"brain={self.brain!r}, compression={self.compression!r})"
        )

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        period = None if self._accounts is None else self._accounts.period
        unit = "for ever" if period is None else f"per epoch of {period} slots"
        kept = "a converging series" if self._accounts is None else "accounts of every user"
        pools = {_pool(name, options): options for name, options in self._streams().items()}
        scope = "this stream" if len(self._streams()) == 1 else "all streams of this store together"
        total = ""
        if len(pools) > 1:
            scope = "this stream alone" if self._ledger != "" else "the streams of the shared ledger together"
            amounts = sum(int(str(options["epsilon_units"])) for options in pools.values())
            total = f" All streams of this store sum to {float(Epsilon(amounts)):g} per user."
        return (
            f"Pure differential privacy, ε = {float(self.epsilon):g} per user {unit}, for {scope}; "
            f"neighbours differ in all events of one user. Kept by {kept}.{total}"
        )

    def _streams(self) -> dict[str, dict[str, object]]:
        return {name: json.loads(text) for name, text in self.store.streams().items()}

    # One slot.

    def release(self, users: object, values: object, *, slot: int | None = None) -> Release:
        """Close a slot: measure its events once, pay, and release.

        Every slot is released, an empty one too. Without `slot` it is the one after the last. A column that cannot be
        read raises before anything is drawn from data or paid, and the slot can be closed again.
        """
        number = self._next(slot)
        bills: list[Bill] = []
        weights = None if self._accounts is None else self._weigher(number, bills)
        return self._close(
            number, compress(users, values, self.domain, method=self.compression, weights=weights), bills
        )

    def release_counts(self, histogram: Histogram, *, slot: int | None = None) -> Release:
        """Close a slot whose histogram was made from declared counts (`dpi.counts`); needs a converging budget."""
        if self._accounts is not None:
            raise OptionError("counts have no user ids, so no ledger can be kept: use a converging budget.")
        if histogram.grains.size != self.domain.size:
            raise OptionError(f"`histogram` must have {self.domain.size} bins.")
        return self._close(self._next(slot), histogram, [])

    def released(self, slot: int) -> Release:
        """A release that the store holds."""
        self.store.settle()
        for content, link in self.store.releases(self.name, slot, slot):
            return Release.from_content(content, self.domain, link.certificate)
        raise OptionError(f"slot {slot} is not in the store.")

    @property
    def next_slot(self) -> int:
        """The slot that will be closed next."""
        return self._next(None)

    def _next(self, slot: int | None) -> int:
        self.store.settle()
        if self._stale:
            self._resume()
        following = (self._first or 0) if self._last is None else self._last + 1
        if slot is None:
            return following
        if (self._last is not None or self._first is not None) and operator.index(slot) != following:
            raise ClockError(f"slots are released one after the other: {following} is next.")
        return operator.index(slot)

    def _offered(self) -> Epsilon:
        """The slot's budget: drawn once, and kept until the slot is closed, so that a retry changes nothing."""
        if self._offer is None:
            self._offer = self._allocation.draw(self._source)
        return self._offer

    def _weigher(self, number: int, bills: list[Bill]) -> Callable[[Users], Integers]:
        """Weights by the users' accounts; what they will pay is added to `bills`."""
        accounts, epsilon = self._accounts, self._offered()
        assert accounts is not None  # noqa: S101 - a converging budget weighs nobody
        whole = self.brain.whole_weights or isinstance(self.compression, WholePDF)

        def weigh(users: Users) -> Integers:
            share = self._allocation.share
            bills.append(accounts.bill(users, epsilon, number, share=share, whole=whole, stream=self.name))
            return bills[-1].weights

        return weigh

    def _close(self, number: int, histogram: Histogram, bills: list[Bill]) -> Release:
        epsilon = self._offered()
        to_tree, to_brain = self._split(epsilon)
        measurement = self.brain.measure(self._state, histogram, to_brain, number, self._source)
        tree = self._tree.added(histogram, self._source) if self._tree is not None and to_tree.units else self._tree
        partial = self._accounts is not None and self._spent >= self.epsilon.units
        charge = None if self._accounts is None else self._accounts.charge(bills[0])
        paid = Paid(
            stream=self.name,
            slot=number,
            epsilon=epsilon.units,
            partial=partial,
            values=measurement.values.astype("<i8").tobytes(),
            allocation=self._allocation.snapshot(),
            assumption=histogram.assumption or "",
            tree=b"" if tree is None else tree.to_bytes(),
        )
        with self._settling():
            self.store.pay(paid, self._ledger or "", b"" if charge is None else charge.records())
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
        """Make the release of a paid slot: a pure function of the store, so that it can be made again."""
        epsilon = Epsilon(paid.epsilon)
        to_tree, to_brain = self._split(epsilon)
        values = np.frombuffer(paid.values, dtype="<i8").astype(np.int64)
        state, estimate = self.brain.update(self._state, Measurement(paid.slot, to_brain, values, paid.partial))
        weight = users_of(estimate)
        accumulation, tree = self._accumulation.added(estimate), self._grown(paid.tree)
        if tree is not None and not to_tree.units:
            tree = tree.passed(weight * estimate.pdf)
        entropy = -float(estimate.pdf @ np.log(np.maximum(estimate.pdf, 1e-300)))
        self._allocation.observe(weight, float(np.exp(entropy)))
        total = self._spent + epsilon.units
        began = paid.slot if self._began is None else self._began
        spent = most_spent(self._options(), began, paid.slot, total)
        release = Release(
            domain=self.domain,
            pdf=estimate.pdf,
            variance=estimate.variance,
            skew=estimate.skew,
            total=float(estimate.total),
            total_variance=float(estimate.total_variance),
            accumulated=_accumulated(accumulation, tree),
            slot=paid.slot,
            start=None if self.slots is None else self.slots.start(paid.slot).isoformat(),
            epsilon=float(epsilon),
            epsilon_spent=float(Epsilon(spent)),
            guarantee=self.guarantee + (f" Assumed: {paid.assumption}." if paid.assumption else ""),
            certificate={},
        )
        content = release.content()
        facts = {
            "kind": "release",
            "format": 1,
            "stream": self.name,
            "slot": paid.slot,
            "mechanism": repr(self.brain),
            "adjacency": "all events of one user",
            "epsilon_units": epsilon.units,
            "epsilon_spent_units": spent,
            "epsilon_total_units": self.epsilon.units,
            "options": self.digest,
            "measurement": paid.digest,
            "release": content_digest(content),
            "program": _PROGRAM,
        }
        link = extend(self.store.head(), facts, self._signer)
        brain = self.brain
        progress = Progress(
            first=began,
            last=paid.slot,
            spent=total,
            allocation=self._allocation.snapshot(),
            brain=lambda: brain.to_bytes(state),
            accumulated=accumulation.to_bytes(),
            tree=b"" if tree is None else tree.to_bytes(),
        )
        self.store.publish(self.name, content, link, progress)
        self.store.testify()
        self._state, self._accumulation, self._tree, self._offer = state, accumulation, tree, None
        self._began, self._last, self._spent = began, paid.slot, total
        return replace(release, certificate=link.certificate)

    def _split(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """The slot's budget for the tree and for the brain; it is for the brain alone if the tree's part is larger."""
        part = 0 if self.accumulate is None else self.accumulate.epsilon.units
        part = part if part <= epsilon.units else 0
        return Epsilon(part), Epsilon(epsilon.units - part)

    def _planted(self) -> bytes:
        return b"" if self.accumulate is None else self.accumulate.planted(self.domain.size, self._source).to_bytes()

    def _grown(self, data: bytes) -> PrefixSums | None:
        return None if self.accumulate is None else PrefixSums.from_bytes(self.accumulate, self.domain.size, data)

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
        if self.slots is None:
            raise OptionError("`replay` needs a stream with a clock: give `slot`, for example slot='1h'.")
        first, last = self._border(start, "start"), self._border(end, "end")
        if last <= first:
            raise OptionError("`end` must be after `start`.")
        self._next(first)
        if isinstance(events, FileEvents):
            return self._replay_files(events, first, last)
        return self._replay(Table(events), first, last, user, time, value, unit)

    def _replay_files(self, events: FileEvents, first: int, last: int) -> Iterator[Release]:
        assert self.slots is not None  # noqa: S101 - `replay` has checked
        with closing(events.slots(self.slots, first, last)) as slots:
            for number, users, values in slots:
                yield self.release(users, values, slot=number)

    def _replay(
        self,
        table: Table,
        first: int,
        last: int,
        user: str,
        time: str,
        value: str | Mapping[str, str],
        unit: str | None,
    ) -> Iterator[Release]:
        assert self.slots is not None  # noqa: S101 - `replay` has checked
        numbers = self.slots.numbers(table.column(time), unit)
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], np.arange(first, last + 1))
        users = table.column(user)
        parts = value if isinstance(value, Mapping) else {"": value}
        columns = {part: table.column(name) for part, name in parts.items()}
        if {len(users), *(len(column) for column in columns.values())} != {numbers.size}:
            raise SchemaError("`events` must have columns of the same length.")
        for number in range(first, last):
            rows = order[borders[number - first] : borders[number - first + 1]]
            values = {part: take(column, rows) for part, column in columns.items()}
            yield self.release(take(users, rows), values.get("", values), slot=number)

    def _border(self, moment: str | datetime, name: str) -> int:
        """The slot that begins at a public time."""
        if self.slots is None:
            raise OptionError(f"`{name}` needs a stream with a clock: give `slot`, for example slot='1h'.")
        return self.slots.border(moment, name)

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
        slots = self._clock_slots("append")
        clock = Clock(slots, datetime.now(UTC) if now is None else now)
        admitted = clock.admit(times, unit)
        numbers = slots.numbers(times, unit)
        codes, ids = self.domain.encode(values), canonical_users(users)
        if not numbers.size == codes.size == ids.len():
            raise SchemaError("`users`, `times` and `values` must have the same number of rows.")
        keep = admitted & (codes >= 0) & (numbers >= self.next_slot) & ids.is_not_null().to_numpy()
        rows = np.flatnonzero(keep)
        following = self.store.sequence(self.name, producer) + 1 if sequence is None else sequence
        with self._settling():
            return self.store.append(
                self.name, self._open_events(ids.gather(rows), numbers[rows], codes[rows]), producer, following
            )

    def _open_events(self, ids: pl.Series, numbers: Integers, codes: Integers) -> OpenEvents:
        import polars as pl

        frame = pl.DataFrame({"user": ids, "slot": numbers, "bin": codes})
        grouped = frame.group_by("user", "slot", "bin").len()
        return OpenEvents(
            digests(grouped["user"], self.store.key),
            grouped["slot"].to_numpy(),
            grouped["bin"].to_numpy(),
            grouped["len"].cast(pl.Int64).to_numpy(),
        )

    def advance(self, now: str | datetime | None = None) -> Iterator[Release]:
        """Release every slot that the public clock has closed, from the events that were appended."""
        slots = self._clock_slots("advance")
        end = Clock(slots, datetime.now(UTC) if now is None else now).first_open
        return self._advance(end)

    def _advance(self, end: int) -> Iterator[Release]:
        while (number := self.next_slot) < end:
            events = self.store.events(self.name, number)
            bills: list[Bill] = []
            weights = None if self._accounts is None else self._weigher(number, bills)
            rows = StoredRows(events.names, events.bins, events.counts)
            compressed = histogram(rows, self.domain.size, method=self.compression, weights=weights)
            yield self._close(number, compressed, bills)

    def _clock_slots(self, what: str) -> Slots:
        if self.slots is None:
            raise OptionError(f"`{what}` needs a stream with a clock: give `slot`, for example slot='1h'.")
        if self._first is None and self._last is None:
            raise OptionError(f"`{what}` needs a public beginning: give `start`; it is never read off the data.")
        return self.slots

    # Options.

    def _options(self) -> dict[str, object]:
        return {
            "domain": self.domain.digest,
            "epsilon_units": self.epsilon.units,
            "slots": repr(self.slots),
            "start": self._first,
            "budget": repr(self.budget),
            "brain": repr(self.brain),
            "compression": repr(self.compression),
            "accumulate": repr(self.accumulate),
            "name": self.name,
            "ledger": self._ledger,
            "period": self.budget.period if isinstance(self.budget, Ledger) else None,
        }

    @property
    def digest(self) -> str:
        """A fingerprint of all public options."""
        return options_digest(canonical(self._options()))

    # Saving a stream that lives in memory.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store of a stream in memory to a file: private (it holds accounts and key), its owner's only."""
        self._next(None)  # settles a slot that was interrupted
        self._memory("save").save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on where `save` was called; refuses a file that is damaged or of a stream with other options."""
        self._memory("load")
        store = MemoryStore.load(path)
        if store.streams().get(self.name) != canonical(self._options()):
            raise StateError("the saved stream has other options; resume it with the options it was started with.")
        self.store = store
        self._resume()

    def _memory(self, what: str) -> MemoryStore:
        if not isinstance(self.store, MemoryStore):
            raise OptionError(f"`{what}` is for streams in memory; a store on disk is saved already.")
        return self.store


_PROGRAM = f"dpi {__version__}"


def _accumulated(sums: Accumulation, tree: PrefixSums | None) -> Floats:
    return (sums if tree is None else sums.beside(tree.sums(), tree.variance, tree.nodes)).pdf()


def _pool(name: str, options: Mapping[str, object]) -> object:
    """What a stream's ε is spent from: a ledger, or a series of its own."""
    return ("series", name) if options["ledger"] is None else ("ledger", options["ledger"])


def _different(one: Mapping[str, object], other: Mapping[str, object]) -> set[str]:
    """Names of the options that are not the same."""
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
