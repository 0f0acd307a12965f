"""LDP-IDS with the users divided over slots: LPU, LPD, LPA. A user reports at most once in w slots, with all of ε.

A baseline sees no ids: the users asked in a slot are drawn at random among all, which has the law of a random division
of the users into groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats
from dpi_research.baselines.base import Facts
from dpi_research.baselines.ldp_ids import RECONSTRUCTED, Adaptive, LdpIds, check_population, facts
from dpi_research.baselines.window import Absorption, Distribution

_RECONSTRUCTED = RECONSTRUCTED + "; the users asked are drawn at random, without memory of who was asked before"


@dataclass(kw_only=True, eq=False)
class LPU(LdpIds):
    """Population uniform: N/w fresh users report in every slot.

    **Guarantee.** ε-LDP for any `window` slots of a user: one report.

    >>> mechanism = LPU(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()]
    [100, 0]
    """

    facts: ClassVar[Facts] = facts("N²·Var(ε, N/w), and the sampling of users", reconstructed=_RECONSTRUCTED)

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

    division: ClassVar = Distribution
    facts: ClassVar[Facts] = facts(
        "N²·Var(ε, n) in a slot that is published from n users",
        memory="1 number a bin, and w + 1",
        reconstructed=_RECONSTRUCTED,
    )


@dataclass(kw_only=True, eq=False)
class LPA(_AdaptivePopulation):
    """Population absorption: N/(2w) users test, N/(2w) publish; a publication asks those of skipped slots too.

    **Guarantee.** ε-LDP for any `window` slots of a user: nobody is asked twice in a window.

    >>> mechanism = LPA(epsilon=50, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([100, 0]).tolist()], mechanism.spent
    ([100, 0], Fraction(1, 4))
    """

    division: ClassVar = Absorption
    facts: ClassVar[Facts] = facts(
        "N²·Var(ε, n) in a slot that is published from n users",
        memory="1 number a bin, and 3",
        reconstructed=_RECONSTRUCTED,
    )
