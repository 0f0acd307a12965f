"""Any baseline, made to protect a user for ever: a cap on what one user can ever add."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.restarted import Restarted

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
    """A mechanism behind a cap; made by `user_level`.

    **Guarantee.** ε-DP for all records of one user, for ever; a mechanism with a horizon is started again when it is
    over (`Restarted`). *Why:* at most `cap` records of a user pass, over all time, and no other user's records change
    with them. Removing them one by one takes `cap` steps between streams that differ in one record each, at a cost of
    ε/cap apiece (group privacy). A mechanism with a δ of its own keeps `group_delta`. For counters nothing can be
    saved: a user may spend all in one slot. A mechanism whose ε is for a window or a series gets a larger one, so
    that one record costs ε/cap there too; one with Gaussian noise has ρ/cap² for a record, where ρ keeps (ε, δ).
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


def user_level(mechanism: Baseline, epsilon: Amount, cap: int) -> UserLevel:
    """The mechanism with its options, but with ε for all records of a user, of which at most `cap` ever count.

    >>> from dpi_research.baselines.hybrid import Hybrid
    >>> capped = user_level(Hybrid(epsilon=1, bins=2), epsilon=1, cap=4)
    >>> _ = capped.update(users=["ada", "ada", "bob"], values=[0, 1, 1])
    >>> capped.guarantee, capped.user_epsilon(10**6)
    ('ε = 1 per user for ever; at most 4 records of a user count.', 1.0)
    """
    return UserLevel(mechanism, epsilon, cap)
