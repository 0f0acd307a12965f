"""Views of a domain: its bins, and coarse partitions of them, of which one is measured in each slot.

Knows public partitions; sums and spreads what is given to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.domain.partition import Blocks, Marginal, Partition
from dpi.errors import OptionError
from dpi.exact.integers import Integers, capped_sums
from dpi.mechanism.base import Floats
from dpi.mechanism.class_estimator import HUGE

CAP_BITS = 60
"""Sums over blocks are cut at 2^60 grains. Like noise's own cut it moves no two sums further apart. Source: two of them
add up to less than 2^63; no measurement."""
COARSEST, FACTOR = 16, 8
"""Blocks of the coarsest partition of an ordered domain, and how many of the next finer one make a block. Source: by
trial."""


def automatic_partitions(domain: Domain) -> tuple[Partition, ...]:
    """Return the partitions of a domain that is huge and has a structure to use; none of any other domain.

    >>> automatic_partitions(Bins(range(1, 10_000)))
    (Blocks(count=16), Blocks(count=128), Blocks(count=1024))
    """
    if domain.size < HUGE:
        return ()
    if isinstance(domain, Product):
        return tuple(Marginal(name) for name, part in domain.parts.items() if 1 < part.size < domain.size)
    if not isinstance(domain, Bins):
        return ()
    counts = [COARSEST]
    while FACTOR * counts[-1] <= domain.size // 4:
        counts.append(FACTOR * counts[-1])
    return tuple(Blocks(count) for count in counts)


@dataclass(frozen=True, eq=False)
class View:
    """One partition of the bins; `labels` are None for the bins themselves."""

    blocks: int
    labels: Integers | None

    @cached_property
    def sizes(self) -> Integers | None:
        """The bins of every block, if each is a run of neighbours, which are added up several times as fast."""
        if self.labels is None or bool((np.diff(self.labels) < 0).any()):
            return None
        return np.bincount(self.labels, minlength=self.blocks)

    def sums(self, pdf: Floats) -> Floats:
        """Return the probability of every block."""
        if self.labels is None:
            return pdf
        if self.sizes is None:
            return np.asarray(np.bincount(self.labels, pdf, self.blocks), dtype=np.float64)
        return np.add.reduceat(pdf, np.cumsum(self.sizes) - self.sizes)

    def counts(self, grains: Integers) -> Integers:
        """Sum the grains of every block, exactly; cut at 2^60, as noise cuts them, where they do not fit in 64 bits."""
        return grains if self.labels is None else capped_sums(grains, self.labels, self.blocks, CAP_BITS)

    def spread(self, values: Floats) -> Floats:
        """Return the value of every bin's block."""
        if self.labels is None:
            return values
        return values[self.labels] if self.sizes is None else np.repeat(values, self.sizes)

    def within(self, other: View) -> View | None:
        """Return `other` as a partition of this one's blocks; None, if not every block lies in one block of it."""
        if self.labels is None or other.labels is None:
            return other if self.labels is None else None
        one = np.zeros(self.blocks, dtype=np.int64)
        one[self.labels] = other.labels
        return View(other.blocks, one) if bool((one[self.labels] == other.labels).all()) else None


@dataclass(frozen=True, eq=False)
class Layout:
    """The views from coarse to fine, the bins last, and whether neighbouring bins are alike."""

    views: tuple[View, ...]
    ordered: bool

    @classmethod
    def of(cls, partitions: Sequence[Partition], domain: Domain) -> Layout:
        """Lay out the partitions of a domain, sorted by their number of blocks, and its bins."""
        labels = [partition.labels(domain) for partition in partitions]
        views = sorted((View(int(of.max()) + 1, of) for of in labels), key=lambda view: view.blocks)
        if any(view.blocks >= domain.size for view in views):
            raise OptionError("`partitions` must be coarser than the domain's bins, which are always measured too.")
        return cls((*views, View(domain.size, None)), isinstance(domain, Bins))

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.views[-1].blocks

    @cached_property
    def parents(self) -> tuple[tuple[int, View] | None, ...]:
        """For every view the finest earlier one that it refines, and that one as a partition of its blocks."""
        parents: list[tuple[int, View] | None] = []
        for at, view in enumerate(self.views):
            coarser = ((other, view.within(self.views[other])) for other in reversed(range(at)))
            parents.append(next(((other, blocks) for other, blocks in coarser if blocks is not None), None))
        return tuple(parents)
