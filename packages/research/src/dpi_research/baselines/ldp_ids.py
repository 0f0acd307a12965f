"""LDP-IDS of Ren et al.: histograms of a stream in the local model, ε for every window of w slots.

Seven methods: budgets are divided over slots (LBU, LSP, LBD, LBA), or users are (LPU, LPD, LPA). Reports are simulated
from the histogram of the users' values: their sum is drawn in one go, from a generator that the random source seeds; it
stands for the users' own randomness.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi.noise import RandomSource
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, check_count
from dpi_research.baselines.w_event import Absorption, Distribution, Division


def users_randomness(source: RandomSource) -> np.random.Generator:
    """A generator with 256 bits of the source as its seed."""
    return np.random.default_rng([int(word) for word in source.words(4)])


LARGEST = 500.0
"""More ε than this is not used: e^ε must stay a float."""


class Oracle:
    """Generalised randomised response (GRR) for few values, d < 3·e^ε + 2, and optimised unary encoding (OUE) for many.

    GRR reports the value itself with probability p = e^ε/(e^ε + d - 1), else another at random. OUE reports d bits:
    that of the value is 1 with probability 1/2, the others with q = 1/(e^ε + 1). Either is ε-LDP.

    >>> Oracle(4, 1.0).kind, Oracle(100, 1.0).kind
    ('GRR', 'OUE')
    """

    def __init__(self, size: int, epsilon: float) -> None:
        self.size, self.epsilon = size, min(epsilon, LARGEST)
        power = math.exp(self.epsilon)
        self.kind = "GRR" if size < 3 * power + 2 else "OUE"
        if self.kind == "GRR":
            self.p, self.q = power / (power + size - 1), 1 / (power + size - 1)
        else:
            self.p, self.q = 0.5, 1 / (power + 1)

    def estimate(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """Unbiased frequencies from one report of each user; counts are how many users hold each value."""
        users = int(counts.sum())
        if self.kind == "OUE":
            seen = rng.binomial(counts, self.p) + rng.binomial(users - counts, self.q)
        else:
            kept = rng.binomial(counts, self.p)
            seen = kept.copy()
            for value in np.flatnonzero(counts - kept):
                others = rng.multinomial(counts[value] - kept[value], np.full(self.size - 1, 1 / (self.size - 1)))
                seen += np.insert(others, value, 0)
        return np.asarray((seen / users - self.q) / (self.p - self.q))

    def variance(self, users: int, frequency: float) -> float:
        """Of one estimated frequency.

        GRR: (d - 2 + e^ε)/((e^ε - 1)²·n) + f·(d - 2)/((e^ε - 1)·n); OUE: 4·e^ε/((e^ε - 1)²·n) + f/n.
        """
        power, gain = math.exp(self.epsilon), math.expm1(self.epsilon)
        if self.kind == "GRR":
            return (self.size - 2 + power) / (gain**2 * users) + frequency * (self.size - 2) / (gain * users)
        return 4 * power / (gain**2 * users) + frequency / users

    def mean_variance(self, users: int) -> float:
        """The mean over all values; frequencies sum to 1, so it does not depend on them."""
        return self.variance(users, 1 / self.size)


LARGEST_POPULATION = 10**8


class LdpIds(Baseline):
    """Histograms of single slots, one value of each of `users` users in a slot.

    users: how many there are; those without a record hold the extra value "none". If a slot has more records than
    users, each user holds one of them, drawn at random. The collector sees reports only.
    """

    held: ClassVar[tuple[str, ...]] = ("_last",)
    divides_users: ClassVar[bool] = False
    """Whether a window divides the users among its slots."""

    users: int = 10_000
    window: int = 20

    def _start(self) -> None:
        check_count(self.users, "users", 2)
        if self.users > LARGEST_POPULATION:
            raise OptionError(f"`users` must be at most {LARGEST_POPULATION}. Got {self.users}.")
        check_count(self.window, "window")
        if self.divides_users and self.users < 2 * self.window:
            raise OptionError(f"`users` must be at least twice the window, {2 * self.window}. Got {self.users}.")
        self._last: Floats = np.zeros(self.bins + 1)
        self.published = 0
        """How many slots had a fresh release: public."""

    def _step(self, grains: Integers) -> Floats:
        rng = users_randomness(self._source)
        counts = grains // GRAINS
        if counts.sum() > self.users:
            counts = rng.multinomial(self.users, counts / counts.sum())
        held = np.append(counts, self.users - counts.sum())
        fresh = self._publish(held, rng)
        if fresh is not None:
            self._last = fresh
            self.published += 1
        return self._last[:-1] * self.users

    @abstractmethod
    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats | None:
        """Fresh frequencies, or None to repeat the last."""

    def _ask(self, held: Integers, users: int, epsilon: Fraction, rng: np.random.Generator) -> Floats:
        """Frequencies from the reports of some users, drawn at random, with this ε each."""
        asked = held if users == self.users else rng.multivariate_hypergeometric(held, users, method="marginals")
        return Oracle(self.bins + 1, float(epsilon)).estimate(asked, rng)

    def mean_variance(self, users: int, epsilon: Fraction) -> float:
        """Of a frequency from this many reports."""
        return Oracle(self.bins + 1, float(epsilon)).mean_variance(users)

    def _differs(self, seen: Floats, own_variance: float, fresh_variance: float) -> bool:
        """Whether the last release is further off, by an unbiased estimate, than a fresh one would be."""
        distance = float(np.mean((seen - self._last) ** 2)) - own_variance
        return self.slot == 1 or distance > fresh_variance

    def loss(self, slots: int) -> Loss:
        """ε in every window."""
        return Loss(pure=-(-slots // self.window) * self.rate)


class Adaptive(LdpIds):
    """Methods that first test whether to publish; half of a window's budget, or users, is for the tests."""

    held = ("_last", "spent", "_division")

    division: ClassVar[type[Division]]
    """How publications share the other half."""

    def _start(self) -> None:
        super()._start()
        self._division = self.division(self.window)
        self.spent = Fraction(0)
        """What the last slot's publication took of the account (1/2 a window): public."""

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats | None:
        offer = self._division.offer(self.slot, self.spent)
        self.spent = Fraction(0)
        fresh = self._try(held, offer, rng) if offer > 0 else None
        if fresh is not None:
            self.spent = offer
        return fresh

    @abstractmethod
    def _try(self, held: Integers, offer: Fraction, rng: np.random.Generator) -> Floats | None:
        """Test, and publish with the offered share if the test says so."""


