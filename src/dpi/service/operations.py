"""What an operator looks at: lag, arrivals, accounts, next closings, releases and budgets, as one document.

**Private**, but for releases and budgets: how many batches came, for how long none did, how late a slot is, and what
accounts hold follows from events. The document is the curator's (`/v1/operations`, `dpi serve top`) alone. No user is
in it. Of a running service it has what that counts and holds, beside what its store says.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import TimeoutError as TooLong
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpi.budget.epsilon import UNITS
from dpi.errors import StoreError
from dpi.reader import Releases
from dpi.release import Release
from dpi.service._budgets import Budget, find_budget
from dpi.service._receipts import Clock, Silence, write_moment
from dpi.store import Store
from dpi.store.ledger_session import stored_accounts
from dpi.store.spent import spent_in

if TYPE_CHECKING:
    from dpi.service._closing import Closing
    from dpi.service._metrics import Metrics
    from dpi.service._publication import Reading
    from dpi.service._unusable import Unusable

FRESH = 60.0  # seconds for which numbers of accounts are good: all of them are looked at to count them
WAITING = 2.0  # seconds that the thread which closes slots has for an answer


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
    dry: int  # those with less left than the next slot costs: they enter it with a part of their weight, or not at all


@dataclass(frozen=True)
class StreamOperations:
    """How one stream does. What is None is not known where it was asked."""

    stream: str
    releases: int
    newest: int | None  # the last slot whose release can be seen
    newest_begins: str | None
    measured: str | None
    """Until when the newest picture was measured, on average: a release may carry on what was measured before."""
    next: int | None  # the slot that closes next
    begins: str | None
    closes: str | None
    lag: float | None  # seconds since the next slot should have closed; 0 while that is to come
    epsilon: float
    spent_at_most: float
    budget: tuple[str, ...]  # the budget in sentences
    late: int | None = None  # releases that missed their first tick since the process began
    arrivals: Arrivals | None = None
    quiet: int | None = None  # whole slots without a batch, since the process began (`dpi.service._receipts`)
    silent: bool = False  # whether these are as many as make an alert
    unusable: tuple[str, ...] = ()  # whose rows were mostly unusable of late (`dpi.service._unusable`)
    accounts: Holders | None = None
    failing: str | None = None  # the kind of error that keeps the next slot from being closed


@dataclass(frozen=True)
class Operations:
    """How a service, or a store, does at a moment."""

    at: str
    failing: str | None  # the kind of error that keeps the slots of all streams from being closed
    streams: tuple[StreamOperations, ...]


def find_measured(releases: Releases, release: Release) -> str | None:
    """Return when the release's picture was measured, as text (`Release.measured_at`)."""
    moment = release.measured_at(releases.options.slots)
    return None if moment is None else moment.isoformat()


def _find_operations(releases: Releases, now: int, budget: Budget, **running: object) -> StreamOperations:
    """Return how a stream does of which these releases are seen, at a moment in microseconds since 1970."""
    newest, options = releases.newest if len(releases) else None, releases.options
    reached, slots = releases.store.reached(releases.name), options.slots
    following = None if options.end is not None else reached[0] + 1 if reached is not None else options.start
    closes = None if slots is None or following is None else slots.closing(following)
    return StreamOperations(
        stream=releases.name,
        releases=len(releases),
        newest=None if newest is None else newest.slot,
        newest_begins=None if newest is None else newest.start_text,
        measured=None if newest is None else find_measured(releases, newest),
        next=following,
        begins=None if slots is None or following is None else slots.start(following).isoformat(),
        closes=None if closes is None else write_moment(closes, "seconds"),
        lag=None if closes is None else max(0.0, (now - closes) / 1e6),
        epsilon=budget.epsilon,
        spent_at_most=budget.spent_at_most,
        budget=tuple(budget.sentences),
        **running,  # type: ignore[arg-type]
    )


def _find_due(budget: Budget, top: int | None) -> tuple[int, int]:
    """Return the next slot, and the units that pay it in full; users who pay by a public clock always can."""
    cost = budget.next_slots[0].cost
    return budget.next_slots[0].slot, 1 if top is not None or cost is None else round(cost * UNITS)


def store_operations(store: Store, names: tuple[str, ...], now: int, *, accounts: bool = False) -> Operations:
    """Return what a store alone tells: no arrivals, and accounts only if it was opened by a curator, who asks."""
    streams = []
    with store.snapshot():
        by_store = spent_in(store)
        for name in names:
            releases = Releases(store, name)
            options, budget, held = releases.options, find_budget(releases, by_store), None
            if accounts and options.accounts is not None and options.accounts in store.ledgers():
                held = Holders(*stored_accounts(store, options.accounts).holders(*_find_due(budget, options.top)))
            streams.append(_find_operations(releases, now, budget, accounts=held))
    return Operations(write_moment(now, "seconds"), None, tuple(streams))


class Overview:
    """What an operator may know of a running service.

    Sees numbers of batches, and of accounts, which it asks the thread for that owns them.
    """

    def __init__(
        self, clock: Clock, reading: Reading, closing: Closing, metrics: Metrics, silence: Silence, unusable: Unusable
    ) -> None:
        self._clock, self._reading, self._closing = clock, reading, closing
        self._metrics, self._silence, self._unusable = metrics, silence, unusable
        self._held: dict[str, tuple[float, Holders | None]] = {}
        self._turn = threading.Lock()

    def look(self) -> Operations:
        """Return how it does at this moment."""
        at, closing, silence = self._clock(), self._closing, self._silence
        streams, by_store = [], self._reading.spent()
        for name in sorted(closing.streams):
            with self._reading.releases(name) as releases:
                budget, top = find_budget(releases, by_store), releases.options.top
                arrivals = Arrivals(
                    self._count("dpi_batches_total", stream=name, kept="true"),
                    self._count("dpi_batches_total", stream=name, kept="false"),
                    self._count("dpi_batch_bytes_total", stream=name),
                )
                streams.append(
                    _find_operations(
                        releases, at, budget, arrivals=arrivals,
                        late=self._count("dpi_late_releases_total", stream=name), quiet=silence.quiet(name),
                        silent=silence.silent(name), unusable=self._unusable.senders(name),
                        accounts=self._find_holders(name, *_find_due(budget, top)),
                        failing=closing.failing.get(name),
                    )
                )  # fmt: skip
        kinds = [each.failing for each in streams if each.failing is not None]
        failing = kinds[0] if kinds and closing.all_failing else None
        return Operations(write_moment(at, "seconds"), failing, tuple(streams))

    def _count(self, metric: str, **labels: str) -> int:
        return int(self._metrics.registry.get_sample_value(metric, labels) or 0)

    def _find_holders(self, name: str, slot: int, due: int) -> Holders | None:
        """Return accounts as counted less than a minute ago; the last number there is, if nobody has time to count."""
        with self._turn:
            counted, known = self._held.get(name, (-FRESH, None))
            if time.monotonic() - counted < FRESH:
                return known

            def count() -> Holders | None:
                accounts = self._closing.streams[name].driver.accounts
                return None if accounts is None else Holders(*accounts.holders(slot, due))

            try:
                known = self._closing.call(count).result(WAITING)
            except (TooLong, StoreError, KeyError):
                return known
            self._held[name] = time.monotonic(), known
            return known
