"""Accounts: one user with two of them, two ledgers, and ledgers that a restart or an old save refills."""

from __future__ import annotations

import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import dpi
from dpi.errors import StateError
from dpi.exact.integers import GRAINS
from dpi.testing.laws import Laplace, Law
from dpi_audit import neighbours
from dpi_audit.neighbours import Rows
from dpi_audit.session import SeveralStreams, StreamSession
from dpi_audit.small import EPSILON, SLOTS, VALUES, stream, stream_session
from dpi_audit.zoo.base import Pair, on, units

EVERY = neighbours.every_slot(SLOTS, VALUES)
RETURNING = neighbours.returning(SLOTS, VALUES)
TYPES = neighbours.types(SLOTS, VALUES)
COST = Fraction(1, 5)


class BrokenKeys:
    """A ledger whose accounts are kept by what an id looks like in Python: 7, "7" and 7.0 are three users."""

    def __init__(self) -> None:
        self._left: dict[str, Fraction] = defaultdict(lambda: EPSILON)

    def look(self, rows: Rows) -> Law:
        """Weights by what is left, one unit each."""
        keys = {repr(user) for user, _ in rows}
        self._weights = {key: min(Fraction(1), self._left[key] / COST) for key in keys}
        return Laplace(units(tuple((repr(user), value) for user, value in rows), self._weights), GRAINS / COST)

    def force(self, output: object) -> object:
        """Debit."""
        for key, weight in self._weights.items():
            self._left[key] -= weight * COST
        return None

    @property
    def claimed(self) -> Fraction:
        """ε for each account."""
        return EPSILON


class BrokenRestart(StreamSession):
    """A stream that starts anew after a restart: every account is full again."""

    def restart(self) -> None:
        """Throws everything away."""
        self.stream = self._open()

    @property
    def claimed(self) -> Fraction:
        """ε, for ever."""
        return EPSILON


class BrokenSave(StreamSession):
    """A stream that goes back to its first save again and again: what was spent since then is spent anew."""

    _saved: bytes | None = None

    def restart(self) -> None:
        """Save once; later, put the old save back."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            if self._saved is None:
                self.stream.save(path)
                self._saved = path.read_bytes()
            else:
                path.write_bytes(self._saved)
                self._put_back(path)

    def _put_back(self, path: Path) -> None:
        self.stream = self._open()
        self.stream.load(path)

    @property
    def claimed(self) -> Fraction:
        """ε, for ever."""
        return EPSILON


class CorrectSave(BrokenSave):
    """A stream that went on refuses its old save, and goes on."""

    def _put_back(self, path: Path) -> None:
        with contextlib.suppress(StateError):
            self.stream.load(path)


DEAR = stream(budget=dpi.Ledger(per_slot="0.2"))


def _two(shared: bool) -> Callable[[], SeveralStreams]:
    def open_both() -> SeveralStreams:
        store = dpi.MemoryStore() if shared else None
        budget = dpi.Ledger(per_slot="0.2")
        return SeveralStreams([stream(budget=budget, store=store, name=n) for n in ("visits", "orders")], EPSILON)

    return open_both


PAIRS = (
    Pair(
        "a ledger that keys one user twice",
        "an id has one canonical encoding",
        on(BrokenKeys, TYPES),
        on(stream_session(budget=dpi.Ledger(per_slot="0.2")), TYPES),
    ),
    Pair(
        "accounts refilled on restart",
        "accounts are state; deletion is a refill",
        on(lambda: BrokenRestart(DEAR, restart_every=8), EVERY),
        on(lambda: StreamSession(DEAR, restart_every=8), EVERY, RETURNING),
    ),
    Pair(
        "an old save restores spent budget",
        "a stream does not go back behind what it has released",
        on(lambda: BrokenSave(DEAR, restart_every=2), EVERY),
        on(lambda: CorrectSave(DEAR, restart_every=2), EVERY, RETURNING),
    ),
    Pair(
        "two streams with two silent ledgers",
        "ε is per store: streams share one ledger, or say that they do not",
        on(_two(shared=False), EVERY),
        on(_two(shared=True), EVERY),
    ),
)
