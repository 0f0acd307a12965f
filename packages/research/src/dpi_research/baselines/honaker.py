"""Honaker's tree, whose nodes are estimated from their whole subtrees, and DP-SQLP's key selection, which uses it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import Amount, rational
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS, Integers
from dpi_research.baselines.accounting import Floats, Loss, check_between
from dpi_research.baselines.base import Concentrated, check_count
from dpi_research.baselines.counters import Noise


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


class Honaker(Concentrated):
    """Prefix sums of up to `slots` slots from a tree with Gaussian noise at every node.

    **Guarantee.** ρ-zCDP for one record, and (ε, δ)-DP by the stated conversion. *Why:* a record is in at most one node
    of each of the H = ⌊log₂ T⌋ + 1 heights, and each node has exact discrete Gaussian noise of variance H/(2ρ).

    *A user* with a record in every slot moves the ⌊t/2^j⌋ nodes of height j by 2^j each.

    >>> counter = Honaker(epsilon=1000, slots=4)
    >>> [round(float(counter.update(2)[0])) for _ in range(4)]
    [2, 4, 6, 8]
    """

    held = ("_tree",)

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

    def loss(self, slots: int) -> Loss:
        """All finished nodes, each moved by its size."""
        moved = sum(4**j * (slots >> j) for j in range(self.levels))
        return Loss(rho=Fraction(moved) / (2 * self.noise_variance))

    def variance(self, slot: int) -> float:
        """One node for every set bit of the slot's number."""
        return float(self.noise_variance) * prefix_share(slot)


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

    held = ("_selection", "_values", "_waiting", "_released")

    slots: int
    share: Amount = Fraction(1, 2)
    failure: float | None = None
    least: float = 0.0

    def _start(self) -> None:
        check_count(self.slots, "slots")
        share = rational(self.share, "share")
        check_between(share, "share")
        published = self.own_delta / (math.exp(min(float(self.rate), 500.0)) + 1)
        failure = published if self.failure is None else self.failure
        if not 0 < failure < 1 or not self.least >= 0:
            raise OptionError("`failure` must be between 0 and 1, and `least` at least 0.")
        self.levels = self.slots.bit_length()
        self.selection_variance = self.levels / (2 * share * self.rho)
        self.value_variance = self.levels / (2 * (1 - share) * self.rho)
        self._quantile = -NormalDist().inv_cdf(max(failure, 1e-300))
        self._selection, self._values = (
            HonakerTrees(self.levels, self.bins, partial(self._gaussian, variance=variance))
            for variance in (self.selection_variance, self.value_variance)
        )
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

    def loss(self, slots: int) -> Loss:
        """The first tree as if never restarted; each level of the second moves by t in ℓ₁, so by at most t in ℓ₂."""
        first = sum(4**j * (slots >> j) for j in range(self.levels)) / (2 * self.selection_variance)
        second = slots**2 * min(self.levels, slots.bit_length()) / (2 * self.value_variance)
        return Loss(rho=first + second)
