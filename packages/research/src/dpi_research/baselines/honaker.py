"""Honaker's tree: all nodes of a dyadic tree are noisy, and a node is estimated from its whole subtree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss
from dpi_research.baselines.base import Facts, check_count
from dpi_research.baselines.concentrated import Concentrated

Noise = Callable[[Integers], Integers]


def node_share(height: int) -> float:
    """Variance of a node's estimate from its subtree, as a share of one noise's: 1/(2 - 2^-j) at height j.

    >>> [round(node_share(j), 4) for j in range(3)]
    [1.0, 0.6667, 0.5714]
    """
    return 1 / (2 - 2.0**-height)


class HonakerTrees:
    """One tree a bin; each counts its own slots, so that a bin can start afresh.

    A node of height j has a noisy sum y of its own and two children with estimates e_l, e_r of variance v_(j-1); the
    best combination is v_j·(y + (e_l + e_r)/(2·v_(j-1))), of variance v_j = 1/(2 - 2^-j) (in units of one noise's).
    """

    def __init__(self, levels: int, bins: int, noise: Noise) -> None:
        self._noise = noise
        self.slots: Integers = np.zeros(bins, dtype=np.int64)
        """How many slots each bin's tree has seen."""
        self._exact = np.zeros((levels, bins), dtype=np.int64)
        self._estimate = np.zeros((levels, bins))

    def add(self, grains: Integers, bins: Integers | None = None) -> None:
        """One more slot, for all bins or for those named (`grains` then has one entry for each of them)."""
        active = np.arange(self.slots.size) if bins is None else bins
        carry, below = grains.copy(), np.zeros(active.size)
        before = self.slots[active]
        self.slots[active] += 1
        for height in range(self._exact.shape[0]):
            noisy = self._noise(carry) / GRAINS
            estimate = noisy if height == 0 else node_share(height) * (noisy + below / (2 * node_share(height - 1)))
            closes = (before >> height) & 1 == 1
            stays = active[~closes]
            self._exact[height, stays], self._estimate[height, stays] = carry[~closes], estimate[~closes]
            active, before = active[closes], before[closes]
            carry = carry[closes] + self._exact[height, active]
            below = estimate[closes] + self._estimate[height, active]
            self._exact[height, active], self._estimate[height, active] = 0, 0.0
            if not active.size:
                break

    @property
    def prefix(self) -> Floats:
        """The estimated sum of each bin's slots so far, in records."""
        return np.asarray(self._estimate.sum(axis=0))

    def shares(self) -> Floats:
        """The variance of each prefix, as a share of one noise's."""
        return np.array([prefix_share(int(slots)) for slots in self.slots])

    def restart(self, bins: npt.NDArray[np.bool_]) -> None:
        """Forget what these bins have seen."""
        self.slots[bins] = 0
        self._exact[:, bins], self._estimate[:, bins] = 0, 0.0

    @property
    def size(self) -> int:
        """Numbers held."""
        return int(self._exact.size + self._estimate.size + self.slots.size)


def prefix_share(slots: int) -> float:
    """Variance of a prefix of so many slots, as a share of one noise's: one node for every set bit.

    >>> prefix_share(1), round(prefix_share(6), 4)
    (1.0, 1.2381)
    """
    return sum(node_share(j) for j in range(slots.bit_length()) if slots >> j & 1)


@dataclass(kw_only=True, eq=False)
class Honaker(Concentrated):
    """Prefix sums of up to `slots` slots from a tree with Gaussian noise at every node.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* a record is in at most one node
    of each of the H = ⌊log₂ T⌋ + 1 heights, and each node has exact discrete Gaussian noise of variance H/(2ρ).

    *A user* with a record in every slot moves the ⌊t/2^j⌋ nodes of height j by 2^j each.

    >>> counter = Honaker(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)]
    [2, 4, 6, 8]
    """

    facts: ClassVar[Facts] = Facts(
        source="Honaker 2015; Gaussian form as in Kairouz et al., ICML 2021",
        releases="prefix",
        unit="one record",
        horizon="T slots, declared",
        delta="declared (10^-6); ρ-zCDP, converted as Canonne, Kamath, Steinke 2020",
        memory="2H + 1 numbers a bin, H = ⌊log₂ T⌋ + 1",
        variance="(H/(2ρ))·Σ 1/(2 - 2^-j) over the set bits j of t",
        user_loss="ρ·c²·Σ_j 4^j·⌊t/2^j⌋/H zCDP, exact; pure: infinite",
        reconstructed="nothing",
    )

    slots: int

    def _start(self) -> None:
        check_count(self.slots, "slots")
        self.levels = self.slots.bit_length()
        self.noise_variance = self.levels / (2 * self.rho)
        """Of each node, in records²."""
        noise = partial(self._gaussian, variance=self.noise_variance)
        self._tree = HonakerTrees(self.levels, self.bins, noise)

    def _step(self, grains: Integers) -> Floats:
        self._tree.add(grains)
        return self._tree.prefix

    @property
    def horizon(self) -> int:
        """The declared number of slots."""
        return self.slots

    def loss(self, slots: int) -> Loss:
        """All finished nodes, each moved by its size."""
        moved = sum(4**j * (slots >> j) for j in range(self.levels))
        return Loss(rho=Fraction(moved) / (2 * self.noise_variance))

    def variance(self, slot: int) -> float:
        """One node for every set bit of the slot's number."""
        return float(self.noise_variance) * prefix_share(slot)

    @property
    def memory(self) -> int:
        """Two numbers a level and bin, and the bin's slots."""
        return self._tree.size
