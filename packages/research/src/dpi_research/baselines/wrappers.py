"""Mechanisms around a mechanism: one copy in every bin, started again when it is over, or with a cap on each user."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, check_count


class Wrapper(Baseline):
    """Runs copies of a mechanism, with this ε in place of the mechanism's own."""

    mechanism: Baseline

    def _copy(self) -> Baseline:
        """The mechanism before its first slot."""
        source = self._source if self.unsafe_source is not None else self.mechanism.unsafe_source
        return replace(self.mechanism, epsilon=self.rate, unsafe_source=source)

    @property
    def warm_up(self) -> int:
        """That of the mechanism."""
        return self.mechanism.warm_up

    @property
    def record_share(self) -> Fraction:
        """That of the mechanism."""
        return self.mechanism.record_share

    @property
    def delta(self) -> float:
        """That of the mechanism."""
        return self.mechanism.delta

    def group_rate(self, epsilon: Fraction, cap: int) -> Fraction:
        """That of the mechanism."""
        return self.mechanism.group_rate(epsilon, cap)


class PerBin(Wrapper):
    """One copy of a mechanism in each bin.

    **Guarantee.** That of the mechanism: one record is in one bin, so copies in other bins do not see it. A user with
    c records in a slot moves at most c bins, so the user's loss is bounded by that of c records in one bin.

    >>> from dpi_research.baselines.counters import Hybrid
    >>> mechanism = PerBin(epsilon=1000, bins=3, mechanism=Hybrid(epsilon=1))
    >>> [round(x) for x in mechanism.update([4, 0, 2]).tolist()]
    [4, 0, 2]
    """

    held = ("copies",)

    def _start(self) -> None:
        if self.mechanism.bins != 1:
            raise OptionError(f"`mechanism` must have one bin. Got {self.mechanism.bins}.")
        self.facts = self.mechanism.facts  # type: ignore[misc]
        self.copies = [self._copy() for _ in range(self.bins)]

    def _step(self, grains: Integers) -> Floats:
        return np.concatenate([copy.advance(grains[i : i + 1]) for i, copy in enumerate(self.copies)])

    @property
    def horizon(self) -> int | None:
        """That of the mechanism."""
        return self.mechanism.horizon

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """That of the mechanism."""
        return self.copies[0].group_delta(epsilon, cap)

    def loss(self, slots: int) -> Loss:
        """That of one copy."""
        return self.copies[0].loss(slots)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        return self.copies[0]._user_epsilon(slots, records, delta)

    def variance(self, slot: int) -> float | None:
        """The mean over the bins, where it is known."""
        known = [v for copy in self.copies if (v := copy.variance(slot)) is not None]
        return float(np.mean(known)) if len(known) == self.bins else None


class Restarted(Wrapper):
    """Epochs of a mechanism with a horizon, one after the other; prefix sums go on from the last release of an epoch.

    **Guarantee.** That of the mechanism for one record: a record is in one epoch, and epochs share no state but
    releases. What a later epoch does not release while it learns a threshold is missing from the sum.

    >>> from dpi_research.baselines.counters import Binary
    >>> counter = Restarted(epsilon=1000, mechanism=Binary(epsilon=1, slots=3))
    >>> [round(float(counter.update(1)[0])) for _ in range(7)], counter.horizon
    ([1, 2, 3, 4, 5, 6, 7], None)
    """

    held = ("_epoch", "_base", "_last")

    def _start(self) -> None:
        if self.mechanism.horizon is None:
            raise OptionError("`mechanism` has no horizon: it runs for ever by itself.")
        if self.mechanism.bins != self.bins:
            raise OptionError(f"`bins` must be that of the mechanism, {self.mechanism.bins}.")
        self.facts = replace(self.mechanism.facts, horizon="for ever, in epochs")  # type: ignore[misc]
        self._length: int = self.mechanism.horizon
        self._base: Floats = np.zeros(self.bins)
        self._last: Floats = np.zeros(self.bins)
        self._epoch = self._copy()

    def _step(self, grains: Integers) -> Floats:
        if self._epoch.slot == self._length:
            self._epoch = self._copy()
            self._base = self._last
        release = self._epoch.advance(grains)
        if self.facts.releases == "slot":
            return release
        if self.slot > self.warm_up:
            release = self._base + np.nan_to_num(release, nan=0.0)
            self._last = release
        return release

    def _epochs(self, slots: int) -> list[int]:
        """How many slots of each epoch are over."""
        full, rest = divmod(slots, self._length)
        return [self._length] * full + [rest] * (rest > 0)

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """That of the mechanism."""
        return self._epoch.group_delta(epsilon, cap)

    def loss(self, slots: int) -> Loss:
        """The sum over the epochs."""
        full, rest = divmod(slots, self._length)
        return self._epoch.loss(self._length).times(full) + self._epoch.loss(rest)

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        parts = self._epochs(slots)
        if self.delta == 0:
            return self.loss(slots).scaled(records).epsilon(delta)
        share = None if delta is None else delta / max(1, len(parts))
        return sum(self._epoch._user_epsilon(part, records, share) for part in parts)

    def variance(self, slot: int) -> float | None:
        """The sum over the epochs of prefixes; that of the slot for single slots."""
        parts = self._epochs(slot) if self.facts.releases == "prefix" else [(slot - 1) % self._length + 1]
        known = [v for part in parts if (v := self._epoch.variance(part)) is not None]
        return sum(known) if len(known) == len(parts) else None


