"""LDP-IDS of Ren et al.: histograms of a stream in the local model, ε for every window of w slots.

Seven methods: budgets are divided over slots (LBU, LSP, LBD, LBA), or users are (LPU, LPD, LPA).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Baseline, Facts, check_count
from dpi_research.baselines.oracle import Oracle, users_randomness
from dpi_research.baselines.window import Division

LARGEST_POPULATION = 10**8
RECONSTRUCTED = (
    "users without a record report an extra value; reports are simulated in floating point; the first slot is published"
)


def facts(
    variance: str,
    user_loss: str = "c·⌈t/w⌉·ε",
    memory: str = "1 number a bin",
    reconstructed: str = RECONSTRUCTED,
) -> Facts:
    """What is public about one of them."""
    return Facts(
        source="LDP-IDS: Ren, Shi, Yu, Yang, Zhao, Xu, SIGMOD 2022",
        releases="slot",
        unit="a window of w slots of a user, local model",
        horizon="for ever",
        delta="none",
        memory=memory,
        variance=variance,
        user_loss=user_loss,
        reconstructed=reconstructed,
    )


@dataclass(kw_only=True, eq=False)
class LdpIds(Baseline):
    """Histograms of single slots, one value of each of `users` users in a slot.

    users: how many there are; those without a record hold the extra value "none". If a slot has more records than
    users, each user holds one of them, drawn at random. The collector sees reports only.
    """

    users: int = 10_000
    window: int = 20

    def _start(self) -> None:
        check_count(self.users, "users", 2)
        if self.users > LARGEST_POPULATION:
            raise OptionError(f"`users` must be at most {LARGEST_POPULATION}. Got {self.users}.")
        check_count(self.window, "window")
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
        asked = held if users == self.users else _some(held, users, rng)
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

    @property
    def memory(self) -> int:
        """The last release."""
        return self.bins + 1


def _some(counts: Integers, users: int, rng: np.random.Generator) -> Integers:
    """The values of some of the users, drawn without replacement."""
    return np.asarray(rng.multivariate_hypergeometric(counts, users, method="marginals"))


@dataclass(kw_only=True, eq=False)
class Adaptive(LdpIds):
    """Methods that first test whether to publish; half of a window's budget, or users, is for the tests."""

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

    @property
    def memory(self) -> int:
        """The last release, what it took, and what the division holds."""
        return self.bins + 2 + self._division.memory


def check_population(users: int, window: int) -> None:
    """Refuse fewer users than the window divides."""
    if users < 2 * window:
        raise OptionError(f"`users` must be at least twice the window, {2 * window}. Got {users}.")
