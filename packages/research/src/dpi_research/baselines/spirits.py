"""Systems in the spirit of two published ones: CGM of Bao et al., and the user-level counter of Dong, Luo and Yi."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Baseline, Concentrated, check_count
from dpi_research.baselines.counters import Hybrid
from dpi_research.baselines.wrappers import Cap

STEPS = 256
"""The correlation is a multiple of 1/256, so that everything noised is a whole number of grains."""


@dataclass(frozen=True)
class Design:
    """Correlation a and variances s₁², s² of the innovations at ρ = 1/2, for d values in 0 … R with steps of at most C.

    Two series Δ apart lose Δ_1²/s₁² + Σ(Δ_i - a·Δ_(i-1))²/s² (twice ρ). |Δ_i| ≤ R and |Δ_i - Δ_(i-1)| ≤ 2·min(C, R), so
    a term is at most ((1 - a)·R + 2·a·min(C, R))².
    """

    correlation: Fraction
    first: float
    other: float
    mean_variance: float

    @classmethod
    def best(cls, largest: int, step: int, period: int) -> Design:
        """The one with the smallest mean variance over the period, of all a = 0, 1/256, …, 255/256.

        >>> best = Design.best(largest=1000, step=5, period=50)
        >>> best.correlation > Fraction(9, 10), best.mean_variance < Design.of(0, 1000, 5, 50).mean_variance / 5
        (True, True)
        """
        designs = (cls.of(numerator, largest, step, period) for numerator in range(STEPS))
        return min(designs, key=lambda design: design.mean_variance)

    @classmethod
    def of(cls, numerator: int, largest: int, step: int, period: int) -> Design:
        """The best split between the first slot and the others, for one correlation."""
        a = numerator / STEPS
        moved = (1 - a) * largest + 2 * a * min(step, largest)
        from_first, from_other, own = 0.0, 0.0, 0.0
        weight = 1.0
        for i in range(period):
            from_first += weight
            own = a * a * own + 1 if i else 0.0
            from_other += own
            weight *= a * a
        # Minimise s₁²·P + s²·Q with R²/s₁² + (d - 1)·D²/s² = 1: the shares are as the roots of the products.
        one, rest = largest * math.sqrt(from_first), moved * math.sqrt((period - 1) * from_other)
        share = one / (one + rest)
        first = largest**2 / share
        other = (period - 1) * moved**2 / (1 - share) if rest else 0.0
        return cls(Fraction(numerator, STEPS), first, other, (first * from_first + other * from_other) / period)


class CgmSpirit(Concentrated):
    """Counts of single slots, each bin a series in 0 … `largest` that changes by at most `step` a slot; more is cut.

    In the spirit of CGM, not the published algorithm: an autoregressive noise n_i = a·n_(i-1) + innovation, with a and
    the variances chosen for the smallest mean error over a period of `period` slots. After a period it starts afresh.

    **Guarantee.** ρ-zCDP, and (ε, δ)-DP by the stated conversion, for *all that one bin's series says in a period*.
    *Why:* what is released is a function of v_1 = x_1 and v_i = x_i - a·x_(i-1) with exact discrete Gaussian noise;
    `Design` bounds how far any two series of the class lie apart there. A smaller change loses less: a user with a
    record a slot moves the cut series by 0 to 1, so each v_i by at most 1.

    >>> mechanism = CgmSpirit(epsilon=1000, largest=2, step=1, period=2)
    >>> [round(float(mechanism.update(x)[0])) for x in (0, 2, 7)]
    [0, 1, 2]
    """

    held = ("_cut", "_released")

    largest: int = 1 << 16
    step: int = 1 << 10
    period: int = 20

    def _start(self) -> None:
        for name in ("largest", "step", "period"):
            check_count(getattr(self, name), name)
        self.design = Design.best(self.largest, self.step, self.period)
        up = Fraction(1 + 1e-9)
        self.first_variance = Fraction(self.design.first) * up / (2 * self.rho)
        self.other_variance = Fraction(max(self.design.other, 1e-6)) * up / (2 * self.rho)
        self._cut = np.zeros(self.bins, dtype=np.int64)
        self._released = np.zeros(self.bins)

    def _step(self, grains: Integers) -> Floats:
        counts = np.minimum(grains // GRAINS, self.largest)
        if (self.slot - 1) % self.period == 0:
            self._cut = counts
            self._released = self._gaussian(counts * GRAINS, self.first_variance) / GRAINS
            return self._released
        before, self._cut = self._cut, np.clip(counts, self._cut - self.step, self._cut + self.step)
        change = self._cut * GRAINS - before * int(self.design.correlation * GRAINS)
        noisy = self._gaussian(change, self.other_variance) / GRAINS
        self._released = float(self.design.correlation) * self._released + noisy
        return self._released

    def loss(self, slots: int) -> Loss:
        """All bins, since a user may move and the limit on steps keeps a record's trace; all periods."""
        full, rest = divmod(slots, self.period)
        return Loss(rho=self.bins * (full * self._period_loss(self.period) + self._period_loss(rest)))

    def _period_loss(self, slots: int) -> Fraction:
        """ρ of a user with one record a slot, for the first slots of a period."""
        if slots == 0:
            return Fraction(0)
        return min(self.rho, (1 / self.first_variance + (slots - 1) / self.other_variance) / 2)

    def variance(self, slot: int) -> float:
        """Around the cut series."""
        place = (slot - 1) % self.period
        square = float(self.design.correlation) ** 2
        rest = place if square == 1 else (1 - square**place) / (1 - square)
        return float(self.first_variance) * square**place + float(self.other_variance) * rest


LAST_LEVEL = 40
"""At a cap of 2^40 records nothing is dropped any more."""

SERIES = Fraction(6_079_271, 10**7)
"""6/π², rounded down: the levels' shares SERIES/(j + 1)² sum to less than 1."""


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

    protects_users: ClassVar[bool] = True
    held = ("_cap", "_above", "_counter", "_base", "_base_variance", "_noise")

    failure: float = 0.1

    def _start(self) -> None:
        check_between(self.failure, "failure")
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
        ids, bins = self._read_records(users, values)
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
