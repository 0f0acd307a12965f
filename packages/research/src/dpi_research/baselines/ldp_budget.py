"""LDP-IDS with the budget divided over slots: LBU, LSP, LBD, LBA. All users report."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Facts
from dpi_research.baselines.ldp_ids import Adaptive, LdpIds, facts
from dpi_research.baselines.window import Absorption, Distribution


@dataclass(kw_only=True, eq=False)
class LBU(LdpIds):
    """Budget uniform: everybody reports in every slot with ε/w.

    **Guarantee.** ε-LDP for any `window` slots of a user, the sum of w reports.

    >>> mechanism = LBU(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.user_epsilon(4)
    ([30, 60], 200.0)
    """

    facts: ClassVar[Facts] = facts("N²·Var(ε/w, N): the oracle's, on counts", "c·t·ε/w")

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


@dataclass(kw_only=True, eq=False)
class LSP(LdpIds):
    """Sampling: everybody reports in every w-th slot with ε; the release is repeated until the next.

    **Guarantee.** ε-LDP for any `window` slots of a user: one report.

    >>> mechanism = LSP(epsilon=50, bins=2, users=100, window=2)
    >>> [[round(x) for x in mechanism.update(c).tolist()] for c in ([30, 60], [1, 2], [1, 2])]
    [[30, 60], [30, 60], [1, 2]]
    """

    facts: ClassVar[Facts] = facts("N²·Var(ε, N) in slots 1, w + 1, …; repeated between")

    def _publish(self, held: Integers, rng: np.random.Generator) -> Floats | None:
        return self._ask(held, self.users, self.rate, rng) if (self.slot - 1) % self.window == 0 else None


@dataclass(kw_only=True, eq=False)
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


@dataclass(kw_only=True, eq=False)
class LBD(_AdaptiveBudget):
    """Budget distribution: a test with ε/(2w) in every slot; a publication takes half of what the window has left.

    **Guarantee.** ε-LDP for any `window` slots of a user: tests take ε/2, publications less than ε/2.

    >>> mechanism = LBD(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.spent
    ([30, 60], Fraction(1, 4))
    """

    division: ClassVar = Distribution
    facts: ClassVar[Facts] = facts(
        "N²·Var(e, N) in a slot that is published with budget e",
        "at most c·[t·ε/(2w) + min(t·ε/4, ⌈t/w⌉·ε/2)]",
        "1 number a bin, and w + 1",
    )


@dataclass(kw_only=True, eq=False)
class LBA(_AdaptiveBudget):
    """Budget absorption: a test with ε/(2w) in every slot; a publication takes the shares of skipped slots.

    **Guarantee.** ε-LDP for any `window` slots of a user: tests take ε/2, publications at most ε/2.

    >>> mechanism = LBA(epsilon=100, bins=2, users=100, window=2)
    >>> [round(x) for x in mechanism.update([30, 60]).tolist()], mechanism.spent
    ([30, 60], Fraction(1, 4))
    """

    division: ClassVar = Absorption
    facts: ClassVar[Facts] = facts(
        "N²·Var(e, N) in a slot that is published with budget e", "at most c·t·ε/w", "1 number a bin, and 3"
    )
