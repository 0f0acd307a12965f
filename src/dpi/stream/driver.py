"""Driving the steps that close a slot, in one process: their order, the store behind them, and interruptions.

`dpi.stream.closing` has the steps; this is the life between them. A slot is closed in the order of `dpi.store.base`,
one after the other; after an interruption only the store knows whether it was, so everything is read from there before
the next one. Where other options begin with the next slot, the state is made theirs (`StreamState.adapted`) before
anything of that slot is drawn.

**Guarantee.** Each slot is paid for at most once, with one budget that was drawn for it once, and its release is handed
out after it is stored. *Why:* the bank keeps a payment whole (`dpi.store.bank`), a paid slot is released from its
stored measurement, and the offer of a slot that was not paid for is kept (`Offer`).
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol, cast

from dpi.budget.accounts import Accounts
from dpi.budget.charge import Charge
from dpi.budget.ledger import Ledger
from dpi.certificates.chain import extend
from dpi.certificates.declared import DeclaredOptions, assigned, declared, pool_of
from dpi.certificates.signature import Signer
from dpi.domain import Amounts, Discovered, Domain
from dpi.errors import ClockError, OptionError, StateError
from dpi.events.rows import Rows
from dpi.events.slots import Slots, Window
from dpi.histogram.compression import Histogram, finish, read_rows
from dpi.histogram.grouping import Groups
from dpi.mechanism.discovering import Discovering, DiscoveringState
from dpi.noise import RandomSource
from dpi.options.schedule import Schedule
from dpi.reader import Releases
from dpi.release import Release
from dpi.sources import Admission, Events, FileEvents, Progress, TableEvents
from dpi.store.arrival_files import Section
from dpi.store.bank import Bank
from dpi.store.base import PaidSlot
from dpi.stream._option_history import OptionHistory
from dpi.stream._statements import make_entry, write_guarantee
from dpi.stream.closing import Counting, Offer, derive_state, measure, release_slot, weigh
from dpi.stream.options import STOPPED, StreamOptions
from dpi.stream.registration import enter
from dpi.stream.state import StreamState

Played = FileEvents | TableEvents
"""Events that are all there: of files, or of a table."""
SlotRows = Rows | Sequence[Rows | Section]
"""The rows of one slot: at hand, or in files for the tasks of an engine."""


@dataclass(frozen=True, eq=False, repr=False)
class PlayedRows:
    """The rows of a slot as `Stream.play` gives them, with what they were made by. Private.

    Names of accounts are of one key, bins of one domain: rows of another would be paid by accounts that nobody has, and
    whether their bins are there would depend on the events. So whose rows they are is looked at, and never the rows.
    """

    rows: SlotRows
    slot: int
    domain: Domain
    """Or one of the same rows."""
    driver: Driver

    def of(self, slot: int, driver: Driver) -> SlotRows:
        """Return the rows; refuse those of another slot, of a domain that was changed, or of another driver."""
        domain = driver.state.setting.domain
        if (self.slot, self.driver) != (slot, driver) or not (self.domain is domain or self.domain.same_rows(domain)):
            raise OptionError("`rows` must be those of this slot that `play` of this stream has given.")
        return self.rows


class Engine(Protocol):
    """What drives a stream in another way than one process that holds all accounts (`dpi.engine`)."""

    def driver(self, newest: StreamOptions, bank: Bank, signer: Signer | None, source: RandomSource) -> Driver:
        """A driver of the stream with these options."""
        ...


class Promise(NamedTuple):
    """What follows from all streams that a store has declared."""

    guarantee: str
    """What is promised, in words."""
    assigned: int
    """What the accounts do not hold of ε, since it is others' by quotas, in units."""
    alone: bool
    """Whether no other stream has a part in this one's ε."""
    shared: bool
    """Whether another one pays from the same accounts, so that they may hold less than this one has left in them."""


