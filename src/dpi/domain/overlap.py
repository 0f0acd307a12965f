"""Domains that change: how bins of one are found again in another, and which domain tells the values of a slot.

Two bins overlap if some value lies in both, by what the domains are: a listed value in itself, a value that is no
longer listed in `other`, a new one in the old `other`; intervals where they intersect; a combination where all its
parts do. Domains of different kinds, of other parts, or hashed in another way have nothing to do with each other.

Knows public domains, and values by themselves; no histogram, no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from dpi.domain import OUTSIDE, Bins, Categories, Domain, Product
from dpi.errors import SchemaError
from dpi.exact.integers import Integers
from dpi.options.schedule import Schedule

Floats = npt.NDArray[np.float64]
Domains = Domain | Schedule[Domain]
"""One domain for all slots, or domains by the first slot that each holds for."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """Pairs of an old and a new bin that overlap, and the part of the old one that is taken to lie in the new one.

    The parts of one old bin are alike, since nothing is known of them.

    >>> countries = Overlap.of(Categories(["DE", "FR"]), Categories(["DE", "IT"]))
    >>> countries.spread(np.array([0.5, 0.25, 0.25])).tolist()  # FR is in `other` now, and half of that may be IT
    [0.5, 0.125, 0.375]
    >>> countries.gathered(np.array([50, 25, 25])).tolist()  # what was counted as `other` stays there
    [50.0, 0.0, 50.0]
    """

    sizes: tuple[int, int]
    """Bins of the old domain, and of the new one."""
    old: Integers
    new: Integers
    share: Floats
    into: Integers | None
    """The one new bin that takes what was counted in each old one (`OUTSIDE`: none does); None if some cannot say."""

    @classmethod
    def of(cls, old: Domain, new: Domain) -> Overlap | None:
        """Return the overlap of two domains; None if they have nothing to do with each other."""
        if old == new:
            every = np.arange(old.size)
            return cls._of_pairs(old.size, new.size, every, every, every)
        match old, new:
            case Categories(), Categories():
                return cls._of_categories(old, new)
            case Bins(), Bins():
                return cls._of_bins(old, new)
            case Product(), Product() if list(old.parts) == list(new.parts):
                parts = [overlap for name, part in old.parts.items() if (overlap := cls.of(part, new.parts[name]))]
                return reduce(cls._times, parts) if len(parts) == len(old.parts) else None
        return None

    @classmethod
    def _of_pairs(cls, before: int, after: int, old: Integers, new: Integers, into: Integers | None) -> Overlap:
        old, new = np.unique(np.stack([old, new]), axis=1)
        return cls((before, after), old, new, 1 / np.bincount(old, minlength=before)[old], into)

    @classmethod
    def _of_categories(cls, old: Categories, new: Categories) -> Overlap:
        listed, coming = new.encode(old.values), old.encode(new.values)
        pairs = [(np.arange(listed.size), listed), (coming, np.arange(coming.size))]
        if old.other is not None:
            pairs.append((np.array([old.outside]), np.array([new.outside])))
        before, after = (np.concatenate(codes) for codes in zip(*pairs, strict=True))
        inside = (before >= 0) & (after >= 0)
        into = listed if old.other is None else np.append(listed, new.outside)
        return cls._of_pairs(old.size, new.size, before[inside], after[inside], into)

    @classmethod
    def _of_bins(cls, old: Bins, new: Bins) -> Overlap:
        points = np.union1d(old.edges, new.edges)
        before, after = (np.append(0, np.searchsorted(edges, points, side="right")) for edges in (old.edges, new.edges))
        whole = before.size == old.size  # no new edge lies inside an old bin
        return cls._of_pairs(old.size, new.size, before, after, after if whole else None)

    def _times(self, other: Overlap) -> Overlap:
        old = np.add.outer(self.old * other.sizes[0], other.old).ravel()
        new = np.add.outer(self.new * other.sizes[1], other.new).ravel()
        into = None
        if self.into is not None and other.into is not None:
            outside = np.logical_or.outer(self.into < 0, other.into < 0)
            both = np.add.outer(self.into * other.sizes[1], other.into)
            into = np.where(outside, OUTSIDE, both).ravel()
        sizes = (self.sizes[0] * other.sizes[0], self.sizes[1] * other.sizes[1])
        return Overlap(sizes, old, new, np.multiply.outer(self.share, other.share).ravel(), into)

    def of_blocks(self, old: Integers, new: Integers) -> Overlap:
        """Return the overlap of blocks of bins, given the block of every old and of every new bin."""
        sizes = (int(old.max()) + 1, int(new.max()) + 1)
        pairs, at = np.unique(np.stack([old[self.old], new[self.new]]), axis=1, return_inverse=True)
        has_new = np.bincount(self.old, minlength=self.sizes[0]) > 0
        alone = np.bincount(pairs[0], minlength=sizes[0])[pairs[0]] == 1  # counted, so that all of it is exactly one
        part = np.where(alone, np.bincount(old, has_new, sizes[0])[pairs[0]], np.bincount(at.ravel(), self.share))
        return Overlap(sizes, pairs[0], pairs[1], part / np.bincount(old, minlength=sizes[0])[pairs[0]], None)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which of the new bins overlap an old one."""
        return np.bincount(self.new, minlength=self.sizes[1]) > 0

    @property
    def lossless(self) -> bool:
        """Whether every old bin overlaps a new one."""
        return bool((np.bincount(self.old, minlength=self.sizes[0]) > 0).all())

    def spread(self, values: Floats) -> Floats:
        """Return what lies in every new bin, if the old ones hold `values`; a bin that stays keeps every bit."""
        return np.asarray(np.bincount(self.new, values[self.old] * self.share, self.sizes[1]))

    def gathered(self, values: Floats) -> Floats:
        """Return what was counted in the old bins, in the new bins that take it (`into`)."""
        assert self.into is not None  # noqa: S101 - asked by whoever gathers
        kept = self.into >= 0
        return np.asarray(np.bincount(self.into[kept], values[kept], self.sizes[1]))


