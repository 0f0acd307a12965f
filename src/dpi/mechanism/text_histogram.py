"""Discovery: which texts of a public universe are frequent, with noise on every one of them.

Sees a slot's histogram over texts, once, and an amount; never a user. What it remembers is what it has shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from dpi.budget.epsilon import AS_NUMBER, Amount, Epsilon, rational
from dpi.domain import Domain, Texts
from dpi.errors import OptionError, StateError
from dpi.exact.integers import GRAINS, Integers
from dpi.histogram.compression import Histogram, TextHistogram
from dpi.mechanism.base import MECHANISMS, Estimate, Measurement, Mechanism
from dpi.noise import RandomSource, sparse_laplace
from dpi.noise.exponential import decimal_context, to_decimal
from dpi.noise.sparse_laplace import LARGEST_THRESHOLD

_WORD = 8
"""Bytes of a whole number in a measurement."""
MOST = 1 << 16
"""Values that one slot can show at most: a measurement has room for all that may be shown, shown or not."""


@dataclass(frozen=True, eq=False)
class FoundTexts:
    """What was shown so far: public."""

    universe: Texts
    last: Mapping[str, int]
    """Noisy grains of the texts that the last slot has shown."""
    all: Mapping[str, int]
    """Of all slots, each as it was shown last."""


@MECHANISMS.member
@dataclass(frozen=True)
class SparseHistogram(Mechanism[FoundTexts]):
    """Noise on all texts of a `Texts` domain; those above a public threshold are shown, at most the `most` largest.

    The threshold of a text depends on its length alone. `failure` is the expected number of texts, at most, that a slot
    shows although nobody has them; so it bounds the probability that there is one. They look like any other.

    **Formal guarantee.** (ε·w)-DP for a user of weight w. There is no δ.

    *Why.* The user moves the grains of all texts together by at most w·G in ℓ₁ (`dpi.histogram.compression`), and every
    text of the universe has independent noise of scale G/ε, also those that nobody has: `sparse_laplace` has the law of
    that, length by length. The thresholds are public; what is left out beyond the `most` largest, and the order, is a
    function of what passed, in which texts of users and texts of nobody are treated alike.

    *Why the threshold is what it is.* With N_n texts of n bytes and B different lengths, noise reaches
    θ_n = ⌈(G/ε)·ln(N_n·B/β)⌉ grains with probability e^(-θ_n·ε/G)/(1 + e^(-ε/G)) < β/(N_n·B); summed over all texts
    that is below β. So a text of n bytes needs about (ln N_n + ln B + ln 1/β)/ε users: what it costs is the logarithm
    of the number of texts of its own length, not of all. No mechanism with pure ε does much better: if it finds each of
    N texts with probability 1/2 where k users have it, then with nobody's data it shows each with probability e^(-kε)/2
    at least, and shows `most` at most, so that k ≥ (ln N - ln(2·most))/ε (Hardt and Talwar, STOC 2010). For the same
    reason it does not pay to narrow texts down prefix by prefix: T steps with ε/T each need T·(ln(N)/T + ln 1/β)/ε.

    >>> from dpi.noise import SystemSource
    >>> mechanism, domain = SparseHistogram(), Texts(8)
    >>> clean = TextHistogram(np.array([90, 1]) * GRAINS, GRAINS, texts=["red", "mauve"])
    >>> seen = mechanism.measure(mechanism.initial(domain), clean, Epsilon.at_most(1), 0, SystemSource())
    >>> list(mechanism.update(mechanism.initial(domain), seen)[0].last)
    ['red']
    """

    failure: Amount = Fraction(1, 1000)
    most: int = 1024

    kind = "sparse_histogram"
    codecs = MappingProxyType({"failure": AS_NUMBER})
    largest_sensitivity = GRAINS

    def __post_init__(self) -> None:
        if not 0 < rational(self.failure, "failure") <= 1:
            raise OptionError(f"`failure` must be above 0 and at most 1. Got {self.failure}.")
        if type(self.most) is not int or not 1 <= self.most <= MOST:
            raise OptionError(f"`most` must be a whole number from 1 to {MOST}. Got {self.most!r}.")

    def thresholds(self, universe: Texts, epsilon: Epsilon) -> dict[int, int]:
        """Return, for every length in bytes, the grains that a text must have after noise to be shown, a public number.

        >>> grains = SparseHistogram().thresholds(Texts(3), Epsilon.at_most(1))
        >>> {length: round(least / GRAINS) for length, least in grains.items()}
        {1: 13, 2: 17, 3: 22}
        """
        lengths, context, scale = universe.lengths, decimal_context(60), epsilon.scale
        thresholds = {}
        for length, texts in lengths.items():
            odds = (texts.stop - texts.start) * len(lengths) / rational(self.failure, "failure")
            # Up by far more than the last digits can be wrong by: a threshold may be higher than it must be.
            logarithm = context.add(context.ln(to_decimal(odds, context)), Decimal("1e-30"))
            grains = context.multiply(to_decimal(scale, context), logarithm)
            thresholds[length] = max(1, int(grains.to_integral_value(rounding=ROUND_CEILING)))
        return thresholds

    def initial(self, domain: Domain, classes: int = 1) -> FoundTexts:
        """Begin with no text."""
        if not isinstance(domain, Texts):
            raise OptionError("values are discovered in a domain of all texts: give `domain=dpi.Texts(…)`.")
        return FoundTexts(domain, {}, {})

    def measure(
        self, state: FoundTexts, histogram: Histogram, epsilon: Epsilon, slot: int, source: RandomSource
    ) -> Measurement:
        """Measure the texts that pass, with their noisy grains: see the class. Its size is the same whatever passes."""
        if not isinstance(histogram, TextHistogram) or histogram.sensitivity != GRAINS:
            raise OptionError("values are discovered in texts of users: open the stream with dpi.Discovery.")
        if not all(text in state.universe for text in histogram.texts):
            raise OptionError("a histogram over texts must be of texts of the declared universe.")
        if epsilon.units == 0:
            return Measurement(slot, epsilon, np.zeros(0, dtype=np.int64))
        return Measurement(slot, epsilon, self.packed(state.universe, self._passed(state, histogram, epsilon, source)))

    def _passed(
        self, state: FoundTexts, histogram: TextHistogram, epsilon: Epsilon, source: RandomSource
    ) -> dict[str, int]:
        """Return all texts that pass, with their noisy grains."""
        universe, texts = state.universe, histogram.texts
        sizes = np.array([len(text.encode()) for text in texts], dtype=np.int64)
        noisy_texts: dict[str, int] = {}
        for length, threshold in self.thresholds(universe, epsilon).items():
            if threshold > LARGEST_THRESHOLD:  # where sums are cut, so that none reaches it
                continue
            here, ranks = np.flatnonzero(sizes == length), universe.lengths[length]
            listed, count = [texts[int(at)] for at in here], ranks.stop - ranks.start
            grains, taken = histogram.grains[here], _Taken(universe, ranks.start, set(listed))
            passed, drawn = sparse_laplace(grains, taken, count, epsilon.scale, threshold, source)
            noisy_texts |= {listed[at]: noisy for at, noisy in passed.items()}
            noisy_texts |= {universe.text(ranks.start + rank): noisy for rank, noisy in drawn.items()}
        return noisy_texts

    def packed(self, universe: Texts, passed: Mapping[str, int]) -> Integers:
        """Return the values of a measurement: the largest, sorted by text.

        For each its grains and its bytes, and zeros for the room that is left.
        """
        kept = sorted(sorted(passed, key=lambda text: (-passed[text], text))[: self.most])
        room = np.zeros((self.most, 1 + _words(universe)), dtype="<i8")
        for row, text in zip(room, kept, strict=False):
            row[0] = passed[text]
            row[1:] = np.frombuffer(text.encode().ljust(_WORD * _words(universe), b"\0"), dtype="<i8")
        return room.reshape(-1).astype(np.int64)

    def update(self, state: FoundTexts, measurement: Measurement) -> tuple[FoundTexts, Estimate]:
        """Return what was shown, and a PDF over the one bin that the domain is."""
        last = unpacked(state.universe, measurement.values)
        after = FoundTexts(state.universe, last, {**state.all, **last})
        nothing = np.zeros(1)
        return after, Estimate(np.ones(1), nothing, nothing, float("nan"), float("nan"))

    def to_bytes(self, state: FoundTexts) -> bytes:
        """Encode the state as JSON."""
        return json.dumps([state.last, state.all], ensure_ascii=False, sort_keys=True).encode()

    def from_bytes(self, domain: Domain, data: bytes) -> FoundTexts:
        """Read the state of `to_bytes`."""
        empty = self.initial(domain)
        try:
            last, every = json.loads(data)
            if not all(type(grains) is int for texts in (last, every) for grains in texts.values()):
                raise ValueError
        except (ValueError, TypeError, AttributeError):
            raise StateError("what was discovered so far is damaged.") from None
        return FoundTexts(empty.universe, last, every)


@dataclass(frozen=True)
class _Taken:
    """Whether a number is that of a text which somebody has: private."""

    universe: Texts
    first: int
    texts: set[str]

    def __contains__(self, rank: object) -> bool:
        return isinstance(rank, int) and self.universe.text(self.first + rank) in self.texts


def unpacked(universe: Texts, values: Integers) -> dict[str, int]:
    """Return the texts that a measurement shows, with their noisy grains."""
    rows = values.astype("<i8").reshape(-1, 1 + _words(universe))
    return {row[1:].tobytes().rstrip(b"\0").decode(): int(row[0]) for row in rows if row[0]}


def _words(universe: Texts) -> int:
    """Return the whole numbers that a text takes in a measurement."""
    return -(-universe.length // _WORD)
