"""Counting at user level for ever with no bound declared in advance, in the spirit of Dong, Luo and Yi."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts
from dpi_research.baselines.hybrid import Hybrid
from dpi_research.baselines.user_level import Cap

LAST_LEVEL = 40
"""At a cap of 2^40 records nothing is dropped any more."""

SERIES = Fraction(6_079_271, 10**7)
"""6/π², rounded down: the levels' shares SERIES/(j + 1)² sum to less than 1."""


@dataclass(kw_only=True, eq=False)
class DongSpirit(Baseline):
    """Prefix sums for ever; the cap on a user's records doubles when enough users are found to have more.

    In the spirit of Dong, Luo and Yi, not the published algorithm. Level j = 0, 1, … has a share e_j of ε. Half of it
    is for a hybrid counter, started with the level, of the records that keep each user at 2^j records within the
    level; half for an above-threshold test of how many users have had more. Once that is above, the level's last
    count is kept and the next level begins.

    failure: the probability with which a level may end although nobody has more.

    **Guarantee.** ε-DP for *all records of a user, for ever*, through `observe`. *Why:* in level j a user moves the
    counter by at most 2^j records, e_j/2 by group privacy, and the number of users above the cap by at most 1, so the
    test (noise 4/e_j on the threshold, 8/e_j on the query) is e_j/2-DP. Levels sum to at most ε, though when they end
    depends on releases. Through `update`, without ids, every record is taken for a user of its own.

    >>> counter = DongSpirit(epsilon=1000, failure=1e-12)
    >>> [round(float(counter.observe(["ada", "bob"], [0, 0])[0])) for _ in range(2)], counter.level
    ([2, 2], 1)
    """

    facts: ClassVar[Facts] = Facts(
        source="in the spirit of Dong, Luo, Yi, S&P 2023",
        releases="prefix",
        unit="a user",
        horizon="for ever",
        delta="none",
        memory="1 number a user, and the hybrid counter's",
        variance="Σ over levels j of the hybrid counter's at e_j/2^(j+1)",
        user_loss="ε, whatever c and t",
        reconstructed="all but the goal: levels, shares, counter and test are our own",
    )
    protects_users: ClassVar[bool] = True

    failure: float = 0.1

    def _start(self) -> None:
        if not 0 < self.failure < 1:
            raise OptionError(f"`failure` must be between 0 and 1. Got {self.failure}.")
        self.level = -1
        """The current level: public."""
        self._base: Floats = np.zeros(self.bins)
        self._base_variance = 0.0
        self._next_level()

    def share(self, level: int) -> Fraction:
        """e_j = ε·(6/π²)/(j + 1)²."""
        return self.rate * SERIES / (level + 1) ** 2

    def _next_level(self) -> None:
        self.level += 1
        own = self.share(self.level)
        self._cap = Cap(1 << self.level)
        self._above: set[object] = set()
        self._counter = Hybrid(epsilon=own / (2 << self.level), bins=self.bins, unsafe_source=self._source)
        self._noise = int(self._laplace(np.zeros(1, dtype=np.int64), 4 / own)[0])

    def observe(self, users: npt.ArrayLike, values: npt.ArrayLike) -> Floats:
        """Close a slot from its records; the first 2^j of each user in a level count."""
        ids, bins = np.asarray(users), np.asarray(values, dtype=np.int64)
        if ids.shape != bins.shape:
            raise OptionError("`users` and `values` must be as long as each other, one of each for a record.")
        inside = (bins >= 0) & (bins < self.bins)
        ids, bins = ids[inside], bins[inside]
        kept = self._cap.passes(ids)
        self._above.update(ids[~kept].tolist())
        return self.update(np.bincount(bins[kept], minlength=self.bins))

    def _step(self, grains: Integers) -> Floats:
        release = self._base + self._counter.advance(grains)
        if self.level < LAST_LEVEL and self._enough():
            self._base = release
            self._base_variance += self._counter.variance(self._counter.slot)
            self._next_level()
        return release

    def _enough(self) -> bool:
        """Whether the noisy number of users above the cap passes the noisy threshold (16/e_j)·ln(2t²/β)."""
        own = self.share(self.level)
        threshold = 16 / float(own) * math.log(2 * self._counter.slot**2 / self.failure)
        noisy = self._laplace(np.array([len(self._above) * GRAINS]), 8 / own)
        return int(noisy[0]) > self._noise + threshold * GRAINS

    def loss(self, slots: int) -> Loss:
        """The levels that can have begun."""
        return Loss(pure=sum((self.share(j) for j in range(min(slots, LAST_LEVEL + 1))), Fraction(0)))

    def _user_epsilon(self, slots: int, records: Fraction, delta: float | None) -> float:
        return self.loss(slots).epsilon()

    def variance(self, slot: int) -> float | None:
        """Around the sum of what the caps let pass; known for the current slot, as levels are public by then."""
        if slot != self.slot or slot == 0 or self._counter.slot == 0:
            return self._base_variance if slot == self.slot and self._base_variance else None
        return self._base_variance + self._counter.variance(self._counter.slot)

    @property
    def memory(self) -> int:
        """Users of this level, those above the cap, and the counter."""
        return len(self._cap) + len(self._above) + self._counter.memory + self.bins + 2