def recoding(old: Domain, new: Domain) -> Integers:
    """Return the new bin for events of every old one; `OUTSIDE` where the new domain has no place for its values."""
    if old.same_rows(new):
        return np.arange(old.row_codes)
    overlap = None if old.summed or new.summed else Overlap.of(old, new)
    if overlap is None:
        return np.full(old.row_codes, OUTSIDE)
    if overlap.into is not None:
        return overlap.into
    bins = np.full(old.size, OUTSIDE)
    bins[overlap.old[::-1]] = overlap.new[::-1]  # the first of several
    return bins


def by_slot(domains: Domains) -> Schedule[Domain]:
    """Return domains by slot, also where there is one alone."""
    return Schedule.of(domains) if isinstance(domains, Domain) else domains


def encode(domains: Domains, slots: Integers, values: object) -> tuple[Integers, Integers]:
    """Return codes and numbers of a column of values of these slots, each by the domain of its own slot.

    Whether a column can be read follows from its type and from the domains, never from the slots of its rows.

    >>> changed = Schedule.of(Categories(["DE"])).changed(7, Categories(["FR"]))
    >>> encode(changed, np.array([6, 7]), ["FR", "FR"])[0].tolist()
    [1, 0]
    """
    (_, first), *later = by_slot(domains).entries
    before = codes, counts = first.encode_rows(values)
    if codes.size != slots.size:
        raise SchemaError("`values` must have as many rows as the other columns.")
    for begins, domain in later:
        pairs = before if domain.same_rows(first) else domain.encode_rows(values)
        codes, counts = (np.where(slots >= begins, *pair) for pair in zip(pairs, (codes, counts), strict=True))
    return codes, counts
