"""Small streams to audit: three values, ε = 1, a mechanism of two trackers. What differs is an option.

Also the published mechanism for which one user moves the scores as far as the proof allows: an exponential mechanism
loses its whole share only if one candidate gains what all others lose, and if that candidate is one of many. Here one
synopsis says what the data say with the user, and a thousand say what they say without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np

import dpi
from dpi.discovery.text_slot_closer import TextEngine
from dpi.exact.integers import Integers
from dpi.mechanism.base import Mechanism
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import Ranges, points
from dpi.mechanism.published.pool import Pool
from dpi.mechanism.text_histogram import SparseHistogram
from dpi.mechanism.value_discovery import Discovering
from dpi.noise import UnsafeSeededSource
from dpi.release import Release
from dpi.testing.laws import Law
from dpi_audit.exact import Open
from dpi_audit.neighbours import Rows
from dpi_audit.session import MakeStream, StoredSession, StreamSession, Wrap

VALUES = ("a", "b", "c")
DOMAIN = dpi.Categories(VALUES, other=None)
EPSILON = Fraction(1)
AMOUNTS = (3, -70, 10**12)
"""One of them is beyond every cap."""


def stream(**options: object) -> MakeStream:
    """Return how to make a small stream."""
    mechanism = options.pop("mechanism", dpi.Boosted())

    def make(wrap: Wrap) -> dpi.Stream:
        defaults: dict[str, object] = {
            "domain": DOMAIN,
            "epsilon": EPSILON,
            "budget": dpi.Ledger(per_slot="0.05"),
            "unsafe_source": UnsafeSeededSource(1),
            # Neighbours differ in one user and not in the key that names accounts.
            "store": dpi.MemoryStore(secret=bytes(range(32)), history=1),
        }
        wrapped: Mechanism[object] = wrap(mechanism)  # type: ignore[arg-type]
        return dpi.Stream(mechanism=wrapped, **(defaults | options))  # type: ignore[arg-type]

    return make


def stream_session(restart_every: int | None = None, /, **options: object) -> Callable[[], StreamSession]:
    """Return how to open sessions of a small stream."""
    return lambda: StreamSession(stream(**options), restart_every=restart_every)


def stored_session(restart_every: int | None = None, /, **options: object) -> Callable[[], StreamSession]:
    """Return how to open sessions of a small stream in a store on disk."""
    return lambda: StoredSession(lambda store: stream(store=store, **options), restart_every=restart_every)


BEGIN, WIDTH = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)
LISTS = ((VALUES, None), (VALUES[1:], "rest"), ((*VALUES, "new"), "rest"))
"""In turns: values leave the list and come back to it, with a bin for all others and without."""


class ChangedSession(StreamSession):
    """A stream that is fed as events arrive, in the middle of their slot; its domain changes while a slot is open.

    In every second slot another domain is declared for the next one.
    """

    def __init__(self, **options: object) -> None:
        self._options = {"store": dpi.MemoryStore(), "slot": "1h", "start": BEGIN, **options}
        self._turn = 0
        super().__init__(self._make_changed)

    def _make_changed(self, wrap: Wrap) -> dpi.Stream:
        change = BEGIN + self._slots * WIDTH + WIDTH if self._turn else False
        domain = dpi.Categories(*LISTS[self._turn % len(LISTS)])
        return stream(domain=domain, change=change, **self._options)(wrap)

    def look(self, rows: Rows) -> Law:
        """Return the law of the slot that is open, whatever was declared for the one after it."""
        now = BEGIN + self._slots * WIDTH + WIDTH / 2
        users, values = ([row[part] for row in rows] for part in (0, 1))
        self.stream.append(users, [now] * len(rows), values, now=now)
        if self._slots % 2:
            self._turn += 1
            self.stream = self._open()
        return super().look(rows)

    def _release(self) -> Release:
        (release,) = self.stream.close_before(self.stream.next_slot + 1)
        return release


UNIVERSE = dpi.Texts(1, characters="".join(VALUES))
"""So small that the law of all texts can be written down."""


def discovery_stream(mechanism: SparseHistogram | None = None, **options: object) -> MakeStream:
    """Return how to make a small stream of discovery."""
    chosen = SparseHistogram(most=len(VALUES)) if mechanism is None else mechanism
    return stream(domain=UNIVERSE, mechanism=chosen, engine=TextEngine(), **options)


def growing_session(mechanism: Discovering | None = None) -> Open:
    """Return how to open sessions of a stream whose domain grows."""
    chosen = Discovering(dpi.Boosted()) if mechanism is None else mechanism
    return stream_session(domain=dpi.domain.Discovered(UNIVERSE), mechanism=chosen)


def discovery_session(mechanism: SparseHistogram | None = None, **options: object) -> Open:
    """Return how to open sessions of discovery."""
    return lambda: StreamSession(discovery_stream(mechanism, **options))


POOL_SIZE = 1_000
FLOOR_BINS = 40


@dataclass(frozen=True)
class OneAgainstMany(Pool):
    """Synopsis 0 is `lone`; the others are `many`."""

    lone: tuple[int, ...]
    many: tuple[int, ...]
    size: int = POOL_SIZE
    seed: int = 0

    @property
    def precision(self) -> int:  # type: ignore[override]
        """Units of a synopsis."""
        return sum(self.lone)

    def _make(self, index: int, bins: int) -> Integers:
        return np.array(self.many if index else self.lone, dtype=np.int64)


def tight_published(bins: int, *, size: int = POOL_SIZE, accumulative: bool = False) -> Published:
    """No floor: with the user alone the slot is the first bin, without it is uniform; one query, so no share for it."""
    pool = OneAgainstMany((bins, *[0] * (bins - 1)), (1,) * bins, size)
    return Published(pool, queries=Ranges([0], [1], bins=bins), lam=0.1, mu=0.05, draws=1, accumulative=accumulative)


def tight_with_floor(n_min: int = 50) -> Published:
    """Return a case in which a user moves answers by 1/n_min.

    All synopses lie on the ramp's slope, the lone one on its other side.

    A uniform slot answers 1/40; the lone synopsis answers 2/40, the others 0, and the ramp falls from 0 to 2/40.
    """
    rest = [1] * (FLOOR_BINS - 2)
    pool = OneAgainstMany((2, 0, *rest), (0, 2, *rest))
    return Published(pool, queries=Ranges([0], [1], bins=FLOOR_BINS), lam=0, mu="0.05", draws=1, n_min=n_min)


def tight_questions(bins: int) -> Published:
    """Several queries: half of the budget buys them, and one user does not move all of them against each other."""
    return Published(OneAgainstMany((bins, *[0] * (bins - 1)), (1,) * bins), queries=points(bins), draws=1)


def bin_names(bins: int) -> Sequence[str]:
    """Return names of bins."""
    return tuple(f"v{i}" for i in range(bins))
