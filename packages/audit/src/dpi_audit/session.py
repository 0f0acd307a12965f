"""One run of a mechanism whose outputs are chosen by the auditor.

A session takes the rows of one step, tells the law of what it would let out, and is then forced to let out a given
output. Two sessions on neighbouring streams, forced to the same outputs, are one transcript seen from both sides.

`StreamSession` does that to a real `Stream`, through its public interface: a mechanism that stands before the
stream's own one looks at the histogram that compression, accounts and allocation have made of the rows, and gives up;
the stream, which has paid nothing, is then asked again, and gets the forced measurement. All that is private stays as
it would be.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from dpi.budget.classes import GroupBudget
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.budget.ledger import Ledger
from dpi.errors import StateError
from dpi.histogram.compression import Histogram, counts
from dpi.mechanism.base import Estimate, Measurement, Mechanism
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.store import Store, open_store
from dpi.store.sql import SQLStore
from dpi.stream import Stream
from dpi.testing.laws import Joint, Law, Point, law_of, law_of_groups
from dpi_audit.neighbours import Rows


class Session(Protocol):
    """One run, step by step."""

    def look(self, rows: Rows) -> Law:
        """Return the law of this step's output, given all outputs so far."""
        ...

    def force(self, output: object) -> object:
        """Let out this output; return what an analyst sees of the step besides."""
        ...

    @property
    def claimed(self) -> Fraction:
        """The loss that the mechanism admits to, so far."""
        ...


Wrap = Callable[[Mechanism[object]], Mechanism[object]]
MakeStream = Callable[[Wrap], Stream]
"""Makes a stream whose mechanism went through a function: `lambda wrap: Stream(mechanism=wrap(Boosted()), …)`."""


class _Looked(Exception):
    """The histogram was seen, and nothing was let out."""


