"""A tree of noisy sums over all slots, whose noise hardly grows with the number of slots.

Level 0 has a node for each slot, level 1 for each run of `arity` slots, level 2 for each `arity`² … Every slot is in
one node of each level. The sum of all slots so far is the sum of a few finished nodes: those of the highest level, and
at each lower one those since the last node above was finished. Flat sums of T slots hold the noise of T draws; this one
that of at most (arity - 1)·(levels - 1) draws and those of the highest level, each `levels` times as wide.

**Formal guarantee.** All finished nodes together, for ever, lose at most Σ_t w_t·ε about a user whose weight in slot t
is w_t, with ε the tree's `per_slot`.

*Why.* A user moves slot t by at most w_t·G grains in ℓ₁, and with it one node of each level, so all nodes together by
at most levels·Σ_t w_t·G. Every node has independent discrete Laplace noise of scale levels·G/ε. Fix a transcript: given
it, all inputs are the same functions with and without the user (`docs/privacy.md`, composition), so its likelihoods
differ by at most exp(levels·Σ_t w_t·G / (levels·G/ε)) = exp(Σ_t w_t·ε).

A node's noise is drawn before its first slot and the counts are added to it, so that no clean sum is ever kept. Open
nodes are still private: whoever reads one twice sees what was added in between.

Sees histograms and randomness; no user.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from dpi.budget.epsilon import AS_AMOUNT, Amount, Epsilon
from dpi.domain.overlap import Overlap
from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import Histogram
from dpi.mechanism.base import Floats
from dpi.noise import RandomSource, add_laplace
from dpi.noise.laplace import LARGEST_VALUE, SATURATION
from dpi.options import Option

_CEILING = SATURATION - LARGEST_VALUE


@dataclass(frozen=True)
class PrefixTree(Option):
    """Options of the tree: the part of each slot's budget that it takes, and its shape.

    The default shape suits 10,000 slots; below 1,000 a tree is no better than the slots' own counts. A slot whose
    budget is below `per_slot` is not added.

    >>> PrefixTree(per_slot=0.025).levels
    3
    """

    per_slot: Amount
    arity: int = 22
    levels: int = 3

    kind = "prefix_tree"
    codecs = MappingProxyType({"per_slot": AS_AMOUNT})

    def __post_init__(self) -> None:
        Epsilon.at_most(self.per_slot, "per_slot")  # refuses what is no amount
        for name, smallest, largest in (("arity", 2, 1000), ("levels", 1, 10)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
                raise OptionError(f"`{name}` must be a whole number from {smallest} to {largest}. Got {value!r}.")
        if self.arity ** (self.levels - 1) > 1 << 20:
            raise OptionError("`arity` and `levels` must be such that a node holds at most 2^20 slots.")

    @property
    def epsilon(self) -> Epsilon:
        """The tree's budget in a slot."""
        return Epsilon.at_most(self.per_slot)

    def planted(self, bins: int, source: RandomSource) -> PrefixSums:
        """Return the tree before the first slot, with the noise of the first node of every level above the lowest."""
        fresh = [self.noisy(np.zeros(bins, dtype=np.int64), source) for _ in range(1, self.levels)]
        opened = np.array(fresh, dtype=np.int64).reshape(self.levels - 1, bins)
        return PrefixSums(self, opened, np.zeros((self.levels, bins)), (0,) * self.levels)

    def noisy(self, grains: Integers, source: RandomSource) -> Integers:
        """Return grains with the noise of one node: scale levels·G/ε."""
        return add_laplace(grains, self.levels * self.epsilon.scale, source)


