"""The square-root factorisation: prefix sums with correlated Gaussian noise, the smallest maximal error of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import LARGEST_COUNT, Facts, check_count
from dpi_research.baselines.concentrated import Concentrated

LONGEST = 1 << 16
"""Time and memory of a slot grow with the number of slots; at this length encoded counts still fit into 64 bits."""


@lru_cache(maxsize=8)
def coefficients(slots: int) -> Floats:
    """f_0 = 1, f_k = f_(k-1)·(2k - 1)/(2k): the power series of 1/√(1 - x), whose square is that of prefix sums.

    >>> coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1, slots)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@dataclass(kw_only=True, eq=False)
class SquareRoot(Concentrated):
    """Prefix sums of up to `slots` slots: A = C·C with C the square root of the prefix-sum matrix.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* what is released is a function
    of y = C′·x + z, where C′ is C in whole units of 2^-24, x the whole counts and z exact discrete Gaussian noise. One
    record moves y by a column of C′, of squared length S_T = Σ f_k² at most; the noise has the variance S_T/(2ρ). All
    of it is integer arithmetic; only the decoding, A·C′^-1·y, is in floating point.

    *A user* with a record in every slot moves y by C′·1: Σ_j (Σ_{k<j} f_k)² in place of S_T.

    >>> counter = SquareRoot(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)]
    [2, 4, 6, 8]
    >>> round(SquareRoot(epsilon=1, slots=50).energy, 6)
    2.309923
    """

    facts: ClassVar[Facts] = Facts(
        source="Fichtenberger, Henzinger, Upadhyay, ICML 2023",
        releases="prefix",
        unit="one record",
        horizon="T slots, declared",
        delta="declared (10^-6); ρ-zCDP, converted as Canonne, Kamath, Steinke 2020",
        memory="2t numbers a bin",
        variance="σ²·S_T·S_t, σ² = 1/(2ρ), S_n = Σ_{k<n} f_k²",
        user_loss="ρ·c²·Σ_{j≤t}(Σ_{k<j} f_k)²/S_T zCDP, exact; pure: infinite",
        reconstructed="coefficients in whole units of 2^-24, so that the guarantee does not rest on floating point",
    )

    slots: int

    def _start(self) -> None:
        check_count(self.slots, "slots")
        if self.slots > LONGEST:
            raise OptionError(f"`slots` must be at most {LONGEST}. Got {self.slots}.")
        self._encoder = np.rint(coefficients(self.slots) * GRAINS).astype(np.int64)
        squares = sum(int(c) ** 2 for c in self._encoder)
        self.noise_variance = Fraction(squares, GRAINS**2) / (2 * self.rho)
        """Of each z, in records²."""
        self.energy = squares / GRAINS**2
        """S_T: the squared length that one record can move y by."""
        self._counts = np.zeros((0, self.bins), dtype=np.int64)
        self._decoded = np.zeros((0, self.bins))

    def _step(self, grains: Integers) -> Floats:
        counts = np.minimum(grains // GRAINS, LARGEST_COUNT)
        self._counts = np.vstack([self._counts, counts])
        encoded = self._encoder[: self.slot][::-1] @ self._counts
        noisy = self._gaussian(encoded, self.noise_variance) / GRAINS
        past = (self._encoder[1 : self.slot] / GRAINS)[::-1] @ self._decoded
        self._decoded = np.vstack([self._decoded, noisy - past])
        return np.asarray(self._decoded.sum(axis=0))

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    def loss(self, slots: int) -> Loss:
        """What a record in every slot moves y by, exactly."""
        moved = np.cumsum(self._encoder[:slots])
        return Loss(rho=Fraction(sum(int(m) ** 2 for m in moved), GRAINS**2) / (2 * self.noise_variance))

    def variance(self, slot: int) -> float:
        """σ²·S_T·S_t."""
        return float(self.noise_variance) * float((coefficients(self.slots)[:slot] ** 2).sum())

    @property
    def memory(self) -> int:
        """The counts and the decoded estimates of all slots."""
        return int(self._counts.size + self._decoded.size)
