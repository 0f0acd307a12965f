"""Linear queries and the published ramp, in integers: how well a synopsis answers, and how far one user moves that.

A query is public, and asked alike of a synopsis and of a histogram. It gives every bin a whole number from 0 to
`scale`; its answer on counts is the sum of count · number, exactly. Answers of queries with values in [0, 1] are whole
numbers of 2^-bits. With λ and μ in the same units, the score of an answer that is off by x is

    s(x) = μ - 2·(x - λ), cut to [-μ, μ]:

μ up to an error of λ, -μ from λ + μ on, linear between; s/μ is the published ramp.

**What one user changes.** Let h be the histogram in grains, n its sum, M = n_min·2^24 a public floor, u the uniform
PDF. The data's answer is F = floor(2^bits · q(D̃)), computed exactly, for

    D̃ = (h + max(0, M - n)·u) / max(n, M).

*Claim.* If h and h′ differ by γ ≥ 1 grains in ℓ₁, then |q(D̃) - q(D̃′)| ≤ γ/M, and every score moves by at most
2·γ·(2^bits/M + 1) and by at most 2μ.

*Proof.* min(h, h′) is reached from both by removing grains, γ in all, so let h′ = h + g with g ≥ 0 and sum γ. While
n + γ ≤ M, the answer moves by (Σ g_i·q_i - γ·q(u))/M, a difference of two numbers in [0, γ], over M. While n ≥ M, it
moves by γ·(q(g/γ) - q(D))/(n + γ), at most γ/(n + γ) < γ/M. Passing M, the two parts of γ add up. Rounding down
moves a whole number: |F - F′| < 2^bits·γ/M + 1 ≤ γ·(2^bits/M + 1), because γ ≥ 1. The error x moves by no more, and
s by twice that. The second bound is the range of s. ∎

The first bound is *proportional to the grains moved*: a user of weight w counts w times. `bits` is chosen so that
2^bits ≥ 2^8·M; the rounding costs less than 2^-8 of the bound. The second bound does not shrink with the weight, and
without a floor it is the only one: a user of any positive weight can be alone in a slot.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAIN_BITS, GRAINS, Integers, wide_sum
from dpi.options import Codec, Family, Option

LARGEST_SCALE = 1 << 20
LARGEST_BINS = 1 << 20

_DIGIT = 21
"""Bits of a digit of a histogram: 2^21 grains · `LARGEST_SCALE` · `LARGEST_BINS` stays below 2^63."""

_EXACT_FLOAT = 1 << 53


class LinearQueries(Option, ABC):
    """A list of linear queries over `bins` bins, each with values of 0/`scale` … `scale`/`scale`."""

    bins: int
    scale: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def answers(self, counts: Integers) -> Integers:
        """Return Σᵢ count_i · number_i: row j, column q for row j of counts and query q; exact for sums below 2^62."""

    @abstractmethod
    def _arrays(self) -> tuple[Integers, ...]:
        """Return what defines the queries besides `bins` and `scale`."""

    def exact(self, grains: Integers) -> list[int]:
        """Return the answers on one histogram of int64 grains, of whatever size, as Python integers.

        >>> Ranges([0], [2], bins=2).exact(np.array([2**62, 2**62])) == [2**63]
        True
        """
        digits = np.stack([grains >> (_DIGIT * place) & ((1 << _DIGIT) - 1) for place in range(3)])
        parts = self.answers(digits).astype(object)
        return [sum(int(part) << (_DIGIT * place) for place, part in enumerate(column)) for column in parts.T]

    @cached_property
    def sizes(self) -> list[int]:
        """The answers on one grain in each bin."""
        return self.exact(np.ones(self.bins, dtype=np.int64))

    def to_bytes(self) -> bytes:
        """Encode the queries, for storage."""
        arrays = self._arrays()
        head = np.array([isinstance(self, Ranges), self.bins, self.scale, len(self)], dtype="<i8")
        return b"".join((head.tobytes(), *(array.astype("<i8").tobytes() for array in arrays)))

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the queries: equal queries in the same form have equal digests."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16, person=b"dpi queries").hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearQueries) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


QUERIES: Family[LinearQueries] = Family("queries")
_WHOLE = Codec(lambda value: np.asarray(value).tolist(), lambda stated: stated)
"""A column or matrix of whole numbers."""


@QUERIES.member
@dataclass(frozen=True, eq=False, repr=False)
class Ranges(LinearQueries):
    """How much lies in the bins from `starts` up to, and without, `stops`: points and ranges, at any number of bins.

    >>> Ranges([0, 1], [2, 2], bins=3).answers(np.array([[5, 6, 7]])).tolist()
    [[11, 6]]
    """

    starts: Integers
    stops: Integers
    bins: int
    scale = 1
    codecs = MappingProxyType({"starts": _WHOLE, "stops": _WHOLE})

    def __init__(self, starts: npt.ArrayLike, stops: npt.ArrayLike, *, bins: int) -> None:
        low, high = _whole(starts, "starts"), _whole(stops, "stops")
        _check_bins(bins)
        if low.shape != high.shape or low.ndim != 1 or low.size == 0:
            raise OptionError("`starts` and `stops` must be vectors of one length, one entry for each query.")
        if int(low.min()) < 0 or int(high.max()) > bins or (low >= high).any():
            raise OptionError("`starts` must lie below `stops`, and both between 0 and the number of bins.")
        for name, value in (("starts", low), ("stops", high), ("bins", bins)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self.starts.size

    def answers(self, counts: Integers) -> Integers:
        """Return differences of running sums."""
        running = np.zeros((counts.shape[0], self.bins + 1), dtype=np.int64)
        np.cumsum(counts, axis=1, out=running[:, 1:])
        return running[:, self.stops] - running[:, self.starts]

    def _arrays(self) -> tuple[Integers, ...]:
        return self.starts, self.stops

    def __repr__(self) -> str:
        return f"Ranges({len(self)} queries, bins={self.bins})"


@QUERIES.member
@dataclass(frozen=True, eq=False, repr=False)
class Matrix(LinearQueries):
    """Any linear queries: one row of whole numbers from 0 to `scale` for each.

    >>> Matrix([[0, 1, 2]], scale=2).answers(np.array([[5, 6, 7]])).tolist()
    [[20]]
    """

    weights: Integers
    scale: int
    codecs = MappingProxyType({"weights": _WHOLE})

    def __init__(self, weights: npt.ArrayLike, *, scale: int = 1) -> None:
        rows = _whole(weights, "weights")
        if not isinstance(scale, int) or isinstance(scale, bool) or not 1 <= scale <= LARGEST_SCALE:
            raise OptionError(f"`scale` must be a whole number from 1 to 2^20. Got {scale!r}.")
        if rows.ndim != 2 or rows.size == 0 or int(rows.min()) < 0 or int(rows.max()) > scale:
            raise OptionError("`weights` must be a matrix of whole numbers from 0 to `scale`, one row for each query.")
        _check_bins(rows.shape[1])
        object.__setattr__(self, "weights", rows)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "bins", rows.shape[1])

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    def answers(self, counts: Integers) -> Integers:
        """Return a matrix product; in float64 where every partial sum is a whole number below 2^53, and so exact."""
        if int(counts.max(initial=0)) * self.scale * self.bins < _EXACT_FLOAT:
            return (counts.astype(np.float64) @ self.weights.T.astype(np.float64)).astype(np.int64)
        return counts @ self.weights.T

    def _arrays(self) -> tuple[Integers, ...]:
        return (self.weights,)

    def __repr__(self) -> str:
        return f"Matrix({len(self)} queries, bins={self.bins}, scale={self.scale})"


def points(bins: int) -> Ranges:
    """Ask for the probability of every bin.

    >>> points(3)
    Ranges(3 queries, bins=3)
    """
    starts = np.arange(bins)
    return Ranges(starts, starts + 1, bins=bins)


def dyadic(bins: int, leaves: int = 64) -> Ranges:
    """Ask for halves, quarters … of the domain, down to `leaves` pieces or single bins; of one bin for the domain.

    >>> queries = dyadic(5, leaves=4)
    >>> list(zip(queries.starts.tolist(), queries.stops.tolist()))
    [(0, 2), (2, 5), (0, 1), (1, 2), (2, 3), (3, 5)]
    """
    if not isinstance(leaves, int) or leaves < 2:
        raise OptionError(f"`leaves` must be a whole number of at least 2. Got {leaves!r}.")
    _check_bins(bins)
    ranges: dict[tuple[int, int], None] = {}
    pieces = 2
    while pieces <= leaves and pieces < 2 * bins:
        edges = [bins * j // pieces for j in range(pieces + 1)]
        ranges.update({(low, high): None for low, high in pairwise(edges) if low < high})
        pieces *= 2
    starts, stops = zip(*ranges or [(0, bins)], strict=True)
    return Ranges(starts, stops, bins=bins)


def queries_from_bytes(data: bytes) -> LinearQueries:
    """Read the queries of `to_bytes`; raise `StateError` if they are damaged.

    >>> queries_from_bytes(points(3).to_bytes()) == points(3)
    True
    """
    try:
        numbers = np.frombuffer(data, dtype="<i8").astype(np.int64)
        ranges, bins, scale, count = (int(x) for x in numbers[:4])
        body = numbers[4:]
        if ranges:
            return Ranges(body[:count], body[count:], bins=bins)
        return Matrix(body.reshape(count, bins), scale=scale)
    except ValueError:
        raise StateError("the saved queries are damaged.") from None


def _whole(values: npt.ArrayLike, name: str) -> Integers:
    array = np.array(values)
    if array.dtype.kind not in "iub":
        raise OptionError(f"`{name}` must be whole numbers.")
    array = array.astype(np.int64)
    array.setflags(write=False)
    return array


def _check_bins(bins: int) -> None:
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= LARGEST_BINS:
        raise OptionError(f"`bins` must be a whole number from 1 to 2^20. Got {bins!r}.")


GUARD_BITS = 8
PLAIN_BITS = 40
LARGEST_FLOOR = 1 << 20


@dataclass(frozen=True)
class Ramp:
    """λ, μ and the floor as whole numbers; see the module for the formulas."""

    bits: int
    lam: int
    mu: int
    floor: int | None
    """M in grains, or None."""

    @classmethod
    def of(cls, lam: Fraction, mu: Fraction, n_min: int | None) -> Ramp:
        """Return the ramp with resolution fit for the floor.

        >>> Ramp.of(Fraction(1, 10), Fraction(1, 20), n_min=1000).bits
        42
        """
        bits = PLAIN_BITS if n_min is None else GRAIN_BITS + GUARD_BITS + (n_min - 1).bit_length()
        floor = None if n_min is None else n_min * GRAINS
        return cls(bits, int(lam * (1 << bits)), int(mu * (1 << bits)), floor)

    @property
    def description(self) -> str:
        """The ramp with all its digits, for saved state."""
        return f"Ramp(bits={self.bits}, lam={self.lam}, mu={self.mu}, floor={self.floor})"

    def score(self, answers: Integers, truth: Integers | int) -> Integers:
        """Return the scores of answers, in whole numbers from -μ to μ."""
        scores: Integers = np.clip(self.mu - 2 * (np.abs(answers - truth) - self.lam), -self.mu, self.mu)
        return scores

    def sensitivity(self, grains: int) -> Fraction:
        """Return the most that a user who moves the histogram by `grains` can move a score.

        >>> ramp = Ramp.of(Fraction(1, 10), Fraction(1, 20), n_min=1000)
        >>> round(float(ramp.sensitivity(2**24) / ramp.mu), 4)
        0.0402
        """
        if self.floor is None:
            return Fraction(2 * self.mu)
        moved = 2 * grains * (Fraction(1 << self.bits, self.floor) + 1)
        if moved > 2 * self.mu:
            smallest = -(-grains // GRAINS) * Fraction(1 << self.bits, self.mu)
            raise OptionError(
                f"`n_min` must be above {float(smallest):.6g} for this `mu` and compression: below that, a floor "
                "does not limit what one user moves."
            )
        return moved

    def truth(self, queries: LinearQueries, grains: Integers) -> Integers:
        """Return F for every query: private. Without a floor, an empty histogram counts as uniform."""
        floor = 1 if self.floor is None else self.floor
        total = wide_sum(grains)
        missing, whole = max(0, floor - total), queries.bins * queries.scale * max(total, floor)
        here = zip(queries.exact(grains), queries.sizes, strict=True)
        answers = ((a * queries.bins + size * missing << self.bits) // whole for a, size in here)
        return np.fromiter(answers, dtype=np.int64, count=len(queries))

    def public(self, answers: Integers, units: int) -> Integers:
        """Return answers of synopses, in units of 1/`units`, on the scale of F; their rounding is public."""
        return np.rint(answers / units * float(1 << self.bits)).astype(np.int64)
