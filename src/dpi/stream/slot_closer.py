"""Closing one slot after the other, in one process: the order of steps, the store behind them, and interruptions.

`dpi.stream.closing` has the steps; this is the life between them. A slot is closed in the order of `dpi.store.base`,
one after the other; after an interruption only the store knows whether it was, so everything is read from there before
the next one. Where other options begin with the next slot, the state is made theirs (`StreamState.adapted`) before
anything of that slot is drawn.

**Guarantee.** Each slot is paid for at most once, with one budget that was drawn for it once, and its release is handed
out after it is stored. *Why:* the session keeps a payment whole (`dpi.store.ledger_session`), a paid slot is released
from its stored measurement, and the offer of a slot that was not paid for is kept (`Offer`).
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
from dpi.certificates.declared import DeclaredOptions, assigned, declared
from dpi.certificates.signature import Signer
from dpi.domain import Amounts, Discovered, Domain
from dpi.errors import ClockError, OptionError, StateError
from dpi.events.rows import Rows
from dpi.events.slots import Slots, Window
from dpi.histogram.compression import Histogram, finish, read_rows
from dpi.histogram.grouping import Groups
from dpi.mechanism.value_discovery import Discovering, DiscoveringState
from dpi.noise import RandomSource
from dpi.options.schedule import Schedule
from dpi.reader import Releases
from dpi.release import Release
from dpi.sources import Admission, Events, FileEvents, Progress, TableEvents
from dpi.store.arrival_files import Section
from dpi.store.base import PaidSlot
from dpi.store.ledger_session import LedgerSession
from dpi.stream._option_history import OptionHistory, read_options
from dpi.stream._statements import make_entry, write_guarantee
from dpi.stream.closing import Counting, Offer, derive_state, measure, release_slot, weigh
from dpi.stream.counted import counts, name_counted
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
    driver: SlotCloser

    def of(self, slot: int, driver: SlotCloser) -> SlotRows:
        """Return the rows; refuse those of another slot, of a domain that was changed, or of another driver."""
        domain = driver.state.setting.domain
        if (self.slot, self.driver) != (slot, driver) or not (self.domain is domain or self.domain.same_rows(domain)):
            raise OptionError("`rows` must be those of this slot that `play` of this stream has given.")
        return self.rows


class Engine(Protocol):
    """What drives a stream in another way than one process that holds all accounts (`dpi.engine`)."""

    def driver(
        self, newest: StreamOptions, session: LedgerSession, signer: Signer | None, source: RandomSource
    ) -> SlotCloser:
        """Return a driver of the stream with these options."""
        ...


class Promise(NamedTuple):
    """What follows from all streams that a store has declared."""

    guarantee: str
    """What is promised, in words."""
    assigned: int
    """What the accounts do not hold of ε, since it is others' by quotas, in units."""
    whole: bool
    """Whether a newcomer has all that the stream knows of: no other pays from it, and no quota was taken out of it."""
    shared: bool
    """Whether another one pays from the same accounts, so that they may hold less than this one has left in them."""


