"""What an operator looks at: lag, arrivals, accounts, next closings, releases and budgets, as one document.

**Private**, but for releases and budgets: how many batches came, for how long none did, how late a slot is, and what
accounts hold follows from events. The document is the curator's (`/v1/operations`, `dpi top`), and no analyst's. No
user is in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from dpi.budget.epsilon import UNITS, Epsilon
from dpi.certificates.declared import DeclaredOptions
from dpi.reader import Releases
from dpi.service.budgets import Budget, budget_of
from dpi.service.measured import measured_until
from dpi.store import Store
from dpi.store.bank import stored_accounts
from dpi.store.spent import spent_in


@dataclass(frozen=True)
class Arrivals:
    """Batches since the process began. A number of batches is a producer's matter, not a user's."""

    kept: int
    refused: int
    bytes: int


@dataclass(frozen=True)
class Holders:
    """Accounts of a stream's ledger: private."""

    number: int
    dry: int
    """Those with less left than the next slot costs: they enter it with a part of their weight, or not at all."""


@dataclass(frozen=True)
class StreamOperations:
    """How one stream does. What is None is not known where it was asked."""

    stream: str
    releases: int
    newest: int | None
    """The last slot whose release can be seen."""
    newest_begins: str | None
    measured: str | None
    """Until when the newest picture was measured, on average: a release may carry on what was measured before."""
    next: int | None
    """The slot that closes next."""
    begins: str | None
    closes: str | None
    lag: float | None
    """Seconds since the next slot should have closed; 0 while that is to come."""
    late: int | None
    """Releases that missed their first tick since the process began."""
    arrivals: Arrivals | None
    quiet: int | None
    """Whole slots without a batch, since the process began (`dpi.service.silence`)."""
    silent: bool
    """Whether these are as many as make an alert."""
    accounts: Holders | None
    epsilon: float
    spent_at_most: float
    budget: tuple[str, ...]
    """The budget in sentences."""
    failing: str | None = None
    """The kind of error that keeps the next slot from being closed."""


@dataclass(frozen=True)
class Operations:
    """How a service, or a store, does at a moment."""

    at: str
    failing: str | None
    """The kind of error that keeps the slots of all streams from being closed."""
    streams: tuple[StreamOperations, ...]

    def document(self) -> dict[str, object]:
        """All of it, as an answer."""
        return asdict(self)


def stream_operations(
    releases: Releases,
    now: int,
    *,
    by_store: float,
    guarantee: str | None = None,
    late: int | None = None,
    arrivals: Arrivals | None = None,
    quiet: int | None = None,
    silent: bool = False,
    accounts: Holders | None = None,
    failing: str | None = None,
) -> StreamOperations:
    """How a stream does of which these releases are seen, at a moment in microseconds since 1970.

    `by_store` is the most that all streams of the store can have cost one user.
    """
    store, name = releases.store, releases.name
    options = DeclaredOptions.from_text(store.streams()[name])
    newest = releases.newest if len(releases) else None
    promise = guarantee if guarantee is not None else "" if newest is None else newest.guarantee
    budget = budget_of(releases, name, promise, by_store)
    reached, slots = store.reached(name), options.slots
    following = None if options.end is not None else reached[0] + 1 if reached is not None else options.start
    closes = None if slots is None or following is None else slots.closing(following)
    begins = None if slots is None or following is None else slots.start(following).isoformat()
    return StreamOperations(
        stream=name,
        releases=len(releases),
        newest=None if newest is None else newest.slot,
        newest_begins=None if newest is None else newest.start_text,
        measured=None if newest is None else measured_until(releases, newest),
        next=following,
        begins=begins,
        closes=None if closes is None else moment(closes),
        lag=None if closes is None else max(0.0, (now - closes) / 1e6),
        late=late,
        arrivals=arrivals,
        quiet=quiet,
        silent=silent,
        accounts=accounts,
        epsilon=budget.epsilon,
        spent_at_most=budget.spent_at_most,
        budget=tuple(budget.sentences),
        failing=failing,
    )


def due_next(budget: Budget, options: DeclaredOptions) -> Epsilon:
    """What an account must have left to pay the next slot in full; users who pay by a public clock always can."""
    cost = budget.next_slots[0].cost
    return Epsilon(1 if options.top is not None or cost is None else round(cost * UNITS))


def store_operations(store: Store, names: tuple[str, ...], now: int, *, accounts: bool = False) -> Operations:
    """What a store alone tells: no arrivals, and accounts only if it was opened by a curator, who asks."""
    streams = []
    with store.snapshot():
        by_store = spent_in(store)
        for name in names:
            releases = Releases(store, name)
            held = _held(store, releases) if accounts else None
            streams.append(stream_operations(releases, now, by_store=by_store, accounts=held))
    return Operations(moment(now), None, tuple(streams))


def _held(store: Store, releases: Releases) -> Holders | None:
    options = DeclaredOptions.from_text(store.streams()[releases.name])
    if options.accounts is None or options.accounts not in store.ledgers():
        return None
    budget = budget_of(releases, releases.name, "", 0.0)
    due = due_next(budget, options)
    return Holders(*stored_accounts(store, options.accounts).holders(budget.next_slots[0].slot, due.units))


def moment(micros: int) -> str:
    """A moment as text."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat(timespec="seconds")