class LBU(LdpIds):
    """Budget uniform: everybody reports in every slot with ε/w.

    **Guarantee.** ε-LDP for any `window` slots of a user, the sum of w reports.

    >>> mechanism = LBU(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.user_epsilon(4)
    ([30, 60], 200.0)
    """

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats:
        return self._ask(held, self.users, self.rate / self.window, rng)

    @property
    def record_share(self) -> Fraction:
        """One report."""
        return Fraction(1, self.window)

    def loss(self, slots: int) -> Loss:
        """One report a slot."""
        return Loss(pure=slots * self.rate / self.window)

    def variance(self, slot: int) -> float:
        """The mean over the bins and the extra value."""
        return self.users**2 * self.mean_variance(self.users, self.rate / self.window)


class LSP(LdpIds):
    """Sampling: everybody reports in every w-th slot with ε; the release is repeated until the next.

    **Guarantee.** ε-LDP for any `window` slots of a user: one report.

    >>> mechanism = LSP(epsilon=50, bins=2, users=100, window=2)
    >>> [[round(x) for x in mechanism.update(c).tolist()] for c in ([30, 60], [1, 2], [1, 2])]
    [[30, 60], [30, 60], [1, 2]]
    """

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats | None:
        return self._ask(held, self.users, self.rate, rng) if (self.slot - 1) % self.window == 0 else None


class _AdaptiveBudget(Adaptive):
    def _try(self, held: Integers, offer: Fraction, rng: np.random.Generator) -> Floats | None:
        test = self.rate / (2 * self.window)
        budget = offer * self.rate
        seen = self._ask(held, self.users, test, rng)
        if self._differs(seen, self.mean_variance(self.users, test), self.mean_variance(self.users, budget)):
            return self._ask(held, self.users, budget, rng)
        return None

    @property
    def record_share(self) -> Fraction:
        """One test, and the largest publication."""
        return Fraction(1, 2 * self.window) + self.division.largest

    def loss(self, slots: int) -> Loss:
        """Tests, and the most that publications can take."""
        return Loss(pure=(Fraction(slots, 2 * self.window) + self._division.most(slots)) * self.rate)


class LBD(_AdaptiveBudget):
    """Budget distribution: a test with ε/(2w) in every slot; a publication takes half of what the window has left.

    **Guarantee.** ε-LDP for any `window` slots of a user: tests take ε/2, publications less than ε/2.

    >>> mechanism = LBD(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.spent
    ([30, 60], Fraction(1, 4))
    """

    division: ClassVar = Distribution


class LBA(_AdaptiveBudget):
    """Budget absorption: a test with ε/(2w) in every slot; a publication takes the shares of skipped slots.

    **Guarantee.** ε-LDP for any `window` slots of a user: tests take ε/2, publications at most ε/2.

    >>> mechanism = LBA(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.spent
    ([30, 60], Fraction(1, 4))
    """

    division: ClassVar = Absorption


class LPU(LdpIds):
    """Population uniform: N/w fresh users report in every slot.

    **Guarantee.** ε-LDP for any `window` slots of a user: one report.

    >>> mechanism = LPU(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()]
    [100, 0]
    """

    divides_users = True

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats:
        return self._ask(held, self.users // self.window, self.rate, rng)


class _AdaptivePopulation(Adaptive):
    divides_users = True

    def _try(self, held: Integers, offer: Fraction, rng: np.random.Generator) -> Floats | None:
        testers, reporters = self.users // (2 * self.window), int(offer * self.users)
        if not reporters:
            return None
        seen = self._ask(held, testers, self.rate, rng)
        if self._differs(seen, self.mean_variance(testers, self.rate), self.mean_variance(reporters, self.rate)):
            return self._ask(held, reporters, self.rate, rng)
        return None


class LPD(_AdaptivePopulation):
    """Population distribution: N/(2w) users test; a publication asks half of those that the window has left of N/2.

    **Guarantee.** ε-LDP for any `window` slots of a user: nobody is asked twice in a window.

    >>> mechanism = LPD(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()], mechanism.spent
    ([100, 0], Fraction(1, 4))
    """

    division: ClassVar = Distribution


class LPA(_AdaptivePopulation):
    """Population absorption: N/(2w) users test, N/(2w) publish; a publication asks those of skipped slots too.

    **Guarantee.** ε-LDP for any `window` slots of a user: nobody is asked twice in a window.

    >>> mechanism = LPA(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()], mechanism.spent
    ([100, 0], Fraction(1, 4))
    """

    division: ClassVar = Absorption