Kept = npt.NDArray[np.bool_]


class Cap:
    """Lets the first `most` records of every user pass, over all time. Sees users and no randomness.

    Which records pass depends on a user's own records and their order alone, so nobody else's record enters.

    >>> cap = Cap(2)
    >>> cap.passes([7, 7, 8, 7]).tolist(), cap.passes([8, 8]).tolist()
    ([True, True, True, False], [True, False])
    """

    def __init__(self, most: int) -> None:
        check_count(most, "cap")
        self.most = most
        self._used: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """How many users were seen."""
        return len(self._used)

    def passes(self, users: npt.ArrayLike) -> Kept:
        """Which of a slot's records count."""
        ids = np.asarray(users)
        if ids.dtype.kind == "O":
            ids = ids.astype(str)
        if ids.ndim != 1:
            raise OptionError("`users` must be a vector of ids, one for each record.")
        different, place = np.unique(ids, return_inverse=True)
        names = different.tolist()
        used = np.array([self._used.get(name, 0) for name in names], dtype=np.int64)
        kept = used[place] + _ordinals(place) < self.most
        used += np.bincount(place[kept], minlength=different.size)
        self._used.update(zip(names, used.tolist(), strict=True))
        return np.asarray(kept)


def _ordinals(place: Integers) -> Integers:
    """How many records of the same user come before each record."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    first = np.searchsorted(ordered, ordered, side="left")
    ordinals = np.empty(place.size, dtype=np.int64)
    ordinals[order] = np.arange(place.size) - first
    return ordinals


class UserLevel:
    """A mechanism with its options, but with ε for all records of a user, of which at most `cap` ever count.

    **Guarantee.** ε-DP for all records of one user, for ever; a mechanism with a horizon is started again when it is
    over (`Restarted`). *Why:* at most `cap` records of a user pass, over all time, and no other user's records change
    with them. Removing them one by one takes `cap` steps between streams that differ in one record each, at a cost of
    ε/cap apiece (group privacy). A mechanism with a δ of its own keeps `group_delta`. For counters nothing can be
    saved: a user may spend all in one slot. A mechanism whose ε is for a window or a series gets a larger one, so
    that one record costs ε/cap there too; one with Gaussian noise has ρ/cap² for a record, where ρ keeps (ε, δ).

    >>> from dpi_research.baselines.counters import Hybrid
    >>> capped = user_level(Hybrid(epsilon=1, bins=2), epsilon=1, cap=4)
    >>> _ = capped.update(users=["ada", "ada", "bob"], values=[0, 1, 1])
    >>> capped.guarantee, capped.user_epsilon(10**6)
    ('ε = 1 per user for ever; at most 4 records of a user count.', 1.0)
    """

    def __init__(self, mechanism: Baseline, epsilon: Amount, cap: int) -> None:
        self.epsilon = rational(epsilon)
        self._cap = Cap(cap)
        share = mechanism.group_rate(self.epsilon, cap)
        if mechanism.horizon is None:
            self.mechanism: Baseline = replace(mechanism, epsilon=share)
        else:
            source = mechanism.unsafe_source
            self.mechanism = Restarted(epsilon=share, bins=mechanism.bins, mechanism=mechanism, unsafe_source=source)

    def __repr__(self) -> str:
        return f"UserLevel({self.mechanism!r}, epsilon={float(self.epsilon):g}, cap={self.cap})"

    @property
    def cap(self) -> int:
        """How many records of a user count, over all time."""
        return self._cap.most

    @property
    def delta(self) -> float:
        """δ of the user-level guarantee."""
        return self.mechanism.group_delta(self.epsilon, self.cap)

    @property
    def guarantee(self) -> str:
        """What is promised, in words."""
        delta = f", δ = {self.delta:.2g}" if self.delta else ""
        return f"ε = {float(self.epsilon):g}{delta} per user for ever; at most {self.cap} records of a user count."

    def update(self, users: npt.ArrayLike, values: npt.ArrayLike) -> Floats:
        """Close a slot: one record for each user and value, values being bins 0, 1, …; others are dropped."""
        bins = np.asarray(values, dtype=np.int64)
        inside = (bins >= 0) & (bins < self.mechanism.bins)
        bins = bins[inside]
        kept = bins[self._cap.passes(np.asarray(users)[inside])]
        return self.mechanism.update(np.bincount(kept, minlength=self.mechanism.bins))

    def user_epsilon(self, slots: int, records: Amount = 1, delta: float | None = None) -> float:
        """At most ε, however many slots and records; less while a user cannot have lost as much."""
        return min(float(self.epsilon), self.mechanism.user_epsilon(slots, records, delta))


user_level = UserLevel
