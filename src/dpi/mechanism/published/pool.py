"""The published 0-DP pool: PDFs drawn from a public seed, without a look at any data.

A pool is a frozen object of public options: its size N, the precision n_p of a synopsis (n_p units of 1/n_p, which sum
to one), a law, and a seed. Synopsis i is a function of those and of the public number of bins, so it is made again
where it is needed and never stored. It must never see data: the published text reads the number of bins and n_p off
the stream, here both are options.

The seed is public and this is no privacy noise: whoever verifies a release makes the same pool.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dpi.budget.epsilon import AS_FLOAT
from dpi.errors import OptionError
from dpi.exact.integers import Integers
from dpi.mechanism.published.linear import LARGEST_BINS, LinearQueries
from dpi.options import Family, Option
from dpi.theory import entropy_approximation, multinomial_entropy, pool_entropy

Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 21
"""NoisyCounts in memory at a time: 16 MiB."""


class Pool(Option, ABC):
    """N synopses with counts that sum to `precision`."""

    size: int
    precision: int
    seed: int

    def __post_init__(self) -> None:
        _check_whole(self.size, "size", 1 << 32)
        _check_whole(self.precision, "precision", 1 << 40)
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise OptionError(f"`seed` must be a whole number. Got {self.seed!r}.")

    @property
    def description(self) -> str:
        """The pool with all its digits, for saved state."""
        return repr(self)

    @abstractmethod
    def _make(self, index: int, bins: int) -> Integers:
        """Return the counts of one synopsis."""

    def counts(self, index: int, bins: int) -> Integers:
        """Return the counts of synopsis `index` (from 0) over `bins` bins: whole numbers with sum `precision`.

        >>> Multinomial(size=10, precision=100).counts(3, bins=4)
        array([21, 21, 17, 41])
        """
        _check_whole(bins, "bins", LARGEST_BINS)
        if not 0 <= index < self.size:
            raise OptionError(f"`index` must lie between 0 and {self.size - 1}. Got {index!r}.")
        return self._make(index, bins)

    def blocks(self, bins: int) -> Iterator[Integers]:
        """Yield the counts of all synopses in order, some at a time: row by row, at most 16 MiB (or one row)."""
        _check_whole(bins, "bins", LARGEST_BINS)
        rows = max(1, _BLOCK // bins)
        for start in range(0, self.size, rows):
            yield np.stack([self._make(i, bins) for i in range(start, min(start + rows, self.size))])

    def answers(self, queries: LinearQueries) -> Integers:
        """Return the exact answer of every synopsis to every query, (N, queries), in units of 1/(precision · scale).

        >>> from dpi.mechanism.published.linear import points
        >>> Multinomial(size=2, precision=10).answers(points(3)).tolist()
        [[5, 1, 4], [3, 4, 3]]
        """
        result = np.empty((self.size, len(queries)), dtype=np.int64)
        done = 0
        for block in self.blocks(queries.bins):
            result[done : done + block.shape[0]] = queries.answers(block)
            done += block.shape[0]
        return result

    def _words(self, index: int, part: int, count: int, dtype: str) -> npt.NDArray[np.uint64]:
        label = f"dpi pool/{self.seed}/{index}/{part}".encode()
        width = np.dtype(dtype).itemsize
        return np.frombuffer(hashlib.shake_256(label).digest(width * count), dtype=dtype).astype(np.uint64)


POOLS: Family[Pool] = Family("pool")


@POOLS.member
@dataclass(frozen=True)
class Multinomial(Pool):
    """The published pool: each of n_p units falls into a bin at random, all bins alike.

    A unit takes 32 bits, so a bin's probability is off by a factor of at most 1 ± bins/2^32. As n_p/bins grows, the
    synopses concentrate around the uniform PDF: this pool cannot follow a skewed stream.

    >>> from dpi.domain import Categories
    >>> Multinomial(size=6_500, precision=10_000, seed=0).size
    6500
    """

    size: int = 6_500
    precision: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_whole(self.precision, "precision", 1 << 28)  # every unit is drawn

    def _make(self, index: int, bins: int) -> Integers:
        words = self._words(index, 0, self.precision, "<u4")
        return np.bincount((words * np.uint64(bins) >> np.uint64(32)).view(np.int64), minlength=bins)


@POOLS.member
@dataclass(frozen=True)
class DirichletPool(Pool):
    """PDFs from a symmetric Dirichlet law, rounded to n_p units: a small concentration is skewed, a large one flat.

    A concentration of one is uniform over all PDFs; at 1/bins or below, most of the mass is in a few bins. Made through
    float logarithms: on a machine whose `log` rounds otherwise, a count may differ by one unit.

    >>> DirichletPool(size=2, precision=100, concentration=0.5).counts(1, bins=4)
    array([75, 12, 10,  3])
    """

    size: int = 6_500
    concentration: float = 1.0
    seed: int = 0
    precision: int = 1 << 20

    kind = "dirichlet"
    codecs = MappingProxyType({"concentration": AS_FLOAT})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_concentration(self.concentration)

    def _make(self, index: int, bins: int) -> Integers:
        return _rounded(_log_gammas(self, index, bins, self.concentration), self.precision)


@POOLS.member
@dataclass(frozen=True)
class MixedPool(Pool):
    """Dirichlet synopses with several concentrations in turn: some flat, some skewed, as no one knows the stream.

    >>> MixedPool(size=4, precision=100, concentrations=(0.2, 50.0)).counts(1, bins=4)
    array([29, 24, 19, 28])
    """

    size: int = 6_500
    concentrations: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    seed: int = 0
    precision: int = 1 << 20

    kind = "mixed"
    codecs = MappingProxyType({"concentrations": AS_FLOAT.each})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.concentrations, tuple) or not self.concentrations:
            raise OptionError("`concentrations` must be a tuple of numbers above 0.")
        for concentration in self.concentrations:
            _check_concentration(concentration)

    def _make(self, index: int, bins: int) -> Integers:
        concentration = self.concentrations[index % len(self.concentrations)]
        return _rounded(_log_gammas(self, index, bins, concentration), self.precision)


def _log_gammas(pool: Pool, index: int, bins: int, shape: float) -> Floats:
    """Draw logarithms of independent Gamma(shape) variables.

    Marsaglia and Tsang's rejection gives G(shape + 1); then G(shape) = G(shape + 1)·U^(1/shape), whose logarithm does
    not underflow for a tiny shape.
    """
    d = shape + 2 / 3
    c = 1 / math.sqrt(9 * d)
    boost, result = np.log(_uniforms(pool, index, 0, bins)) / shape, np.empty(bins)
    open_, part = np.arange(bins), 0
    while open_.size:
        part += 1
        radius, angle, coin = _uniforms(pool, index, part, 3 * open_.size).reshape(3, -1)
        normal = np.sqrt(-2 * np.log(radius)) * np.cos(2 * math.pi * angle)
        root = 1 + c * normal
        log_cube = 3 * np.log(np.maximum(root, 1e-300))
        good = (root > 0) & (np.log(coin) < normal**2 / 2 + d * (1 - root**3 + log_cube))
        result[open_[good]] = math.log(d) + log_cube[good]
        open_ = open_[~good]
    return result + boost


def _uniforms(pool: Pool, index: int, part: int, count: int) -> Floats:
    words = pool._words(index, part, count, "<u8")
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _rounded(logarithms: Floats, precision: int) -> Integers:
    """Return the PDF proportional to e^logarithm in whole units.

    Running sums are rounded, so each count is off by at most one unit and the sum is exact.
    """
    running = np.cumsum(np.exp(logarithms - logarithms.max()))
    edges: Integers = np.rint(running / running[-1] * precision).astype(np.int64)
    edges[1:] -= edges[:-1].copy()
    return edges


@dataclass(frozen=True)
class Expressiveness:
    """How much a pool can say, in nats; one number for each of what the published text calls its entropy."""

    precision: int
    """n_p; the published p is its inverse."""
    bound: float
    """ln N: no pool of N synopses has more, whatever its law."""
    empirical: float
    """Entropy of a uniform choice among the N synopses, equal ones counted as one."""
    distinct: int
    """How many of the N are different."""
    draw: float | None
    """Exact entropy of one draw of the law; of the multinomial pool alone."""
    approximation: float | None
    """The Gaussian approximation of `draw`, for n_p well above the number of bins."""

    @property
    def ratio(self) -> float | None:
        """H(pool)/H(ideal), which the published lemma lets tend to one."""
        return None if self.draw is None else self.empirical / self.draw if self.draw else 1.0


def expressiveness(pool: Pool, bins: int) -> Expressiveness:
    """Return the entropies of a pool over this many bins.

    >>> e = expressiveness(Multinomial(size=500, precision=1_000), bins=20)
    >>> round(e.draw, 1), round(e.approximation, 1), round(e.bound, 2), round(e.empirical, 2), e.distinct
    (62.6, 62.6, 6.21, 6.21, 500)
    """
    seen = Counter(
        hashlib.blake2b(row.tobytes(), digest_size=16).digest() for block in pool.blocks(bins) for row in block
    )
    shares = np.array(list(seen.values())) / pool.size
    draw = approximation = None
    if isinstance(pool, Multinomial):
        draw = multinomial_entropy(pool.precision, bins)
        approximation = entropy_approximation(pool.precision, bins).corrected
    empirical = max(0.0, float(-(shares * np.log(shares)).sum()))
    return Expressiveness(pool.precision, pool_entropy(pool.size), empirical, len(seen), draw, approximation)


def nearest(pool: Pool, pdf: Floats) -> tuple[int, float]:
    """Find the synopsis with the smallest KL divergence from a *public* PDF, and this: no choice does better.

    One unit more is spread over all bins, as in a release, so that no bin has probability zero.

    >>> index, divergence = nearest(Multinomial(size=100, precision=50), np.full(4, 0.25))
    >>> divergence < 0.01
    True
    """
    target = np.asarray(pdf, dtype=np.float64)
    if target.ndim != 1 or target.size == 0 or (target < 0).any() or not math.isclose(float(target.sum()), 1):
        raise OptionError("`pdf` must be a vector of probabilities with sum one.")
    used = target > 0
    own = float(target[used] @ np.log(target[used]))
    logarithms = (np.log(smoothed(block[:, used], pool.precision, target.size)) for block in pool.blocks(target.size))
    divergences = own - np.concatenate([rows @ target[used] for rows in logarithms])
    best = int(divergences.argmin())
    return best, float(divergences[best])


def smoothed(counts: npt.NDArray[np.int64], units: int, bins: int) -> Floats:
    """Return probabilities from counts with sum `units`, with one unit more spread over all bins: none is zero."""
    return (counts + 1 / bins) / (units + 1)


def _check_whole(value: int, name: str, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise OptionError(f"`{name}` must be a whole number from 1 to {largest}. Got {value!r}.")


def _check_concentration(value: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1e-4 <= value <= 1e6:
        raise OptionError(f"`concentration` must be a number from 0.0001 to 1000000. Got {value!r}.")
