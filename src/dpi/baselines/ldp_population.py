"""LDP-IDS with the users divided over slots: LPU, LPD, LPA. A user reports at most once in w slots, with all of ε.

A baseline sees no ids: the users asked in a slot are drawn at random among all, which has the law of a random division
of the users into groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.baselines.accounting import Floats
from dpi.baselines.base import Facts
from dpi.baselines.ldp_ids import RECONSTRUCTED, SOURCE, Adaptive, LdpIds, check_population
from dpi.baselines.window import Absorption, half_of_rest
from dpi.integers import Integers


def _facts(variance: str, memory: str = "1 number a bin") -> Facts:
    return Facts(
        source=SOURCE,
        releases="slot",
        unit="a window of w slots of a user, local model",
        horizon="for ever",
        delta="none",
        memory=memory,
        variance=variance,
        user_loss="c·⌈t/w⌉·ε",
        reconstructed=RECONSTRUCTED + "; the users asked are drawn at random, without memory of who was asked before",
    )


@dataclass(kw_only=True, eq=False)
class LPU(LdpIds):
    """Population uniform: N/w fresh users report in every slot.

    **Guarantee.** ε-LDP for any `window` slots of a user: one report.

    >>> mechanism = LPU(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()]
    [100, 0]
    """

    facts: ClassVar[Facts] = _facts("N²·Var(ε, N/w), and the sampling of users")

    def _start(self) -> None:
        super()._start()
        check_population(self.users, self.window)

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats:
        return self._ask(held, self.users // self.window, self.rate, rng)


@dataclass(kw_only=True, eq=False)
class _AdaptivePopulation(Adaptive):
    def _start(self) -> None:
        super()._start()
        check_population(self.users, self.window)

    def _try(self, held: Integers, offer: Fraction, rng: np.random.Generator) -> Floats | None:
        testers, reporters = self.users // (2 * self.window), int(offer * self.users)
        if not reporters:
            return None
        seen = self._ask(held, testers, self.rate, rng)
        if self._differs(seen, self.mean_variance(testers, self.rate), self.mean_variance(reporters, self.rate)):
            return self._ask(held, reporters, self.rate, rng)
        return None


@dataclass(kw_only=True, eq=False)
class LPD(_AdaptivePopulation):
    """Population distribution: N/(2w) users test; a publication asks half of those that the window has left of N/2.

    **Guarantee.** ε-LDP for any `window` slots of a user: nobody is asked twice in a window.

    >>> mechanism = LPD(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()], mechanism.spent
    ([100, 0], Fraction(1, 4))
    """

    facts: ClassVar[Facts] = _facts(
        "N²·Var(ε, n) in a slot that is published from n users", "1 number a bin, and w + 1"
    )

    def _offer(self) -> Fraction:
        return half_of_rest(self._recent)


@dataclass(kw_only=True, eq=False)
class LPA(_AdaptivePopulation):
    """Population absorption: N/(2w) users test, N/(2w) publish; a publication asks those of skipped slots too.

    **Guarantee.** ε-LDP for any `window` slots of a user: nobody is asked twice in a window.

    >>> mechanism = LPA(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()], mechanism.spent
    ([100, 0], Fraction(1, 4))
    """

    facts: ClassVar[Facts] = _facts(
        "N²·Var(ε, n) in a slot that is published from n users", "1 number a bin, and w + 1"
    )

    def _start(self) -> None:
        super()._start()
        self._absorption = Absorption(self.window)

    def _offer(self) -> Fraction:
        return self._absorption.offer(self.slot, self.spent)