@dataclass(frozen=True, eq=False)
class PrefixSums:
    """The tree after some slots."""

    tree: PrefixTree
    opened: Integers
    """Noise plus grains so far of the unfinished node of each level from 1 on: private."""
    done: Floats
    """Sums, in users, of the finished nodes of each level since the last one above was finished: public."""
    finished: tuple[int, ...]
    """How many nodes are in each of these sums."""

    def added(self, histogram: Histogram, source: RandomSource) -> PrefixSums:
        """Add one more slot.

        Noise beyond 2^61 grains arrives saturated, so a finished node is cut a little below: with at most 2^60 grains
        in a node, the cut of the saturated sum is the cut of the true one, a function of noise plus grains.
        """
        if histogram.sensitivity != GRAINS:
            raise OptionError("`PrefixTree` takes histograms that one user moves by at most one unit: use `normalise`.")
        grains = slot_cut(histogram.grains, self.tree.arity ** (self.tree.levels - 1))
        opened, done, finished = self.opened + grains, self.done.copy(), list(self.finished)
        done[0] += _users(self.tree.noisy(grains, source))
        finished[0] += 1
        for level in range(1, self.tree.levels):
            if finished[level - 1] < self.tree.arity:
                break
            done[level] += _users(opened[level - 1])
            done[level - 1] = 0
            finished[level - 1], finished[level] = 0, finished[level] + 1
            opened[level - 1] = self.tree.noisy(np.zeros(grains.size, dtype=np.int64), source)
        return replace(self, opened=opened, done=done, finished=tuple(finished))

    def passed(self, released: Floats) -> PrefixSums:
        """Pass a slot that was not looked at for the tree: what was `released` of it, in users, stands in for it."""
        done = self.done.copy()
        done[-1] += released
        return replace(self, done=done)

    def adapt_to_domain(self, overlap: Overlap | None, bins: int, source: RandomSource) -> PrefixSums:
        """Return the tree for another domain: finished nodes move, and all others begin anew with noise of their own.

        The finished nodes cover every slot so far, so that no sum is lost; they become part of the highest level, which
        is never summed up again. They are public, and what becomes of them costs nothing. Open nodes are private, and
        are thrown away unread: their noise is used for nothing else.
        """
        planted = self.tree.planted(bins, source)
        if overlap is None or overlap.into is None:
            return planted
        done = planted.done.copy()
        done[-1] = overlap.gathered(self.sums())
        return replace(planted, done=done, finished=(*planted.finished[:-1], self.nodes))

    def sums(self) -> Floats:
        """Return the noisy number of users in each bin over all slots, without bias."""
        return np.asarray(self.done.sum(axis=0))

    @property
    def nodes(self) -> int:
        """How many nodes the sums are made of."""
        return sum(self.finished)

    @property
    def variance(self) -> float:
        """Variance of the noise in each of the sums."""
        return 2 * self.nodes * (self.tree.levels / float(self.tree.epsilon)) ** 2

    def to_bytes(self) -> bytes:
        """Encode the tree, for storage: private."""
        head = json.dumps(self.finished).encode() + b"\n"
        return head + self.opened.astype("<i8").tobytes() + self.done.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, tree: PrefixTree, bins: int, data: bytes) -> PrefixSums:
        """Read the tree of `to_bytes`, bit for bit; raise `StateError` if it has another shape."""
        line, _, rest = data.partition(b"\n")
        split = 8 * (tree.levels - 1) * bins
        try:
            finished = tuple(int(count) for count in json.loads(line))
        except (ValueError, TypeError):
            finished = ()
        if len(finished) != tree.levels or len(rest) != split + 8 * tree.levels * bins:
            raise StateError("the tree of sums is damaged, or belongs to another domain or shape.")
        opened = np.frombuffer(rest[:split], dtype="<i8").astype(np.int64).reshape(tree.levels - 1, bins)
        done = np.frombuffer(rest[split:], dtype="<f8").astype(np.float64).reshape(tree.levels, bins)
        return cls(tree, opened, done, finished)


def _users(noisy: Integers) -> Floats:
    """Return a finished node in users."""
    return np.asarray(node_cut(noisy) / GRAINS)


def slot_cut(grains: Integers, slots: int) -> Integers:
    """Cut the grains of a slot so that `slots` of them hold at most 2^60."""
    return np.minimum(grains, LARGEST_VALUE // slots)


def node_cut(noisy: Integers) -> Integers:
    """Cut a finished node to what the saturation of its noise leaves exact."""
    return np.clip(noisy, -_CEILING, _CEILING)