class Driver:
    """Closes one slot of a stream after the other, and goes on where the store has stopped."""

    def __init__(self, newest: StreamOptions, bank: Bank, signer: Signer | None, source: RandomSource) -> None:
        self.newest, self.bank, self._store = newest, bank, bank.store
        self._signer, self.source = signer, source
        self._offer: Offer | None = None
        self._unseen: int | None = None
        self._told: tuple[StreamOptions, dict[str, str], Promise] | None = None
        self._resume()

    def _resume(self) -> None:
        """Read everything from the store, and release a slot that was paid for and is not yet released."""
        store, self.history = self._store, OptionHistory(self.newest, self._store)
        newest = self.newest = self.history.newest
        self.accounts = self._open_accounts()
        progress, pending = store.progress(newest.name), store.pending(newest.name)
        if progress is None:
            first = newest.start if pending is None else pending.slot
            self.state = StreamState.initial(self.history.at(first or 0), self.source)
            self._allocation = self.state.setting.allocation()
        else:
            before = self.history.at(progress.last)
            self.state = StreamState.resumed(before, progress, self.source, partial(self._derived, progress.last))
            if self.history.at(progress.last + 1) is before and progress.allocation:
                self._allocation = self.state.setting.allocation()
                self._allocation.restore(progress.allocation)
                if pending is None and before.domain.grows:
                    self._refine(Releases(store, newest.name).newest)  # it may have been interrupted before that
            else:
                self._turn(progress.allocation)
        if pending is not None:
            self._allocation.restore(pending.allocation)
            with self.bank.writing():
                self._publish(pending, self._promise())
        # Go on with the budget that was drawn for the next slot, if that slot was not paid for.
        if self._offer is not None and self._offer.after == self.state.last:
            self._allocation.restore(self._offer.allocation)
        else:
            self._offer = None
        self._settled = self.bank.settled

    def _derived(self, last: int) -> object:
        """What the mechanism remembers after a slot, where the store has it in the form of an earlier version."""
        return derive_state(self.history, self._store.measurements(self.newest.name), last)

    def _open_accounts(self) -> Accounts | None:
        """What users pay from, in memory; None if this driver holds none."""
        newest = self.newest
        if not isinstance(newest.budget, Ledger):
            return None
        assert newest.accounts is not None  # noqa: S101 - a ledger budget has a ledger
        return self.bank.accounts(newest.accounts, newest.budget, newest.epsilon)

    def _turn(self, allocation: str) -> None:
        """Go over to the options of the next slot; what was drawn before stays drawn, if their budget has the rule."""
        assert self.state.last is not None  # noqa: S101 - a slot was released
        self.state = self.state.adapted(self.history.at(self.state.last + 1), self.source)
        self._allocation = self.state.setting.allocation()
        self._allocation.succeed(allocation)

    def _refine(self, release: Release) -> None:
        """Enter the domain from the next slot on, where it grows and what was released gives reason for another one.

        **Guarantee.** It costs nothing. *Why:* the domain is a function of what was released, a public thing, and it is
        entered before anything of the next slot is drawn; rows are the same for both. Where other options were declared
        for slots to come, the domain stays.
        """
        domain, newest, mechanism = self.state.setting.domain, self.newest, self.state.setting.mechanism
        if newest.end is not None or self.history.at(release.slot + 1) is not newest:
            return
        refined: Domain = domain
        if isinstance(domain, Amounts):
            refined = domain.refined(release.pdf, release.variance)
        elif isinstance(domain, Discovered):
            refined = cast("Discovering", mechanism).domain_after(cast("DiscoveringState", self.state.state), domain)
        if refined != domain:
            setting = replace(newest, domain=refined)
            self.newest = enter(setting, self.bank, self._signer, release.slot + 1, None)
            self.history = OptionHistory(self.newest, self._store)
            self._turn(self._allocation.snapshot())

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return self._promise().guarantee

    def _promise(self) -> Promise:
        """Return what follows from all streams that are declared; it is made anew where another one is."""
        options, streams = self.state.setting, self._store.streams()
        if self._told is None or self._told[0] is not options or self._told[1] != streams:
            known = declared(streams)
            pool = pool_of(options.name, options.ledger)
            others = [each for name, each in known.items() if name != options.name]
            alone = not any(each.pool == pool for each in others)
            shared = any(each.accounts == options.accounts is not None for each in others)
            promise = Promise(write_guarantee(options, known), _of_others(options, known), alone, shared)
            self._told = options, streams, promise
        return self._told[2]

    @property
    def in_doubt(self) -> bool:
        """Whether the store must be asked where the stream is; to look at this asks nothing."""
        return self.bank.in_doubt or self._settled != self.bank.settled

    # Which slot is next.

    def following(self, slot: int | None = None) -> int:
        """The slot that is next; refuses another than `slot`, if that is given."""
        if self.bank.in_doubt:
            self.bank.settle()
        if self._settled != self.bank.settled:
            before = self.state.last
            self._resume()
            self._unseen = self.state.last if self.state.last != before else self._unseen
        start, last = self.state.setting.start, self.state.last
        following = last + 1 if last is not None else start or 0
        if slot is None:
            return following
        if (last is not None or start is not None) and operator.index(slot) != following:
            raise ClockError(f"slots are released one after the other: {following} is next.")
        return operator.index(slot)

    def asked(self) -> int:
        """The slot that is next, said to the caller, who so knows whether an interrupted one was closed."""
        number, self._unseen = self.following(), None
        return number

    def meant(self, slot: int | None) -> int:
        """The slot to close; not guessed where the caller cannot know that an interrupted one was closed."""
        number = self.following(slot)
        if slot is None and self._unseen is not None:
            raise ClockError(
                f"slot {self._unseen} was paid for when it was interrupted, and is released: see `released`. Say "
                f"`slot={number}` to go on."
            )
        self._unseen = None
        return number

    # What it is made of.

    @property
    def domains(self) -> Schedule[Domain]:
        """The domain of the next slot and of those after it, by the first slot that each holds for."""
        return self.history.domains(self.following())

    def rows(self, users: object, values: object, number: int) -> Rows:
        """Return the rows of a slot's events, which are all at hand."""
        return read_rows(users, values, self.state.setting.domain, self._store.key, number, self.newest.ids)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Keep the events of open slots that a window admits; False if the (producer, sequence) was there already."""
        if self.newest.end is not None:
            raise StateError(STOPPED)
        kept = self.admission(slots).keep(events, window)
        with self.bank.writing():
            return self._store.append(self.newest.name, kept, producer, sequence)

    def admission(self, slots: Slots, first: int | None = None, last: int | None = None) -> Admission:
        """Return how events of the slots from `first`, or the next one, to before `last` become rows."""
        return Admission(slots, self.domains, self._store.key, self.following(first), last, self.newest.ids)

    def kept(self, number: int) -> SlotRows:
        """Return the rows that were kept for a slot."""
        return self._store.events(self.newest.name, number)

    def play(
        self, events: Played, slots: Slots, first: int, last: int, memory: int, progress: Progress | None
    ) -> Generator[tuple[int, SlotRows], None, None]:
        """Yield number and rows of the slots `first`, which is next, to before `last`; all events are read before."""
        return events.slots(self.admission(slots, first, last), memory=memory, progress=progress)

    # Closing it.

    def close(self, number: int, rows: SlotRows) -> Release:
        """Close a slot of users; what their accounts hold is as quotas are now, and this stream's is in this slot."""
        assert isinstance(rows, Rows)  # noqa: S101 - files are for engines
        offer, counting, promise = self._offered(number), Counting.of(self.state.setting), self._promise()
        if self.accounts is not None and self.accounts.assigned != promise.assigned:
            self.accounts.assign(promise.assigned)
        groups = Groups(rows, counting.codes)
        del rows  # of a large slot they are memory that weighing can use,
        grains, charge = weigh(counting, groups, self.accounts, offer, number)
        del groups  # and this is memory for paying
        clean = finish(grains, counting.compression, max(1, len(offer.groups)))
        return self._pay(clean, offer, number, charge, promise)

    def close_histogram(self, number: int, clean: Histogram) -> Release:
        """Close a slot whose users are not known, without accounts."""
        return self._pay(clean, self._offered(number), number, None, self._promise())

    def _offered(self, number: int) -> Offer:
        """Return the slot's budget: drawn once, and kept until the slot is paid for, so that a retry changes nothing.

        Which classes are due follows from the slot's number. The first slot of a stream without a declared start may be
        tried again under another one: then they are drawn anew, which has no chance in it.
        """
        if self.newest.end is not None:
            raise StateError(STOPPED)
        if self._offer is not None and self._offer.groups and self._offer.slot != number:
            self._allocation, self._offer = self.state.setting.allocation(), None
        if self._offer is None:
            self._offer = Offer.draw(self.state, self._allocation, number, self.source)
        return self._offer

    def _pay(self, clean: Histogram, offer: Offer, number: int, charge: Charge | None, promise: Promise) -> Release:
        """Measure a slot, pay for it and release it: what an interruption leaves of that only the store knows."""
        paid = measure(self.state, clean, offer, number, self.source)
        try:
            self.bank.pay(paid, self.state.setting.accounts, charge)
            return self._publish(paid, promise)
        except BaseException:
            self.bank.in_doubt = True
            raise

    def _publish(self, paid: PaidSlot, promise: Promise) -> Release:
        """Make the release of a paid slot, and let nobody have it before it is stored."""
        store, options = self._store, self.state.setting
        made = release_slot(self.state, paid, promise.guarantee, alone=promise.alone, shared=promise.shared)
        self._allocation.observe(made.users, made.bins, made.drift)
        content = made.release.content()
        link = extend(store.head(), make_entry(made.state, paid, content, made.groups), self._signer)
        store.publish(options.name, content, link, made.state.progress(self._allocation))
        store.testify()
        self.state, self._offer = made.state, None
        if self.history.at(paid.slot + 1) is not options:
            self._turn(self._allocation.snapshot())
        elif options.domain.grows:
            self._refine(made.release)
        return replace(made.release, certificate=link.certificate)


def _of_others(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> int:
    if options.quota is not None:
        return options.epsilon.units - options.held.units
    return assigned(str(options.accounts), streams)
