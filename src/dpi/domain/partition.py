"""Partitions of a domain: coarser questions that a slot can be asked instead of every bin by itself.

A partition puts every bin into exactly one block, and the count of a block is the sum over its bins. One user who moves
a histogram by s in ℓ₁ moves the block counts by at most s:

    Σ_B |Σ_{i ∈ B} Δ_i| ≤ Σ_B Σ_{i ∈ B} |Δ_i| = Σ_i |Δ_i|.

So a partition costs what the histogram costs, and each block has the noise of one bin, however many bins it holds.
This holds because blocks do not overlap; sets that do cost the largest number of sets that one bin is in.

Knows public domains only; no event, no histogram, no user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpi.domain._domain import Domain, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.options import Family, Option


class Partition(Option, ABC):
    """Every bin of a domain in one block."""

    @abstractmethod
    def labels(self, domain: Domain) -> Integers:
        """Return the block of every bin: whole numbers from 0, none of them left out."""


PARTITIONS: Family[Partition] = Family("partition")


@PARTITIONS.member
@dataclass(frozen=True)
class Blocks(Partition):
    """Runs of neighbouring bins, `count` of them, of equal length up to one bin.

    In a domain without order, such as hashed values, they are groups made by chance.

    >>> from dpi.domain import Bins
    >>> Blocks(2).labels(Bins([0, 10, 100])).tolist()
    [0, 0, 1, 1]
    """

    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 2:
            raise OptionError(f"`count` must be a whole number from 2. Got {self.count!r}.")

    def labels(self, domain: Domain) -> Integers:
        """Return the run of every bin."""
        if self.count >= domain.size:
            raise OptionError(f"`Blocks({self.count})` must have fewer blocks than the domain's {domain.size} bins.")
        return np.arange(domain.size) * self.count // domain.size


@PARTITIONS.member
class Marginal(Partition):
    """Some parts of a `Product`, summed over the others.

    >>> from dpi.domain import Bins, Categories
    >>> domain = Product(country=Categories(["DE", "FR"]), age=Bins([18, 65]))
    >>> Marginal("age").labels(domain).tolist()
    [0, 1, 2, 0, 1, 2, 0, 1, 2]
    """

    def __init__(self, *names: str) -> None:
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise OptionError("`Marginal` needs different names of a Product's parts, for example Marginal('age').")
        self.names = names

    @classmethod
    def _made(cls, values: dict[str, object]) -> Self:
        return cls(*values.pop("names"), **values)  # type: ignore[misc]

    def labels(self, domain: Domain) -> Integers:
        """Return the combination of the named parts of every bin."""
        if not isinstance(domain, Product) or not set(self.names) < set(domain.parts):
            raise OptionError(f"`{self!r}` must name some parts of a Product domain, and not all of them.")
        codes = domain.codes(np.arange(domain.size))
        named = [name for name in domain.parts if name in self.names]
        return np.ravel_multi_index([codes[name] for name in named], [domain.parts[name].size for name in named])

    def __repr__(self) -> str:
        return f"Marginal({', '.join(map(repr, self.names))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marginal) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)
