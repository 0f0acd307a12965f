"""Buffered linear Toeplitz noise: nearly the square-root factorisation's error with a handful of numbers in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.blt_parameters import Buffers, rational_approximation
from dpi_research.baselines.concentrated import Concentrated

LONGEST = 10**7


@dataclass(kw_only=True, eq=False)
class BufferedToeplitz(Concentrated):
    """Prefix sums of up to `slots` slots; the noise of a slot is corrected by a few decaying sums of the noise so far.

    buffers: a number of buffers, set by the rational approximation; or `Buffers` of one's own.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* slot t releases x_t + ξ_t with
    ξ_t = z_t - [Σ w_i·s_i], z exact discrete Gaussian in grains, s_i decaying sums of past ξ and [ ] rounding to a
    grain. Given the releases, z = C·ξ + r with rounding errors |r| ≤ 1/2, so another x moves z by C·(x - x′) and at
    most one grain a slot: for one record by no more than √energy + √T·2^-24 in ℓ₂, to which the noise is set. That
    the s_i are held in floating point is not in this argument: there the guarantee is that of ideal arithmetic.

    >>> counter = BufferedToeplitz(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)], counter.memory
    ([2, 4, 6, 8], 6)
    """

    facts: ClassVar[Facts] = Facts(
        source="Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024; McMahan et al. 2024",
        releases="prefix",
        unit="one record",
        horizon="T slots, declared",
        delta="declared (10^-6); ρ-zCDP, converted as Canonne, Kamath, Steinke 2020",
        memory="d + 1 numbers a bin, d buffers (5)",
        variance="σ²·(Σ_{k<T} c_k²)·Σ_{k<t}(ĉ_0 + … + ĉ_k)², σ² = 1/(2ρ), ĉ the inverse's coefficients",
        user_loss="ρ·c²·Σ_{j≤t}(Σ_{k<j} c_k)²/Σ_{k<T} c_k² zCDP; pure: infinite",
        reconstructed="parameters by the rational approximation, not by optimisation; buffers in floating point",
    )

    slots: int
    buffers: int | Buffers = 5

    def _start(self) -> None:
        check_count(self.slots, "slots")
        if self.slots > LONGEST:
            raise OptionError(f"`slots` must be at most {LONGEST}. Got {self.slots}.")
        own = self.buffers
        self.matrix = own.check() if isinstance(own, Buffers) else rational_approximation(own, self.slots)
        moved = self._with_rounding(math.sqrt(self.matrix.energy(self.slots)), self.slots)
        self.noise_variance = moved**2 / (2 * self.rho)
        """Of each z, in records²."""
        self._weights, self._decays = np.array(self.matrix.weights), np.array(self.matrix.decays)[:, None]
        self._state = np.zeros((self._weights.size, self.bins))
        self._sum = np.zeros(self.bins)

    @staticmethod
    def _with_rounding(length: float, slots: int) -> Fraction:
        """A length in records with a grain a slot on top, and what floats may be off by; rounded up."""
        return Fraction(length * (1 + 1e-9) + math.sqrt(slots) / GRAINS)

    def _step(self, grains: Integers) -> Floats:
        correction = np.rint(self._weights @ self._state).astype(np.int64)
        released = self._gaussian(grains - correction, self.noise_variance)
        self._state = self._decays * self._state + (released - grains)
        self._sum = self._sum + released / GRAINS
        return self._sum

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    def loss(self, slots: int) -> Loss:
        """What a record in every slot moves z by: the coefficients are positive, so all of them add up."""
        if slots == 0:
            return Loss()
        moved = np.cumsum(self.matrix.coefficients(slots))
        length = self._with_rounding(float(np.linalg.norm(moved)), slots)
        return Loss(rho=length**2 / (2 * self.noise_variance))

    @cached_property
    def _decoder_energy(self) -> Floats:
        return self.matrix.decoder_energy(self.slots)

    def variance(self, slot: int) -> float:
        """That of z times the decoder's energy."""
        return float(self.noise_variance) * float(self._decoder_energy[slot - 1])

    @property
    def memory(self) -> int:
        """The buffers and the sum."""
        return int(self._state.size + self._sum.size)
