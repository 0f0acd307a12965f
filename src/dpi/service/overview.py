"""How a running service does: what it counts and holds, beside what its store says (`dpi.service.operations`).

Sees numbers of batches, and of accounts, which it asks the thread for that owns them. Private.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import TimeoutError as TooLong
from typing import TYPE_CHECKING

from dpi.certificates.declared import DeclaredOptions
from dpi.errors import StoreError
from dpi.reader import Releases
from dpi.service.budgets import budget_of
from dpi.service.operations import Arrivals, Holders, Operations, due_next, moment, stream_operations

if TYPE_CHECKING:
    from dpi.service.service import Service

FRESH = 60.0
"""Seconds for which numbers of accounts are good: all of them are looked at to count them."""
WAITING = 2.0
"""Seconds that the thread which closes slots has for an answer."""


class Overview:
    """What an operator may know of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._held: dict[str, tuple[float, Holders | None]] = {}
        self._turn = threading.Lock()

    def now(self) -> Operations:
        """How it does at this moment."""
        service = self._service
        at = service.clock()
        streams, by_store = [], service.reading.spent()
        for name in sorted(service.closing.streams):
            with service.reading.releases(name) as releases:
                streams.append(
                    stream_operations(
                        releases,
                        at,
                        by_store=by_store,
                        guarantee=service.guarantees[name],
                        late=self._counted("dpi_late_releases_total", stream=name),
                        arrivals=Arrivals(
                            self._counted("dpi_batches_total", stream=name, kept="true"),
                            self._counted("dpi_batches_total", stream=name, kept="false"),
                            self._counted("dpi_batch_bytes_total", stream=name),
                        ),
                        quiet=service.silence.quiet(name),
                        silent=service.silence.silent(name),
                        accounts=self._holders(name, releases),
                        failing=service.closing.failing.get(name),
                    )
                )
        kinds = [each.failing for each in streams if each.failing is not None]
        return Operations(moment(at), kinds[0] if kinds and service.closing.all_failing else None, tuple(streams))

    def _counted(self, metric: str, **labels: str) -> int:
        return int(self._service.metrics.registry.get_sample_value(metric, labels) or 0)

    def _holders(self, name: str, releases: Releases) -> Holders | None:
        """Accounts as they were counted less than a minute ago; the last number there is, if nobody has time to."""
        with self._turn:
            counted, known = self._held.get(name, (-FRESH, None))
            if time.monotonic() - counted < FRESH:
                return known
            options = DeclaredOptions.from_text(releases.store.streams()[name])
            budget = budget_of(releases, name, "", 0.0)
            due, slot, closing = due_next(budget, options), budget.next_slots[0].slot, self._service.closing

            def count() -> Holders | None:
                accounts = closing.streams[name].driver.accounts
                if accounts is None:
                    return None
                return Holders(*accounts.holders(slot, due.units))

            try:
                known = closing.call(count).result(WAITING)
            except (TooLong, StoreError, KeyError):
                return known
            self._held[name] = time.monotonic(), known
            return known
