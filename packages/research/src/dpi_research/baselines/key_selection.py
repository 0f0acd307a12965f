"""DP-SQLP's key selection: a bin is released when its noisy number of new records passes a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.concentrated import Concentrated
from dpi_research.baselines.honaker import HonakerTrees


@dataclass(kw_only=True, eq=False)
class KeySelection(Concentrated):
    """Prefix sums of up to `slots` triggers (slots), of the bins ("keys") that are worth a release.

    share: the part of ρ that selection gets; the values have the rest.
    failure: β, the probability that a bin without new records is selected at a given trigger; None is the published
    δ/(e^ε + 1) with the mechanism's own δ.
    least: μ, how many new records a bin should have at least.

    Every bin has two Honaker trees. One counts records since the bin's last release; when its estimate reaches
    μ + Φ^-1(1 - β)·sd, everything unreleased goes to the bin's second tree, whose prefix is published, and the first
    tree starts afresh. Until then the bin's last release is repeated (0 at first).

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* a record is counted in one
    life of its bin's first tree, in at most H = ⌊log₂ T⌋ + 1 nodes, and then, once, in H nodes of the second; what is
    selected is a function of noisy numbers. The bins are public here and all have trees, so the threshold keeps noise
    out of the releases but is not needed for privacy; where keys are private, β makes them cost a further δ.

    >>> counter = KeySelection(epsilon=1000, bins=2, slots=4, least=5)
    >>> [[round(x) for x in counter.update([4, 0]).tolist()] for _ in range(4)]
    [[0, 0], [8, 0], [8, 0], [16, 0]]
    """

    facts: ClassVar[Facts] = Facts(
        source="DP-SQLP: Zhang et al., PVLDB 2024",
        releases="prefix",
        unit="one record (a user's, behind a cap)",
        horizon="T slots, declared",
        delta="declared (10^-6); ρ-zCDP, converted as Canonne, Kamath, Steinke 2020",
        memory="4H + 4 numbers a bin, H = ⌊log₂ T⌋ + 1",
        variance="after n releases of a bin: (H/(2ρ_h))·Σ 1/(2 - 2^-j) over the set bits j of n",
        user_loss="at most c²·(ρ_k·Σ_j 4^j·⌊t/2^j⌋ + ρ_h·t²·(⌊log₂ t⌋ + 1))/H zCDP; pure: infinite",
        reconstructed="a baseline sees no ids, so new records stand for new users; bins are public; noise of empty "
        "keys is drawn at every trigger, not foreseen (same law)",
    )

    slots: int
    share: Amount = Fraction(1, 2)
    failure: float | None = None
    least: float = 0.0

    def _start(self) -> None:
        check_count(self.slots, "slots")
        share = rational(self.share, "share")
        if not 0 < share < 1:
            raise OptionError(f"`share` must be between 0 and 1. Got {self.share}.")
        failure = (
            self.own_delta / (math.exp(min(float(self.rate), 500.0)) + 1) if self.failure is None else self.failure
        )
        if not 0 < failure < 1 or not self.least >= 0:
            raise OptionError("`failure` must be between 0 and 1, and `least` at least 0.")
        self.levels = self.slots.bit_length()
        self.selection_variance = self.levels / (2 * share * self.rho)
        self.value_variance = self.levels / (2 * (1 - share) * self.rho)
        self._quantile = -NormalDist().inv_cdf(max(failure, 1e-300))
        self._selection = HonakerTrees(
            self.levels, self.bins, partial(self._gaussian, variance=self.selection_variance)
        )
        self._values = HonakerTrees(self.levels, self.bins, partial(self._gaussian, variance=self.value_variance))
        self._waiting = np.zeros(self.bins, dtype=np.int64)
        self._released = np.zeros(self.bins)

    def _step(self, grains: Integers) -> Floats:
        self._waiting = self._waiting + grains
        self._selection.add(grains)
        deviation = np.sqrt(float(self.selection_variance) * self._selection.shares())
        selected = self._selection.prefix >= self.least + self._quantile * deviation
        chosen = np.flatnonzero(selected)
        if chosen.size:
            self._values.add(self._waiting[chosen], chosen)
            self._released = np.where(selected, self._values.prefix, self._released)
            self._waiting[chosen] = 0
            self._selection.restart(selected)
        return self._released

    @property
    def releases(self) -> Integers:
        """How many times each bin was released: public."""
        return self._values.slots.copy()

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    def loss(self, slots: int) -> Loss:
        """The first tree as if never restarted; each level of the second moves by t in ℓ₁, so by at most t in ℓ₂."""
        first = sum(4**j * (slots >> j) for j in range(self.levels)) / (2 * self.selection_variance)
        second = slots**2 * min(self.levels, slots.bit_length()) / (2 * self.value_variance)
        return Loss(rho=first + second)

    @property
    def memory(self) -> int:
        """Both trees, what waits, and the last releases."""
        return self._selection.size + self._values.size + 2 * self.bins