class _Probe:
    """Stands before a mechanism: shows what it would look at, lets out what it is told to, and else is as that one."""

    _last: tuple[object, tuple[object, Estimate]] | None = None

    def __init__(self, inner: Mechanism[object]) -> None:
        self.inner = inner
        self.seen: Law | None = None
        self.forced: object = None

    def measure(
        self, state: object, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        self.seen = Joint((Point(("budget", epsilon.units)), law_of(self.inner, state, histogram, epsilon)))
        if self.forced is None:
            raise _Looked
        return Measurement(slot, epsilon, np.asarray(self.forced, dtype=np.int64))

    def measure_classes(
        self, state: object, histogram: Histogram, groups: tuple[GroupBudget, ...], slot: int, source: RandomSource
    ) -> Measurement:
        self.seen = Joint((Point(("budgets", groups)), law_of_groups(histogram, groups)))
        if self.forced is None:
            raise _Looked
        parts = [np.asarray(part, dtype=np.int64) for part in self.forced]  # type: ignore[attr-defined]
        return Measurement(slot, max(group.epsilon for group in groups), np.concatenate(parts), groups=groups)

    def update(self, state: object, measurement: Measurement) -> tuple[object, Estimate]:
        """Update as the mechanism behind: a pure function, so the two sides of a transcript share its result."""
        given = (self.inner, self.inner.to_bytes(state), measurement.slot, measurement.epsilon, measurement.partial)
        key = (*given, measurement.groups, measurement.values.tobytes())
        if _Probe._last is None or _Probe._last[0] != key:
            _Probe._last = key, self.inner.update(state, measurement)
        return _Probe._last[1]

    def __repr__(self) -> str:
        return repr(self.inner)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class StreamSession:
    """A stream under audit. With `restart_every`, it is saved, thrown away and loaded after every so many slots."""

    def __init__(self, make: MakeStream, *, restart_every: int | None = None) -> None:
        self._make, self._restart_every = make, restart_every
        self._probe: _Probe | None = None
        self._rows: Rows = ()
        self._slots = 0
        self.last: Release | None = None
        self.stream = self._open()

    def _open(self) -> Stream:
        return self._make(self._wrap)

    def _wrap(self, mechanism: Mechanism[object]) -> Mechanism[object]:
        self._probe = _Probe(mechanism)
        return cast("Mechanism[object]", self._probe)

    def look(self, rows: Rows) -> Law:
        """Return the law of the slot's measurement, together with the slot's budget, which is public."""
        assert self._probe is not None  # noqa: S101 - `make` has called `wrap`
        self._rows, self._probe.forced, self._probe.seen = rows, None, None
        with contextlib.suppress(_Looked):
            self._release()
        if self._probe.seen is None:
            raise StateError(
                "the stream released a slot without a look at its mechanism: give `make` a mechanism it wraps."
            )
        return self._probe.seen

    def force(self, output: object) -> str:
        """Return the release, as an analyst gets it."""
        assert self._probe is not None  # noqa: S101 - `look` has checked
        self._probe.forced = output[1] if isinstance(output, tuple) else output
        self.last = self._release()
        self._slots += 1
        if self._restart_every and self._slots % self._restart_every == 0:
            self.restart()
        return self.last.to_json()

    def attempt(self, users: object, values: object, **options: int) -> None:
        """Ask for a release without letting one out; raise what the stream refuses with, if it does."""
        assert self._probe is not None  # noqa: S101 - `make` has called `wrap`
        self._probe.forced = None
        with contextlib.suppress(_Looked):
            self.stream.release(users, values, **options)

    @property
    def rows(self) -> Rows:
        """The rows of the last step: private."""
        return self._rows

    def _release(self) -> Release:
        return self.stream.release([user for user, _ in self._rows], [value for _, value in self._rows])

    def restart(self) -> None:
        """Save, throw away, load."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            self.stream.save(path)
            self.stream = self._open()
            self.stream.load(path)

    @property
    def claimed(self) -> Fraction:
        """`epsilon_spent` of the last release; with epochs, ε for each one that was entered."""
        budget = self.stream.budget
        period = budget.period if isinstance(budget, Ledger) else None
        if period:
            return self.stream.epsilon.fraction * -(-self._slots // period)
        if self.last is None:
            return Fraction(0)
        return Fraction(int(str(self.last.certificate["epsilon_spent_units"])), UNITS)


class StoreFile:
    """A SQLite store in a folder of its own, which goes with its owner."""

    def __init__(self, owner: object) -> None:
        self.folder, self.opened = Path(tempfile.mkdtemp()), list[SQLStore]()
        weakref.finalize(owner, _remove, self.folder, self.opened)

    def open(self) -> SQLStore:
        """Open the store, perhaps once more."""
        self.opened.append(open_store(self.folder / "audited.db"))
        return self.opened[-1]


def _remove(folder: Path, opened: list[SQLStore]) -> None:
    while opened:
        opened.pop().close()
    shutil.rmtree(folder)


class StoredSession(StreamSession):
    """A stream in a store on disk of its own; a restart, which must not refill accounts, opens it anew."""

    def __init__(self, make_in: Callable[[Store], MakeStream], *, restart_every: int | None = None) -> None:
        self._file = file = StoreFile(self)
        super().__init__(lambda wrap: make_in(file.open())(wrap), restart_every=restart_every)

    def restart(self) -> None:
        """Close the store, throw the stream away, open both again."""
        self._file.opened.pop().close()
        self.stream = self._open()


class DeclaredCounts(StreamSession):
    """A stream of counts without ids: `per_user` is what one user adds to a slot at most, on the caller's word."""

    def __init__(self, make: MakeStream, values: Sequence[object], per_user: int) -> None:
        self._values, self._per_user = list(values), per_user
        super().__init__(make)

    def _release(self) -> Release:
        seen = [value for _, value in self._rows]
        totals = [sum(value == bin_ for value in seen) for bin_ in self._values]
        return self.stream.release_counts(counts(totals, per_user=self._per_user))


class SeveralStreams:
    """Streams that take turns: step i goes to stream i mod n. `claimed` is ε of the accounts they share."""

    session: type[StreamSession] = StreamSession
    """What each of them is to the audit."""

    def __init__(self, makes: Sequence[MakeStream], claimed: Fraction) -> None:
        self._sessions = [self.session(make) for make in makes]
        self._turn, self._claimed = 0, claimed

    def look(self, rows: Rows) -> Law:
        """Return the law of the stream whose turn it is."""
        return self._sessions[self._turn].look(rows)

    def force(self, output: object) -> object:
        """Return the release of the stream whose turn it is."""
        seen = self._sessions[self._turn].force(output)
        self._turn = (self._turn + 1) % len(self._sessions)
        return seen

    @property
    def claimed(self) -> Fraction:
        """ε, once for all streams."""
        return self._claimed