class SlotCloser:
    """Closes one slot of a stream after the other, and goes on where the store has stopped."""

    def __init__(
        self, newest: StreamOptions, session: LedgerSession, signer: Signer | None, source: RandomSource
    ) -> None:
        self.newest, self.session, self._store = newest, session, session.store
        self._signer, self.source = signer, source
        self._offer: Offer | None = None
        self._closed_unreported: int | None = None
        self._promise_cache: tuple[StreamOptions, dict[str, str], Promise] | None = None
        self._counts: SlotCloser | None = None
        if counts(newest.name, self._store.streams()):
            self._counts = SlotCloser(read_options(self._store, name_counted(newest.name), {}), session, signer, source)
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
                self._switch_options(progress.allocation)
        if pending is not None:
            self._allocation.restore(pending.allocation)
            with self.session.writing():
                self._publish(pending, self._promise())
        # Go on with the budget that was drawn for the next slot, if that slot was not paid for.
        if self._offer is not None and self._offer.after == self.state.last:
            self._allocation.restore(self._offer.allocation)
        else:
            self._offer = None
        self._settled = self.session.settled

    def _derived(self, last: int) -> object:
        """Derive what the mechanism remembers after a slot, if the store has it in the form of an earlier version."""
        return derive_state(self.history, self._store.measurements(self.newest.name), last)

    def _open_accounts(self) -> Accounts | None:
        """Open what users pay from, in memory; None if this process holds none."""
        newest = self.newest
        if not isinstance(newest.budget, Ledger):
            return None
        assert newest.accounts is not None  # noqa: S101 - a ledger budget has a ledger
        return self.session.accounts(newest.accounts, newest.budget, newest.epsilon)

    def _switch_options(self, allocation: str) -> None:
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
            self.newest = enter(setting, self.session, self._signer, release.slot + 1, None)
            self.history = OptionHistory(self.newest, self._store)
            self._switch_options(self._allocation.snapshot())

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        return self._promise().guarantee

    def _promise(self) -> Promise:
        """Return what follows from all streams that are declared; it is made anew where another one is."""
        options, streams = self.state.setting, self._store.streams()
        if self._promise_cache is None or self._promise_cache[0] is not options or self._promise_cache[1] != streams:
            known = declared(streams)
            others = [each for name, each in known.items() if name != options.name]
            shared = any(each.accounts == options.accounts is not None for each in others)
            of_others = _of_others(options, known)
            whole = not shared and options.epsilon.units - of_others >= options.held.units
            promise = Promise(write_guarantee(options, known), of_others, whole, shared)
            self._promise_cache = options, streams, promise
        return self._promise_cache[2]

    @property
    def in_doubt(self) -> bool:
        """Whether the store must be asked where the stream is; to look at this asks nothing."""
        return self.session.in_doubt or self._settled != self.session.settled

    # Which slot is next.

    def next_slot(self, slot: int | None = None) -> int:
        """Return the slot that is next; refuse another than `slot`, if that is given."""
        if self.session.in_doubt:
            self.session.settle()
        if self._settled != self.session.settled:
            before = self.state.last
            self._resume()
            self._closed_unreported = self.state.last if self.state.last != before else self._closed_unreported
        start, last = self.state.setting.start, self.state.last
        following = last + 1 if last is not None else start or 0
        if slot is None:
            return following
        if (last is not None or start is not None) and operator.index(slot) != following:
            raise ClockError(f"slots are released one after the other: {following} is next.")
        return operator.index(slot)

    def confirm_next(self) -> int:
        """Return the slot that is next, from which the caller knows whether an interrupted one was closed."""
        number, self._closed_unreported = self.next_slot(), None
        return number

    def resolve_slot(self, slot: int | None) -> int:
        """Return the slot to close; refuse to guess if the caller cannot know that an interrupted one was closed."""
        number = self.next_slot(slot)
        if slot is None and self._closed_unreported is not None:
            raise ClockError(
                f"slot {self._closed_unreported} was paid for when it was interrupted, and is released: see "
                f"`released`. Say `slot={number}` to go on."
            )
        self._closed_unreported = None
        return number

    # What it is made of.

    @property
    def domains(self) -> Schedule[Domain]:
        """The domain of the next slot and of those after it, by the first slot that each holds for."""
        return self.history.domains(self.next_slot())

    def rows(self, users: object, values: object, number: int) -> Rows:
        """Return the rows of a slot's events, which are all at hand."""
        return read_rows(users, values, self.state.setting.domain, self._store.key, number, self.newest.ids)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Keep the events of open slots that a window admits; False if the (producer, sequence) was there already."""
        if self.newest.end is not None:
            raise StateError(STOPPED)
        kept = self.admission(slots).keep(events, window)
        with self.session.writing():
            return self._store.append(self.newest.name, kept, producer, sequence)

    def admission(self, slots: Slots, first: int | None = None, last: int | None = None) -> Admission:
        """Return how events of the slots from `first`, or the next one, to before `last` become rows."""
        return Admission(slots, self.domains, self._store.key, self.next_slot(first), last, self.newest.ids)

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
        if self._counts is not None and self._counts.next_slot() <= number:  # else this slot was interrupted in between
            self._counts.close(number, Rows.one_each(groups.names))
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
            self.session.pay(paid, self.state.setting.accounts, charge)
            return self._publish(paid, promise)
        except BaseException:
            self.session.in_doubt = True
            raise

    def _publish(self, paid: PaidSlot, promise: Promise) -> Release:
        """Make the release of a paid slot, and let nobody have it before it is stored."""
        store, options = self._store, self.state.setting
        counted = None if self._counts is None else Releases(store, self._counts.newest.name).at(paid.slot)
        made = release_slot(
            self.state, paid, promise.guarantee, whole=promise.whole, shared=promise.shared, counted=counted
        )
        self._allocation.observe(made.users, made.bins, made.drift)
        content = made.release.content()
        link = extend(store.head(), make_entry(made.state, paid, content, made.groups), self._signer)
        store.publish(options.name, content, link, made.state.progress(self._allocation))
        store.testify()
        self.state, self._offer = made.state, None
        if self.history.at(paid.slot + 1) is not options:
            self._switch_options(self._allocation.snapshot())
        elif options.domain.grows:
            self._refine(made.release)
        return replace(made.release, certificate=link.certificate)


def _of_others(options: StreamOptions, streams: Mapping[str, DeclaredOptions]) -> int:
    if options.quota is not None:
        return options.epsilon.units - options.held.units
    return assigned(str(options.accounts), streams)
