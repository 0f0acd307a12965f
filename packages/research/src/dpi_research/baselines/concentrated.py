"""What mechanisms with Gaussian noise have in common: a guarantee in ρ, and (ε, δ) made from it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpi.exact.integers import GRAINS, Integers
from dpi.noise import add_gaussian
from dpi.noise.laplace import LARGEST_VALUE
from dpi_research.baselines.accounting import check_delta
from dpi_research.baselines.base import Baseline
from dpi_research.baselines.zcdp import delta_of, epsilon_of, rho_of


@dataclass(kw_only=True, eq=False)
class Concentrated(Baseline):
    """A mechanism that is ρ-zCDP for one record, where ρ is the largest that keeps (ε, `own_delta`).

    c records of one user cost c²·ρ if they lie in one slot; `loss` says what a user in every slot loses. Without a δ
    the loss is infinite: Gaussian noise has no pure guarantee.
    """

    own_delta: float = 1e-6

    def __post_init__(self) -> None:
        check_delta(self.own_delta)
        self.rho = rho_of(self._rate(), self.own_delta)
        """The guarantee about one record, in zCDP."""
        super().__post_init__()

    @property
    def delta(self) -> float:
        """The declared δ of the conversion."""
        return self.own_delta

    def group_rate(self, epsilon: Fraction, cap: int) -> Fraction:
        """The ε of ρ/cap² at the declared δ, where ρ keeps (`epsilon`, δ): cap records cost at most cap²·ρ."""
        return Fraction(epsilon_of(float(rho_of(epsilon, self.own_delta) / cap**2), self.own_delta) * (1 - 1e-9))

    def group_delta(self, epsilon: Fraction, cap: int) -> float:
        """δ of cap²·ρ."""
        return delta_of(float(self.rho * cap**2), float(epsilon))

    def _gaussian(self, grains: Integers, variance: Fraction) -> Integers:
        """Grains with exact noise of this variance, in records²: the only way in which Gaussian noise is added.

        A move of the grains by s records in ℓ₂ costs ρ = s²/(2·variance).
        """
        cut = np.clip(grains, -LARGEST_VALUE, LARGEST_VALUE)
        return add_gaussian(cut, variance * GRAINS**2, self._source)
